package broker

import (
	"encoding/binary"
	"errors"
)

// Envelope is a message as it stands in a queue. Its slices alias the encoded bytes.
//
//	exchange length 1 | exchange | key length 1 | key | properties length 4 | properties | body
//
// Names come first in the form of short strings, so that a delivery copies them as they are.
type Envelope struct {
	// Exchange and RoutingKey are what the publisher named, at most 255 bytes each.
	Exchange, RoutingKey []byte
	// Properties are flags and values of the content header, as amqp.ScanProperties reads them.
	Properties []byte
	// Body is the content.
	Body []byte
}

// errEnvelope says that bytes from a queue are no envelope. Only a bug or a broken disk makes it.
var errEnvelope = errors.New("broker: malformed envelope")

// AppendEnvelope appends the encoded message. Names longer than 255 bytes are cut: callers have checked them.
func AppendEnvelope(dst []byte, e *Envelope) []byte {
	dst = appendEnvelopeHead(dst, e.Exchange, e.RoutingKey, e.Properties)
	return append(dst, e.Body...)
}

// appendEnvelopeHead appends all but the body.
func appendEnvelopeHead(dst, exchange, key, properties []byte) []byte {
	dst = appendEnvelopeNames(dst, exchange, key)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(properties)))
	return append(dst, properties...)
}

func appendEnvelopeNames(dst, exchange, key []byte) []byte {
	x, k := exchange[:min(len(exchange), 255)], key[:min(len(key), 255)]
	dst = append(dst, byte(len(x)))
	dst = append(dst, x...)
	dst = append(dst, byte(len(k)))
	return append(dst, k...)
}

// ParseEnvelope takes an encoded message apart. It allocates nothing.
func ParseEnvelope(src []byte) (Envelope, error) {
	var e Envelope
	names, ok := envelopeNames(src)
	if !ok || len(src)-names < 4 {
		return e, errEnvelope
	}
	x := 1 + int(src[0])
	e.Exchange, e.RoutingKey = src[1:x:x], src[x+1:names:names]
	rest := src[names+4:]
	n := binary.BigEndian.Uint32(src[names:])
	if uint64(n) > uint64(len(rest)) {
		return Envelope{}, errEnvelope
	}
	e.Properties, e.Body = rest[:n:n], rest[n:]
	return e, nil
}

// envelopeNames returns the length of the two short strings at the front.
func envelopeNames(src []byte) (n int, ok bool) {
	if len(src) == 0 {
		return 0, false
	}
	n = 1 + int(src[0])
	if len(src) <= n {
		return 0, false
	}
	n += 1 + int(src[n])
	return n, len(src) >= n
}
