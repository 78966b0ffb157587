package config

import (
	"fmt"
	"strings"
)

// Exit codes of the process, as sysexits has them.
const (
	// ExitUsage is for a mistake on the command line.
	ExitUsage = 64
	// ExitConfig is for a mistake in a file or in the environment.
	ExitConfig = 65
)

// Error says in one line what is wrong with a setting and how to put it right. Every error of Load is an *Error.
type Error struct {
	// Code is the exit code that the process should end with: ExitUsage or ExitConfig.
	Code int
	// Source names where the setting stands: "FILE:LINE", "environment WARREN_X", "--flag".
	Source string
	// Key is the key concerned, empty when a line has none.
	Key string
	// Problem says what is wrong. It never contains the value of a secret.
	Problem string
	// Fix says the way out.
	Fix string
}

// Error returns the line: source, key, problem, fix.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Source)
	if e.Key != "" {
		b.WriteString(": ")
		b.WriteString(e.Key)
	}
	b.WriteString(": ")
	b.WriteString(e.Problem)
	if e.Fix != "" {
		b.WriteString("; ")
		b.WriteString(e.Fix)
	}
	return oneLine(b.String())
}

// oneLine keeps control characters of a file out of the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// problem is a mistake whose place is not known yet; Load adds source and key.
type problem struct {
	what string
	fix  string
}

// Error makes a problem usable as an error inside the package.
func (p *problem) Error() string { return p.what }

func problemf(fix, format string, args ...any) *problem {
	return &problem{what: fmt.Sprintf(format, args...), fix: fix}
}
