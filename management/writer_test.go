package management

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// TestStringsSurvive: what appendString writes is JSON, and reads back as what was written, with U+FFFD for bytes that are no UTF-8.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\r\t\x00\x1f\x7f", "é€😀", "\xff", "a\xc3", "\xed\xa0\x80", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := appendString(nil, s)
		var got string
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q became %s: %v", s, text, err)
		}
		if want := string([]rune(s)); got != want {
			t.Fatalf("%q became %q, want %q", s, got, want)
		}
		if fromBytes := appendString(nil, []byte(s)); string(fromBytes) != string(text) {
			t.Fatalf("bytes %q became %s, the string %s", s, fromBytes, text)
		}
	})
}

func TestFloats(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 1: "1.0", -2.5: "-2.5", 1e21: "1e+21", 0.1: "0.1", math.Inf(1): "0.0", math.MaxFloat64: "1.7976931348623157e+308"} {
		got := string(appendFloat(nil, v))
		if got != want {
			t.Errorf("%v became %s, want %s", v, got, want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is no JSON", got)
		}
	}
	if got := string(appendFloat(nil, math.NaN())); got != "0.0" {
		t.Errorf("NaN became %s", got)
	}
}

// sampleObject writes every kind of value at several depths.
func sampleObject(w *writer) {
	w.Str("s", "text")
	w.Uint("u", math.MaxUint64)
	w.Int("i", -1)
	w.Bool("b", true)
	w.Null("n")
	w.EmptyObject("eo")
	w.EmptyArray("ea")
	if w.Object("o") {
		w.Float("f", 2)
		if w.Object("deep") {
			w.Int("x", 1)
			w.Int("y", 2)
			w.End()
		}
		w.End()
	}
	if w.Array("l") {
		for i := range 2 {
			w.Object("")
			w.Int("k", int64(i))
			w.Str("v", "z")
			w.End()
		}
		w.EndArray()
	}
	w.Strings("ss", []string{"a", "b"})
}

func TestColumns(t *testing.T) {
	for columns, want := range map[string]string{
		"":             `{}`,
		"s":            `{"s":"text"}`,
		"s,u":          `{"s":"text","u":18446744073709551615}`,
		"o.deep.x,i":   `{"i":-1,"o":{"deep":{"x":1}}}`,
		"o.deep.x,o":   `{"o":{"f":2.0,"deep":{"x":1,"y":2}}}`,
		"o,o.deep.x":   `{"o":{"f":2.0,"deep":{"x":1,"y":2}}}`,
		"o.":           `{"o":{"f":2.0,"deep":{"x":1,"y":2}}}`,
		"o.deep.x.q":   `{"o":{"deep":{"x":1}}}`,
		"l.k":          `{"l":[{"k":0},{"k":1}]}`,
		"l":            `{"l":[{"k":0,"v":"z"},{"k":1,"v":"z"}]}`,
		"ss,eo,ea,n,b": `{"b":true,"n":null,"eo":{},"ea":[],"ss":["a","b"]}`,
		".s,,b":        `{"b":true}`,
	} {
		c, err := parseColumns(columns)
		if err != nil {
			t.Fatal(err)
		}
		w := writer{columns: c}
		w.Object("")
		sampleObject(&w)
		w.End()
		if string(w.buf) != want {
			t.Errorf("columns %q: %s, want %s", columns, w.buf, want)
		}
	}
	if _, err := parseColumns(strings.Repeat("a,", columnsMax)); err == nil {
		t.Error("too many columns were taken")
	}
	if _, err := parseColumns(strings.Repeat("a.", columnDepthMax) + "b"); err == nil {
		t.Error("too deep a column was taken")
	}
}

func TestPick(t *testing.T) {
	for path, want := range map[string]sortKey{
		"s": textKey("text"), "u": numberKey(math.MaxUint64), "i": numberKey(-1), "b": boolKey(true), "n": nullKey, "o.deep.y": numberKey(2), "o.deep": objectKey,
		"o.nope": numberKey(0), "nope": numberKey(0), "s.x": textKey("text"), "o": objectKey,
	} {
		c := &columns{}
		c.add(path)
		w := picker(c)
		if sampleObject(w); !reflect.DeepEqual(w.picked, want) || len(w.buf) != 0 || len(w.outer) != 0 {
			t.Errorf("%s is %v, want %v", path, w.picked, want)
		}
	}
	order := []sortKey{numberKey(-1), numberKey(0), boolKey(false), nullKey, boolKey(true), objectKey, textKey(""), textKey("a")}
	for i := range order {
		for j := range order {
			if got := order[i].compare(order[j]); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%v against %v: %d", order[i], order[j], got)
			}
		}
	}
}
