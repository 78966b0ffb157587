package meta

import (
	"fmt"
	"regexp"
)

// PatternBytesMax is the length that a pattern of a permission has at most.
const PatternBytesMax = 1024

// Access is one of the three things that a permission is about. The words stand in RabbitMQ's texts.
type Access string

// The three accesses.
const (
	// Configure: declare and delete.
	Configure Access = "configure"
	// Write: publish to an exchange, be the destination of a binding.
	Write Access = "write"
	// Read: consume, get, purge, be the source of a binding.
	Read Access = "read"
)

// Pattern returns the regular expression of one access.
func (p *Permission) Pattern(a Access) string {
	switch a {
	case Configure:
		return p.Configure
	case Write:
		return p.Write
	}
	return p.Read
}

// Pattern is a compiled pattern of a permission: a regular expression (RE2) that must match somewhere in the name.
type Pattern struct {
	re *regexp.Regexp
	// all is set for patterns that match every name, which need no matching.
	all bool
}

// CompilePattern compiles a pattern. The empty one matches the empty name only, as in RabbitMQ. An error says what is wrong in one line.
func CompilePattern(pattern string) (Pattern, error) {
	if len(pattern) > PatternBytesMax {
		return Pattern{}, fmt.Errorf("pattern of %d bytes is longer than %d", len(pattern), PatternBytesMax)
	}
	switch pattern {
	case "":
		pattern = "^$"
	case ".*", "^.*", "^.*$":
		return Pattern{all: true}, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Pattern{}, err
	}
	return Pattern{re: re}, nil
}

// Allows tells whether the pattern covers the name of a queue or exchange. The zero Pattern allows nothing.
func (p Pattern) Allows(name string) bool { return p.all || p.re != nil && p.re.MatchString(name) }

// PermissionName returns the name under which permissions know an exchange: the default exchange is amq.default.
func PermissionName(exchange string) string {
	if exchange == "" {
		return "amq.default"
	}
	return exchange
}
