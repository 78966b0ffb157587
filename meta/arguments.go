package meta

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/codec"
)

// Arguments is a field table as the catalogue keeps it: the wire encoding of the fields, sorted by key, without the length in front. Equal tables have
// equal Arguments, so it can be compared and used as part of a key. The zero value is the empty table.
type Arguments struct{ raw string }

// NewArguments encodes a table. Of a key that occurs twice the first entry counts, as everywhere.
func NewArguments(t amqp.Table) Arguments {
	if len(t) == 0 {
		return Arguments{}
	}
	sorted := t.Sorted()
	kept := sorted[:1]
	for _, f := range sorted[1:] {
		if f.Key != kept[len(kept)-1].Key {
			kept = append(kept, f)
		}
	}
	return Arguments{raw: string(kept.AppendEntries(nil))}
}

// Table decodes the arguments into a fresh table, sorted by key.
func (a Arguments) Table() amqp.Table { return amqp.RawTable(a.raw).Table() }

// Get returns the value of a key, and whether it is there.
func (a Arguments) Get(key string) (amqp.Value, bool) {
	if a.raw == "" {
		return amqp.Value{}, false
	}
	v, ok := amqp.RawTable(a.raw).Lookup(key)
	if !ok {
		return amqp.Value{}, false
	}
	return v.Value(), true
}

// With returns the arguments with one field added or replaced.
func (a Arguments) With(key string, v amqp.Value) Arguments {
	return NewArguments(a.Table().Set(key, v))
}

// Raw returns the encoded fields.
func (a Arguments) Raw() string { return a.raw }

// Empty tells whether there is no field.
func (a Arguments) Empty() bool { return a.raw == "" }

// decodeArguments reads arguments and refuses what NewArguments does not make: a malformed table, keys out of order.
func decodeArguments(r *codec.Reader) Arguments {
	raw, err := amqp.ParseRawTable(r.Bytes())
	if err != nil {
		r.Fail(codec.ErrMalformed)
		return Arguments{}
	}
	last := ""
	for i, t := 0, raw; ; i++ {
		key, _, rest, ok := t.Next()
		if !ok {
			return Arguments{raw: string(raw)}
		}
		if i > 0 && string(key) <= last {
			r.Fail(codec.ErrMalformed)
			return Arguments{}
		}
		last, t = string(key), rest
	}
}
