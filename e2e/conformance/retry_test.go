package conformance

import (
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestDelayedRetry: what fails waits before it comes again, longer each time; what is only given back comes at once.
func TestDelayedRetry(t *testing.T) {
	t.Parallel()
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

// TestRetrySchedule: a list says how long each try waits, also for what is given back without a failure; the last one is for all further tries. It comes by argument, as a list or as text, or by policy. A
// multiplier does without a list.
func TestRetrySchedule(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	for name, arguments := range map[string]amqp.Table{
		"list":       {"x-retry-schedule": []any{int32(200), int64(600)}},
		"text":       {"x-queue-type": "quorum", "x-retry-schedule": "200ms, 600ms"},
		"policy":     {"x-queue-type": "quorum"},
		"multiplier": {"x-delayed-retry-min": 200, "x-delayed-retry-multiplier": 3, "x-delayed-retry-max": 600},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, b)
			if name == "policy" {
				policy := map[string]any{"pattern": "^schedule-policy$", "definition": map[string]any{"retry-schedule": []int{200, 600}, "max-length": 1}}
				if a := b.API(t, http.MethodPut, harness.Path("policies", "/", "schedule"), policy); a.Status != http.StatusCreated {
					t.Fatalf("policy: %d %s", a.Status, a.Body)
				}
			}
			q, err := p.ch.QueueDeclare("schedule-"+name, true, false, false, false, arguments)
			if err != nil {
				t.Fatal(err)
			}
			p.publish(t, q.Name, "0")
			p.publish(t, q.Name, "m")
			if name == "policy" { // that the queue follows it is seen by its length
				b.AwaitCount(t, q.Name, 1)
			} else {
				drain := get(t, p.other, q.Name, "0")
				ack(t, drain...)
			}
			deliveries := consume(t, p.ch, q.Name, "c", false)
			d := receive(t, deliveries, "m")[0]
			for i, least := range []time.Duration{200 * time.Millisecond, 600 * time.Millisecond, 600 * time.Millisecond} {
				start := time.Now()
				if err := d.Nack(false, true); err != nil {
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
