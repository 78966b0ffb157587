package conformance

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// TestQueues holds what a queue does with its messages.
func TestQueues(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	tests := []struct {
		name string
		test func(*testing.T, *pair, string)
	}{
		{"nack returns to the old place", nackReturns},
		{"reject without requeue drops", rejectDrops},
		{"a closed channel returns in order", closedChannelReturns},
		{"a lost connection returns in order", lostConnectionReturns},
		{"ack multiple", ackMultiple},
		{"ack of everything", ackEverything},
		{"prefetch of a consumer", prefetchOfConsumer},
		{"round robin", roundRobin},
		{"cancel stops deliveries", cancelStops},
		{"automatic ack", automaticAck},
		{"purge leaves the unacknowledged", purgeLeaves},
		{"counts of declare", countsOfDeclare},
		{"delete if unused or empty", deleteConditions},
		{"delete cancels consumers", deleteCancels},
		{"exclusive consumer", exclusiveConsumer},
		{"consumer tag used twice", tagUsedTwice},
		{"recover", recoverAll},
		{"recover-async", recoverAsync},
		{"properties arrive as they were sent", propertiesArrive},
		{"bodies of all sizes", bodySizes},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { each(t, b, tt.test) })
	}
}

func nackReturns(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c", "d")
	all := get(t, p.ch, queue, "a", "b", "c")
	for _, i := range []int{1, 0, 2} {
		if err := all[i].Nack(false, true); err != nil {
			t.Fatal(err)
		}
	}
	p.unlike(t, queue, "quorum queues return in the order of the nacks")
	drained(t, p.ch, queue, "a*", "b*", "c*", "d")
}

func rejectDrops(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c")
	all := get(t, p.ch, queue, "a", "b")
	if err := all[0].Reject(false); err != nil {
		t.Fatal(err)
	}
	if err := all[1].Nack(false, false); err != nil {
		t.Fatal(err)
	}
	drained(t, p.ch, queue, "c")
}

func closedChannelReturns(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c", "d")
	all := get(t, p.ch, queue, "a", "b", "c")
	if err := all[1].Ack(false); err != nil {
		t.Fatal(err)
	}
	if err := p.ch.Close(); err != nil {
		t.Fatal(err)
	}
	drained(t, p.other, queue, "a*", "c*", "d")
}

func lostConnectionReturns(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c")
	receive(t, consume(t, p.ch, queue, "", false), "a", "b", "c")
	p.conn.Close()
	harness.Eventually(t, eventTimeout, func() error {
		n, err := p.broker.TryCount(queue)
		if err == nil && n != 3 {
			err = fmt.Errorf("%d messages are back", n)
		}
		return err
	})
	drained(t, p.other, queue, "a*", "b*", "c*")
}

func ackMultiple(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c", "d", "e")
	all := receive(t, consume(t, p.ch, queue, "", false), "a", "b", "c", "d", "e")
	if err := all[2].Ack(true); err != nil {
		t.Fatal(err)
	}
	if err := p.ch.Close(); err != nil {
		t.Fatal(err)
	}
	drained(t, p.other, queue, "d*", "e*")
}

func ackEverything(t *testing.T, p *pair, queue string) {
	// With nothing outstanding tag 0 is no error.
	if err := p.ch.Ack(0, true); err != nil {
		t.Fatal(err)
	}
	p.publish(t, queue, "a", "b")
	get(t, p.ch, queue, "a", "b")
	if err := p.ch.Ack(0, true); err != nil {
		t.Fatal(err)
	}
	if err := p.ch.Close(); err != nil {
		t.Fatal(err)
	}
	drained(t, p.other, queue)
}

