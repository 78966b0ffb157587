package script

import (
	"strconv"
	"strings"
	"testing"
)

// Line is one parsed input line: a verb, plain words, and key=value pairs in any order. Double quotes keep spaces and = together ("" is the empty word).
type Line struct {
	Verb string
	Args []string
	opts []opt
	t    *testing.T
	text string
}

type opt struct{ key, val string }

// Lines parses every line of a block; a semicolon parts lines, too. A malformed line fails the test.
func Lines(t *testing.T, block string) []*Line {
	t.Helper()
	var out []*Line
	for text := range strings.Lines(block) {
		for _, part := range splitOutside(text, ';') {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, parseLine(t, part))
			}
		}
	}
	return out
}

func parseLine(t *testing.T, text string) *Line {
	t.Helper()
	l := &Line{t: t, text: text}
	for _, word := range splitOutside(text, ' ') {
		if word == "" {
			continue
		}
		if key, val, ok := strings.Cut(word, "="); ok && key != "" && !strings.HasPrefix(word, `"`) {
			l.opts = append(l.opts, opt{key, l.unquote(val)})
			continue
		}
		l.Args = append(l.Args, l.unquote(word))
	}
	if len(l.Args) == 0 {
		t.Fatalf("line without a verb: %s", text)
	}
	l.Verb, l.Args = l.Args[0], l.Args[1:]
	return l
}

func (l *Line) unquote(word string) string {
	if !strings.HasPrefix(word, `"`) {
		return word
	}
	s, err := strconv.Unquote(word)
	if err != nil {
		l.t.Fatalf("%s: %v", l.text, err)
	}
	return s
}

// splitOutside splits at sep where it is not within double quotes.
func splitOutside(s string, sep byte) []string {
	var out []string
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"' && (i == 0 || s[i-1] != '\\'):
			quoted = !quoted
		case s[i] == sep && !quoted:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// String returns the line as it stands in the file.
func (l *Line) String() string { return l.text }

// Arg returns the i-th plain word after the verb; a missing one fails the test.
func (l *Line) Arg(i int) string {
	l.t.Helper()
	if i >= len(l.Args) {
		l.t.Fatalf("%s: word %d is missing", l.text, i+1)
	}
	return l.Args[i]
}

// Has tells whether the plain word stands on the line.
func (l *Line) Has(word string) bool {
	for _, a := range l.Args {
		if a == word {
			return true
		}
	}
	return false
}

// Text returns the value of key=value, or def.
func (l *Line) Text(key, def string) string {
	for _, o := range l.opts {
		if o.key == key {
			return o.val
		}
	}
	return def
}

// Pairs returns the key=value pairs whose key starts with prefix, in their order.
func (l *Line) Pairs(prefix string) (pairs [][2]string) {
	for _, o := range l.opts {
		if strings.HasPrefix(o.key, prefix) {
			pairs = append(pairs, [2]string{o.key, o.val})
		}
	}
	return pairs
}

// Int returns the value of key=value as a decimal integer, or def.
func (l *Line) Int(key string, def int64) int64 {
	l.t.Helper()
	s := l.Text(key, "")
	if s == "" {
		return def
	}
	return l.ParseInt(s)
}

// ParseInt reads a decimal integer of the line; anything else fails the test.
func (l *Line) ParseInt(s string) int64 {
	l.t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		l.t.Fatalf("%s: %v", l.text, err)
	}
	return n
}

// Fatalf fails the test, naming the line.
func (l *Line) Fatalf(format string, args ...any) {
	l.t.Helper()
	l.t.Fatalf(l.text+": "+format, args...)
}
