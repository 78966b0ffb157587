package message

import (
	"encoding/binary"
	"errors"

	"github.com/warrenmq/warren/amqp"
)

// Envelope is a message as it stands in a queue. Its slices alias the encoded bytes.
//
//	exchange length 1 | exchange | key length 1 | key | properties length 4 | properties | [deaths length 4 | deaths] | [carriage length 4 | carriage] | body
//
// Names come first in the form of short strings, so that a delivery copies them as they are. The highest bit of the properties' length says that there are deaths, the next one that there is a carriage.
type Envelope struct {
	// Exchange and RoutingKey are what the message was published to, at most 255 bytes each.
	Exchange, RoutingKey []byte
	// Properties are flags and values of the content header, as amqp.ScanProperties reads them.
	Properties []byte
	// Deaths are encoded Deaths, nil if the message never died.
	Deaths []byte
	// Carriage is an encoded Carriage, nil if the message has none.
	Carriage []byte
	// Body is the content.
	Body []byte
}

const (
	hasDeaths = 1 << 31
	// HasCarriage is the bit in the properties' length that says that there is a carriage.
	HasCarriage = 1 << 30
)

// ErrMalformed says that bytes from a queue are no message. Only a bug or a broken disk makes it.
var ErrMalformed = errors.New("message: malformed envelope")

// Append appends the encoded message. Names longer than 255 bytes are cut: callers have checked them.
func Append(dst []byte, e *Envelope) []byte {
	dst = AppendNames(dst, e.Exchange, e.RoutingKey)
	n := uint32(len(e.Properties))
	if e.Deaths != nil {
		n |= hasDeaths
	}
	if e.Carriage != nil {
		n |= HasCarriage
	}
	dst = binary.BigEndian.AppendUint32(dst, n)
	dst = append(dst, e.Properties...)
	if e.Deaths != nil {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Deaths)))
		dst = append(dst, e.Deaths...)
	}
	if e.Carriage != nil {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Carriage)))
		dst = append(dst, e.Carriage...)
	}
	return append(dst, e.Body...)
}

// AppendNames appends the front of an envelope: both names as short strings.
func AppendNames(dst, exchange, key []byte) []byte {
	x, k := exchange[:min(len(exchange), 255)], key[:min(len(key), 255)]
	dst = append(dst, byte(len(x)))
	dst = append(dst, x...)
	dst = append(dst, byte(len(k)))
	return append(dst, k...)
}

// Parse takes an encoded message apart. It allocates nothing.
func Parse(src []byte) (Envelope, error) {
	var e Envelope
	names, ok := namesLength(src)
	if !ok || len(src)-names < 4 {
		return e, ErrMalformed
	}
	x := 1 + int(src[0])
	e.Exchange, e.RoutingKey = src[1:x:x], src[x+1:names:names]
	n := binary.BigEndian.Uint32(src[names:])
	rest := src[names+4:]
	if e.Properties, rest, ok = split(rest, n&^(hasDeaths|HasCarriage)); !ok {
		return Envelope{}, ErrMalformed
	}
	for _, part := range [...]struct {
		bit uint32
		to  *[]byte
	}{{hasDeaths, &e.Deaths}, {HasCarriage, &e.Carriage}} {
		if n&part.bit == 0 {
			continue
		}
		if len(rest) < 4 {
			return Envelope{}, ErrMalformed
		}
		if *part.to, rest, ok = split(rest[4:], binary.BigEndian.Uint32(rest)); !ok {
			return Envelope{}, ErrMalformed
		}
	}
	e.Body = rest
	return e, nil
}

func split(src []byte, n uint32) (head, rest []byte, ok bool) {
	if uint64(n) > uint64(len(src)) {
		return nil, nil, false
	}
	return src[:n:n], src[n:], true
}

// namesLength returns the length of the two short strings at the front.
func namesLength(src []byte) (n int, ok bool) {
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

// Shown returns the properties as a client sees them: those that were published, with the deaths of the message among the headers.
func (e *Envelope) Shown() []byte {
	if e.Deaths == nil {
		return e.Properties
	}
	deaths, err := ParseDeaths(e.Deaths)
	if err != nil || len(deaths.List) == 0 {
		return e.Properties
	}
	v, err := amqp.ScanProperties(e.Properties)
	if err != nil {
		return e.Properties
	}
	var headers amqp.Table
	if raw, ok := v.Headers(); ok {
		headers = raw.Table()
	}
	return v.AppendEdited(nil, 0, deaths.Show(headers))
}