func prefetchOfConsumer(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c", "d", "e")
	if err := p.ch.Qos(2, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries := consume(t, p.ch, queue, "", false)
	all := receive(t, deliveries, "a", "b")
	quiet(t, p.ch, queue, deliveries)
	if err := all[1].Ack(false); err != nil {
		t.Fatal(err)
	}
	receive(t, deliveries, "c")
	quiet(t, p.ch, queue, deliveries)
	p.unlike(t, queue, "a returned message comes behind what is ready")
	// basic.get is not held back by the prefetch.
	get(t, p.ch, queue, "d")
	if err := all[0].Nack(false, true); err != nil {
		t.Fatal(err)
	}
	receive(t, deliveries, "a*")
	quiet(t, p.ch, queue, deliveries)
}

func roundRobin(t *testing.T, p *pair, queue string) {
	one := consume(t, p.ch, queue, "", true)
	two := consume(t, p.other, queue, "", true)
	var bodies []string
	for i := range 20 {
		bodies = append(bodies, fmt.Sprint(i))
	}
	p.publish(t, queue, bodies...)
	var counts [2]int
	for range bodies {
		select {
		case <-one:
			counts[0]++
		case <-two:
			counts[1]++
		}
	}
	if counts[0] == 0 || counts[1] == 0 {
		t.Errorf("two consumers got %v", counts)
	}
}

func cancelStops(t *testing.T, p *pair, queue string) {
	deliveries := consume(t, p.ch, queue, "tag", false)
	p.publish(t, queue, "a")
	all := receive(t, deliveries, "a")
	if err := p.ch.Cancel("tag", false); err != nil {
		t.Fatal(err)
	}
	p.publish(t, queue, "b")
	// What the consumer got before can still be acknowledged.
	if err := all[0].Ack(false); err != nil {
		t.Fatal(err)
	}
	drained(t, p.ch, queue, "b")
	// Cancelling what is not there is no error.
	if err := p.ch.Cancel("nobody", false); err != nil {
		t.Errorf("cancel of an unknown tag: %v", err)
	}
}

func automaticAck(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c")
	receive(t, consume(t, p.ch, queue, "", true), "a", "b", "c")
	if err := p.ch.Close(); err != nil {
		t.Fatal(err)
	}
	drained(t, p.other, queue)
}

func purgeLeaves(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c")
	get(t, p.ch, queue, "a")
	if n, err := p.other.QueuePurge(queue, false); err != nil || n != 2 {
		t.Errorf("purged %d, %v, want 2", n, err)
	}
	if err := p.ch.Close(); err != nil {
		t.Fatal(err)
	}
	drained(t, p.other, queue, "a*")
}

func countsOfDeclare(t *testing.T, p *pair, queue string) {
	p.unlike(t, queue, "who called basic.get counts as a consumer")
	p.publish(t, queue, "a", "b", "c")
	get(t, p.ch, queue, "a")
	if err := p.other.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	receive(t, consume(t, p.other, queue, "", false), "b")
	q, err := p.ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	if err != nil || q.Name != queue || q.Messages != 1 || q.Consumers != 1 {
		t.Errorf("declare-ok %+v, %v, want 1 ready message and 1 consumer", q, err)
	}
}

func deleteConditions(t *testing.T, p *pair, queue string) {
	p.unlike(t, queue, "quorum queues do not know the conditions")
	p.publish(t, queue, "a")
	_, err := p.ch.QueueDelete(queue, false, true, false)
	closes(t, err, amqp.PreconditionFailed, fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '/' not empty", queue))
	consume(t, p.other, queue, "", true)
	ch := harness.Channel(t, p.conn)
	_, err = ch.QueueDelete(queue, true, false, false)
	closes(t, err, amqp.PreconditionFailed, fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '/' in use", queue))
	ch = harness.Channel(t, p.conn)
	p.broker.AwaitCount(t, queue, 0)
	p.other.Close()
	if n, err := ch.QueueDelete(queue, true, true, false); err != nil || n != 0 {
		t.Errorf("delete of an unused and empty queue: %d, %v", n, err)
	}
}

func deleteCancels(t *testing.T, p *pair, queue string) {
	cancelled := p.ch.NotifyCancel(make(chan string, 1))
	consume(t, p.ch, queue, "tag", false)
	p.publish(t, queue, "a", "b")
	if n, err := p.other.QueueDelete(queue, false, false, false); err != nil {
		t.Errorf("delete: %d, %v", n, err)
	}
	if tag := next(t, cancelled, "basic.cancel"); tag != "tag" {
		t.Errorf("cancelled %q", tag)
	}
	// The channel lives, and so may acknowledge what is gone.
	if err := p.ch.Ack(1, false); err != nil {
		t.Error(err)
	}
	if _, err := p.ch.QueueDeclare("", false, true, true, false, nil); err != nil {
		t.Errorf("the channel after the cancel: %v", err)
	}
}

func exclusiveConsumer(t *testing.T, p *pair, queue string) {
	p.unlike(t, queue, "quorum queues know no exclusive consumer")
	if _, err := p.ch.Consume(queue, "", true, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := p.other.Consume(queue, "", true, false, false, false, nil)
	closes(t, err, amqp.AccessRefused, fmt.Sprintf("ACCESS_REFUSED - queue '%s' in vhost '/' in exclusive use", queue))
}

func tagUsedTwice(t *testing.T, p *pair, queue string) {
	consume(t, p.ch, queue, "tag", true)
	_, err := p.ch.Consume(queue, "tag", true, false, false, false, nil)
	closes(t, err, amqp.NotAllowed, "NOT_ALLOWED - attempt to reuse consumer tag 'tag'")
}

// recoverAll returns what consumers and gets of the channel hold, and nothing of another channel.
func recoverAll(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b", "c")
	get(t, p.other, queue, "a")
	all := get(t, p.ch, queue, "b", "c")
	if err := p.ch.Recover(true); err != nil {
		t.Fatal(err)
	}
	drained(t, p.ch, queue, "b*", "c*")
	closed := p.ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := all[0].Ack(false); err != nil {
		t.Fatal(err)
	}
	closes(t, next(t, closed, "channel.close"), amqp.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag 1")
	conn := p.broker.Connect(t)
	closes(t, harness.Channel(t, conn).Recover(false), amqp.NotImplemented, "NOT_IMPLEMENTED - requeue=false")
	if !conn.IsClosed() {
		t.Error("the connection is open after recover without requeue")
	}
}

// recoverAsync is recover without an answer; its messages come again to the same consumer.
func recoverAsync(t *testing.T, p *pair, queue string) {
	p.publish(t, queue, "a", "b")
	c, err := rawamqp.Open(p.broker.AMQP, rawamqp.Guest)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.OpenChannel(1); err != nil {
		t.Fatal(err)
	}
	// basic.consume with acknowledgements.
	if _, err := c.Call(rawamqp.Method(60, 20).Short(0).ShortString(queue).ShortString("tag").Octet(0).Long(0).Frame(1), 60, 21); err != nil {
		t.Fatal(err)
	}
	deliveries := func(redelivered byte) {
		t.Helper()
		for tag := range 2 {
			f, err := c.Read()
			for ; err == nil; f, err = c.Read() {
				if class, method := f.Method(); class == 60 && method == 60 {
					break // after the content of the delivery before
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			rest := f.Payload[4:]
			rest = rest[1+int(rest[0])+8:] // the consumer's tag, the delivery tag
			if rest[0] != redelivered {
				t.Errorf("delivery %d: redelivered %d, want %d", tag+1, rest[0], redelivered)
			}
		}
	}
	deliveries(0)
	if err := c.Send(rawamqp.Method(60, 100).Octet(1).Frame(1)); err != nil {
		t.Fatal(err)
	}
	deliveries(1)
	if err := c.Send(rawamqp.Method(60, 100).Octet(0).Frame(1)); err != nil {
		t.Fatal(err)
	}
	closed, err := c.AwaitClose()
	if err != nil || closed.Code != amqp.NotImplemented || closed.Text != "NOT_IMPLEMENTED - requeue=false" {
		t.Errorf("got %v, %v", closed, err)
	}
}

func bodySizes(t *testing.T, p *pair, queue string) {
	// Around the frame size of 128 KiB, in which 8 octets are overhead.
	for _, size := range []int{0, 1, 131_063, 131_064, 131_065, 262_128, 1 << 20, 5 << 20} {
		body := strings.Repeat("x", size)
		p.publish(t, queue, body)
		d, ok, err := p.ch.Get(queue, true)
		if err != nil || !ok || string(d.Body) != body {
			t.Fatalf("a body of %d octets came back with %d, %v", size, len(d.Body), err)
		}
	}
}
