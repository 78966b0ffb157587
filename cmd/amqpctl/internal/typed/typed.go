package typed

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Help describes the values in the help of a command.
const Help = `Values: whole numbers, true and false are typed; json:TEXT is taken as JSON; everything else is a string.`

// jsonPrefix marks a value that is JSON text.
const jsonPrefix = "json:"

// shortBytesMax is the longest key of an AMQP field table in bytes (short string, AMQP 0-9-1 4.2.5.3).
const shortBytesMax = 255

// Pairs reads KEY=VALUE words. Values become int64, bool, string, or for json: whatever the JSON is (whole numbers int64).
func Pairs(words []string) (map[string]any, error) {
	out := make(map[string]any, len(words))
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not KEY=VALUE", word)
		}
		if len(key) > shortBytesMax {
			return nil, fmt.Errorf("key %.20q... is longer than %d bytes", key, shortBytesMax)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("key %q is given twice", key)
		}
		value, err := Value(text)
		if err != nil {
			return nil, fmt.Errorf("value of %q: %w", key, err)
		}
		out[key] = value
	}
	return out, nil
}

// Value reads one value.
func Value(text string) (any, error) {
	if raw, ok := strings.CutPrefix(text, jsonPrefix); ok {
		return fromJSON(raw)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n, nil // only the canonical form: 007 and +1 are names rather than numbers
	}
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return text, nil
}

func fromJSON(raw string) (any, error) {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("bad JSON: %w", err)
	}
	if d.More() {
		return nil, fmt.Errorf("bad JSON: something follows the value")
	}
	return whole(v)
}

// whole replaces json.Number by int64 where it is one, else by float64.
func whole(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return nil, fmt.Errorf("number %s is out of range", v)
		}
		return f, nil
	case map[string]any:
		for key, inner := range v {
			if v[key], err = whole(inner); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, inner := range v {
			if v[i], err = whole(inner); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
