package conformance

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// This file turns the lines of a transcript into frames and frames into lines. The table of methods is written down here once more: a mistake in the
// broker's own table must not hide itself.

// wireMethod is one method: its name, its numbers, and its fields.
type wireMethod struct {
	name          string
	class, method uint16
	fields        []wireField
}

type wireField struct{ name, kind string }

// answers says which method ends the wait for an answer; a method that is not here is not answered.
var answers = map[string]string{
	"connection.start-ok": "connection.tune", "connection.open": "connection.open-ok", "connection.close": "connection.close-ok",
	"connection.update-secret": "connection.update-secret-ok", "channel.open": "channel.open-ok", "channel.flow": "channel.flow-ok",
	"channel.close": "channel.close-ok", "access.request": "access.request-ok", "exchange.declare": "exchange.declare-ok",
	"exchange.delete": "exchange.delete-ok", "exchange.bind": "exchange.bind-ok", "exchange.unbind": "exchange.unbind-ok",
	"queue.declare": "queue.declare-ok", "queue.bind": "queue.bind-ok", "queue.purge": "queue.purge-ok", "queue.delete": "queue.delete-ok",
	"queue.unbind": "queue.unbind-ok", "basic.qos": "basic.qos-ok", "basic.consume": "basic.consume-ok", "basic.cancel": "basic.cancel-ok",
	"basic.get": "basic.get-ok", "basic.recover": "basic.recover-ok", "confirm.select": "confirm.select-ok", "tx.select": "tx.select-ok",
	"tx.commit": "tx.commit-ok", "tx.rollback": "tx.rollback-ok",
}

// methodLines is the table: name, numbers, fields in their order. Consecutive bits share an octet.
const methodLines = `
connection.start 10.10 version-major:octet version-minor:octet server-properties:table mechanisms:longstr locales:longstr
connection.start-ok 10.11 client-properties:table mechanism:shortstr response:longstr locale:shortstr
connection.tune 10.30 channel-max:short frame-max:long heartbeat:short
connection.tune-ok 10.31 channel-max:short frame-max:long heartbeat:short
connection.open 10.40 vhost:shortstr reserved-1:shortstr reserved-2:bit
connection.open-ok 10.41 known-hosts:shortstr
connection.close 10.50 code:short text:shortstr class:short method:short
connection.close-ok 10.51
connection.blocked 10.60 reason:shortstr
connection.unblocked 10.61
connection.update-secret 10.70 new-secret:longstr reason:shortstr
connection.update-secret-ok 10.71
channel.open 20.10 reserved-1:shortstr
channel.open-ok 20.11 channel-id:longstr
channel.flow 20.20 active:bit
channel.flow-ok 20.21 active:bit
channel.close 20.40 code:short text:shortstr class:short method:short
channel.close-ok 20.41
access.request 30.10 realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
access.request-ok 30.11 ticket:short
exchange.declare 40.10 ticket:short exchange:shortstr type:shortstr passive:bit durable:bit auto-delete:bit internal:bit no-wait:bit arguments:table
exchange.declare-ok 40.11
exchange.delete 40.20 ticket:short exchange:shortstr if-unused:bit no-wait:bit
exchange.delete-ok 40.21
exchange.bind 40.30 ticket:short destination:shortstr source:shortstr routing-key:shortstr no-wait:bit arguments:table
exchange.bind-ok 40.31
exchange.unbind 40.40 ticket:short destination:shortstr source:shortstr routing-key:shortstr no-wait:bit arguments:table
exchange.unbind-ok 40.51
queue.declare 50.10 ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto-delete:bit no-wait:bit arguments:table
queue.declare-ok 50.11 queue:shortstr message-count:long consumer-count:long
queue.bind 50.20 ticket:short queue:shortstr exchange:shortstr routing-key:shortstr no-wait:bit arguments:table
queue.bind-ok 50.21
queue.purge 50.30 ticket:short queue:shortstr no-wait:bit
queue.purge-ok 50.31 message-count:long
queue.delete 50.40 ticket:short queue:shortstr if-unused:bit if-empty:bit no-wait:bit
queue.delete-ok 50.41 message-count:long
queue.unbind 50.50 ticket:short queue:shortstr exchange:shortstr routing-key:shortstr arguments:table
queue.unbind-ok 50.51
basic.qos 60.10 prefetch-size:long prefetch-count:short global:bit
basic.qos-ok 60.11
basic.consume 60.20 ticket:short queue:shortstr consumer-tag:shortstr no-local:bit no-ack:bit exclusive:bit no-wait:bit arguments:table
basic.consume-ok 60.21 consumer-tag:shortstr
basic.cancel 60.30 consumer-tag:shortstr no-wait:bit
basic.cancel-ok 60.31 consumer-tag:shortstr
basic.publish 60.40 ticket:short exchange:shortstr routing-key:shortstr mandatory:bit immediate:bit
basic.return 60.50 code:short text:shortstr exchange:shortstr routing-key:shortstr
basic.deliver 60.60 consumer-tag:shortstr delivery-tag:longlong redelivered:bit exchange:shortstr routing-key:shortstr
basic.get 60.70 ticket:short queue:shortstr no-ack:bit
basic.get-ok 60.71 delivery-tag:longlong redelivered:bit exchange:shortstr routing-key:shortstr message-count:long
basic.get-empty 60.72 cluster-id:shortstr
basic.ack 60.80 delivery-tag:longlong multiple:bit
basic.reject 60.90 delivery-tag:longlong requeue:bit
basic.recover-async 60.100 requeue:bit
basic.recover 60.110 requeue:bit
basic.recover-ok 60.111
basic.nack 60.120 delivery-tag:longlong multiple:bit requeue:bit
confirm.select 85.10 no-wait:bit
confirm.select-ok 85.11
tx.select 90.10
tx.select-ok 90.11
tx.commit 90.20
tx.commit-ok 90.21
tx.rollback 90.30
tx.rollback-ok 90.31
`

