package amqp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/warrenmq/warren/config/limits"
)

// everyTag is a table with a value of every type, among them the extremes.
func everyTag() Table {
	return Table{
		{"void", Void()},
		{"yes", Bool(true)}, {"no", Bool(false)},
		{"byte", Int8(math.MinInt8)}, {"ubyte", Uint8(math.MaxUint8)},
		{"short", Int16(math.MinInt16)}, {"ushort", Uint16(math.MaxUint16)},
		{"int", Int32(math.MinInt32)}, {"uint", Uint32(math.MaxUint32)},
		{"long", Int64(math.MinInt64)}, {"long+", Int64(math.MaxInt64)},
		{"float", Float32(1.5)}, {"double", Float64(-2.25)},
		{"decimal", Decimal(28, math.MaxUint32)},
		{"longstr", Longstr("text")}, {"binary", Bytes("\x00\xff")},
		{"time", Timestamp(math.MaxUint64)},
		{"array", Array(Longstr("a"), Array(), Nested(Table{{"b", Int8(1)}}))},
		{"table", Nested(Table{{"c", Nested(Table{{"d", Array(Bool(true))}})}})},
		{"", Void()},
	}
}

func TestTableWithEveryTag(t *testing.T) {
	want := everyTag()
	raw := want.AppendEntries(nil)
	got, err := DecodeTable(raw)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(want) || got.String() != want.String() {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if again := got.AppendEntries(nil); !bytes.Equal(again, raw) {
		t.Errorf("encoded again: %x, want %x", again, raw)
	}
	seen := map[Tag]bool{}
	for _, f := range got {
		seen[f.Value.Tag()] = true
	}
	if len(seen) != 17 {
		t.Errorf("%d of 17 types are in the table", len(seen))
	}
	for tag := range seen {
		if tag.String() == "" {
			t.Errorf("type %q has no name", tag)
		}
	}
}

// TestTruncatedTables cuts a table with every type after every octet: only cuts between entries leave a table.
func TestTruncatedTables(t *testing.T) {
	want := everyTag()
	raw := want.AppendEntries(nil)
	between := map[int]int{}
	for i := range want {
		between[len(want[:i].AppendEntries(nil))] = i
	}
	for n := range raw {
		got, err := DecodeTable(raw[:n])
		entries, ok := between[n]
		switch {
		case ok && (err != nil || !got.Equal(want[:entries])):
			t.Errorf("%d octets: got %v, %v", n, got, err)
		case !ok && !isCode(err, ReplySyntaxError):
			t.Errorf("%d octets: got %v, %v", n, got, err)
		}
	}
}

func isCode(err error, code uint16) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func TestUnknownTags(t *testing.T) {
	known := "VtbBsuIilLfdDSxTAF"
	for tag := range 256 {
		raw := append([]byte{0, byte(tag)}, make([]byte, 8)...)
		_, err := DecodeTable(raw)
		unknown := err != nil && strings.Contains(err.Error(), fmt.Sprintf("unknown type %q", rune(tag)))
		if unknown == strings.ContainsRune(known, rune(tag)) {
			t.Errorf("tag %q: %v", rune(tag), err)
		}
	}
}

func TestTableLimits(t *testing.T) {
	deep := func(levels int, wrap func(Value) Value) Table {
		v := Bool(true)
		for range levels - 1 {
			v = wrap(v)
		}
		return Table{{"k", v}}
	}
	table := func(v Value) Value { return Nested(Table{{"k", v}}) }
	array := func(v Value) Value { return Array(v) }
	wide := func(n int) Table { return make(Table, n) }
	cases := []struct {
		name  string
		table Table
		ok    bool
	}{
		{"tables 16 deep", deep(16, table), true},
		{"tables 17 deep", deep(17, table), false},
		{"arrays 16 deep", deep(16, array), true},
		{"arrays 17 deep", deep(17, array), false},
		{"an empty table 17 deep", deep(16, func(v Value) Value {
			if v.Tag() == TagBool {
				return Nested(Table{{"k", Nested(nil)}})
			}
			return table(v)
		}), false},
		{"16384 entries", wide(limits.TableEntriesMax), true},
		{"16385 entries", wide(limits.TableEntriesMax + 1), false},
		{"16384 entries with those of an array", Table{{"k", Array(make([]Value, limits.TableEntriesMax-1)...)}}, true},
		{"16385 entries with those of an array", Table{{"k", Array(make([]Value, limits.TableEntriesMax)...)}}, false},
		{"scale 28", Table{{"k", Decimal(28, 1)}}, true},
		{"scale 29", Table{{"k", Decimal(29, 1)}}, false},
	}
	for _, c := range cases {
		_, err := DecodeTable(c.table.AppendEntries(nil))
		if c.ok != (err == nil) || !c.ok && !isCode(err, ReplySyntaxError) {
			t.Errorf("%s: decoding gives %v", c.name, err)
		}
		if err := c.table.Check(); c.ok != (err == nil) || !c.ok && !isCode(err, ReplySyntaxError) {
			t.Errorf("%s: checking gives %v", c.name, err)
		}
	}
	if err := (Table{{strings.Repeat("k", 256), Void()}}).Check(); !isCode(err, ReplySyntaxError) {
		t.Errorf("a key of 256 bytes: %v", err)
	}
}

// TestAnnouncedLengthsDoNotAllocate offers values that claim to be enormous.
func TestAnnouncedLengthsDoNotAllocate(t *testing.T) {
	for _, tag := range "SxAF" {
		raw := []byte{0, byte(tag), 0xff, 0xff, 0xff, 0xff, 1, 2, 3}
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := DecodeTable(raw); err == nil {
				t.Fatal("accepted")
			}
		})
		if allocs > 4 { // the error and its text
			t.Errorf("%q: %v allocations", tag, allocs)
		}
	}
}

