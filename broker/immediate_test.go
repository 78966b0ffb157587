package broker

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp"
)

func immediate(m *amqp.BasicPublish, _ *amqp.Properties) { m.Immediate = true }

// TestImmediate: a message that no consumer can have at once is returned and stored nowhere; the confirm comes behind.
func TestImmediate(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	for _, q := range []string{"q", "r"} {
		r.declare(q)
		r.call(1, &amqp.QueueBind{Queue: q, Exchange: "amq.fanout"}, "queue.bind-ok")
	}
	returned := func(exchange, key, body string) {
		t.Helper()
		r.expect(fmt.Sprintf(`basic.return reply-code=313 reply-text="NO_CONSUMERS" exchange=%q routing-key=%q`, exchange, key))
		if _, got := r.content(); string(got) != body {
			t.Fatalf("returned %q, want %q", got, body)
		}
	}
	// Without confirms.
	r.write(message(1, "", "q", []byte("a"), immediate))
	returned("", "q", "a")
	r.call(1, &amqp.ConfirmSelect{}, "confirm.select-ok")
	r.write(message(1, "", "q", []byte("b"), immediate))
	returned("", "q", "b")
	r.expect("basic.ack delivery-tag=1")
	// To many queues: once, if none takes it.
	r.write(message(1, "amq.fanout", "k", []byte("c"), immediate))
	returned("amq.fanout", "k", "c")
	r.expect("basic.ack delivery-tag=2")
	// To no queue: for that reason if that is asked for.
	r.write(message(1, "", "none", []byte("d"), immediate))
	returned("", "none", "d")
	r.expect("basic.ack delivery-tag=3")
	r.write(message(1, "", "none", []byte("e"), immediate, mandatory))
	r.expect(`basic.return reply-code=312 reply-text="NO_ROUTE" exchange="" routing-key="none"`)
	r.content()
	r.expect("basic.ack delivery-tag=4")
	r.call(1, &amqp.QueueDeclare{Queue: "q", Passive: true}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)

	// One queue that can hand it out is enough; the others do not keep it.
	other := b.open()
	other.call(1, &amqp.BasicQos{PrefetchCount: 1}, "basic.qos-ok")
	other.consume("q", "c", false)
	r.write(message(1, "amq.fanout", "k", []byte("f"), immediate))
	other.expectDelivery("f", 1, false)
	r.expect("basic.ack delivery-tag=5")
	r.call(1, &amqp.QueueDeclare{Queue: "r", Passive: true}, `queue.declare-ok queue="r" message-count=0 consumer-count=0`)
	// A consumer that has as much as it may take is none.
	r.write(message(1, "", "q", []byte("g"), immediate))
	returned("", "q", "g")
	r.expect("basic.ack delivery-tag=6")
}

// TestReturnsComeBeforeConfirms: of a thousand publishes each that reaches no queue is returned before it is confirmed, and all are.
func TestReturnsComeBeforeConfirms(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.call(1, &amqp.ConfirmSelect{}, "confirm.select-ok")
	const n = 1000
	go func() {
		for i := 1; i <= n; i++ {
			key := "q"
			if i%3 == 0 {
				key = "none"
			}
			r.write(message(1, "", key, []byte(fmt.Sprint(i)), mandatory))
		}
	}()
	returned := make(map[int]bool)
	confirmed := make(map[int]bool)
	for last := 0; len(confirmed) < n; {
		switch m := r.method().(type) {
		case *amqp.BasicReturn:
			_, body := r.content()
			var i int
			if _, err := fmt.Sscan(string(body), &i); err != nil || i%3 != 0 || m.ReplyCode != 312 || returned[i] {
				t.Fatalf("returned %q: %v", body, m)
			}
			returned[i] = true
		case *amqp.BasicAck:
			from := int(m.DeliveryTag)
			if m.Multiple {
				from = last + 1
			}
			for i := from; i <= int(m.DeliveryTag); i++ {
				if i%3 == 0 && !returned[i] {
					t.Fatalf("%d is confirmed before it is returned", i)
				}
				confirmed[i] = true
			}
			for confirmed[last+1] {
				last++
			}
		default:
			t.Fatalf("got %v", m)
		}
	}
	if len(returned) != n/3 {
		t.Errorf("%d messages were returned", len(returned))
	}
}
