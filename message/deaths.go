package message

import (
	"slices"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
)

// Death is one entry of a message's deaths: how often it died in a queue for a reason.
type Death struct {
	// Queue is where it died, Reason why: rejected, expired, maxlen or delivery_limit.
	Queue, Reason string
	// Count is how often, TimeMillis when for the first time.
	Count      uint64
	TimeMillis int64
	// Exchange and Keys are what it had been published to: the routing key, then those of CC.
	Exchange string
	Keys     []string
	// Expiration is the property that it had, empty if it had none.
	Expiration string
}

// Deaths are all deaths of a message, the newest first, at most limits.DeathsMax. FirstQueue, FirstReason and FirstExchange tell of the very first.
type Deaths struct {
	FirstQueue, FirstReason, FirstExchange string
	List                                   []Death
}

// Add notes a death. One in the same queue for the same reason moves to the front and counts on; its time stays.
func (d *Deaths) Add(x Death) {
	if len(d.List) == 0 {
		d.FirstQueue, d.FirstReason, d.FirstExchange = x.Queue, x.Reason, x.Exchange
	}
	x.Count = 1
	for i := range d.List {
		if old := d.List[i]; old.Queue == x.Queue && old.Reason == x.Reason {
			old.Count++
			copy(d.List[1:i+1], d.List[:i])
			d.List[0] = old
			return
		}
	}
	d.List = append([]Death{x}, d.List[:min(len(d.List), limits.DeathsMax-1)]...)
}

// IsCycle tells whether a message that is sent to a queue goes in a circle that no consumer takes part in: it died there before, and since then nobody rejected it. RabbitMQ drops it.
func (d *Deaths) IsCycle(queue string) bool {
	for i := range d.List {
		switch x := &d.List[i]; {
		case x.Reason == ReasonRejected:
			return false
		case x.Queue == queue:
			return true
		}
	}
	return false
}

// DiedIn tells whether a message died in a queue.
func (d *Deaths) DiedIn(queue string) bool {
	return slices.ContainsFunc(d.List, func(x Death) bool { return x.Queue == queue })
}

// ReasonRejected is the reason of a death that a consumer decided.
const ReasonRejected = "rejected"

// Append appends the encoded deaths.
func (d *Deaths) Append(dst []byte) []byte {
	for _, s := range [...]string{d.FirstQueue, d.FirstReason, d.FirstExchange} {
		dst = codec.AppendString(dst, s)
	}
	dst = codec.AppendUvarint(dst, uint64(len(d.List)))
	for i := range d.List {
		x := &d.List[i]
		for _, s := range [...]string{x.Queue, x.Reason, x.Exchange, x.Expiration} {
			dst = codec.AppendString(dst, s)
		}
		dst = codec.AppendUvarint(dst, x.Count)
		dst = codec.AppendUvarint(dst, uint64(x.TimeMillis))
		dst = codec.AppendUvarint(dst, uint64(len(x.Keys)))
		for _, k := range x.Keys {
			dst = codec.AppendString(dst, k)
		}
	}
	return dst
}

// ParseDeaths decodes deaths; of none it makes none.
func ParseDeaths(src []byte) (Deaths, error) {
	var d Deaths
	if len(src) == 0 {
		return d, nil
	}
	r := codec.NewReader(src)
	d.FirstQueue, d.FirstReason, d.FirstExchange = r.String(), r.String(), r.String()
	for range r.Count(7) {
		x := Death{Queue: r.String(), Reason: r.String(), Exchange: r.String(), Expiration: r.String(), Count: r.Uvarint(), TimeMillis: int64(r.Uvarint())}
		for range r.Count(1) {
			x.Keys = append(x.Keys, r.String())
		}
		d.List = append(d.List, x)
	}
	if r.Err() != nil || r.Len() != 0 || len(d.List) > limits.DeathsMax {
		return Deaths{}, ErrMalformed
	}
	return d, nil
}

// Show adds the deaths to the headers that a client sees, in RabbitMQ's form: x-death, x-first-death-* and x-last-death-*. They take the place of what a publisher sent under these names.
func (d *Deaths) Show(headers amqp.Table) amqp.Table {
	if len(d.List) == 0 {
		return headers
	}
	list := make([]amqp.Value, 0, len(d.List))
	for i := range d.List {
		list = append(list, d.List[i].show())
	}
	last := &d.List[0]
	for _, f := range [...]struct {
		name string
		v    amqp.Value
	}{
		{"x-death", amqp.Array(list...)},
		{"x-first-death-exchange", amqp.Longstr(d.FirstExchange)},
		{"x-first-death-queue", amqp.Longstr(d.FirstQueue)},
		{"x-first-death-reason", amqp.Longstr(d.FirstReason)},
		{"x-last-death-exchange", amqp.Longstr(last.Exchange)},
		{"x-last-death-queue", amqp.Longstr(last.Queue)},
		{"x-last-death-reason", amqp.Longstr(last.Reason)},
	} {
		headers = headers.Set(f.name, f.v)
	}
	return headers
}

// show renders a death as RabbitMQ's table has it.
func (x *Death) show() amqp.Value {
	keys := make([]amqp.Value, 0, len(x.Keys))
	for _, k := range x.Keys {
		keys = append(keys, amqp.Longstr(k))
	}
	t := amqp.Table{
		{Key: "count", Value: amqp.Int64(int64(x.Count))},
		{Key: "reason", Value: amqp.Longstr(x.Reason)},
		{Key: "queue", Value: amqp.Longstr(x.Queue)},
		{Key: "time", Value: amqp.Timestamp(uint64(x.TimeMillis / 1000))},
		{Key: "exchange", Value: amqp.Longstr(x.Exchange)},
		{Key: "routing-keys", Value: amqp.Array(keys...)},
	}
	if x.Expiration != "" {
		t = append(t, amqp.Field{Key: "original-expiration", Value: amqp.Longstr(x.Expiration)})
	}
	return amqp.Nested(t)
}
