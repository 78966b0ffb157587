package conformance

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestRecoverReturnsAll: basic.recover gives back what all consumers of the channel and basic.get brought, in its old order and flagged.
func TestRecoverReturnsAll(t *testing.T) {
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.numbered(t, queue, 5)
		get(t, p.ch, queue, "1")
		qos(t, p.ch, 2, false)
		c := consume(t, p.ch, queue, "c", false)
		receive(t, c, "2", "3")
		d := consume(t, p.ch, queue, "d", false)
		receive(t, d, "4", "5")
		for _, tag := range []string{"c", "d"} {
			if err := p.ch.Cancel(tag, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.ch.Recover(true); err != nil {
			t.Fatal(err)
		}
		drained(t, p.ch, queue, "1*", "2*", "3*", "4*", "5*")
	})
}

// TestTagsAreOfTheirChannel: what one channel was sent another cannot settle; the error ends that channel alone.
func TestTagsAreOfTheirChannel(t *testing.T) {
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.numbered(t, queue, 3)
		get(t, p.ch, queue, "1", "2", "3")
		second := harness.Channel(t, p.conn)
		closed := second.NotifyClose(make(chan *amqp.Error, 1))
		if err := second.Nack(0, true, true); err != nil { // nothing is outstanding: fine
			t.Fatal(err)
		}
		if err := second.Ack(2, false); err != nil {
			t.Fatal(err)
		}
		closes(t, next(t, closed, "close"), 406, "PRECONDITION_FAILED - unknown delivery tag 2")
		if err := p.ch.Nack(0, true, true); err != nil {
			t.Fatal(err)
		}
		drained(t, p.ch, queue, "1*", "2*", "3*")
	})
}

// TestConsumerTagIsFreeAfterCancel: a tag can be used again as soon as its consumer has ended, for another queue as well; nothing comes for the old one.
func TestConsumerTagIsFreeAfterCancel(t *testing.T) {
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		for range 20 {
			c := consume(t, p.ch, queue, "same", false)
			p.publish(t, queue, "m")
			d := receive(t, c, "m")
			if err := p.ch.Cancel("same", false); err != nil {
				t.Fatal(err)
			}
			ack(t, d...)
		}
		if err := p.ch.Cancel("nobody", false); err != nil {
			t.Error(err)
		}
		p.publish(t, queue, "left")
		drained(t, p.ch, queue, "left")
	})
}
