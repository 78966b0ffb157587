package amqp

import (
	"encoding/binary"

	"github.com/warrenmq/warren/config/limits"
)

// RawTable is a field table as it stands on the wire, without the length before it, and known to be well-formed: ParseRawTable or
// ScanProperties checked it. Looking a key up allocates nothing; everything returned aliases the table.
type RawTable []byte

// RawValue is a value within a RawTable.
type RawValue struct {
	tag  Tag
	data []byte
}

// ParseRawTable checks a table (without its length): bounds, tags, sizes. The error is 502 SYNTAX_ERROR.
func ParseRawTable(raw []byte) (RawTable, error) {
	if e := checkTable(raw); e != nil {
		return nil, e
	}
	return RawTable(raw), nil
}

// DecodeTable decodes a table (without its length). It copies what it keeps. The error is 502 SYNTAX_ERROR.
func DecodeTable(raw []byte) (Table, error) {
	if e := checkTable(raw); e != nil {
		return nil, e
	}
	return RawTable(raw).Table(), nil
}

// Table decodes the table; it shares nothing with the raw one.
func (t RawTable) Table() Table { return buildTable(string(t)) }

// Next takes the first entry off the table; ok is false at its end.
func (t RawTable) Next() (key []byte, v RawValue, rest RawTable, ok bool) {
	if len(t) == 0 {
		return nil, RawValue{}, nil, false
	}
	n := int(t[0]) + 1
	key, t = t[1:n:n], t[n:]
	size := valueBytes(t)
	return key, RawValue{Tag(t[0]), t[1:size:size]}, t[size:], true
}

// Lookup finds the first value of a key.
func (t RawTable) Lookup(key string) (RawValue, bool) {
	for {
		k, v, rest, ok := t.Next()
		if !ok {
			return RawValue{}, false
		}
		if string(k) == key {
			return v, true
		}
		t = rest
	}
}

// Tag returns the type.
func (v RawValue) Tag() Tag {
	if v.tag == tagInt64Alias {
		return TagInt64
	}
	return v.tag
}

// Value decodes the value; it shares nothing with the raw one. Scalars are decoded without an allocation.
func (v RawValue) Value() Value {
	if _, ok := scalarBytes(v.tag); ok {
		return buildScalar(v.tag, v.data)
	}
	return buildValue(v.tag, string(v.data))
}

// Encoded returns the value as it stands on the wire behind its tag. It aliases the table.
func (v RawValue) Encoded() []byte { return v.data }

// Longstr returns the bytes of a longstr, which alias the table.
func (v RawValue) Longstr() (value []byte, ok bool) {
	if v.tag != TagLongstr {
		return nil, false
	}
	return v.data[lengthBytes:], true
}

// AsInt64 returns an integer of any width.
func (v RawValue) AsInt64() (value int64, ok bool) {
	if _, ok := scalarBytes(v.tag); !ok {
		return 0, false
	}
	return buildScalar(v.tag, v.data).AsInt64()
}

// Equal compares with a decoded value, as Value.Equal does.
func (v RawValue) Equal(w Value) bool {
	if s, ok := v.Longstr(); ok {
		t, ok := w.AsString()
		return ok && string(s) == t
	}
	return v.Value().Equal(w)
}

// scalarBytes returns the size of a value of fixed size behind its tag; ok is false for other and unknown tags.
func scalarBytes(t Tag) (n int, ok bool) {
	switch t {
	case TagVoid:
		return 0, true
	case TagBool, TagInt8, TagUint8:
		return 1, true
	case TagInt16, TagUint16:
		return 2, true
	case TagInt32, TagUint32, TagFloat32:
		return 4, true
	case TagDecimal:
		return 5, true
	case TagInt64, tagInt64Alias, TagFloat64, TagTimestamp:
		return 8, true
	}
	return 0, false
}

// valueBytes returns the size of the tagged value at the front of b, which was checked before.
func valueBytes[S ~string | ~[]byte](b S) int {
	if n, ok := scalarBytes(Tag(b[0])); ok {
		return 1 + n
	}
	return 1 + lengthBytes + int(uint32At(b, 1))
}

func uint16At[S ~string | ~[]byte](b S, i int) uint16 { return uint16(b[i])<<8 | uint16(b[i+1]) }

func uint32At[S ~string | ~[]byte](b S, i int) uint32 {
	return uint32(b[i])<<24 | uint32(b[i+1])<<16 | uint32(b[i+2])<<8 | uint32(b[i+3])
}

func uint64At[S ~string | ~[]byte](b S, i int) uint64 {
	return uint64(uint32At(b, i))<<32 | uint64(uint32At(b, i+4))
}

