package bench

import (
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// A delivery cut off anywhere is an error, or is harmless, but never a panic.
func TestUnreadableDeliveries(t *testing.T) {
	whole := (&amqp.BasicDeliver{ConsumerTag: "bench", DeliveryTag: 77, RoutingKey: "k"}).Append(nil)
	for n := 4; n <= len(whole); n++ {
		c := &consumer{}
		err := c.frame(amqp.Frame{Type: amqp.FrameMethod, Channel: 1, Payload: whole[:n]})
		if readable := n >= 4+1+5+8+1; readable != (err == nil) || err != nil && exit.Of(err) != exit.Internal {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		} else if readable && c.tag != 77 {
			t.Errorf("%d bytes: tag %d", n, c.tag)
		}
	}
	c := &consumer{remaining: 3}
	if err := c.frame(amqp.Frame{Type: amqp.FrameBody, Payload: make([]byte, 4)}); exit.Of(err) != exit.Internal {
		t.Errorf("more body than announced: %v", err)
	}
}

// The path of a message through a consumer allocates nothing.
func BenchmarkConsumerFrames(b *testing.B) {
	deliver := (&amqp.BasicDeliver{ConsumerTag: "bench", DeliveryTag: 1, RoutingKey: "queue"}).Append(nil)
	body := make([]byte, 1024)
	stamp{seq: 1, run: 1}.put(body)
	header := amqp.AppendHeaderFrame(nil, 1, amqp.ClassBasic, uint64(len(body)), nil)
	frames := []amqp.Frame{
		{Type: amqp.FrameMethod, Channel: 1, Payload: deliver}, {Type: amqp.FrameHeader, Channel: 1, Payload: header[7 : len(header)-1]}, {Type: amqp.FrameBody, Channel: 1, Payload: body},
	}
	c := &consumer{tracker: newTracker(1, 1), stamps: make([]stamp, 0, batchMax), ackEvery: 200, acks: make([]byte, 0, 1<<20)}
	b.ReportAllocs()
	for b.Loop() {
		for _, f := range frames {
			if err := c.frame(f); err != nil {
				b.Fatal(err)
			}
		}
		if len(c.stamps) == 64 {
			c.count(0)
			c.acks = c.acks[:0]
		}
	}
}
