package conformance

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestAutoDeletedWhenAnswered: the answer to what takes a queue's last consumer away comes when the queue is gone, so that who declares it next gets a new
// one and not one that vanishes under his hands.
func TestAutoDeletedWhenAnswered(t *testing.T) {
	t.Parallel()
	b := harness.StartOrExternal(t, harness.Options{})
	for name, leave := range map[string]func(*amqp.Connection, *amqp.Channel) error{
		"cancel":           func(_ *amqp.Connection, ch *amqp.Channel) error { return ch.Cancel("tag", false) },
		"channel.close":    func(_ *amqp.Connection, ch *amqp.Channel) error { return ch.Close() },
		"connection.close": func(conn *amqp.Connection, _ *amqp.Channel) error { return conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			for _, durable := range []bool{false, true} {
				queue := "auto-delete-" + name
				b.DropQueue(t, queue)
				stay := b.Channel(t)
				for range 15 {
					conn := b.Connect(t)
					ch := harness.Channel(t, conn)
					if _, err := ch.QueueDeclare(queue, durable, true, false, false, nil); err != nil {
						t.Fatal(err)
					}
					if _, err := ch.Consume(queue, "tag", false, false, false, false, nil); err != nil {
						t.Fatalf("consume from what was declared: %v", err)
					}
					if err := leave(conn, ch); err != nil {
						t.Fatal(err)
					}
					conn.Close()
				}
				_, err := stay.QueueDeclarePassive(queue, durable, true, false, false, nil)
				closes(t, err, amqp.NotFound, "NOT_FOUND - no queue '"+queue+"' in vhost '/'")
			}
		})
	}
}