func TestValuesAreEqualByClass(t *testing.T) {
	classes := [][]Value{
		{Int8(5), Uint8(5), Int16(5), Uint16(5), Int32(5), Uint32(5), Int64(5)},
		{Int8(-5), Int16(-5), Int32(-5), Int64(-5)},
		{Uint32(4294967291)},
		{Float32(5), Float64(5)},
		{Float64(math.NaN()), Float32(float32(math.NaN()))},
		{Decimal(0, 5)}, {Decimal(1, 50)},
		{Timestamp(5)},
		{Longstr("5")}, {Bytes("5")}, {Longstr("")}, {Bytes("")},
		{Bool(true)}, {Bool(false)}, {Void(), {}},
		{Array()}, {Array(Int8(5)), Array(Int64(5))}, {Array(Void())},
		{Nested(nil), Nested(Table{})},
		{Nested(Table{{"a", Int8(1)}, {"b", Int8(2)}}), Nested(Table{{"b", Int64(2)}, {"a", Int16(1)}})},
		{Nested(Table{{"a", Int8(2)}, {"b", Int8(1)}})},
		{Nested(Table{{"a", Int8(1)}, {"a", Int8(2)}})},
		{Nested(Table{{"a", Int8(2)}, {"a", Int8(1)}})},
	}
	for i, a := range classes {
		for j, b := range classes {
			for _, v := range a {
				for _, w := range b {
					if v.Equal(w) != (i == j) {
						t.Errorf("%v equals %v: %v", v, w, v.Equal(w))
					}
					raw := RawTable(Table{{"k", v}}.AppendEntries(nil))
					if r, ok := raw.Lookup("k"); !ok || r.Equal(w) != (i == j) {
						t.Errorf("raw %v equals %v: %v", v, w, r.Equal(w))
					}
				}
			}
		}
	}
}

// TestDeepTablesAreComparedOnce: comparing in order first and sorted afterwards took time that doubled with each level.
func TestDeepTablesAreComparedOnce(t *testing.T) {
	wide := make([]Value, 10000)
	a, b := Array(wide...), Array(wide...)
	for range limits.TableDepthMax - 2 {
		a = Nested(Table{{"deep", a}, {"x", Void()}, {"y", Void()}})
		b = Nested(Table{{"deep", b}, {"y", Void()}, {"x", Void()}})
	}
	if !a.Equal(b) {
		t.Error("order counts")
	}
}

