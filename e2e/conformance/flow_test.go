package conformance

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

const (
	deafMessages  = 1500
	deafBodyBytes = 40_000
	// deafShareMax is how much of the queue a consumer that does not read may hold: its window and what fits into the sockets' buffers.
	deafShareMax = 24 << 20
)

// TestDeafConsumerHoldsItsWindowOnly has a consumer without prefetch that never reads its socket. It gets a window of the queue and no more; the
// other consumer gets the rest, and after the end of the deaf one everything. RabbitMQ gives all to the deaf one.
func TestDeafConsumerHoldsItsWindowOnly(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	for _, kind := range []string{harness.Quorum, "transient"} {
		t.Run(kind, func(t *testing.T) { deafConsumer(t, b, kind) })
	}
}

func deafConsumer(t *testing.T, b *harness.Broker, kind string) {
	const queue = "deaf"
	b.DropQueue(t, queue)
	ch := b.Channel(t)
	if kind == "transient" {
		if _, err := ch.QueueDeclare(queue, false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	} else {
		harness.Declare(t, ch, queue, kind)
	}
	ledger := totalqueue.New()
	p := ledger.Publisher("p", queue)
	var bodies [][]byte
	for range deafMessages {
		_, body := p.Next(deafBodyBytes)
		bodies = append(bodies, body)
	}
	harness.PublishConfirmed(t, ch, "", queue, bodies...)
	for seq := range uint64(deafMessages) {
		p.Confirmed(seq + 1)
	}

	deaf, err := rawamqp.Open(b.AMQP, rawamqp.Guest)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if err := deaf.OpenChannel(1); err != nil {
		t.Fatal(err)
	}
	// basic.consume without anything, then not a single octet is read.
	if err := deaf.Send(rawamqp.Method(60, 20).Short(0).ShortString(queue).ShortString("deaf").Octet(0).Long(0).Frame(1)); err != nil {
		t.Fatal(err)
	}
	awaitConsumers(t, b, queue, 1)
	got := takeUntilQuiet(t, ch, ledger, queue)
	if held := (deafMessages - got) * deafBodyBytes; held > deafShareMax || held == 0 {
		t.Errorf("the deaf consumer holds %d bytes, want at most %d: the other one got %d messages of %d", held, deafShareMax, got, deafMessages)
	}
	deaf.Close()
	harness.Drain(t, b, ledger, queue)
	if err := ledger.Verdict().Err(); err != nil {
		t.Error(err)
	}
}

func awaitConsumers(t *testing.T, b *harness.Broker, queue string, want int) {
	t.Helper()
	ch := b.Channel(t)
	harness.Eventually(t, eventTimeout, func() error {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		if err != nil || q.Consumers == want {
			return err
		}
		return errCount{q.Consumers, want}
	})
}

// takeUntilQuiet consumes and acknowledges until nothing has come for a while.
func takeUntilQuiet(t *testing.T, ch *amqp.Channel, ledger *totalqueue.Ledger, queue string) int {
	t.Helper()
	if err := ch.Qos(50, 0, false); err != nil {
		t.Fatal(err)
	}
	c := ledger.Consumer(queue)
	deliveries := consume(t, ch, queue, "other", false)
	for got := 0; ; got++ {
		select {
		case d := <-deliveries:
			if id, ok := c.Deliver(totalqueue.Delivery{Body: d.Body, Redelivered: d.Redelivered}); ok {
				c.Acked(id)
			}
			if err := d.Ack(false); err != nil {
				t.Fatal(err)
			}
		case <-time.After(2 * time.Second):
			if err := ch.Cancel("other", false); err != nil {
				t.Fatal(err)
			}
			return got
		}
	}
}
