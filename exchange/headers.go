package exchange

import (
	"slices"
	"strings"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// headersList is the bindings of a headers exchange.
type headersList struct {
	bindings []*headersBinding
	owner    *update
}

// headersBinding is one binding: what headers a message must have.
type headersBinding struct {
	binding *meta.Binding
	// any asks for one of the pairs, otherwise all must match.
	any   bool
	pairs []headerPair
	to    targets
}

// headerPair is a header that a message must have. The two usual kinds of values are taken out of their wrapping beforehand.
type headerPair struct {
	key    string
	value  amqp.Value
	text   string
	isText bool
	whole  int64
	isInt  bool
}

func newHeaderPair(f amqp.Field) headerPair {
	p := headerPair{key: f.Key, value: f.Value}
	p.text, p.isText = f.Value.AsString()
	p.whole, p.isInt = f.Value.AsInt64()
	return p
}

// takes tells whether the value of a message's header is meant. A void value asks for the key only.
func (p *headerPair) takes(have amqp.RawValue) bool {
	if p.isText {
		if s, ok := have.Longstr(); ok {
			return string(s) == p.text
		}
	} else if p.isInt {
		if n, ok := have.AsInt64(); ok {
			return n == p.whole
		}
	}
	return p.value.IsVoid() || sameValue(have, p.value)
}

// compileHeaders reads x-match and the pairs of a binding. Keys that begin with "x-" count only with the -with-x modes; x-match itself never does.
func compileHeaders(b *meta.Binding) *headersBinding {
	c := &headersBinding{binding: b}
	if b.Kind == meta.ToQueue {
		c.to.queues = []meta.QueueID{b.Queue}
	} else {
		c.to.exchanges = []string{b.Destination}
	}
	args := b.Arguments.Table()
	mode := ""
	if v, ok := args.Get("x-match"); ok {
		mode, _ = v.AsString()
	}
	mode, withX := strings.CutSuffix(mode, "-with-x")
	c.any = mode == "any"
	for _, f := range args {
		if f.Key != "x-match" && (withX || !strings.HasPrefix(f.Key, "x-")) {
			c.pairs = append(c.pairs, newHeaderPair(f))
		}
	}
	return c
}

// matches tells whether a message with the headers is meant. Without pairs "all" always and "any" never matches.
func (c *headersBinding) matches(headers amqp.RawTable) bool {
	for i := range c.pairs {
		have, ok := headers.Lookup(c.pairs[i].key)
		if ok && c.pairs[i].takes(have) == c.any {
			return c.any
		}
		if !ok && !c.any {
			return false
		}
	}
	return !c.any
}

// sameValue compares values and not types: integers of every width, floats and timestamps as numbers, longstr and binary as bytes.
func sameValue(have amqp.RawValue, want amqp.Value) bool {
	if have.Equal(want) {
		return true
	}
	switch have.Tag() {
	case amqp.TagTable, amqp.TagArray, amqp.TagVoid, amqp.TagBool, amqp.TagDecimal:
		return false
	case amqp.TagLongstr:
		bytes, _ := have.Longstr()
		s, ok := want.AsBytes()
		return ok && string(bytes) == s
	case amqp.TagBytes:
		s, ok := want.AsString()
		bytes, _ := have.Value().AsBytes()
		return ok && bytes == s
	}
	a, okA := number(have.Value())
	b, okB := number(want)
	return okA && okB && a == b
}

// number reads any scalar that counts something. Integers beyond 2^53 are compared as such by Value.Equal before.
func number(v amqp.Value) (float64, bool) {
	if n, ok := v.AsInt64(); ok {
		return float64(n), true
	}
	if n, ok := v.AsTimestamp(); ok {
		return float64(n), true
	}
	return v.AsFloat64()
}

func (w *hop) matchHeaders(l *headersList) {
	headers := w.headers()
	for _, c := range l.bindings {
		if c.matches(headers) {
			w.add(&c.to)
		}
	}
}

func (u *update) ownHeaders(l *headersList) *headersList {
	switch {
	case l == nil:
		return &headersList{owner: u}
	case l.owner == u:
		return l
	}
	return &headersList{bindings: slices.Clone(l.bindings), owner: u}
}

func (u *update) withHeaders(l *headersList, b *meta.Binding) *headersList {
	l = u.ownHeaders(l)
	l.bindings = append(l.bindings, compileHeaders(b))
	return l
}

func (u *update) withoutHeaders(l *headersList, b *meta.Binding) *headersList {
	if l == nil {
		return nil
	}
	i := slices.IndexFunc(l.bindings, func(c *headersBinding) bool { return c.binding == b })
	if i < 0 {
		return l
	}
	if len(l.bindings) == 1 {
		return nil
	}
	l = u.ownHeaders(l)
	l.bindings = slices.Delete(l.bindings, i, i+1)
	return l
}
