package limits

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/e2e/harness"
)

// TestUnackedBytes: a consumer without a prefetch gets as much as a channel may have to acknowledge, no more until it acknowledges, and then everything.
func TestUnackedBytes(t *testing.T) {
	b := harness.Start(t, harness.Options{Args: []string{"--set", "total_memory_available_override_value=1MiB", "--set", "vm_memory_high_watermark.absolute=64GiB"}})
	const size = 256 << 10
	const most = limits.ChannelUnackedBytesMin/size + 1
	const sent = 3 * most
	b.FreshQueue(t, "q", harness.Classic)
	bodies := make([][]byte, sent)
	for i := range bodies {
		bodies[i] = make([]byte, size)
	}
	harness.PublishConfirmed(t, b.Channel(t), "", "q", bodies...)

	ch := b.Channel(t)
	deliveries, err := ch.Consume("q", "c", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// read returns when nothing has come for a moment.
	read := func() (n int, last amqp.Delivery) {
		for {
			select {
			case d, ok := <-deliveries:
				if !ok {
					t.Fatal("the consumer has ended")
				}
				n, last = n+1, d
			case <-time.After(500 * time.Millisecond):
				return n, last
			}
		}
	}
	n, last := read()
	if n > most || n < most/2 {
		t.Fatalf("%d unacknowledged messages, want at most %d and half of it", n, most)
	}
	for all := n; all < sent; all += n {
		if err := ch.Ack(last.DeliveryTag, true); err != nil {
			t.Fatal(err)
		}
		if n, last = read(); n == 0 {
			t.Fatalf("nothing comes after an acknowledgement; %d of %d messages", all, sent)
		}
	}
}
