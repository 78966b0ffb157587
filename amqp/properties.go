package amqp

import "encoding/binary"

// PropertyFlags says which basic properties a content header has: bit 15 is the first property. Bit 0 announces another word of flags.
type PropertyFlags uint16

const (
	flagContinued PropertyFlags = 1
	flagsKnown    PropertyFlags = 0xffff &^ (1<<(16-propertyCount) - 1)
	flagWordBytes               = 2
)

// Has says whether all of the given flags are set.
func (f PropertyFlags) Has(flags PropertyFlags) bool { return f&flags == flags }

// propertyKind is the type of a property.
type propertyKind uint8

const (
	propertyShortstr propertyKind = iota
	propertyOctet
	propertyTimestamp
	propertyTable
)

// PropertyView finds single properties in the bytes of a content header without decoding the others and without an allocation. The zero view
// has no property.
type PropertyView struct {
	raw   []byte
	flags PropertyFlags
	start uint32                // index of the first property
	end   uint32                // index behind the last known property
	at    [propertyCount]uint32 // index of each property that is there
}

// ScanProperties checks flags and properties as they follow the body size in a content header, headers included, and notes where each one is.
// The error is 502. Unlike the short strings of methods those of properties may be any bytes: RabbitMQ takes them, and clients do send binary
// correlation ids.
func ScanProperties(raw []byte) (PropertyView, error) {
	var v PropertyView
	err := v.Scan(raw)
	return v, err
}

// Scan is ScanProperties into a view that is used again. After an error the view has no property.
func (v *PropertyView) Scan(raw []byte) error {
	if e := v.scan(raw); e != nil {
		*v = PropertyView{}
		return e
	}
	return nil
}

func (v *PropertyView) scan(raw []byte) *Error {
	if len(raw) < flagWordBytes {
		return errProperties("flags are missing")
	}
	word := PropertyFlags(binary.BigEndian.Uint16(raw))
	v.raw, v.flags = raw, word&flagsKnown
	i, unknown := flagWordBytes, word&^flagsKnown&^flagContinued
	for word&flagContinued != 0 {
		if len(raw) < i+flagWordBytes {
			return errProperties("flags are missing")
		}
		word = PropertyFlags(binary.BigEndian.Uint16(raw[i:]))
		unknown |= word &^ flagContinued
		i += flagWordBytes
	}
	v.start = uint32(i)
	for p := range propertyCount {
		if v.flags&(1<<(15-p)) == 0 {
			continue
		}
		v.at[p] = uint32(i)
		n, e := checkProperty(propertyKinds[p], raw[i:])
		if e != nil {
			return e
		}
		i += n
	}
	v.end = uint32(i)
	// What unknown flags announce stands behind the known properties and is passed on unread.
	if i < len(raw) && unknown == 0 {
		return errProperties("octets follow the last property")
	}
	return nil
}

// checkProperty returns the size of the property at the front of raw.
func checkProperty(kind propertyKind, raw []byte) (int, *Error) {
	n := propertyBytes(kind, raw)
	if n > uint64(len(raw)) {
		return 0, errProperties("octets are missing")
	}
	if kind == propertyTable {
		if e := checkTable(raw[lengthBytes:n]); e != nil {
			return 0, e
		}
	}
	return int(n), nil
}

// propertyBytes returns the size that a property claims to have, which may be more than there is.
func propertyBytes(kind propertyKind, raw []byte) uint64 {
	switch kind {
	case propertyShortstr:
		if len(raw) == 0 {
			return 1
		}
		return 1 + uint64(raw[0])
	case propertyTimestamp:
		return 8
	case propertyTable:
		if len(raw) < lengthBytes {
			return lengthBytes
		}
		return lengthBytes + uint64(binary.BigEndian.Uint32(raw))
	}
	return 1
}

func errProperties(what string) *Error {
	return Errorf(ReplySyntaxError, "malformed content properties: %s", what)
}

// Flags says which properties are there.
func (v *PropertyView) Flags() PropertyFlags { return v.flags }

// Raw returns the scanned bytes, which a broker passes on verbatim when it adds nothing.
func (v *PropertyView) Raw() []byte { return v.raw }

