package config

import (
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// value is a setting's text after it was read by its type; only the field of that type is set.
type value struct {
	text     string
	on       bool
	number   int64
	duration time.Duration
	fraction float64
	address  string
	list     []string
}

// parse reads text as the key's type and checks its bounds.
func (k *Key) parse(text string) (value, *problem) {
	v := value{text: text}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
		return v, problemf("use printable UTF-8 text", "the value has a control character or is not UTF-8")
	}
	var p *problem
	switch k.Type {
	case String:
		if k.check != nil {
			p = k.check(text)
		}
	case Bool:
		v.on, p = parseBool(text)
	case Int:
		if v.number, p = parseInt(text); p == nil {
			p = k.bound(v.number, text, strconv.FormatInt)
		}
	case Count:
		if text == "infinity" {
			break
		}
		if v.number, p = parseInt(text); p == nil {
			p = k.bound(v.number, text, strconv.FormatInt)
		}
	case Bytes:
		if v.number, p = parseBytes(text); p == nil {
			p = k.bound(v.number, text, formatBytes)
		}
	case Duration:
		if v.duration, p = parseDuration(text, k.Unit); p == nil {
			p = k.bound(v.duration.Milliseconds(), text, formatMillis)
		}
	case Address:
		v.address, p = parseAddress(text)
	case AddressList:
		v.list, p = parseAddressList(text)
	case Enum:
		p = k.choose(text)
	case Host:
		p = checkHost(text)
	case Path:
		v.text, p = parsePath(text)
	case Fraction:
		if v.fraction, p = parseFraction(text); p == nil && k.Max > 0 && v.fraction > float64(k.Max) {
			p = problemf("use 0 to "+strconv.FormatInt(k.Max, 10), "%s is out of range", text)
		}
	}
	return v, p
}

// display prints what was read in one normal form, the value of a secret masked.
func (k *Key) display(v value) string {
	switch {
	case k.Secret:
		return "********"
	case k.Type == Bool:
		return strconv.FormatBool(v.on)
	case k.Type == Bytes:
		return formatBytes(v.number, 10)
	case k.Type == Duration:
		return formatDuration(v.duration)
	case k.Type == Address:
		return v.address
	case k.Type == AddressList:
		return strings.Join(v.list, ",")
	}
	return v.text
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func (k *Key) choose(text string) *problem {
	for _, c := range k.Choices {
		if c == text {
			return nil
		}
	}
	return problemf("use one of "+strings.Join(k.Choices, ", "), "%q is not a choice", text)
}

func (k *Key) bound(n int64, text string, format func(int64, int) string) *problem {
	if k.Min == 0 && k.Max == 0 || n >= k.Min && n <= k.Max {
		return nil
	}
	return problemf("use "+format(k.Min, 10)+" to "+format(k.Max, 10), "%s is out of range", text)
}

func parseBool(text string) (bool, *problem) {
	switch text {
	case "true", "on":
		return true, nil
	case "false", "off":
		return false, nil
	}
	return false, problemf("use true or false", "%q is not a boolean", text)
}

func parseInt(text string) (int64, *problem) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, problemf("use a decimal number", "%q is not an integer", text)
	}
	return n, nil
}

// fractionMax bounds a Fraction.
const fractionMax = 1000

func parseFraction(text string) (float64, *problem) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.") != "" || f > fractionMax {
		return 0, problemf("use a decimal number like 0.6", "%q is not a fraction", text)
	}
	return f, nil
}

// byteUnits are RabbitMQ's: with an i or alone a power of 1024, with a plain B a power of 1000.
var byteUnits = map[string]int64{
	"": 1, "B": 1,
	"K": 1 << 10, "KIB": 1 << 10, "KB": 1e3,
	"M": 1 << 20, "MIB": 1 << 20, "MB": 1e6,
	"G": 1 << 30, "GIB": 1 << 30, "GB": 1e9,
	"T": 1 << 40, "TIB": 1 << 40, "TB": 1e12,
}

func parseBytes(text string) (int64, *problem) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	unit, known := byteUnits[strings.ToUpper(strings.TrimSpace(text[digits:]))]
	if err != nil || !known {
		return 0, problemf("use a number of bytes or a size like 16MiB or 2GB", "%q is not a size", text)
	}
	if n > (1<<63-1)/unit {
		return 0, problemf("use a smaller size", "%q is too large", text)
	}
	return n * unit, nil
}

