package conformance

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestSingleActiveConsumer: one consumer gets all until it goes; then the next has what was left and what comes back. While there is one, nothing can be got.
func TestSingleActiveConsumer(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	for _, kind := range []string{"quorum", "classic"} {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, b)
			q, err := p.ch.QueueDeclare("sac-"+kind, true, false, false, false, amqp.Table{"x-queue-type": kind, "x-single-active-consumer": true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = newPair(t, b).ch.QueueDelete(q.Name, false, false, false) })
			other := newPair(t, b)
			qos(t, p.ch, 2, false)
			qos(t, other.ch, 2, false)
			first := consume(t, p.ch, q.Name, "first", false)
			second := consume(t, other.ch, q.Name, "second", false)
			p.numbered(t, q.Name, 4)
			got := receive(t, first, "1", "2")
			quiet(t, other.ch, q.Name, second)
			_, _, err = newPair(t, b).ch.Get(q.Name, true)
			closes(t, err, amqp.ResourceLocked, "RESOURCE_LOCKED - cannot obtain access to locked queue '"+q.Name+"' in vhost '/'. basic.get operations are not supported by quorum queues with single active consumer")
			_, err = newPair(t, b).ch.Consume(q.Name, "alone", false, true, false, false, nil)
			closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - queue '"+q.Name+"' in vhost '/' in exclusive use")

			ack(t, got[0])
			receive(t, first, "3")
			if err := p.ch.Close(); err != nil {
				t.Fatal(err)
			}
			rest := receive(t, second, "2*", "3*") // marked as redelivered
			ack(t, rest...)
			ack(t, receive(t, second, "4")...)
		})
	}
}
