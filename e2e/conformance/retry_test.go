package conformance

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestDelayedRetry: what fails waits before it comes again, longer each time; what is only given back comes at once.
func TestDelayedRetry(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	for _, kind := range []string{"quorum", "classic"} {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, b)
			q, err := p.ch.QueueDeclare("retry-"+kind, true, false, false, false, amqp.Table{
				"x-queue-type": kind, "x-delayed-retry-type": "failed", "x-delayed-retry-min": 300, "x-delayed-retry-max": 500,
			})
			if err != nil {
				t.Fatal(err)
			}
			deliveries := consume(t, p.ch, q.Name, "c", false)
			p.publish(t, q.Name, "m")
			d := receive(t, deliveries, "m")[0]
			if err := d.Nack(false, true); err != nil {
				t.Fatal(err)
			}
			d = receive(t, deliveries, "m*")[0]
			for i, least := range []time.Duration{300 * time.Millisecond, 500 * time.Millisecond} {
				start := time.Now()
				if err := d.Reject(true); err != nil {
					t.Fatal(err)
				}
				d = receive(t, deliveries, "m*")[0]
				if waited := time.Since(start); waited < least {
					t.Errorf("try %d came after %v, want %v at least", i+1, waited, least)
				}
			}
			ack(t, d)
		})
	}
}