// formatBytes prints a size with the largest unit of 1024 that divides it.
func formatBytes(n int64, _ int) string {
	for _, u := range []struct {
		suffix string
		size   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

var durationUnits = []struct {
	suffix string
	unit   time.Duration
}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}}

const durationFix = "use a number, or one with a unit like 500ms, 10s, 5m or 1h30m"

// parseDuration reads "1500" in the key's unit, or a sequence of numbers with units. Nothing finer than a millisecond exists.
func parseDuration(text string, plain time.Duration) (time.Duration, *problem) {
	bad := problemf(durationFix, "%q is not a duration", text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return scale(n, plain, bad)
	}
	var sum time.Duration
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, bad
		}
		rest = rest[digits:]
		unit, width := unitOf(rest)
		if width == 0 {
			return 0, bad
		}
		part, p := scale(n, unit, bad)
		if p != nil || sum > 1<<63-1-part {
			return 0, bad
		}
		sum += part
		rest = rest[width:]
	}
	return sum, nil
}

func unitOf(s string) (unit time.Duration, width int) {
	for _, u := range durationUnits {
		if strings.HasPrefix(s, u.suffix) {
			return u.unit, len(u.suffix)
		}
	}
	return 0, 0
}

func scale(n int64, unit time.Duration, bad *problem) (time.Duration, *problem) {
	if n < 0 || n > (1<<63-1)/int64(unit) {
		return 0, bad
	}
	return time.Duration(n) * unit, nil
}

// formatDuration prints a duration as parseDuration reads it.
func formatDuration(d time.Duration) string {
	for i := len(durationUnits) - 2; i >= 0; i-- { // hours are the largest unit printed
		u := durationUnits[i]
		if d >= u.unit && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.suffix
		}
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

func formatMillis(n int64, _ int) string { return formatDuration(time.Duration(n) * time.Millisecond) }

// parseAddress returns the address as net.Listen takes it. As in rabbitmq.conf the last colon begins the port, so ::1:5672 needs no brackets.
func parseAddress(text string) (string, *problem) {
	host, port := "", text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		host, port = text[:i], text[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", problemf(addressFix, "%q has an open bracket", text)
		}
	}
	if p := checkHost(host); p != nil {
		return "", p
	}
	if p := checkPort(port); p != nil {
		return "", p
	}
	return net.JoinHostPort(host, port), nil
}

const addressFix = "use HOST:PORT, [IPv6]:PORT or :PORT for every address"

func checkPort(port string) *problem {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || port != strconv.FormatUint(n, 10) {
		return problemf(addressFix, "%q is not a port (0 to 65535)", port)
	}
	return nil
}

func checkHost(host string) *problem {
	if strings.Contains(host, ":") {
		zone := strings.IndexByte(host, '%')
		bare := host
		if zone >= 0 {
			bare = host[:zone]
		}
		if net.ParseIP(bare) == nil {
			return problemf(addressFix, "%q is not an IPv6 address", host)
		}
		return nil
	}
	for _, r := range host {
		if !(r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return problemf(addressFix, "%q is not a host name or address", host)
		}
	}
	return nil
}

const pathFix = "use letters, digits and -._~ between slashes, as in /warren"

func parsePath(text string) (string, *problem) {
	path := strings.Trim(text, "/")
	if path == "" {
		return "", nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		strange := strings.ContainsFunc(segment, func(r rune) bool {
			return !(strings.ContainsRune("-._~", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
		})
		if segment == "" || segment == "." || segment == ".." || strange {
			return "", problemf(pathFix, "%q is not a path", text)
		}
	}
	return "/" + path, nil
}

func parseAddressList(text string) ([]string, *problem) {
	var list []string
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		a, p := parseAddress(part)
		if p != nil {
			return nil, p
		}
		if strings.HasPrefix(a, ":") {
			return nil, problemf("use HOST:PORT[,HOST:PORT]", "%q names no host", part)
		}
		list = append(list, a)
	}
	return list, nil
}
