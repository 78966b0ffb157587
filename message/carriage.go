package message

import "github.com/warrenmq/warren/internal/codec"

// Carriage is what of a publish must be known when the message is routed again, later, and what no client sees.
type Carriage struct {
	// Mandatory says that the publisher asked for the message to be routable.
	Mandatory bool
	// Keys are the further routing keys, if the header CC does not have all: those of BCC are not kept there.
	Keys []string
}

// Append appends the encoded carriage.
func (c *Carriage) Append(dst []byte) []byte {
	dst = codec.AppendBool(dst, c.Mandatory)
	dst = codec.AppendUvarint(dst, uint64(len(c.Keys)))
	for _, key := range c.Keys {
		dst = codec.AppendString(dst, key)
	}
	return dst
}

// parseCarriage decodes a carriage; of none it makes none.
func parseCarriage(src []byte) (c Carriage, err error) {
	if len(src) == 0 {
		return c, nil
	}
	r := codec.NewReader(src)
	c.Mandatory = r.Bool()
	for range r.Count(1) {
		c.Keys = append(c.Keys, r.String())
	}
	if r.Err() != nil || r.Len() != 0 {
		return Carriage{}, ErrMalformed
	}
	return c, nil
}

// Relayed makes the letter of a message that goes on alive from a relay: as it was published, with the deaths that it may have died before. The error is ErrMalformed.
func Relayed(envelope []byte) (*Letter, error) {
	e, err := Parse(envelope)
	if err != nil {
		return nil, err
	}
	c, err := parseCarriage(e.Carriage)
	if err != nil {
		return nil, err
	}
	l := &Letter{Envelope: e, Mandatory: c.Mandatory}
	l.Envelope.Carriage = nil
	if l.Deaths, err = ParseDeaths(e.Deaths); err != nil {
		return nil, err
	}
	if err := l.Properties.Scan(e.Properties); err != nil {
		return nil, ErrMalformed
	}
	headers, _ := l.Properties.Headers()
	if l.Copies = c.Keys; len(c.Keys) == 0 {
		l.Copies = copies(headers)
	}
	return l, nil
}
