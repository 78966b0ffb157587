package message

import (
	"github.com/warrenmq/warren/amqp"
)

// Letter is a message that goes on to another queue: a dead letter, which died and goes to a dead-letter exchange, one that was moved, or one that goes on alive from a relay.
type Letter struct {
	// Envelope is the message as it goes on.
	Envelope Envelope
	// Deaths are its deaths, those that are in the envelope.
	Deaths Deaths
	// Copies are further routing keys: those of the header CC, unless the queue gives a key; of a relayed message those of BCC, too.
	Copies []string
	// Mandatory says that the publisher of a relayed message asked for it to be routable.
	Mandatory bool
	// Properties are those of Envelope.
	Properties amqp.PropertyView
}

// DeadLetter makes a dead letter of a message that died. exchange is the dead-letter exchange, key the routing key that the queue gives its dead letters, nil if they keep theirs. The
// property expiration goes, and with a key of the queue's the header CC; all else is kept as it was. The error is ErrMalformed. The same arguments give the same bytes.
func DeadLetter(envelope []byte, death Death, exchange string, key *string) (*Letter, error) {
	e, err := Parse(envelope)
	if err != nil {
		return nil, err
	}
	l := &Letter{Envelope: e}
	l.Envelope.Carriage = nil
	if l.Deaths, err = ParseDeaths(e.Deaths); err != nil {
		return nil, err
	}
	var v amqp.PropertyView
	if err := v.Scan(e.Properties); err != nil {
		return nil, ErrMalformed
	}
	headers, _ := v.Headers()
	l.Copies = copies(headers)
	death.Exchange, death.Keys = string(e.Exchange), append([]string{string(e.RoutingKey)}, l.Copies...)
	if text, ok := v.Expiration(); ok {
		death.Expiration = string(text)
	}
	l.Deaths.Add(death)
	var left amqp.Table
	if key != nil && len(l.Copies) > 0 {
		if left = headers.Table().Without("CC"); left == nil {
			left = amqp.Table{}
		}
	}
	if left != nil || v.Flags().Has(amqp.FlagExpiration) {
		l.Envelope.Properties = v.AppendEdited(nil, amqp.FlagExpiration, left)
		if err := v.Scan(l.Envelope.Properties); err != nil {
			return nil, ErrMalformed
		}
	}
	l.Properties = v
	l.Envelope.Exchange = []byte(exchange)
	if key != nil {
		l.Envelope.RoutingKey, l.Copies = []byte(*key), nil
	}
	l.Envelope.Deaths = l.Deaths.Append(nil)
	return l, nil
}

// Moved makes the letter of a message that goes to another queue without having died: it stays as it is. With back it goes where it died last, and shows the exchange and routing keys that it had there: the header CC is
// there again if it went because the queue gave its dead letters a key.
func Moved(envelope []byte, back bool) (*Letter, error) {
	e, err := Parse(envelope)
	if err != nil {
		return nil, err
	}
	l := &Letter{Envelope: e}
	if l.Properties, err = amqp.ScanProperties(e.Properties); err != nil {
		return nil, ErrMalformed
	}
	if l.Deaths, err = ParseDeaths(e.Deaths); err != nil {
		return nil, err
	}
	if back && len(l.Deaths.List) > 0 && len(l.Deaths.List[0].Keys) > 0 {
		last := &l.Deaths.List[0]
		l.Envelope.Exchange, l.Envelope.RoutingKey = []byte(last.Exchange), []byte(last.Keys[0])
		return l, l.restoreCopies(last.Keys[1:])
	}
	return l, nil
}

// restoreCopies makes a header CC of keys, unless there is one.
func (l *Letter) restoreCopies(keys []string) error {
	headers, _ := l.Properties.Headers()
	if _, there := headers.Lookup("CC"); there || len(keys) == 0 {
		return nil
	}
	list := make([]amqp.Value, len(keys))
	for i, key := range keys {
		list[i] = amqp.Longstr(key)
	}
	l.Envelope.Properties = l.Properties.AppendEdited(nil, 0, headers.Table().Set("CC", amqp.Array(list...)))
	if err := l.Properties.Scan(l.Envelope.Properties); err != nil {
		return ErrMalformed
	}
	return nil
}

// copies returns the routing keys in the header CC.
func copies(headers amqp.RawTable) (keys []string) {
	v, _ := headers.Lookup("CC")
	array, _ := v.Value().AsArray()
	for _, k := range array {
		if text, ok := k.AsString(); ok {
			keys = append(keys, text)
		}
	}
	return keys
}