func errTableBounds() *Error { return Errorf(ReplySyntaxError, "field table ends inside an entry") }
func errTableDepth() *Error {
	return Errorf(ReplySyntaxError, "field table is nested more than %d deep", limits.TableDepthMax)
}
func errTableEntries() *Error {
	return Errorf(ReplySyntaxError, "field table has more than %d entries", limits.TableEntriesMax)
}
func errDecimalScale(scale uint8) *Error {
	return Errorf(ReplySyntaxError, "decimal scale %d is larger than %d", scale, limits.DecimalScaleMax)
}

// checkTable walks a table with all that is nested in it and allocates nothing unless it finds a fault. Everything that reads tables after it
// relies on it for bounds.
func checkTable(raw []byte) *Error {
	entries := 0
	return checkEntries(raw, true, 1, &entries)
}

// checkEntries checks the entries of a table (keyed) or an array.
func checkEntries(raw []byte, keyed bool, depth int, entries *int) *Error {
	if depth > limits.TableDepthMax {
		return errTableDepth()
	}
	for len(raw) > 0 {
		if *entries++; *entries > limits.TableEntriesMax {
			return errTableEntries()
		}
		if keyed {
			n := int(raw[0]) + 1
			if len(raw) <= n {
				return errTableBounds()
			}
			raw = raw[n:]
		}
		n, e := checkValue(raw, depth, entries)
		if e != nil {
			return e
		}
		raw = raw[n:]
	}
	return nil
}

// checkValue checks the tagged value at the front of raw, which is not empty, and returns its size.
func checkValue(raw []byte, depth int, entries *int) (int, *Error) {
	t := Tag(raw[0])
	raw = raw[1:]
	if n, ok := scalarBytes(t); ok {
		if len(raw) < n {
			return 0, errTableBounds()
		}
		if t == TagDecimal && raw[0] > limits.DecimalScaleMax {
			return 0, errDecimalScale(raw[0])
		}
		return 1 + n, nil
	}
	switch t {
	case TagLongstr, TagBytes, TagArray, TagTable:
	default:
		return 0, Errorf(ReplySyntaxError, "field table has a value of unknown type %q", rune(t))
	}
	if len(raw) < lengthBytes {
		return 0, errTableBounds()
	}
	n := binary.BigEndian.Uint32(raw)
	raw = raw[lengthBytes:]
	if uint64(n) > uint64(len(raw)) {
		return 0, errTableBounds()
	}
	if t == TagArray || t == TagTable {
		if e := checkEntries(raw[:n], t == TagTable, depth+1, entries); e != nil {
			return 0, e
		}
	}
	return 1 + lengthBytes + int(n), nil
}

// buildTable decodes a checked table. Keys and strings are parts of s: one copy of the input serves them all.
func buildTable(s string) Table {
	if len(s) == 0 {
		return nil
	}
	n := 0
	for i := 0; i < len(s); n++ {
		i += 1 + int(s[i])
		i += valueBytes(s[i:])
	}
	t := make(Table, 0, n)
	for len(s) > 0 {
		n := int(s[0]) + 1
		key := s[1:n]
		s = s[n:]
		size := valueBytes(s)
		t = append(t, Field{Key: key, Value: buildValue(Tag(s[0]), s[1:size])})
		s = s[size:]
	}
	return t
}

func buildArray(s string) []Value {
	if len(s) == 0 {
		return nil
	}
	n := 0
	for i := 0; i < len(s); n++ {
		i += valueBytes(s[i:])
	}
	vs := make([]Value, 0, n)
	for len(s) > 0 {
		size := valueBytes(s)
		vs = append(vs, buildValue(Tag(s[0]), s[1:size]))
		s = s[size:]
	}
	return vs
}

// buildValue decodes a checked value from what stands behind its tag.
func buildValue(t Tag, s string) Value {
	switch t {
	case TagLongstr, TagBytes:
		return Value{tag: t, str: s[lengthBytes:]}
	case TagArray:
		return Array(buildArray(s[lengthBytes:])...)
	case TagTable:
		return Nested(buildTable(s[lengthBytes:]))
	}
	return buildScalar(t, s)
}

// buildScalar decodes a checked value of fixed size; it keeps nothing of b.
func buildScalar[S ~string | ~[]byte](t Tag, b S) Value {
	switch t {
	case TagBool:
		return Bool(b[0] != 0)
	case TagInt8:
		return Int8(int8(b[0]))
	case TagUint8:
		return Uint8(b[0])
	case TagInt16:
		return Int16(int16(uint16At(b, 0)))
	case TagUint16:
		return Uint16(uint16At(b, 0))
	case TagInt32:
		return Int32(int32(uint32At(b, 0)))
	case TagUint32:
		return Uint32(uint32At(b, 0))
	case TagInt64, tagInt64Alias:
		return Int64(int64(uint64At(b, 0)))
	case TagFloat32:
		return Value{tag: t, num: uint64(uint32At(b, 0))}
	case TagFloat64, TagTimestamp:
		return Value{tag: t, num: uint64At(b, 0)}
	case TagDecimal:
		return Decimal(b[0], uint32At(b, 1))
	}
	return Value{}
}
