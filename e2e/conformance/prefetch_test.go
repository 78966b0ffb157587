package conformance

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// numbered publishes so many messages, "1", "2"...
func (p *pair) numbered(t *testing.T, queue string, n int) {
	t.Helper()
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprint(i + 1)
	}
	p.publish(t, queue, bodies...)
}

func qos(t *testing.T, ch *amqp.Channel, n int, global bool) {
	t.Helper()
	if err := ch.Qos(n, 0, global); err != nil {
		t.Fatal(err)
	}
}

// taken wants so many deliveries, from whichever consumers, and no more.
func taken(t *testing.T, ch *amqp.Channel, queue string, n int, consumers ...<-chan amqp.Delivery) []amqp.Delivery {
	t.Helper()
	var all []amqp.Delivery
	none := make(<-chan amqp.Delivery)
	for len(consumers) < 3 {
		consumers = append(consumers, none)
	}
	deadline := time.After(eventTimeout)
	for len(all) < n {
		var d amqp.Delivery
		select {
		case d = <-consumers[0]:
		case d = <-consumers[1]:
		case d = <-consumers[2]:
		case <-deadline:
			t.Fatalf("%d deliveries, want %d", len(all), n)
		}
		all = append(all, d)
	}
	for _, c := range consumers {
		if c != none {
			quiet(t, ch, queue, c)
		}
	}
	return all
}

func ack(t *testing.T, deliveries ...amqp.Delivery) {
	t.Helper()
	for _, d := range deliveries {
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
}

const noGlobal = "quorum queues have no prefetch for the channel"

// TestGlobalPrefetchChanges: a limit for the channel holds at once, for consumers that are there and those that come.
func TestGlobalPrefetchChanges(t *testing.T) {
	t.Parallel()
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.unlike(t, queue, noGlobal)
		p.numbered(t, queue, 20)
		qos(t, p.ch, 4, true)
		c := consume(t, p.ch, queue, "c", false)
		got := taken(t, p.ch, queue, 4, c)
		d := consume(t, p.ch, queue, "d", false)
		taken(t, p.ch, queue, 0, c, d)
		qos(t, p.ch, 6, true)
		got = append(got, taken(t, p.ch, queue, 2, c, d)...)
		qos(t, p.ch, 2, true)
		ack(t, got[:4]...)
		taken(t, p.ch, queue, 0, c, d)
		ack(t, got[4])
		got = append(got[5:], taken(t, p.ch, queue, 1, c, d)...)
		// What a consumer has counts when it has ended.
		if err := p.ch.Cancel("c", false); err != nil {
			t.Fatal(err)
		}
		ack(t, got[0])
		got = append(got[1:], taken(t, p.ch, queue, 1, d)...)
		ack(t, got...)
		got = taken(t, p.ch, queue, 2, d)
		qos(t, p.ch, 0, true)
		ack(t, append(got, taken(t, p.ch, queue, 20-8-2, d)...)...)
	})
}

// TestGlobalPrefetchAfterConsume: what the client has already counts.
func TestGlobalPrefetchAfterConsume(t *testing.T) {
	t.Parallel()
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.unlike(t, queue, noGlobal)
		p.numbered(t, queue, 5)
		c := consume(t, p.ch, queue, "c", false)
		got := taken(t, p.ch, queue, 5, c)
		qos(t, p.ch, 4, true)
		p.numbered(t, queue, 5)
		ack(t, got[0])
		taken(t, p.ch, queue, 0, c)
		ack(t, got[1])
		got = append(got[2:], taken(t, p.ch, queue, 1, c)...)
		ack(t, got...)
		taken(t, p.ch, queue, 4, c)
	})
}

// TestGlobalAndOwnPrefetch: both hold.
func TestGlobalAndOwnPrefetch(t *testing.T) {
	t.Parallel()
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.unlike(t, queue, noGlobal)
		p.numbered(t, queue, 20)
		qos(t, p.ch, 2, false)
		qos(t, p.ch, 3, true)
		c := consume(t, p.ch, queue, "c", false)
		got := taken(t, p.ch, queue, 2, c)
		d := consume(t, p.ch, queue, "d", false)
		taken(t, p.ch, queue, 1, d)
		taken(t, p.ch, queue, 0, c)
		ack(t, got[0])
		taken(t, p.ch, queue, 1, c, d)
		// A limit for each takes that for all away.
		qos(t, p.ch, 2, false)
		taken(t, p.ch, queue, 1, d)
	})
}

// TestGlobalPrefetchOverQueues: consumers of several queues share the limit, and none of them is left out.
func TestGlobalPrefetchOverQueues(t *testing.T) {
	t.Parallel()
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.unlike(t, queue, noGlobal)
		second := queue + "-2"
		p.broker.DropQueue(t, second)
		if _, err := p.other.QueueDeclare(second, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		qos(t, p.ch, 4, true)
		c, d := consume(t, p.ch, queue, "c", false), consume(t, p.ch, second, "d", false)
		p.numbered(t, second, 1)
		got := taken(t, p.ch, queue, 1, d)
		p.numbered(t, queue, 1)
		got = append(got, taken(t, p.ch, queue, 1, c)...)
		p.numbered(t, second, 20)
		got = append(got, taken(t, p.ch, queue, 2, d)...)
		p.numbered(t, queue, 20)
		taken(t, p.ch, queue, 0, c, d)
		for range 38 {
			ack(t, got[0])
			select {
			case m := <-c:
				got = append(got[1:], m)
			case m := <-d:
				got = append(got[1:], m)
			case <-time.After(eventTimeout):
				t.Fatalf("no delivery after an acknowledgement; %d are held", len(got)-1)
			}
		}
		ack(t, got...)
		taken(t, p.ch, queue, 0, c, d)
	})
}

// TestGlobalPrefetchAndGets: answers to basic.get do not wait and do not count.
func TestGlobalPrefetchAndGets(t *testing.T) {
	t.Parallel()
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.unlike(t, queue, noGlobal)
		p.numbered(t, queue, 10)
		qos(t, p.ch, 2, true)
		get(t, p.ch, queue, "1", "2", "3")
		c := consume(t, p.ch, queue, "c", false)
		got := taken(t, p.ch, queue, 2, c)
		gets := get(t, p.ch, queue, "6")
		ack(t, gets...)
		taken(t, p.ch, queue, 0, c)
		ack(t, got...)
		taken(t, p.ch, queue, 2, c)
	})
}

// TestGlobalPrefetchAndNoAck: deliveries without acknowledgement do not count.
func TestGlobalPrefetchAndNoAck(t *testing.T) {
	t.Parallel()
	each(t, harness.StartOrExternal(t, harness.Options{}), func(t *testing.T, p *pair, queue string) {
		p.unlike(t, queue, noGlobal)
		p.numbered(t, queue, 10)
		qos(t, p.ch, 2, true)
		c := consume(t, p.ch, queue, "c", true)
		taken(t, p.ch, queue, 10, c)
		if err := p.ch.Cancel("c", false); err != nil {
			t.Fatal(err)
		}
		d := consume(t, p.ch, queue, "d", false)
		p.numbered(t, queue, 3)
		taken(t, p.ch, queue, 2, d)
	})
}
