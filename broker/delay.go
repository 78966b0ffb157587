package broker

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/exchange"
	msg "github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/queue"
)

// A message with the header x-delay waits so many milliseconds, one with x-opt-delivery-time until that time: in the relay of an x-delayed-message exchange that it passes, in every other queue that it
// goes to. Only a publish reads the headers. What is stored has its x-delay negated, as RabbitMQ's plugin has it, so that who publishes a message again that it got does not delay it again.

const (
	headerDelay        = "x-delay"
	headerDeliveryTime = "x-opt-delivery-time"
)

// delay is what the headers of a message say about when it is to be ready.
type delay struct {
	// millis is how long to wait from now on, or with until the time since 1970. Without any it is zero.
	millis uint64
	until  bool
	// negated is what is left in the header x-delay.
	negated int64
}

func (d *delay) isSet() bool { return d.millis > 0 }

// delayOf reads the headers of a publish. A wait of 0 or less, and an absent one, is none. It allocates nothing.
func delayOf(headers amqp.RawTable) (d delay, err error) {
	if len(headers) == 0 {
		return d, nil
	}
	if v, ok := headers.Lookup(headerDelay); ok {
		n, ok := wholeNumber(v)
		if !ok {
			return d, errDelay(headerDelay, v.Tag().String())
		}
		if n > 0 {
			return delay{millis: uint64(n), negated: -n}, nil
		}
	}
	if v, ok := headers.Lookup(headerDeliveryTime); ok {
		n, ok := wholeNumber(v)
		if seconds, isTime := v.Value().AsTimestamp(); isTime {
			n, ok = int64(min(seconds, math.MaxInt64/1000))*1000, true
		}
		if !ok {
			return d, errDelay(headerDeliveryTime, v.Tag().String())
		}
		if n > 0 {
			return delay{millis: uint64(n), until: true}, nil
		}
	}
	return d, nil
}

// wholeNumber reads an integer of any width, or what clients send instead: its text, or a number with a fraction, which is cut off.
func wholeNumber(v amqp.RawValue) (n int64, ok bool) {
	if n, ok := v.AsInt64(); ok {
		return n, true
	}
	if text, ok := v.Longstr(); ok {
		n, err := strconv.ParseInt(string(text), 10, 64)
		return n, err == nil
	}
	if f, ok := v.Value().AsFloat64(); ok && math.Abs(f) < math.MaxInt64 {
		return int64(f), true
	}
	return 0, false
}

// addTo tells the command that enqueues the message.
func (d *delay) addTo(cmd *queue.Command) {
	if d.isSet() {
		cmd.Flags, cmd.Delay, cmd.DelayUntil = cmd.Flags|queue.FlagDelay, min(d.millis, 1<<62), d.until
	}
}

// properties returns those of the message as it is stored.
func (d *delay) properties(v *amqp.PropertyView) []byte {
	headers, _ := v.Headers()
	if d.negated == 0 {
		return v.AppendEdited(nil, 0, nil)
	}
	value := amqp.Int64(d.negated)
	if d.negated >= math.MinInt32 {
		value = amqp.Int32(int32(d.negated))
	}
	table := headers.Table()
	for i := range table {
		if table[i].Key == headerDelay { // clients may see any of several, and the first counted
			table[i].Value = value
		}
	}
	return v.AppendEdited(nil, 0, table)
}

// carriage returns what must be known when the message is routed on, nil if nothing. keys are its further routing keys, which headers do not tell if there is a blind one.
func (d *delay) carriage(mandatory, blind bool, keys []string) []byte {
	if !mandatory && !blind {
		return nil
	}
	c := msg.Carriage{Mandatory: mandatory}
	if blind {
		c.Keys = keys
	}
	return c.Append(nil)
}

// postpone has the message in the making wait or pass a relay, which was routed to ch.w.targets. One that is mandatory must be routable now: what an exchange is to keep counts by where it leads to at present.
func (ch *channel) postpone(exchangeName []byte, copies []string, blind bool) {
	p, w := &ch.publishing, ch.w
	if p.mandatory {
		m := exchange.Message{Copies: copies, Properties: &w.view, Through: true}
		now, _ := ch.publishTo.router.Route(exchangeName, p.env.b[p.routeFrom:p.properties-4], &m, nil)
		if len(now) == 0 {
			w.targets, w.histories = w.targets[:0], w.histories[:0]
		}
	}
	if c := p.delay.carriage(p.mandatory, blind, copies); len(w.targets) > 0 && (c != nil || p.delay.isSet()) {
		ch.replaceProperties(p.delay.properties(&w.view), c)
	}
}

// appendCarriage appends a carriage to an envelope that has no deaths; it belongs behind the properties, whose length is at the place before them.
func appendCarriage(env []byte, properties int, carriage []byte) []byte {
	length := env[properties-4 : properties]
	binary.BigEndian.PutUint32(length, binary.BigEndian.Uint32(length)|msg.HasCarriage)
	env = binary.BigEndian.AppendUint32(env, uint32(len(carriage)))
	return append(env, carriage...)
}
