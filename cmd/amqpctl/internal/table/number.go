package table

import (
	"strconv"
	"time"
)

// Group writes n with a comma between groups of three digits, for text that a person reads.
func Group(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Rate writes a rate per second: one decimal below ten, none above.
func Rate(r float64) string {
	if r > 0 && r < 9.95 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

// Bytes writes a size with a binary unit.
func Bytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	decimals := 0
	if i > 0 && n < 99.95 {
		decimals = 1
	}
	return strconv.FormatFloat(n, 'f', decimals, 64) + " " + units[i]
}

// Age writes a span of time with its two largest units: 3d4h, 2h5m, 4m10s, 12s.
func Age(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s >= 86400:
		return strconv.FormatInt(s/86400, 10) + "d" + strconv.FormatInt(s%86400/3600, 10) + "h"
	case s >= 3600:
		return strconv.FormatInt(s/3600, 10) + "h" + strconv.FormatInt(s%3600/60, 10) + "m"
	case s >= 60:
		return strconv.FormatInt(s/60, 10) + "m" + strconv.FormatInt(s%60, 10) + "s"
	}
	return strconv.FormatInt(s, 10) + "s"
}

// Latency writes nanoseconds as milliseconds with three significant digits or more.
func Latency(nanos int64) string {
	ms := float64(nanos) / 1e6
	switch {
	case ms < 1:
		return strconv.FormatFloat(ms, 'f', 3, 64)
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 2, 64)
	}
	return strconv.FormatFloat(ms, 'f', 0, 64)
}