// propertyNames are the properties of class basic from the highest flag down.
var propertyNames = []wireField{
	{"content-type", "shortstr"}, {"content-encoding", "shortstr"}, {"headers", "table"}, {"delivery-mode", "octet"}, {"priority", "octet"},
	{"correlation-id", "shortstr"}, {"reply-to", "shortstr"}, {"expiration", "shortstr"}, {"message-id", "shortstr"}, {"timestamp", "longlong"},
	{"type", "shortstr"}, {"user-id", "shortstr"}, {"app-id", "shortstr"}, {"cluster-id", "shortstr"},
}

var methodsByName, methodsByID = readMethods()

func readMethods() (map[string]*wireMethod, map[[2]uint16]*wireMethod) {
	byName, byID := map[string]*wireMethod{}, map[[2]uint16]*wireMethod{}
	for line := range strings.Lines(methodLines) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		m := &wireMethod{name: words[0]}
		if _, err := fmt.Sscanf(words[1], "%d.%d", &m.class, &m.method); err != nil {
			panic(line)
		}
		for _, w := range words[2:] {
			name, kind, _ := strings.Cut(w, ":")
			m.fields = append(m.fields, wireField{name, kind})
		}
		byName[m.name], byID[[2]uint16{m.class, m.method}] = m, m
	}
	return byName, byID
}

// encodeMethod makes a method's payload; fields that are not given are zero.
func encodeMethod(m *wireMethod, given map[string]string) ([]byte, error) {
	known := map[string]bool{}
	payload := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, m.class), m.method)
	bits := -1 // how many bits the last octet has
	for _, f := range m.fields {
		known[f.name] = true
		text := given[f.name]
		if f.kind == "bit" {
			if bits < 0 || bits == 8 {
				payload, bits = append(payload, 0), 0
			}
			if text == "true" {
				payload[len(payload)-1] |= 1 << bits
			}
			bits++
			continue
		}
		bits = -1
		var err error
		if payload, err = appendField(payload, f.kind, text); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", f.name, m.name, err)
		}
	}
	for name := range given {
		if !known[name] {
			return nil, fmt.Errorf("%s has no field %s", m.name, name)
		}
	}
	return payload, nil
}

func appendField(dst []byte, kind, text string) ([]byte, error) {
	number := func(bits int) (uint64, error) {
		if text == "" {
			return 0, nil
		}
		return strconv.ParseUint(text, 0, bits)
	}
	switch kind {
	case "octet":
		n, err := number(8)
		return append(dst, byte(n)), err
	case "short":
		n, err := number(16)
		return binary.BigEndian.AppendUint16(dst, uint16(n)), err
	case "long":
		n, err := number(32)
		return binary.BigEndian.AppendUint32(dst, uint32(n)), err
	case "longlong":
		n, err := number(64)
		return binary.BigEndian.AppendUint64(dst, n), err
	case "shortstr":
		s, err := unquote(text)
		return append(append(dst, byte(len(s))), s...), err
	case "longstr":
		s, err := unquote(text)
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...), err
	case "table":
		p := &valueParser{rest: text}
		if text == "" {
			p.rest = "{}"
		}
		body, err := p.table()
		if err == nil && p.rest != "" {
			err = fmt.Errorf("%q behind a table", p.rest)
		}
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...), err
	}
	return nil, fmt.Errorf("unknown kind %s", kind)
}

func unquote(text string) (string, error) {
	if strings.HasPrefix(text, `"`) {
		return strconv.Unquote(text)
	}
	return text, nil
}

