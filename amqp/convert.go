package amqp

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/warrenmq/warren/config/limits"
)

// ToMap returns the table as a JSON encoder takes it; see Value.ToAny. Of equal keys the first counts. It is never nil.
func (t Table) ToMap() map[string]any {
	m := make(map[string]any, len(t))
	for i := range t {
		if _, ok := m[t[i].Key]; !ok {
			m[t[i].Key] = t[i].Value.ToAny()
		}
	}
	return m
}

// ToAny returns the value as a JSON encoder takes it, as RabbitMQ's HTTP API shows it: integers as int64, timestamps as uint64, floats and
// decimals as float64 (nil if not finite), strings and binaries as string, arrays as []any, tables as map[string]any, void as nil.
func (v Value) ToAny() any {
	if n, ok := v.AsInt64(); ok {
		return n
	}
	if f, ok := v.AsFloat64(); ok {
		return finite(f)
	}
	switch v.tag {
	case TagBool:
		return v.num != 0
	case TagTimestamp:
		return v.num
	case TagDecimal:
		return float64(v.num) / math.Pow10(int(v.scale))
	case TagLongstr, TagBytes:
		return textOrBase64(v.str)
	case TagTable:
		return v.nest.table.ToMap()
	case TagArray:
		list := make([]any, len(v.nest.array))
		for i, e := range v.nest.array {
			list[i] = e.ToAny()
		}
		return list
	}
	return nil
}

func finite(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return f
}

// textOrBase64 returns text as it is, and other bytes as RabbitMQ shows them.
func textOrBase64(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return "Not UTF-8, base64 is: " + base64.StdEncoding.EncodeToString([]byte(s))
}

// jsonNumber is what a JSON decoder that keeps numbers as they are written returns for them.
type jsonNumber interface {
	Int64() (int64, error)
	Float64() (float64, error)
}

// TableFromMap returns the table for a decoded JSON object, in order of its keys; see ValueFromAny. It refuses what Check refuses.
func TableFromMap(m map[string]any) (Table, error) {
	t, err := tableFromMap(m, 1)
	if err != nil {
		return nil, err
	}
	return t, t.Check()
}

// ValueFromAny returns the value for a decoded JSON value: strings become longstr, numbers long if they are whole and double otherwise, lists
// arrays, objects tables, null void. Go's integers and []byte are taken, too, the latter as binary.
func ValueFromAny(x any) (Value, error) {
	v, err := valueFromAny(x, 1)
	if err != nil {
		return Value{}, err
	}
	return v, Table{{Value: v}}.Check()
}

func tableFromMap(m map[string]any, depth int) (Table, error) {
	if depth > limits.TableDepthMax {
		return nil, errTableDepth()
	}
	t := make(Table, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v, err := valueFromAny(m[key], depth)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		t = append(t, Field{Key: key, Value: v})
	}
	return t, nil
}

func valueFromAny(x any, depth int) (Value, error) {
	switch x := x.(type) {
	case nil:
		return Void(), nil
	case Value:
		return x, nil
	case Table:
		return Nested(x), nil
	case bool:
		return Bool(x), nil
	case string:
		return Longstr(x), nil
	case []byte:
		return Bytes(string(x)), nil
	case map[string]any:
		t, err := tableFromMap(x, depth+1)
		return Nested(t), err
	case []any:
		return arrayFromList(x, depth+1)
	}
	return numberFromAny(x)
}

func arrayFromList(list []any, depth int) (Value, error) {
	if depth > limits.TableDepthMax {
		return Value{}, errTableDepth()
	}
	vs := make([]Value, 0, len(list))
	for _, e := range list {
		v, err := valueFromAny(e, depth)
		if err != nil {
			return Value{}, err
		}
		vs = append(vs, v)
	}
	return Array(vs...), nil
}

func numberFromAny(x any) (Value, error) {
	switch x := x.(type) {
	case int:
		return Int64(int64(x)), nil
	case int32:
		return Int64(int64(x)), nil
	case int64:
		return Int64(x), nil
	case uint32:
		return Int64(int64(x)), nil
	case uint64:
		if x <= math.MaxInt64 {
			return Int64(int64(x)), nil
		}
	case float64:
		return numberFromFloat(x), nil
	case jsonNumber:
		if n, err := x.Int64(); err == nil {
			return Int64(n), nil
		}
		f, err := x.Float64()
		return Float64(f), err
	}
	return Value{}, Errorf(ReplySyntaxError, "a value of type %T has no place in a field table", x)
}

// numberFromFloat takes a float for an integer where the two cannot be told apart, for JSON decoders make floats of all numbers.
func numberFromFloat(f float64) Value {
	const exactMax = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) <= exactMax {
		return Int64(int64(f))
	}
	return Float64(f)
}
