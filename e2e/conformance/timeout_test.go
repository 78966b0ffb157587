package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestSingleActiveTimeout (K16): of a queue with a single active consumer two consumers keep what they get for too long. Each is cancelled, keeps its channel, and may settle late; the next one takes over.
// When all have timed out a healthy one gets everything within two seconds.
func TestSingleActiveTimeout(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	for _, kind := range []string{"quorum", "classic", "transient"} {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, b)
			arguments := amqp.Table{"x-single-active-consumer": true}
			if kind != "transient" {
				arguments["x-queue-type"] = kind
			}
			q, err := p.ch.QueueDeclare("patience-"+kind, kind != "transient", false, false, false, arguments)
			if err != nil {
				t.Fatal(err)
			}
			var late []amqp.Delivery
			var slow []*amqp.Channel
			var cancelled []<-chan string
			for i := range 2 {
				ch := b.Channel(t)
				slow = append(slow, ch)
				qos(t, ch, 2, false)
				cancelled = append(cancelled, ch.NotifyCancel(make(chan string, 1)))
				tag := fmt.Sprintf("slow-%d", i)
				deliveries, err := ch.Consume(q.Name, tag, false, false, false, false, amqp.Table{"x-consumer-timeout": 1000})
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					p.numbered(t, q.Name, 10)
					late = append(late, receive(t, deliveries, "1", "2")...)
					continue
				}
				late = append(late, receive(t, deliveries, "1*", "2*")...)
			}
			for i, c := range cancelled {
				if got, want := next(t, c, "a cancel"), fmt.Sprintf("slow-%d", i); got != want {
					t.Errorf("cancelled %q, want %q", got, want)
				}
			}
			ack(t, late...)
			healthy := consume(t, p.ch, q.Name, "healthy", false)
			start := time.Now()
			ack(t, receive(t, healthy, "1*", "2*", "3", "4", "5", "6", "7", "8", "9", "10")...)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("the healthy consumer had everything after %v", took)
			}
			for _, ch := range slow {
				if _, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil); err != nil {
					t.Errorf("the channel of who was late: %v", err)
				}
			}
			if left, err := b.Channel(t).QueueDelete(q.Name, false, false, false); err != nil || left != 0 {
				t.Errorf("deleted with %d messages, %v", left, err)
			}
		})
	}
}

// TestTimeoutByPolicy: a policy gives a queue a timeout, and takes it away again. What comes back was not counted as a failure, and stands where it stood.
func TestTimeoutByPolicy(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	each(t, b, func(t *testing.T, p *pair, queue string) {
		// follow has the queue follow a policy. That it does is seen by its length.
		follow := func(timeout, length int, bodies ...string) {
			t.Helper()
			policy := map[string]any{"pattern": "^" + queue + "$", "definition": map[string]any{"consumer-timeout": timeout, "max-length": length}}
			if a := b.API(t, http.MethodPut, harness.Path("policies", "/", queue), policy); a.Status != http.StatusCreated && a.Status != http.StatusNoContent {
				t.Fatalf("policy: %d %s", a.Status, a.Body)
			}
			p.publish(t, queue, bodies...)
			b.AwaitCount(t, queue, length)
		}
		follow(700, 3, "0", "1", "2", "3")
		qos(t, p.ch, 2, false)
		cancelled := p.ch.NotifyCancel(make(chan string, 1))
		receive(t, consume(t, p.ch, queue, "c", false), "1", "2")
		next(t, cancelled, "a cancel")
		for _, d := range get(t, p.other, queue, "1*", "2*", "3") {
			if d.Headers["x-delivery-count"] != nil {
				t.Errorf("%s counts as a failure: %v", d.Body, d.Headers)
			}
			ack(t, d)
		}
		p.counted(t, queue, "timed_out", 2)
		follow(0, 1, "4", "5")
		kept := receive(t, consume(t, p.ch, queue, "c", false), "5")
		time.Sleep(1500 * time.Millisecond)
		if _, ok, err := p.other.Get(queue, true); ok || err != nil {
			t.Errorf("it came back without a timeout: %t, %v", ok, err)
		}
		ack(t, kept...)
	})
}
