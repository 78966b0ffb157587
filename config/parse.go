package config

import (
	"strings"
	"unicode/utf8"
)

// Line is one setting of a file in the syntax of rabbitmq.conf: sysctl style "a.b.c = value".
type Line struct {
	// Number counts from 1.
	Number int
	// Key is the part before the "=".
	Key string
	// Value is the part behind it, without quotes, comment and surrounding blanks. It is never empty.
	Value string
}

// SyntaxError is a line that is not a setting, a comment or blank.
type SyntaxError struct {
	// Number counts from 1.
	Number int
	// Problem says what is wrong, Fix the way out.
	Problem, Fix string
}

// Error returns the problem and the way out.
func (e *SyntaxError) Error() string { return e.Problem + "; " + e.Fix }

// ParseFile reads text in the syntax of rabbitmq.conf. A "#" at the start of a line or behind a blank begins a comment. A value in single
// quotes may contain "#" and blanks at its ends. The order of the lines is kept, repeated keys too. The first bad line ends it with a *SyntaxError.
func ParseFile(text string) ([]Line, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	var lines []Line
	for number := 1; text != ""; number++ {
		var raw string
		raw, text, _ = strings.Cut(text, "\n")
		line, err := parseLine(strings.TrimSuffix(raw, "\r"))
		if err != nil {
			err.Number = number
			return nil, err
		}
		if line.Key != "" {
			line.Number = number
			lines = append(lines, line)
		}
	}
	return lines, nil
}

const blanks = " \t"

func parseLine(raw string) (Line, *SyntaxError) {
	raw = strings.Trim(raw, blanks)
	if raw == "" || raw[0] == '#' {
		return Line{}, nil
	}
	if !utf8.ValidString(raw) || strings.ContainsFunc(strings.ReplaceAll(raw, "\t", " "), isControl) {
		return Line{}, &SyntaxError{Problem: "the line has a control character or is not UTF-8", Fix: "save the file as UTF-8 text"}
	}
	key, rest, found := strings.Cut(raw, "=")
	key = strings.Trim(key, blanks)
	if !found {
		return Line{}, &SyntaxError{Problem: "the line has no \"=\"", Fix: "write key = value, or begin a comment with #"}
	}
	if !isKey(key) {
		return Line{}, &SyntaxError{Problem: "the part before the \"=\" is not a key", Fix: "use letters, digits and _ - between dots"}
	}
	value, err := parseValue(strings.Trim(rest, blanks))
	if err != nil {
		return Line{}, err
	}
	if value == "" {
		return Line{}, &SyntaxError{Problem: "the key " + key + " has no value", Fix: "give one, or remove the line"}
	}
	return Line{Key: key, Value: value}, nil
}

// isKey allows what stands between dots in RabbitMQ's keys, also names of users and virtual hosts.
func isKey(s string) bool {
	if s == "" || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") || strings.Contains(s, "..") {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-$@/+:%", r), r >= utf8.RuneSelf:
		default:
			return false
		}
	}
	return true
}

func parseValue(rest string) (string, *SyntaxError) {
	if strings.HasPrefix(rest, "'") {
		inner, behind, closed := strings.Cut(rest[1:], "'")
		behind = strings.Trim(behind, blanks)
		if !closed || behind != "" && behind[0] != '#' {
			return "", &SyntaxError{Problem: "the quoted value does not end with its quote", Fix: "put the value between two single quotes"}
		}
		return inner, nil
	}
	for i := 0; i < len(rest); i++ {
		if rest[i] != '#' {
			continue
		}
		if i > 0 && !strings.ContainsRune(blanks, rune(rest[i-1])) {
			return "", &SyntaxError{Problem: "a # stands inside the value", Fix: "put the value in single quotes, or a blank before the comment"}
		}
		return strings.TrimRight(rest[:i], blanks), nil
	}
	return rest, nil
}