func (v *PropertyView) has(p int) bool { return v.flags&(1<<(15-p)) != 0 }

func (v *PropertyView) bytes(p int) ([]byte, bool) {
	if !v.has(p) {
		return nil, false
	}
	i := int(v.at[p])
	n := i + 1 + int(v.raw[i])
	return v.raw[i+1 : n : n], true
}

func (v *PropertyView) octet(p int) (uint8, bool) {
	if !v.has(p) {
		return 0, false
	}
	return v.raw[v.at[p]], true
}

func (v *PropertyView) timestamp(p int) (uint64, bool) {
	if !v.has(p) {
		return 0, false
	}
	return binary.BigEndian.Uint64(v.raw[v.at[p]:]), true
}

func (v *PropertyView) table(p int) (RawTable, bool) {
	if !v.has(p) {
		return nil, false
	}
	i := int(v.at[p]) + lengthBytes
	n := i + int(uint32At(v.raw, i-lengthBytes))
	return RawTable(v.raw[i:n:n]), true
}

// size returns how many bytes property p takes on the wire.
func (v *PropertyView) size(p int) int {
	return int(propertyBytes(propertyKinds[p], v.raw[v.at[p]:]))
}

// AppendEdited appends the properties with some left out and the headers replaced: those in drop go, and headers, if not nil, takes the place
// of the present headers or is added. The rest, unknown properties included, stays byte for byte. A broker uses it where it must add to what
// the publisher sent (dead letters, delivery counts).
func (v *PropertyView) AppendEdited(dst []byte, drop PropertyFlags, headers Table) []byte {
	if len(v.raw) == 0 {
		v = &PropertyView{raw: []byte{0, 0}, start: flagWordBytes, end: flagWordBytes}
	}
	word := PropertyFlags(binary.BigEndian.Uint16(v.raw)) &^ (drop & flagsKnown)
	if headers != nil {
		word |= FlagHeaders
	}
	dst = appendShort(dst, uint16(word))
	dst = append(dst, v.raw[flagWordBytes:v.start]...)
	for p := range propertyCount {
		flag := PropertyFlags(1) << (15 - p)
		switch {
		case word&flag == 0:
		case flag == FlagHeaders && headers != nil:
			dst = headers.Append(dst)
		default:
			i := int(v.at[p])
			dst = append(dst, v.raw[i:i+v.size(p)]...)
		}
	}
	return append(dst, v.raw[v.end:]...)
}

// AppendReplyTo appends the properties with another reply-to in the place of the present one, which must be there. All other octets stay.
func (v *PropertyView) AppendReplyTo(dst []byte, value string) []byte {
	i := int(v.at[propertyReplyTo])
	dst = append(dst, v.raw[:i]...)
	dst = append(dst, byte(len(value)))
	dst = append(dst, value...)
	return append(dst, v.raw[i+v.size(propertyReplyTo):]...)
}

// propertyReplyTo is the place of reply-to among the properties.
const propertyReplyTo = 6

// DecodeProperties decodes all properties; it copies what it keeps. Errors are those of ScanProperties.
func DecodeProperties(raw []byte) (Properties, error) {
	var p Properties
	v, err := ScanProperties(raw)
	if err == nil {
		v.Load(&p)
	}
	return p, err
}

// propertyLoader copies properties out of a view; all strings are parts of one copy of the bytes.
type propertyLoader struct {
	v *PropertyView
	s string
}

func (v *PropertyView) loader() propertyLoader { return propertyLoader{v, string(v.raw)} }

func (l propertyLoader) shortstr(p int) string {
	if !l.v.has(p) {
		return ""
	}
	i := int(l.v.at[p])
	return l.s[i+1 : i+1+int(l.s[i])]
}

func (l propertyLoader) octet(p int) uint8 {
	n, _ := l.v.octet(p)
	return n
}

func (l propertyLoader) timestamp(p int) uint64 {
	n, _ := l.v.timestamp(p)
	return n
}

func (l propertyLoader) table(p int) Table {
	if !l.v.has(p) {
		return nil
	}
	i := int(l.v.at[p])
	return buildTable(l.s[i+lengthBytes : i+l.v.size(p)])
}
