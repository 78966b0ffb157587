package conformance

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// counted wants that a queue has counted so many of something by now.
func (p *pair) counted(t *testing.T, queue, what string, want int) {
	t.Helper()
	var q struct {
		Stats map[string]any `json:"message_stats"`
	}
	p.broker.Get(t, harness.Path("queues", "/", queue), &q)
	if q.Stats[what] != float64(want) {
		t.Errorf("%s has counted %v %s, want %d", queue, q.Stats[what], what, want)
	}
}

// priorities tells how many ready messages of each priority a queue has.
func (p *pair) priorities(t *testing.T, queue string) map[string]int {
	t.Helper()
	var q struct {
		Status struct {
			Lengths map[string]int `json:"priority_lengths"`
		} `json:"backing_queue_status"`
	}
	p.broker.Get(t, harness.Path("queues", "/", queue), &q)
	maps.DeleteFunc(q.Status.Lengths, func(_ string, n int) bool { return n == 0 })
	return q.Status.Lengths
}

// hasPriorities waits until a queue has so many ready messages of each priority.
func (p *pair) hasPriorities(t *testing.T, queue string, want map[string]int) {
	t.Helper()
	harness.Eventually(t, eventTimeout, func() error {
		if got := p.priorities(t, queue); !maps.Equal(got, want) {
			return fmt.Errorf("%s has %v by priority, want %v", queue, got, want)
		}
		return nil
	})
}

// policy puts a policy on one queue alone, or takes it away if it says nothing.
func (p *pair) policy(t *testing.T, queue string, definition map[string]any) {
	t.Helper()
	path := harness.Path("policies", "/", queue)
	if definition == nil {
		if a := p.broker.API(t, http.MethodDelete, path, nil); a.Status != http.StatusNoContent {
			t.Fatalf("policy: %d %s", a.Status, a.Body)
		}
		return
	}
	if a := p.broker.API(t, http.MethodPut, path, map[string]any{"pattern": "^" + queue + "$", "definition": definition}); a.Status != http.StatusCreated {
		t.Fatalf("policy: %d %s", a.Status, a.Body)
	}
}

// urgent publishes a message with a priority.
func (p *pair) urgent(t *testing.T, queue, body string, priority uint8) {
	t.Helper()
	m := amqp.Publishing{DeliveryMode: amqp.Persistent, Priority: priority, Body: []byte(body)}
	if err := p.ch.PublishWithContext(t.Context(), "", queue, true, false, m); err != nil {
		t.Fatal(err)
	}
}

var allKinds = []string{harness.Quorum, harness.Classic, transient}

// TestPrioritiesByPolicy: a policy raises the highest priority of a queue that is there. Messages keep what they got; what comes when the policy is gone gets what the queue was declared with.
func TestPrioritiesByPolicy(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			m := &mortal{newPair(t, b), kind}
			q := m.declare(t, "highest", amqp.Table{"x-max-priority": 2})
			sent := 0
			// capped publishes at the highest priority of all until that becomes another one: the queue follows a policy soon, but not at once.
			capped := func(priority string) {
				t.Helper()
				harness.Eventually(t, eventTimeout, func() error {
					before := m.priorities(t, q)
					m.urgent(t, q, "x", 200)
					sent++
					m.holds(t, q, sent)
					if after := m.priorities(t, q); after[priority] != before[priority]+1 {
						return fmt.Errorf("%v after %v, want one more of priority %s", after, before, priority)
					}
					return nil
				})
			}
			capped("2")
			m.policy(t, q, map[string]any{"max-priority": 7})
			capped("7")
			m.policy(t, q, nil)
			kept := m.priorities(t, q)["7"]
			capped("2")
			if now := m.priorities(t, q)["7"]; now < kept {
				t.Errorf("%d messages of priority 7 after %d", now, kept)
			}
		})
	}
}

// TestAgingByPolicy: as long as something more urgent is there the least urgent message waits. Under a policy with aging it gets its turn; without it, no more.
func TestAgingByPolicy(t *testing.T) {
	t.Parallel()
	const agingMillis = 40
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	for _, kind := range allKinds {
		t.Run(kind, func(t *testing.T) {
			m := &mortal{newPair(t, b), kind}
			q := m.declare(t, "aging", amqp.Table{"x-max-priority": 5})
			for range 5 {
				m.urgent(t, q, "high", 5)
			}
			m.holds(t, q, 5)
			// served tells whether low messages get their turn within the time in which they would age by twice as many priorities as there are, at least; each that goes is replaced by an urgent one.
			served := func() bool {
				t.Helper()
				for began := time.Now(); time.Since(began) < 10*agingMillis*time.Millisecond; time.Sleep(agingMillis * time.Millisecond / 4) {
					d := m.acked(t, q)
					if string(d.Body) == "low" {
						return true
					}
					m.urgent(t, q, "high", 5)
				}
				return false
			}
			m.urgent(t, q, "low", 0)
			m.holds(t, q, 6)
			if served() {
				t.Fatal("a low message went before higher ones")
			}
			m.policy(t, q, map[string]any{"priority-aging-ms": agingMillis})
			harness.Eventually(t, eventTimeout, func() error {
				if !served() {
					return fmt.Errorf("the low message starves")
				}
				return nil
			})
			m.policy(t, q, nil)
			harness.Eventually(t, eventTimeout, func() error {
				m.urgent(t, q, "low", 0)
				if served() {
					return fmt.Errorf("low messages age though no policy says so")
				}
				return nil
			})
		})
	}
}

// TestRetryByPolicy: a policy has what comes back to a queue that is there wait, whatever key says so, and when it is gone nothing waits that comes back then.
func TestRetryByPolicy(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	for name, definition := range map[string]map[string]any{
		"type":       {"delayed-retry-type": "all", "delayed-retry-min": 600_000},
		"multiplier": {"delayed-retry-min": 600_000, "delayed-retry-multiplier": 2, "delayed-retry-max": 700_000, "delayed-retry-jitter": 10},
		"schedule":   {"retry-schedule": []int{600_000}},
	} {
		for _, kind := range allKinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				m := &mortal{newPair(t, b), kind}
				q := m.declare(t, "retry", nil)
				// waits gives messages back until it is seen that they wait, or that they do not.
				waits := func(want bool) {
					t.Helper()
					harness.Eventually(t, eventTimeout, func() error {
						if m.count(t, q) == 0 {
							m.publish(t, q, "x")
						}
						before := m.sleeping(t, q)
						settled(t, m.arrives(t, q).Nack(false, true))
						harness.Eventually(t, eventTimeout, func() error { // the return is no request: it takes a moment
							if n := m.count(t, q) + m.sleeping(t, q) - before; n != 1 {
								return errCount{n, 1}
							}
							return nil
						})
						if got := m.sleeping(t, q) > before; got != want {
							return fmt.Errorf("what came back waits: %t, want %t", got, want)
						}
						return nil
					})
				}
				waits(false)
				m.policy(t, q, definition)
				waits(true)
				m.policy(t, q, nil)
				waits(false)
			})
		}
	}
}

// sleeping tells how many messages of a queue are to be ready later.
func (p *pair) sleeping(t *testing.T, queue string) int {
	t.Helper()
	var q struct {
		Delayed int `json:"messages_delayed"`
	}
	p.broker.Get(t, harness.Path("queues", "/", queue), &q)
	return q.Delayed
}
