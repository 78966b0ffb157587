package conformance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// eventTimeout bounds the wait for what the broker sends by itself.
const eventTimeout = 10 * time.Second

// pair is two connections of one test, with a channel each.
type pair struct {
	broker *harness.Broker
	conn   *amqp.Connection
	ch     *amqp.Channel
	other  *amqp.Channel // on another connection
}

// each runs a test for every durable queue type and for a transient queue.
func each(t *testing.T, b *harness.Broker, test func(t *testing.T, p *pair, queue string)) {
	for _, kind := range []string{harness.Classic, harness.Quorum, "transient"} {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, b)
			queue := strings.ReplaceAll(t.Name(), "/", "-")
			b.DropQueue(t, queue)
			if kind != "transient" {
				harness.Declare(t, p.ch, queue, kind)
			} else if _, err := p.ch.QueueDeclare(queue, false, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			test(t, p, queue)
		})
	}
}

// unlike skips what RabbitMQ's own quorum queues do in another way than its classic ones, when the test runs against it. Warren has one behaviour.
func (p *pair) unlike(t *testing.T, queue, why string) {
	t.Helper()
	if p.broker.External() && strings.HasSuffix(queue, "-"+harness.Quorum) {
		t.Skip("RabbitMQ 3.10: " + why)
	}
}

func newPair(t *testing.T, b *harness.Broker) *pair {
	t.Helper()
	conn := b.Connect(t)
	return &pair{broker: b, conn: conn, ch: harness.Channel(t, conn), other: b.Channel(t)}
}

// publish stores messages, confirmed.
func (p *pair) publish(t *testing.T, queue string, bodies ...string) {
	t.Helper()
	conn := p.broker.Connect(t)
	defer conn.Close()
	var raw [][]byte
	for _, b := range bodies {
		raw = append(raw, []byte(b))
	}
	harness.PublishConfirmed(t, harness.Channel(t, conn), "", queue, raw...)
}

// get wants certain messages next, without acknowledgement, each as "body" or "body*" if it is redelivered.
func get(t *testing.T, ch *amqp.Channel, queue string, want ...string) []amqp.Delivery {
	t.Helper()
	var all []amqp.Delivery
	for _, w := range want {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			t.Fatalf("get from %s: %t, %v; want %s", queue, ok, err, w)
		}
		if got := shown(d); got != w {
			t.Errorf("got %s, want %s", got, w)
		}
		all = append(all, d)
	}
	return all
}

func shown(d amqp.Delivery) string {
	if d.Redelivered {
		return string(d.Body) + "*"
	}
	return string(d.Body)
}

// drained gets and acknowledges certain messages, and wants the queue empty afterwards.
func drained(t *testing.T, ch *amqp.Channel, queue string, want ...string) {
	t.Helper()
	for _, d := range get(t, ch, queue, want...) {
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	if d, ok, err := ch.Get(queue, true); err != nil || ok {
		t.Errorf("queue %s is not empty: %s, %v", queue, d.Body, err)
	}
}

// consume starts a consumer.
func consume(t *testing.T, ch *amqp.Channel, queue, tag string, noAck bool) <-chan amqp.Delivery {
	t.Helper()
	deliveries, err := ch.Consume(queue, tag, noAck, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}

// receive wants certain deliveries.
func receive(t *testing.T, deliveries <-chan amqp.Delivery, want ...string) []amqp.Delivery {
	t.Helper()
	var all []amqp.Delivery
	for _, w := range want {
		d := harness.Receive(t, deliveries)
		if got := shown(d); got != w {
			t.Errorf("received %s, want %s", got, w)
		}
		all = append(all, d)
	}
	return all
}

// quiet wants no delivery. A synchronous method on the same channel has gone to the queue and back meanwhile.
func quiet(t *testing.T, ch *amqp.Channel, queue string, deliveries <-chan amqp.Delivery) {
	t.Helper()
	if _, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case d, ok := <-deliveries:
		t.Errorf("unexpected delivery %s (%t)", shown(d), ok)
	case <-time.After(50 * time.Millisecond):
	}
}

// closes wants an operation to be refused, by the channel or by the connection.
func closes(t *testing.T, err error, code int, text string) {
	t.Helper()
	var closed *amqp.Error
	if !errors.As(err, &closed) || closed.Code != code || !strings.HasPrefix(closed.Reason, text) {
		t.Errorf("got %v, want %d %s", err, code, text)
	}
}

// next waits for something that the broker sends by itself.
func next[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(eventTimeout):
		t.Fatalf("no %s within %v", what, eventTimeout)
	}
	panic("unreachable")
}

// errCount is a number that is not yet what a test waits for.
type errCount struct{ got, want int }

func (e errCount) Error() string { return fmt.Sprintf("%d, want %d", e.got, e.want) }