// valueParser reads {key:VALUE,...}, a value being its tag and its text: S"text", I5, t1, F{...}, A[...], V, x"0a" (hexadecimal), D2/314 (a decimal).
type valueParser struct{ rest string }

func (p *valueParser) take(prefix string) bool {
	after, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = after
	return ok
}

// word takes what comes before a delimiter, a quoted string as a whole.
func (p *valueParser) word() (string, error) {
	if strings.HasPrefix(p.rest, `"`) {
		q, err := strconv.QuotedPrefix(p.rest)
		if err != nil {
			return "", err
		}
		p.rest = p.rest[len(q):]
		return strconv.Unquote(q)
	}
	end := strings.IndexAny(p.rest, ":,]}")
	if end < 0 {
		return "", fmt.Errorf("no end of %q", p.rest)
	}
	w := p.rest[:end]
	p.rest = p.rest[end:]
	return w, nil
}

func (p *valueParser) table() (body []byte, err error) {
	if !p.take("{") {
		return nil, fmt.Errorf("no table: %q", p.rest)
	}
	for !p.take("}") {
		p.take(",")
		key, err := p.word()
		if err != nil || !p.take(":") {
			return nil, fmt.Errorf("key %q: %v", key, err)
		}
		body = append(append(body, byte(len(key))), key...)
		if body, err = p.value(body); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func (p *valueParser) value(dst []byte) ([]byte, error) {
	if p.rest == "" {
		return nil, fmt.Errorf("a value is missing")
	}
	tag := p.rest[0]
	p.rest = p.rest[1:]
	dst = append(dst, tag)
	switch tag {
	case 'F':
		body, err := p.table()
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...), err
	case 'A':
		if !p.take("[") {
			return nil, fmt.Errorf("no array: %q", p.rest)
		}
		var body []byte
		for !p.take("]") {
			p.take(",")
			var err error
			if body, err = p.value(body); err != nil {
				return nil, err
			}
		}
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...), nil
	}
	w, err := p.word()
	if err != nil {
		return nil, err
	}
	return appendScalar(dst, tag, w)
}

func appendScalar(dst []byte, tag byte, w string) ([]byte, error) {
	sizes := map[byte]int{'t': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'l': 8, 'L': 8, 'T': 8}
	switch tag {
	case 'V':
		return dst, nil
	case 'S':
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(w))), w...), nil
	case 'x':
		raw, err := hex.DecodeString(w)
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(raw))), raw...), err
	case 'f':
		v, err := strconv.ParseFloat(w, 32)
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(v))), err
	case 'd':
		v, err := strconv.ParseFloat(w, 64)
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), err
	case 'D':
		var scale uint8
		var v uint32
		_, err := fmt.Sscanf(w, "%d/%d", &scale, &v)
		return binary.BigEndian.AppendUint32(append(dst, scale), v), err
	}
	size, ok := sizes[tag]
	if !ok {
		return nil, fmt.Errorf("unknown tag %q", tag)
	}
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil {
		u, uerr := strconv.ParseUint(w, 10, 64)
		n, err = int64(u), uerr
	}
	for i := size - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst, err
}

// wireReader reads fields of a payload; the first thing that is too short makes bad true.
type wireReader struct {
	rest []byte
	bad  bool
}

func (r *wireReader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return make([]byte, max(0, min(n, 8)))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *wireReader) long() uint32 { return binary.BigEndian.Uint32(r.bytes(4)) }

func (r *wireReader) field(kind string) string {
	switch kind {
	case "octet":
		return strconv.Itoa(int(r.bytes(1)[0]))
	case "short":
		return strconv.Itoa(int(binary.BigEndian.Uint16(r.bytes(2))))
	case "long":
		return strconv.FormatUint(uint64(r.long()), 10)
	case "longlong":
		return strconv.FormatUint(binary.BigEndian.Uint64(r.bytes(8)), 10)
	case "shortstr":
		return quoted(string(r.bytes(int(r.bytes(1)[0]))))
	case "longstr":
		return quoted(string(r.bytes(int(r.long()))))
	case "table":
		return (&wireReader{rest: r.bytes(int(r.long()))}).table()
	}
	panic(kind)
}

