package broker

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp"
)

// TestDelayOfHeaders: the first of a header counts, wherever it stands; a positive x-delay counts before a time; what is stored has each x-delay negated, the others as they were and in their order.
func TestDelayOfHeaders(t *testing.T) {
	wait := func(n int32) amqp.Field { return amqp.Field{Key: "x-delay", Value: amqp.Int32(n)} }
	at := func(n int64) amqp.Field { return amqp.Field{Key: "x-opt-delivery-time", Value: amqp.Int64(n)} }
	other := amqp.Field{Key: "a", Value: amqp.Longstr("b")}
	for _, c := range []struct {
		name   string
		in     amqp.Table
		millis uint64
		until  bool
		stored amqp.Table
	}{
		{"last", amqp.Table{other, wait(10)}, 10, false, amqp.Table{other, wait(-10)}},
		{"between", amqp.Table{other, wait(10), other}, 10, false, amqp.Table{other, wait(-10), other}},
		{"twice", amqp.Table{wait(10), other, wait(20)}, 10, false, amqp.Table{wait(-10), other, wait(-10)}},
		{"twice, the first is none", amqp.Table{wait(-5), wait(20)}, 0, false, amqp.Table{wait(-5), wait(20)}},
		{"a time before it", amqp.Table{at(99), wait(10)}, 10, false, amqp.Table{at(99), wait(-10)}},
		{"a time behind none", amqp.Table{wait(0), other, at(99), at(100)}, 99, true, amqp.Table{wait(0), other, at(99), at(100)}},
	} {
		var p amqp.Properties
		p.SetHeaders(c.in)
		p.SetMessageID("id")
		var v amqp.PropertyView
		if err := v.Scan(p.Append(nil)); err != nil {
			t.Fatal(err)
		}
		raw, _ := v.Headers()
		d, err := delayOf(raw)
		if err != nil || d.millis != c.millis || d.until != c.until {
			t.Errorf("%s: it waits %+v, %v", c.name, d, err)
		}
		p.SetHeaders(c.stored)
		if got, want := string(d.properties(&v)), string(p.Append(nil)); got != want {
			t.Errorf("%s: stored are %q, want %q", c.name, got, want)
		}
	}
}

// TestDelayedAtOnceOrByAnother: a message that is to be later and at once finds no consumer, though there is one, in a queue and in a delayed exchange; one in somebody else's name is refused and waits nowhere.
func TestDelayedAtOnceOrByAnother(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "x", Type: "x-delayed-message", Arguments: amqp.Table{{Key: "x-delayed-type", Value: amqp.Longstr("fanout")}}}, "exchange.declare-ok")
	r.call(1, &amqp.QueueBind{Queue: "q", Exchange: "x"}, "queue.bind-ok")
	b.open().consume("q", "c", false)
	later := headers(amqp.Field{Key: "x-delay", Value: amqp.Int32(60_000)})
	r.confirm()
	for i, to := range [][2]string{{"", "q"}, {"x", "k"}} {
		r.write(message(1, to[0], to[1], []byte("a"), later, immediate))
		r.expect(fmt.Sprintf(`basic.return reply-code=313 reply-text="NO_CONSUMERS" exchange=%q routing-key=%q`, to[0], to[1]))
		r.content()
		r.expect(fmt.Sprintf("basic.ack delivery-tag=%d", i+1))
	}
	view := b.host.Catalogue().View
	delayed := func() uint64 {
		inQueue, _ := b.host.QueueStatus(view.Queue("/", "q").ID)
		inExchange, _ := b.host.QueueStatus(view.Relay("/", "x").ID)
		return inQueue.Counts.Delayed + inExchange.Counts.Delayed
	}
	if n := delayed(); n != 0 {
		t.Errorf("%d wait", n)
	}
	for i, to := range [][2]string{{"", "q"}, {"x", "k"}} {
		r.write(message(1, to[0], to[1], []byte("a"), later, func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetUserID("guest") }))
		r.expect(fmt.Sprintf("basic.ack delivery-tag=%d", i+3))
	}
	if n := delayed(); n != 2 {
		t.Errorf("%d wait, want those in one's own name", n)
	}
	r.write(message(1, "x", "k", []byte("a"), later, func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetUserID("somebody") }))
	r.expect(`channel.close reply-code=406 reply-text="PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was 'guest'" class-id=60 method-id=40`)
	if n := delayed(); n != 2 {
		t.Errorf("%d wait, want those in one's own name", n)
	}
}
