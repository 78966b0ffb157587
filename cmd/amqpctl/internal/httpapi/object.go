package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// Object is a JSON object of the API read by dotted names. Numbers keep their text. A key that is absent, null, or below something that is no
// object (brokers send [] for an empty object) is simply not there.
type Object map[string]any

// Decode reads one object.
func Decode(body []byte) (Object, error) {
	var o Object
	return o, decode(body, &o)
}

// DecodeList reads an array of objects, or the items of a page.
func DecodeList(body []byte) ([]Object, error) {
	var list []Object
	return list, decode(body, &list)
}

func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return exit.Errorf(exit.Internal, "the answer is not what the management API sends: %w", err)
	}
	return nil
}

// Value returns what stands under a dotted name. A key that itself contains dots is found as well.
func (o Object) Value(name string) (any, bool) {
	if v, ok := o[name]; ok {
		return v, v != nil
	}
	head, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return nil, false
	}
	inner, ok := o[head].(map[string]any)
	if !ok {
		return nil, false
	}
	return Object(inner).Value(rest)
}

// Float returns a number; ok is false when there is none.
func (o Object) Float(name string) (f float64, ok bool) {
	v, _ := o.Value(name)
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// Int returns a whole number, 0 when there is none.
func (o Object) Int(name string) int64 {
	v, _ := o.Value(name)
	number, _ := v.(json.Number)
	if n, err := number.Int64(); err == nil {
		return n
	}
	f, _ := o.Float(name)
	return int64(f)
}

// Bool returns a boolean, false when there is none.
func (o Object) Bool(name string) bool {
	v, _ := o.Value(name)
	b, _ := v.(bool)
	return b
}

// Strings returns the strings of an array.
func (o Object) Strings(name string) []string {
	v, _ := o.Value(name)
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// List returns the objects of an array.
func (o Object) List(name string) []Object {
	v, _ := o.Value(name)
	list, _ := v.([]any)
	var out []Object
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Text renders a value for a table: strings as they are, "" for what is absent, everything composed as compact JSON.
func (o Object) Text(name string) string {
	v, ok := o.Value(name)
	if !ok {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number, bool:
		return fmt.Sprint(v)
	}
	encoded, err := json.Marshal(v) // maps come out sorted by key
	if err != nil {
		return ""
	}
	return string(encoded)
}
