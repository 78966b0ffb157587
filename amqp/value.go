package amqp

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// Tag is the octet that stands before a value in a table or array and names its type. RabbitMQ's set is meant, which differs from the
// letters of the AMQP specification: s is a 16-bit integer, and l and L are both signed.
type Tag byte

// The tags of values.
const (
	TagVoid      Tag = 'V'
	TagBool      Tag = 't'
	TagInt8      Tag = 'b'
	TagUint8     Tag = 'B'
	TagInt16     Tag = 's'
	TagUint16    Tag = 'u'
	TagInt32     Tag = 'I'
	TagUint32    Tag = 'i'
	TagInt64     Tag = 'l'
	TagFloat32   Tag = 'f'
	TagFloat64   Tag = 'd'
	TagDecimal   Tag = 'D'
	TagLongstr   Tag = 'S'
	TagBytes     Tag = 'x'
	TagTimestamp Tag = 'T'
	TagArray     Tag = 'A'
	TagTable     Tag = 'F'

	// tagInt64Alias is read as TagInt64 and never written.
	tagInt64Alias Tag = 'L'
)

// String returns the type's name as RabbitMQ's error texts print it: longstr, signedint, long, bool. It is "" for an unknown tag.
func (t Tag) String() string {
	switch t {
	case TagVoid:
		return "void"
	case TagBool:
		return "bool"
	case TagInt8:
		return "byte"
	case TagUint8:
		return "unsignedbyte"
	case TagInt16:
		return "short"
	case TagUint16:
		return "unsignedshort"
	case TagInt32:
		return "signedint"
	case TagUint32:
		return "unsignedint"
	case TagInt64, tagInt64Alias:
		return "long"
	case TagFloat32:
		return "float"
	case TagFloat64:
		return "double"
	case TagDecimal:
		return "decimal"
	case TagLongstr:
		return "longstr"
	case TagBytes:
		return "binary"
	case TagTimestamp:
		return "timestamp"
	case TagArray:
		return "array"
	case TagTable:
		return "table"
	}
	return ""
}

// Value is a value of a table or array, with the type that it has on the wire. The zero Value is void. A Value is immutable: it shares its
// string, array or table with its copies.
type Value struct {
	tag   Tag // 0 stands for TagVoid
	scale uint8
	num   uint64 // integers sign-extended, bits of floats, unscaled decimals, timestamps, 0 or 1
	str   string
	nest  *nest
}

// nest keeps the two rare and large kinds out of Value, which stays at 40 bytes.
type nest struct {
	array []Value
	table Table
}

// Void returns the void value.
func Void() Value { return Value{} }

// Bool returns a bool.
func Bool(v bool) Value {
	if v {
		return Value{tag: TagBool, num: 1}
	}
	return Value{tag: TagBool}
}

// Int8 returns a byte.
func Int8(v int8) Value { return Value{tag: TagInt8, num: uint64(v)} }

// Uint8 returns an unsignedbyte.
func Uint8(v uint8) Value { return Value{tag: TagUint8, num: uint64(v)} }

// Int16 returns a short.
func Int16(v int16) Value { return Value{tag: TagInt16, num: uint64(v)} }

// Uint16 returns an unsignedshort.
func Uint16(v uint16) Value { return Value{tag: TagUint16, num: uint64(v)} }

// Int32 returns a signedint.
func Int32(v int32) Value { return Value{tag: TagInt32, num: uint64(v)} }

// Uint32 returns an unsignedint.
func Uint32(v uint32) Value { return Value{tag: TagUint32, num: uint64(v)} }

// Int64 returns a long.
func Int64(v int64) Value { return Value{tag: TagInt64, num: uint64(v)} }

// Float32 returns a float.
func Float32(v float32) Value { return Value{tag: TagFloat32, num: uint64(math.Float32bits(v))} }

// Float64 returns a double.
func Float64(v float64) Value { return Value{tag: TagFloat64, num: math.Float64bits(v)} }

// Decimal returns a decimal: unscaled divided by ten to the power of scale, which is at most limits.DecimalScaleMax.
func Decimal(scale uint8, unscaled uint32) Value {
	return Value{tag: TagDecimal, scale: scale, num: uint64(unscaled)}
}

// Longstr returns a longstr.
func Longstr(v string) Value { return Value{tag: TagLongstr, str: v} }

// Bytes returns a binary.
func Bytes(v string) Value { return Value{tag: TagBytes, str: v} }

// Timestamp returns a timestamp in seconds since 1970.
func Timestamp(seconds uint64) Value { return Value{tag: TagTimestamp, num: seconds} }

// Array returns an array, which keeps vs.
func Array(vs ...Value) Value { return Value{tag: TagArray, nest: &nest{array: vs}} }

// Nested returns a table as a value, which keeps t.
func Nested(t Table) Value { return Value{tag: TagTable, nest: &nest{table: t}} }

// Tag returns the type.
func (v Value) Tag() Tag {
	if v.tag == 0 {
		return TagVoid
	}
	return v.tag
}

// Type returns the type's name as RabbitMQ's error texts print it.
func (v Value) Type() string { return v.Tag().String() }

