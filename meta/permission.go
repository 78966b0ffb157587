package meta

import (
	"fmt"
	"regexp"

	"github.com/warrenmq/warren/internal/cow"
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

// Allows tells whether the pattern covers the name of a queue or exchange, or a routing key. The zero Pattern allows nothing.
func (p Pattern) Allows(name string) bool { return p.all || p.re != nil && p.re.MatchString(name) }

// AllowsBytes is Allows for a name that is not a string yet.
func (p Pattern) AllowsBytes(name []byte) bool { return p.all || p.re != nil && p.re.Match(name) }

// Rights is what a user may do in a virtual host, as one View had it: all that AMQP, the HTTP API and its tools ask. They hold as long as AccessIndex is the same. It compiles a pattern when it is first needed and is used by one goroutine.
type Rights struct {
	user       string
	permission *Permission
	topics     cow.Map[string, *TopicPermission]
	patterns   [3]Pattern
	compiled   [3]bool
}

// Rights returns the rights of a user in a virtual host.
func (v *View) Rights(user, vhostName string) Rights {
	r := Rights{user: user}
	if h, ok := v.vhosts.Get(vhostName); ok {
		r.permission, _ = h.permissions.Get(user)
		r.topics = h.topics
	}
	return r
}

// Allows tells whether the user has access to a queue or exchange; see PermissionName for the name of an exchange.
func (r *Rights) Allows(access Access, name string) bool {
	if r.permission == nil {
		return false
	}
	i := 2
	switch access {
	case Configure:
		i = 0
	case Write:
		i = 1
	}
	if !r.compiled[i] {
		// A pattern that does not compile allows nothing. It was refused when the permission was made, so only another release can have let it in.
		r.patterns[i], _ = CompilePattern(r.permission.Pattern(access))
		r.compiled[i] = true
	}
	return r.patterns[i].Allows(name)
}

// Topic returns the pattern of the routing keys that the user may publish to (Write) or bind from (Read) an exchange, nil if any key will do: only topic exchanges know topic permissions.
func (r *Rights) Topic(access Access, x *Exchange) *Pattern {
	if r.topics.Len() == 0 || x.Type != "topic" {
		return nil
	}
	p, ok := r.topics.Get(topicKey(r.user, x.Name))
	if !ok {
		return nil
	}
	pattern, _ := CompilePattern(p.Pattern(access))
	return &pattern
}

// PermissionName returns the name under which permissions know an exchange: the default exchange is amq.default.
func PermissionName(exchange string) string {
	if exchange == "" {
		return "amq.default"
	}
	return exchange
}
