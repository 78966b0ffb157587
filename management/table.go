package management

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// Field tables in JSON: arguments and headers. A whole number becomes a long, another one a double, a string a longstr, as in RabbitMQ; null has no type there and
// is refused. On the way out every type is shown, those without a JSON type as text.

// table reads a field table from the body. RabbitMQ's clients send [] for an empty one.
func (b body) table(key string) (amqp.Table, error) {
	raw := b[key]
	switch compact := strings.Join(strings.Fields(string(raw[:min(len(raw), 16)])), ""); {
	case compact == "", compact == "null", compact == "[]" && len(raw) <= 16:
		return nil, nil
	case compact[0] != '{':
		return nil, badRequestf("%s must be an object", key)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if _, err := d.Token(); err != nil {
		return nil, badRequest("not_json")
	}
	entries := 0
	t, err := readTable(d, 1, &entries)
	if err != nil {
		return nil, err
	}
	if err := t.Check(); err != nil {
		return nil, badRequestf("%s: %v", key, err)
	}
	return t, nil
}

// readTable reads an object up to its end; its beginning was read. Of a key that occurs twice the last entry counts, as everywhere in JSON.
func readTable(d *json.Decoder, depth int, entries *int) (amqp.Table, error) {
	var t amqp.Table
	seen := make(map[string]int)
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, badRequest("not_json")
		}
		v, err := readValue(d, depth, entries)
		if err != nil {
			return nil, err
		}
		if i, twice := seen[key]; twice {
			t[i].Value = v
			continue
		}
		seen[key] = len(t)
		t = append(t, amqp.Field{Key: key, Value: v})
	}
	_, err := d.Token()
	return t, err
}

func readValue(d *json.Decoder, depth int, entries *int) (amqp.Value, error) {
	if *entries++; *entries > limits.TableEntriesMax {
		return amqp.Value{}, badRequestf("more than %d entries", limits.TableEntriesMax)
	}
	token, err := d.Token()
	if err != nil {
		return amqp.Value{}, badRequest("not_json")
	}
	switch v := token.(type) {
	case bool:
		return amqp.Bool(v), nil
	case string:
		return amqp.Longstr(v), nil
	case json.Number:
		return numberValue(string(v))
	case json.Delim:
		if depth >= limits.TableDepthMax {
			return amqp.Value{}, badRequestf("nested deeper than %d", limits.TableDepthMax)
		}
		if v == '{' {
			t, err := readTable(d, depth+1, entries)
			return amqp.Nested(t), err
		}
		return readArray(d, depth+1, entries)
	}
	return amqp.Value{}, badRequest("null_not_allowed")
}

func readArray(d *json.Decoder, depth int, entries *int) (amqp.Value, error) {
	var list []amqp.Value
	for d.More() {
		v, err := readValue(d, depth, entries)
		if err != nil {
			return amqp.Value{}, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return amqp.Array(list...), err
}

// numberValue keeps whole numbers whole. One that no long holds is refused: as a double it would be another number.
func numberValue(text string) (amqp.Value, error) {
	if !strings.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return amqp.Value{}, badRequestf("the number %.40s does not fit into 64 bits", text)
		}
		return amqp.Int64(n), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return amqp.Value{}, badRequestf("the number %.40s does not fit into a double", text)
	}
	return amqp.Float64(f), nil
}

// Table writes a field table as an object.
func (w *writer) Table(key string, t amqp.Table) {
	if !w.Object(key) {
		return
	}
	var seen map[string]bool
	for i := range t {
		name := t[i].Key
		if name == "" {
			continue // JSON has such keys, but this writer uses the empty one for elements
		}
		if len(t) > 1 {
			if seen == nil {
				seen = make(map[string]bool, len(t))
			}
			if seen[name] {
				continue
			}
			seen[name] = true
		}
		w.Value(name, t[i].Value)
	}
	w.End()
}

// Value writes one value of a table.
func (w *writer) Value(key string, v amqp.Value) {
	if n, ok := v.AsInt64(); ok {
		w.Int(key, n)
		return
	}
	if f, ok := v.AsFloat64(); ok {
		w.Float(key, f)
		return
	}
	switch v.Tag() {
	case amqp.TagVoid:
		w.Null(key)
	case amqp.TagBool:
		b, _ := v.AsBool()
		w.Bool(key, b)
	case amqp.TagLongstr:
		s, _ := v.AsString()
		w.Str(key, s)
	case amqp.TagBytes:
		s, _ := v.AsBytes()
		w.Str(key, s)
	case amqp.TagTimestamp:
		n, _ := v.AsTimestamp()
		w.Uint(key, n)
	case amqp.TagArray:
		list, _ := v.AsArray()
		if w.Array(key) {
			for i := range list {
				w.Value("", list[i])
			}
			w.EndArray()
		}
	case amqp.TagTable:
		t, _ := v.AsTable()
		w.Table(key, t)
	default:
		w.Str(key, v.String())
	}
}