// quoted leaves out the quotes where nothing asks for them.
func quoted(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"=\{}[],:`, c) })
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// table prints a table with its keys in order.
func (r *wireReader) table() string {
	var fields []string
	for len(r.rest) > 0 && !r.bad {
		key := quoted(string(r.bytes(int(r.bytes(1)[0]))))
		fields = append(fields, key+":"+r.value())
	}
	sort.Strings(fields)
	return "{" + strings.Join(fields, ",") + "}"
}

func (r *wireReader) value() string {
	tag := r.bytes(1)[0]
	signed := func(n int) string {
		var v int64
		for i, b := range r.bytes(n) {
			if i == 0 {
				v = int64(int8(b))
			} else {
				v = v<<8 | int64(b)
			}
		}
		return string(tag) + strconv.FormatInt(v, 10)
	}
	switch tag {
	case 't', 'B', 'b':
		return signed(1)
	case 's', 'u':
		return signed(2)
	case 'I', 'i':
		return signed(4)
	case 'l', 'L', 'T':
		return signed(8)
	case 'f':
		return fmt.Sprintf("f%v", math.Float32frombits(r.long()))
	case 'd':
		return fmt.Sprintf("d%v", math.Float64frombits(binary.BigEndian.Uint64(r.bytes(8))))
	case 'D':
		scale := r.bytes(1)[0]
		return fmt.Sprintf("D%d/%d", scale, r.long())
	case 'S':
		return "S" + strconv.Quote(string(r.bytes(int(r.long()))))
	case 'x':
		return fmt.Sprintf("x%q", hex.EncodeToString(r.bytes(int(r.long()))))
	case 'V':
		return "V"
	case 'F':
		return "F" + (&wireReader{rest: r.bytes(int(r.long()))}).table()
	case 'A':
		inner := &wireReader{rest: r.bytes(int(r.long()))}
		var values []string
		for len(inner.rest) > 0 && !inner.bad {
			values = append(values, inner.value())
		}
		return "A[" + strings.Join(values, ",") + "]"
	}
	r.bad = true
	return fmt.Sprintf("?%d", tag)
}

// showMethod prints a method frame's payload without its channel. Fields that are zero are left out.
func showMethod(payload []byte) (name, text string) {
	r := &wireReader{rest: payload}
	class, method := binary.BigEndian.Uint16(r.bytes(2)), binary.BigEndian.Uint16(r.bytes(2))
	m := methodsByID[[2]uint16{class, method}]
	if m == nil {
		name = fmt.Sprintf("method %d.%d", class, method)
		return name, name
	}
	text = m.name
	bits, octet := -1, byte(0)
	values := map[string]string{}
	for _, f := range m.fields {
		var v string
		if f.kind == "bit" {
			if bits < 0 || bits == 8 {
				octet, bits = r.bytes(1)[0], 0
			}
			v = strconv.FormatBool(octet&(1<<bits) != 0)
			bits++
		} else {
			bits = -1
			v = r.field(f.kind)
		}
		values[f.name] = v
		if (f.name == "class" || f.name == "method") && strings.HasSuffix(m.name, ".close") || v == "false" || v == `""` || v == "{}" {
			continue
		}
		text += " " + f.name + "=" + v
	}
	if strings.HasSuffix(m.name, ".close") {
		text += " by=" + failedMethod(values["class"], values["method"])
	}
	if r.bad || len(r.rest) > 0 {
		text += " (malformed)"
	}
	return m.name, text
}

// failedMethod names the method that a close method blames.
func failedMethod(class, method string) string {
	if class == "0" && method == "0" {
		return "none"
	}
	for _, m := range methodsByName {
		if strconv.Itoa(int(m.class)) == class && strconv.Itoa(int(m.method)) == method {
			return m.name
		}
	}
	return class + "." + method
}

// encodeProperties makes a content header's payload.
func encodeProperties(bodyBytes int, given map[string]string) ([]byte, error) {
	payload := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, uint64(bodyBytes))
	var flags uint16
	var values []byte
	for i, f := range propertyNames {
		text, ok := given[f.name]
		if !ok {
			continue
		}
		flags |= 1 << (15 - i)
		var err error
		if values, err = appendField(values, f.kind, text); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return append(binary.BigEndian.AppendUint16(payload, flags), values...), nil
}

// showProperties prints the properties of a content header and returns the size of the body.
func showProperties(payload []byte) (text string, bodyBytes uint64) {
	r := &wireReader{rest: payload}
	r.bytes(4)
	bodyBytes = binary.BigEndian.Uint64(r.bytes(8))
	flags := binary.BigEndian.Uint16(r.bytes(2))
	for i, f := range propertyNames {
		if flags&(1<<(15-i)) != 0 {
			text += " " + f.name + "=" + r.field(f.kind)
		}
	}
	if r.bad || len(r.rest) > 0 {
		text += " (malformed)"
	}
	return text, bodyBytes
}

// isMethod tells whether a frame is a certain method.
func isMethod(f rawamqp.Frame, name string) bool {
	class, method := f.Method()
	m := methodsByName[name]
	return m != nil && f.Type == rawamqp.TypeMethod && m.class == class && m.method == method
}
