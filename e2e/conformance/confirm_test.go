package conformance

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestConfirms holds what a publisher is told.
func TestConfirms(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	t.Run("unroutable", func(t *testing.T) { unroutable(t, newPair(t, b)) })
	t.Run("every publish once", func(t *testing.T) { each(t, b, everyPublishOnce) })
	t.Run("confirm.select twice", func(t *testing.T) {
		p := newPair(t, b)
		for range 2 {
			if err := p.ch.Confirm(false); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("confirms before the end of the channel", func(t *testing.T) { each(t, b, confirmsBeforeTheEnd) })
	t.Run("a queue deleted under load", func(t *testing.T) { each(t, b, deletedUnderLoad) })
}

// unroutable is returned if mandatory, before its confirm; otherwise it is confirmed and gone.
func unroutable(t *testing.T, p *pair) {
	events := make(chan string, 10)
	// Unbuffered channels and one reader keep the order in which the frames came.
	returns, confirms := p.ch.NotifyReturn(make(chan amqp.Return)), p.ch.NotifyPublish(make(chan amqp.Confirmation))
	go func() {
		for {
			select {
			case r, ok := <-returns:
				if !ok {
					return
				}
				events <- fmt.Sprintf("return %d %s %q %s %s", r.ReplyCode, r.ReplyText, r.Exchange, r.RoutingKey, r.Body)
			case c, ok := <-confirms:
				if !ok {
					return
				}
				events <- fmt.Sprintf("confirm %d %t", c.DeliveryTag, c.Ack)
			}
		}
	}()
	if err := p.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, mandatory := range []bool{true, false} {
		err := p.ch.PublishWithContext(t.Context(), "", "no-such-queue", mandatory, false, amqp.Publishing{Body: []byte("body"), MessageId: "x"})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`return 312 NO_ROUTE "" no-such-queue body`, "confirm 1 true", "confirm 2 true"} {
		if got := next(t, events, want); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func everyPublishOnce(t *testing.T, p *pair, queue string) {
	const count = 5000
	confirms := p.ch.NotifyPublish(make(chan amqp.Confirmation, count))
	if err := p.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if err := p.ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		if c := next(t, confirms, "confirm"); c.DeliveryTag != uint64(i+1) || !c.Ack {
			t.Fatalf("confirm %+v, want tag %d", c, i+1)
		}
	}
	if n := p.broker.Count(t, queue); n != count {
		t.Errorf("%d messages of %d", n, count)
	}
	deliveries := consume(t, p.other, queue, "", true)
	for i := range count {
		if d := next(t, deliveries, "delivery"); string(d.Body) != fmt.Sprint(i) || d.Redelivered {
			t.Fatalf("delivery %d is %s", i, shown(d))
		}
	}
}

// confirmsBeforeTheEnd closes the channel behind publishes: all are stored.
func confirmsBeforeTheEnd(t *testing.T, p *pair, queue string) {
	p.unlike(t, queue, "the last publishes before channel.close may be lost")
	const count = 1000
	if err := p.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for range count {
		if err := p.ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.ch.Close(); err != nil {
		t.Fatal(err)
	}
	p.broker.AwaitCount(t, queue, count)
}

// deletedUnderLoad deletes the queue while messages are on their way: every publish is answered all the same.
func deletedUnderLoad(t *testing.T, p *pair, queue string) {
	p.unlike(t, queue, "publishes to a deleted queue are not answered")
	const count = 2000
	confirms := p.ch.NotifyPublish(make(chan amqp.Confirmation, count))
	if err := p.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		if err := p.ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: make([]byte, 500)}); err != nil {
			t.Fatal(err)
		}
		if i == count/2 {
			if _, err := p.other.QueueDelete(queue, false, false, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range count {
		if c := next(t, confirms, fmt.Sprintf("answer to publish %d", i+1)); !c.Ack {
			t.Fatalf("publish %d is nacked: a deleted queue counts as confirmed", c.DeliveryTag)
		}
	}
}
