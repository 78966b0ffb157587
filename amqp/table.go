package amqp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/config/limits"
)

// Field is one entry of a Table.
type Field struct {
	// Key is at most ShortstrBytesMax bytes long.
	Key string
	// Value is what the key names.
	Value Value
}

// Table is a field table: arguments, headers, properties of peers. It keeps the order of its entries. If a key occurs twice, the first entry
// counts. The nil Table is empty. A table that is nested deeper than limits.TableDepthMax (the outermost being 1) or has more than
// limits.TableEntriesMax entries, those of nested tables and arrays included, is refused with 502 SYNTAX_ERROR.
type Table []Field

// Get returns the value of a key; ok says whether it is there.
func (t Table) Get(key string) (v Value, ok bool) {
	for i := range t {
		if t[i].Key == key {
			return t[i].Value, true
		}
	}
	return Value{}, false
}

// Has says whether the key is there.
func (t Table) Has(key string) bool {
	_, ok := t.Get(key)
	return ok
}

// Set returns the table with the key's value replaced in place, or the entry appended. It may change t.
func (t Table) Set(key string, v Value) Table {
	for i := range t {
		if t[i].Key == key {
			t[i].Value = v
			return t
		}
	}
	return append(t, Field{Key: key, Value: v})
}

// Without returns the table without the key. It does not change t.
func (t Table) Without(key string) Table {
	if !t.Has(key) {
		return t
	}
	out := make(Table, 0, len(t))
	for _, f := range t {
		if f.Key != key {
			out = append(out, f)
		}
	}
	return out
}

// Sorted returns a copy with the entries in order of their keys, equal keys as they were.
func (t Table) Sorted() Table {
	out := slices.Clone(t)
	slices.SortStableFunc(out, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Equal compares entries in any order, values as Value.Equal does.
func (t Table) Equal(u Table) bool {
	if len(t) != len(u) {
		return false
	}
	// Keys are compared apart from values, so that each value is looked at once, however deep it lies.
	if !t.sameKeys(u) {
		t, u = t.Sorted(), u.Sorted()
		if !t.sameKeys(u) {
			return false
		}
	}
	for i := range t {
		if !t[i].Value.Equal(u[i].Value) {
			return false
		}
	}
	return true
}

func (t Table) sameKeys(u Table) bool {
	for i := range t {
		if t[i].Key != u[i].Key {
			return false
		}
	}
	return true
}

// Append appends the table with its length before it, entries in their order.
func (t Table) Append(dst []byte) []byte {
	dst, at := beginLength(dst)
	return endLength(t.AppendEntries(dst), at)
}

// AppendEntries appends the entries without a length, as the AMQPLAIN response has them.
func (t Table) AppendEntries(dst []byte) []byte {
	for i := range t {
		dst = appendShortstr(dst, t[i].Key)
		dst = t[i].Value.Append(dst)
	}
	return dst
}

// Check reports what a peer would refuse in a table that was built and not decoded: a key or a scale that is too large, too many entries, too
// deep a nesting. The error is 502 SYNTAX_ERROR.
func (t Table) Check() error {
	entries := 0
	if e := t.check(1, &entries); e != nil {
		return e
	}
	return nil
}

func (t Table) check(depth int, entries *int) *Error {
	if depth > limits.TableDepthMax {
		return errTableDepth()
	}
	for i := range t {
		if len(t[i].Key) > ShortstrBytesMax {
			return Errorf(ReplySyntaxError, "field table key of %d bytes is longer than %d", len(t[i].Key), ShortstrBytesMax)
		}
		if e := t[i].Value.check(depth, entries); e != nil {
			return e
		}
	}
	return nil
}

func (v Value) check(depth int, entries *int) *Error {
	if *entries++; *entries > limits.TableEntriesMax {
		return errTableEntries()
	}
	switch v.tag {
	case TagDecimal:
		if v.scale > limits.DecimalScaleMax {
			return errDecimalScale(v.scale)
		}
	case TagTable:
		return v.nest.table.check(depth+1, entries)
	case TagArray:
		if depth == limits.TableDepthMax {
			return errTableDepth()
		}
		for _, e := range v.nest.array {
			if err := e.check(depth+1, entries); err != nil {
				return err
			}
		}
	}
	return nil
}

// String returns the table for people: {key=value key=value}.
func (t Table) String() string {
	var b strings.Builder
	t.print(&b)
	return b.String()
}

func (t Table) print(b *strings.Builder) {
	b.WriteByte('{')
	for i := range t {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Quote(t[i].Key))
		b.WriteByte('=')
		t[i].Value.print(b)
	}
	b.WriteByte('}')
}

const lengthBytes = 4

// beginLength reserves a 32-bit length, endLength fills it in with what was appended since.
func beginLength(dst []byte) ([]byte, int) {
	dst = append(dst, 0, 0, 0, 0)
	return dst, len(dst)
}

func endLength(dst []byte, at int) []byte {
	appendLong(dst[:at-lengthBytes], uint32(len(dst)-at))
	return dst
}