// IsVoid says whether the value is void.
func (v Value) IsVoid() bool { return v.tag == 0 }

// AsBool returns a bool.
func (v Value) AsBool() (value, ok bool) { return v.num != 0, v.tag == TagBool }

// AsInt64 returns an integer of any width.
func (v Value) AsInt64() (value int64, ok bool) {
	switch v.tag {
	case TagInt8, TagUint8, TagInt16, TagUint16, TagInt32, TagUint32, TagInt64:
		return int64(v.num), true
	}
	return 0, false
}

// AsFloat64 returns a float or double.
func (v Value) AsFloat64() (value float64, ok bool) {
	switch v.tag {
	case TagFloat32:
		return float64(math.Float32frombits(uint32(v.num))), true
	case TagFloat64:
		return math.Float64frombits(v.num), true
	}
	return 0, false
}

// AsDecimal returns a decimal.
func (v Value) AsDecimal() (scale uint8, unscaled uint32, ok bool) {
	if v.tag != TagDecimal {
		return 0, 0, false
	}
	return v.scale, uint32(v.num), true
}

// AsString returns a longstr.
func (v Value) AsString() (value string, ok bool) {
	if v.tag != TagLongstr {
		return "", false
	}
	return v.str, true
}

// AsBytes returns a binary.
func (v Value) AsBytes() (value string, ok bool) {
	if v.tag != TagBytes {
		return "", false
	}
	return v.str, true
}

// AsTimestamp returns a timestamp in seconds since 1970.
func (v Value) AsTimestamp() (seconds uint64, ok bool) {
	if v.tag != TagTimestamp {
		return 0, false
	}
	return v.num, true
}

// AsArray returns an array, which must not be changed.
func (v Value) AsArray() (value []Value, ok bool) {
	if v.tag != TagArray {
		return nil, false
	}
	return v.nest.array, true
}

// AsTable returns a table, which must not be changed.
func (v Value) AsTable() (value Table, ok bool) {
	if v.tag != TagTable {
		return nil, false
	}
	return v.nest.table, true
}

// Equal compares as RabbitMQ does when something is declared again: integers of any width by value, floats of both widths by value, others
// only with their own type. Tables are equal if they have the same entries in any order.
func (v Value) Equal(w Value) bool {
	if a, ok := v.AsInt64(); ok {
		b, ok := w.AsInt64()
		return ok && a == b
	}
	if a, ok := v.AsFloat64(); ok {
		b, ok := w.AsFloat64()
		return ok && (a == b || math.IsNaN(a) && math.IsNaN(b))
	}
	if v.tag != w.tag {
		return false
	}
	switch v.tag {
	case TagArray:
		return equalArrays(v.nest.array, w.nest.array)
	case TagTable:
		return v.nest.table.Equal(w.nest.table)
	}
	return v.num == w.num && v.scale == w.scale && v.str == w.str
}

func equalArrays(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

// Append appends the tag and the value as they stand in a table or array.
func (v Value) Append(dst []byte) []byte {
	dst = append(dst, byte(v.Tag()))
	switch v.tag {
	case TagBool, TagInt8, TagUint8:
		return append(dst, uint8(v.num))
	case TagInt16, TagUint16:
		return appendShort(dst, uint16(v.num))
	case TagInt32, TagUint32, TagFloat32:
		return appendLong(dst, uint32(v.num))
	case TagInt64, TagFloat64, TagTimestamp:
		return appendLonglong(dst, v.num)
	case TagDecimal:
		return appendLong(append(dst, v.scale), uint32(v.num))
	case TagLongstr, TagBytes:
		return appendLongstr(dst, v.str)
	case TagTable:
		return v.nest.table.Append(dst)
	case TagArray:
		dst, at := beginLength(dst)
		for _, e := range v.nest.array {
			dst = e.Append(dst)
		}
		return endLength(dst, at)
	}
	return dst
}

// String returns the value for people: strings quoted, true and false, {tables}, [arrays], others as type(value).
func (v Value) String() string {
	var b strings.Builder
	v.print(&b)
	return b.String()
}

func (v Value) print(b *strings.Builder) {
	switch v.tag {
	case 0:
		b.WriteString("void")
	case TagLongstr:
		b.WriteString(strconv.Quote(v.str))
	case TagBool:
		b.WriteString(strconv.FormatBool(v.num != 0))
	case TagTable:
		v.nest.table.print(b)
	case TagArray:
		b.WriteByte('[')
		for i, e := range v.nest.array {
			if i > 0 {
				b.WriteByte(' ')
			}
			e.print(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(v.Type() + "(" + v.plain() + ")")
	}
}

// plain writes the numbers and bytes of a scalar.
func (v Value) plain() string {
	switch v.tag {
	case TagBytes:
		return hex.EncodeToString([]byte(v.str))
	case TagTimestamp:
		return strconv.FormatUint(v.num, 10)
	case TagDecimal:
		return strconv.FormatUint(v.num, 10) + "e-" + strconv.Itoa(int(v.scale))
	}
	if f, ok := v.AsFloat64(); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatInt(int64(v.num), 10)
}
