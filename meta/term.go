package meta

import (
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// erlangTerm prints a value as Erlang prints terms, for the texts of RabbitMQ that show one so.
func erlangTerm(v amqp.Value) string {
	var b strings.Builder
	appendTerm(&b, v)
	return b.String()
}

func appendTerm(b *strings.Builder, v amqp.Value) {
	if s, ok := textOf(v); ok {
		appendBinary(b, s)
	} else if elements, ok := v.AsArray(); ok {
		b.WriteByte('[')
		for i, e := range elements {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("{" + e.Type() + ",")
			appendTerm(b, e)
			b.WriteByte('}')
		}
		b.WriteByte(']')
	} else if fields, ok := v.AsTable(); ok {
		b.WriteByte('[')
		for i, f := range fields {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('{')
			appendBinary(b, f.Key)
			b.WriteString("," + f.Value.Type() + ",")
			appendTerm(b, f.Value)
			b.WriteByte('}')
		}
		b.WriteByte(']')
	} else {
		b.WriteString(plainValue(v))
	}
}

// appendBinary prints <<"text">>, and the bytes where they are no printable ASCII.
func appendBinary(b *strings.Builder, s string) {
	b.WriteString("<<")
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		for i := range len(s) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(int(s[i])))
		}
	} else if s != "" {
		b.WriteString(strconv.Quote(s))
	}
	b.WriteString(">>")
}
