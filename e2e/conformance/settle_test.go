package conformance

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestAckThenCloseKeepsTheAck acknowledges messages and closes the channel, or the connection, with the very next frame: what was acknowledged stays
// acknowledged.
func TestAckThenCloseKeepsTheAck(t *testing.T) {
	t.Parallel()
	b := harness.StartOrExternal(t, harness.Options{})
	endings := map[string]func(conn *amqp.Connection, ch *amqp.Channel) error{
		"channel":    func(_ *amqp.Connection, ch *amqp.Channel) error { return ch.Close() },
		"connection": func(conn *amqp.Connection, _ *amqp.Channel) error { return conn.Close() },
	}
	for _, kind := range []string{harness.Classic, harness.Quorum} {
		for name, end := range endings {
			t.Run(kind+" "+name, func(t *testing.T) {
				for round := range 50 {
					ackThenClose(t, b, kind, round, end)
				}
			})
		}
	}
}

func ackThenClose(t *testing.T, b *harness.Broker, kind string, round int, end func(*amqp.Connection, *amqp.Channel) error) {
	t.Helper()
	const queue, count = "ack-then-close", 85
	conn := b.Connect(t)
	defer conn.Close()
	ch := harness.Channel(t, conn)
	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	harness.Declare(t, ch, queue, kind)
	var bodies [][]byte
	for i := range count {
		bodies = append(bodies, fmt.Appendf(nil, "%d", i))
	}
	harness.PublishConfirmed(t, ch, "", queue, bodies...)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last amqp.Delivery
	for range count {
		last = harness.Receive(t, deliveries)
	}
	if err := last.Ack(true); err != nil {
		t.Fatal(err)
	}
	if err := end(conn, ch); err != nil {
		t.Fatal(err)
	}
	if n := b.Count(t, queue); n != 0 {
		t.Fatalf("round %d: %d of %d acknowledged messages are back", round, n, count)
	}
}
