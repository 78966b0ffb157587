package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParseFile: any text gives lines in order with keys and values that survive being written out again, or one error with a place.
func FuzzParseFile(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.conf")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := ParseFile(text)
		if err != nil {
			var bad *SyntaxError
			if !errors.As(err, &bad) || bad.Number < 1 || bad.Number > strings.Count(text, "\n")+1 || bad.Problem == "" || bad.Fix == "" || len(lines) > 0 {
				t.Fatalf("error %#v with %d lines", err, len(lines))
			}
			return
		}
		var out strings.Builder
		last := 0
		for _, line := range lines {
			if line.Number <= last || !isKey(line.Key) || line.Value == "" {
				t.Fatalf("bad line %+v after line %d", line, last)
			}
			last = line.Number
			if strings.Contains(line.Value, "'") {
				return // such a value cannot be quoted
			}
			out.WriteString(line.Key + " = '" + line.Value + "'\n")
		}
		again, err := ParseFile(out.String())
		if err != nil || len(again) != len(lines) {
			t.Fatalf("written out: %d lines, %v; first time %d", len(again), err, len(lines))
		}
		for i := range again {
			if again[i].Key != lines[i].Key || again[i].Value != lines[i].Value {
				t.Fatalf("line %d: %+v became %+v", i, lines[i], again[i])
			}
		}
	})
}

// FuzzValue: a value of every type is read or refused, and the form that Effective shows reads as the same value.
func FuzzValue(f *testing.F) {
	for _, s := range []string{"true", "60", "16MiB", "2GB", "1h30m", "500ms", ":5672", "::1:5672", "[fe80::1%eth0]:1", "a:1,b:2", "info", "9223372036854775807", "9223372036854775807d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range Keys() {
			v, p := k.parse(text)
			if p != nil {
				if p.what == "" || p.fix == "" {
					t.Fatalf("%s: %q: an error without words: %+v", k.Name, text, p)
				}
				continue
			}
			if k.Secret || k.Type == AddressList {
				continue
			}
			again, p := k.parse(k.display(v))
			if p != nil || again.on != v.on || again.number != v.number || again.duration != v.duration || again.address != v.address {
				t.Fatalf("%s: %q shows as %q, which reads as %+v (%v)", k.Name, text, k.display(v), again, p)
			}
		}
	})
}
