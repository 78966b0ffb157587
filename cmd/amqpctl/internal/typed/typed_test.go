package typed

import (
	"reflect"
	"testing"
)

func TestPairs(t *testing.T) {
	got, err := Pairs([]string{
		"x-max-length=100", "neg=-5", "on=true", "off=false", "s=text", "empty=", "eq=a=b", "comma=a,b", "zeros=007", "plus=+1", "big=99999999999999999999",
		"float=1.5", "True=True", `js=json:"5"`, "jn=json:5", "jf=json:1.5", `jo=json:{"a":[1,"x",null,{"b":2}]}`, "jnull=json:null",
	})
	want := map[string]any{
		"x-max-length": int64(100), "neg": int64(-5), "on": true, "off": false, "s": "text", "empty": "", "eq": "a=b", "comma": "a,b", "zeros": "007", "plus": "+1",
		"big": "99999999999999999999", "float": "1.5", "True": "True", "js": "5", "jn": int64(5), "jf": 1.5,
		"jo": map[string]any{"a": []any{int64(1), "x", nil, map[string]any{"b": int64(2)}}}, "jnull": nil,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, err)
	}
}

func TestPairsRefuse(t *testing.T) {
	for _, words := range [][]string{{"novalue"}, {"=5"}, {"a=1", "a=2"}, {"a=json:"}, {"a=json:{"}, {"a=json:1 2"}, {"a=json:1e999"}, {string(make([]byte, 256)) + "=1"}} {
		if got, err := Pairs(words); err == nil {
			t.Errorf("%.40q became %v", words, got)
		}
	}
}
