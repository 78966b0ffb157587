package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// relaying are the kinds of exchanges that messages pass by a hidden queue, with what has them do so.
var relaying = map[string]struct {
	args   amqp.Table
	header func(n int) amqp.Table
}{
	"x-message-deduplication": {amqp.Table{"x-cache-size": 100_000}, func(n int) amqp.Table { return amqp.Table{"x-deduplication-header": n} }},
	"x-delayed-message":       {amqp.Table{"x-delayed-type": "fanout"}, func(int) amqp.Table { return amqp.Table{"x-delay": 1} }},
}

// TestDeletedExchangeKeepsItsWord: what an exchange confirmed and is about to lead on arrives though the exchange goes, by a delete over AMQP or HTTP or with its last binding, and the queue is full.
func TestDeletedExchangeKeepsItsWord(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	m := &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	for kind, how := range relaying {
		for by, remove := range map[string]func(x, q string){
			"amqp":   func(x, _ string) { settled(t, m.ch.ExchangeDelete(x, false, false)) },
			"unbind": func(x, q string) { settled(t, m.ch.QueueUnbind(q, "", x, nil)) },
			"http": func(x, _ string) {
				if a := b.API(t, http.MethodDelete, harness.Path("exchanges", "/", x), nil); a.Status != http.StatusNoContent {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			},
		} {
			const many, fit = 8, 2
			x := kind + by
			settled(t, m.ch.ExchangeDeclare(x, kind, true, by == "unbind", false, false, how.args))
			q := m.declare(t, "full"+x, amqp.Table{"x-max-length": fit, "x-overflow": "reject-publish"})
			settled(t, m.ch.QueueBind(q, "", x, false, nil))
			for n := range many {
				m.sendTo(t, x, amqp.Publishing{Headers: how.header(n), Body: fmt.Append(nil, n)})
			}
			m.holds(t, q, fit)
			time.Sleep(50 * time.Millisecond) // by then the last delayed one is due
			remove(x, q)
			closes(t, m.broker.Channel(t).ExchangeDeclarePassive(x, kind, true, false, false, false, nil), amqp.NotFound, fmt.Sprintf("NOT_FOUND - no exchange '%s' in vhost '/'", x))
			for n := range many {
				if d := m.acked(t, q); string(d.Body) != fmt.Sprint(n) {
					t.Errorf("%s: got %q, want %d", x, d.Body, n)
				}
			}
			m.holds(t, q, 0)
		}
	}
}

// TestExchangeDeletedUnderItsPublisher: a deduplicating exchange is deleted while messages come. All that were confirmed are in the queue.
func TestExchangeDeletedUnderItsPublisher(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	m := &mortal{newPair(t, b), harness.Quorum}
	const kind = "x-message-deduplication"
	for round := range 5 {
		settled(t, m.ch.ExchangeDeclare("once", kind, true, false, false, false, relaying[kind].args))
		q := m.declare(t, fmt.Sprint("target", round), nil)
		settled(t, m.ch.QueueBind(q, "", "once", false, nil))
		ch := b.Channel(t)
		settled(t, ch.Confirm(false))
		const enough = 500
		running, confirmed := make(chan struct{}), make(chan int)
		go func() {
			var sent []*amqp.DeferredConfirmation
			for n := 0; ; n++ {
				c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "once", "", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: relaying[kind].header(n)})
				if err != nil || ch.IsClosed() {
					break
				}
				if sent = append(sent, c); n == enough {
					close(running)
				}
				if behind := n - 100; behind >= 0 {
					select {
					case <-sent[behind].Done():
					case <-t.Context().Done():
					}
				}
			}
			got := 0
			for _, c := range sent {
				if c.Acked() {
					got++
				}
			}
			confirmed <- got
		}()
		<-running
		settled(t, m.ch.ExchangeDelete("once", false, false))
		got := <-confirmed
		harness.Eventually(t, eventTimeout, func() error {
			if n := m.count(t, q); n < got {
				return fmt.Errorf("%d messages of %d that were confirmed", n, got)
			}
			return nil
		})
		if got < enough/2 {
			t.Errorf("only %d were confirmed", got)
		}
	}
}