func TestAccessorsTakeOnlyTheirType(t *testing.T) {
	for _, f := range everyTag() {
		v := f.Value
		got := map[string]bool{}
		_, got["bool"] = v.AsBool()
		_, got["int"] = v.AsInt64()
		_, got["float"] = v.AsFloat64()
		_, _, got["decimal"] = v.AsDecimal()
		_, got["longstr"] = v.AsString()
		_, got["binary"] = v.AsBytes()
		_, got["timestamp"] = v.AsTimestamp()
		_, got["array"] = v.AsArray()
		_, got["table"] = v.AsTable()
		got["void"] = v.IsVoid()
		class := map[string]string{
			"byte": "int", "unsignedbyte": "int", "short": "int", "unsignedshort": "int", "signedint": "int", "unsignedint": "int", "long": "int", "double": "float",
		}
		want := v.Type()
		if c, ok := class[want]; ok {
			want = c
		}
		for accessor, ok := range got {
			if ok != (accessor == want) {
				t.Errorf("%v of type %s is %s: %v", v, v.Type(), accessor, ok)
			}
		}
	}
}

func TestIntegersKeepTheirSign(t *testing.T) {
	for _, c := range []struct {
		v    Value
		want int64
	}{
		{Int8(-1), -1}, {Uint8(255), 255}, {Int16(-1), -1}, {Uint16(65535), 65535}, {Int32(-1), -1}, {Uint32(math.MaxUint32), math.MaxUint32}, {Int64(-1), -1},
	} {
		raw := RawTable(Table{{"k", c.v}}.AppendEntries(nil))
		got, ok := raw.Table()[0].Value.AsInt64()
		if r, _ := raw.Lookup("k"); !ok || got != c.want {
			t.Errorf("%v: got %d", c.v, got)
		} else if n, ok := r.AsInt64(); !ok || n != c.want {
			t.Errorf("raw %v: got %d", c.v, n)
		}
	}
}

func TestTableEditing(t *testing.T) {
	a := Table{{"a", Int8(1)}, {"b", Int8(2)}, {"a", Int8(3)}}
	if v, ok := a.Get("a"); !ok || !v.Equal(Int8(1)) {
		t.Errorf("the first entry counts, got %v", v)
	}
	if b := a.Without("a"); b.String() != `{"b"=byte(2)}` || len(a) != 3 {
		t.Errorf("got %v of %v", b, a)
	}
	if b := a.Without("z"); len(b) != 3 {
		t.Errorf("got %v", b)
	}
	if b := a.Set("c", Void()).Set("b", Bool(true)); b.String() != `{"a"=byte(1) "b"=true "a"=byte(3) "c"=void}` {
		t.Errorf("got %v", b)
	}
	if b := (Table{{"b", Void()}, {"a", Int8(1)}, {"a", Int8(2)}}).Sorted(); b.String() != `{"a"=byte(1) "a"=byte(2) "b"=void}` {
		t.Errorf("got %v", b)
	}
	if Table(nil).Has("a") || !a.Has("b") {
		t.Error("Has is wrong")
	}
}

func TestRawTableWalk(t *testing.T) {
	want := everyTag()
	raw, err := ParseRawTable(want.AppendEntries(nil))
	if err != nil {
		t.Fatal(err)
	}
	rest, i := raw, 0
	for {
		key, v, next, ok := rest.Next()
		if !ok {
			break
		}
		if string(key) != want[i].Key || v.Tag() != want[i].Value.Tag() || !v.Value().Equal(want[i].Value) || !v.Equal(want[i].Value) {
			t.Errorf("entry %d is %q=%v, want %q=%v", i, key, v.Value(), want[i].Key, want[i].Value)
		}
		if s, ok := v.Longstr(); ok != (v.Tag() == TagLongstr) || ok && string(s) != "text" {
			t.Errorf("entry %d: longstr %q, %v", i, s, ok)
		}
		rest, i = next, i+1
	}
	if i != len(want) {
		t.Errorf("walked %d of %d", i, len(want))
	}
	if _, ok := raw.Lookup("none"); ok {
		t.Error("found what is not there")
	}
	if _, err := ParseRawTable([]byte{5}); err == nil {
		t.Error("took a malformed table")
	}
}

