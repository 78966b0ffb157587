package conformance

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestRestart holds what survives the end of the broker, clean or not, and what does not.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *harness.Broker){
		"SIGTERM": func(t *testing.T, b *harness.Broker) { b.Terminate(t) },
		"SIGKILL": func(_ *testing.T, b *harness.Broker) { b.Kill9() },
	} {
		t.Run(name, func(t *testing.T) {
			b := harness.Start(t, harness.Options{})
			beforeRestart(t, newPair(t, b))
			for _, flag := range []string{"", "*"} {
				end(t, b)
				b.Launch(t)
				afterRestart(t, b, flag)
			}
		})
	}
}

func beforeRestart(t *testing.T, p *pair) {
	t.Helper()
	for _, durable := range []bool{true, false} {
		name := map[bool]string{true: "durable", false: "transient"}[durable]
		if err := p.ch.ExchangeDeclare(name, amqp.ExchangeTopic, durable, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.ch.QueueDeclare(name, durable, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		p.publish(t, name, "kept 1", "kept 2")
	}
	if err := p.ch.QueueBind("durable", "a.#", "durable", false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ch.QueueDeclare("deleted", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	p.publish(t, "deleted", "gone")
	if _, err := p.ch.QueueDelete("deleted", false, false, false); err != nil {
		t.Fatal(err)
	}
	// Same name, other queue: nothing of the former one is in it.
	if _, err := p.ch.QueueDeclare("deleted", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ch.QueueDeclare("auto-delete", true, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	consume(t, p.ch, "auto-delete", "", true)
}

// afterRestart wants what is durable. flag is "*" when the messages were delivered before.
func afterRestart(t *testing.T, b *harness.Broker, flag string) {
	t.Helper()
	ch := b.Channel(t)
	get(t, ch, "durable", "kept 1"+flag, "kept 2"+flag)
	if err := ch.Nack(2, true, true); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, b.Channel(t), "durable", "a.b", []byte("routed"))
	if err := get(t, ch, "durable", "kept 1*", "kept 2*", "routed")[2].Ack(false); err != nil {
		t.Fatal(err)
	}
	drained(t, ch, "deleted")
	_, err := b.Channel(t).QueueDeclarePassive("transient", false, false, false, false, nil)
	closes(t, err, amqp.NotFound, "NOT_FOUND - no queue 'transient' in vhost '/'")
	err = b.Channel(t).ExchangeDeclarePassive("transient", amqp.ExchangeTopic, false, false, false, false, nil)
	closes(t, err, amqp.NotFound, "NOT_FOUND - no exchange 'transient' in vhost '/'")
	// The consumer of the auto-delete queue ended with the broker, and the queue with its consumer. RabbitMQ does that at a clean stop only.
	harness.Eventually(t, eventTimeout, func() error {
		if n, err := b.TryCount("auto-delete"); err == nil {
			return fmt.Errorf("the auto-delete queue is still there, with %d messages", n)
		}
		return nil
	})
	// The acknowledgement went out before this is answered.
	if _, err := ch.QueueDeclarePassive("durable", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}
