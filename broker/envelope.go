package broker

import msg "github.com/warrenmq/warren/message"

// Envelope is a message as it stands in a queue: see there.
type Envelope = msg.Envelope

// AppendEnvelope appends the encoded message. Names longer than 255 bytes are cut: callers have checked them.
func AppendEnvelope(dst []byte, e *Envelope) []byte { return msg.Append(dst, e) }

// ParseEnvelope takes an encoded message apart. It allocates nothing.
func ParseEnvelope(src []byte) (Envelope, error) { return msg.Parse(src) }

func appendEnvelopeNames(dst, exchange, key []byte) []byte {
	return msg.AppendNames(dst, exchange, key)
}