func TestTableToJSONAndBack(t *testing.T) {
	got, err := json.Marshal(everyTag().ToMap())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"":null,"array":["a",[],{"b":1}],"binary":"Not UTF-8, base64 is: AP8=","byte":-128,"decimal":4.294967295e-19,"double":-2.25,"float":1.5,` +
		`"int":-2147483648,"long":-9223372036854775808,"long+":9223372036854775807,"longstr":"text","no":false,"short":-32768,` +
		`"table":{"c":{"d":[true]}},"time":18446744073709551615,"ubyte":255,"uint":4294967295,"ushort":65535,"void":null,"yes":true}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	object := `{"b":[1,2.5,"x",null,{"z":true,"y":[]}],"a":9007199254740993}`
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	table, err := TableFromMap(m)
	if err != nil || table.String() != `{"a"=long(9007199254740993) "b"=[long(1) double(2.5) "x" void {"y"=[] "z"=true}]}` {
		t.Errorf("got %v, %v", table, err)
	}
}

func TestToMapTakesTheFirstOfEqualKeysAndNoInfinity(t *testing.T) {
	m := Table{{"a", Int8(1)}, {"a", Int8(2)}, {"inf", Float64(math.Inf(1))}, {"nan", Float32(float32(math.NaN()))}}.ToMap()
	if want := map[string]any{"a": int64(1), "inf": nil, "nan": nil}; !reflect.DeepEqual(m, want) {
		t.Errorf("got %v", m)
	}
	if m := Table(nil).ToMap(); m == nil || len(m) != 0 {
		t.Errorf("got %v", m)
	}
}

func TestValueFromAny(t *testing.T) {
	nested := func(n int) any {
		x := any(true)
		for range n {
			x = []any{x}
		}
		return x
	}
	cases := []struct {
		in   any
		want string // "" for an error
	}{
		{1000.0, "long(1000)"}, {-0.5, "double(-0.5)"}, {1e300, "double(1e+300)"}, {9007199254740992.0, "long(9007199254740992)"},
		{18014398509481984.0, "double(1.8014398509481984e+16)"},
		{7, "long(7)"}, {int32(7), "long(7)"}, {int64(7), "long(7)"}, {uint32(7), "long(7)"}, {uint64(7), "long(7)"}, {uint64(math.MaxUint64), ""},
		{"s", `"s"`}, {[]byte{1}, "binary(01)"}, {true, "true"}, {nil, "void"}, {Int8(3), "byte(3)"}, {Table{{"a", Void()}}, `{"a"=void}`},
		{json.Number("12"), "long(12)"}, {json.Number("1.5"), "double(1.5)"}, {json.Number("x"), ""},
		{struct{}{}, ""}, {[]any{struct{}{}}, ""}, {map[string]any{"a": struct{}{}}, ""},
		{nested(15), strings.Repeat("[", 15) + "true" + strings.Repeat("]", 15)}, {nested(16), ""},
		{map[string]any{strings.Repeat("k", 256): true}, ""},
	}
	for _, c := range cases {
		v, err := ValueFromAny(c.in)
		if c.want == "" && err == nil || c.want != "" && (err != nil || v.String() != c.want) {
			t.Errorf("%v: got %v, %v, want %s", c.in, v, err, c.want)
		}
	}
	deep := map[string]any{}
	for range 16 {
		deep = map[string]any{"k": deep}
	}
	if _, err := TableFromMap(deep); !isCode(err, ReplySyntaxError) {
		t.Errorf("17 objects deep: %v", err)
	}
}
