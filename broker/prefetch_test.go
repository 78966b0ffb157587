package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
)

// limited opens a channel with a prefetch of its own and a consumer on each queue.
func (b *testBroker) limited(n uint16, queues ...string) *rawClient {
	b.tb.Helper()
	r := b.open()
	r.call(1, &amqp.BasicQos{PrefetchCount: n, Global: true}, "basic.qos-ok")
	for _, q := range queues {
		r.consume(q, q, false)
	}
	return r
}

// comes reads so many deliveries and returns their tags; nothing else may come before the channel has answered, and a moment later.
func (c *rawClient) comes(n int) (tags []uint64) {
	c.tb.Helper()
	for range n {
		m, _, _ := c.delivery()
		tags = append(tags, m.DeliveryTag)
	}
	synctest.Wait()
	c.call(1, &amqp.QueueDeclare{Queue: "sync"}, `queue.declare-ok queue="sync" message-count=0 consumer-count=0`)
	return tags
}

func (b *testBroker) fill(n int, queues ...string) {
	b.tb.Helper()
	p := b.open()
	for _, q := range queues {
		if b.host.Catalogue().View.Queue("/", q) == nil {
			p.declare(q)
		}
		for i := range n {
			p.publish(q, fmt.Sprint(q, i))
		}
	}
}

// TestSharedPrefetchMoves: what is acknowledged of one queue makes room for messages of the others.
func TestSharedPrefetchMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		b.fill(0, "a", "b", "c")
		r := b.limited(1, "a", "b", "c")
		b.fill(10, "a", "b", "c")
		for range 30 {
			tags := r.comes(1)
			r.send(1, &amqp.BasicAck{DeliveryTag: tags[0]})
		}
		r.comes(0)
	})
}

// TestSharedPrefetchAndCancel: the part of a consumer that ends, or whose queue is deleted, goes to the others, once the client has settled what it had of it.
func TestSharedPrefetchAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		b.fill(10, "a", "b")
		r := b.limited(4, "a")
		tags := r.comes(4)
		r.consume("b", "b", false)
		r.comes(0)
		r.call(1, &amqp.BasicCancel{ConsumerTag: "a"}, `basic.cancel-ok consumer-tag="a"`)
		r.comes(0)
		r.send(1, &amqp.BasicAck{DeliveryTag: tags[1], Multiple: true})
		r.comes(2)
		// Again on the first queue, whose mark is from the consumer before.
		r.consume("a", "a", false)
		r.comes(0)
		r.send(1, &amqp.BasicAck{DeliveryTag: tags[3], Multiple: true})
		tags = r.comes(2)
		b.open().call(1, &amqp.QueueDelete{Queue: "a"}, "queue.delete-ok message-count=4")
		r.expect(`basic.cancel consumer-tag="a" no-wait`)
		r.send(1, &amqp.BasicAck{DeliveryTag: tags[1], Multiple: true})
		r.comes(4)
	})
}

// TestSilentQueueHoldsNoPrefetch: a queue that does not answer for a second leaves its part to the others. What it sends in spite of it goes back unseen.
func TestSilentQueueHoldsNoPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		b.fill(0, "a")
		b.fill(4, "b")
		r := b.limited(2, "a")
		b.queueNamed("a").freeze()
		p := b.open()
		p.publish("a", "1", "2") // they wait, and so does all that is told to the queue
		r.consume("b", "b", false)
		r.comes(0)
		time.Sleep(3 * time.Second)
		tags := r.comes(2)
		b.queueNamed("a").thaw()
		synctest.Wait()
		r.comes(0)
		if c := b.queueNamed("a").counts(); c.Ready != 2 || c.Unacked != 0 {
			t.Errorf("the silent queue: %+v", c)
		}
		for range 6 {
			r.send(1, &amqp.BasicAck{DeliveryTag: tags[0]})
			tags = tags[1:]
			if len(tags) < 2 {
				m, _, _ := r.delivery()
				if tags = append(tags, m.DeliveryTag); m.Redelivered {
					t.Errorf("%v: it was never seen", m)
				}
			}
			if m := tags[len(tags)-1]; m == 6 {
				return
			}
		}
		t.Error("not all came")
	})
}

// TestLoweredPrefetchReturnsWhatIsUnderWay: after qos-ok nothing comes beyond the new limit.
func TestLoweredPrefetchReturnsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		b.fill(0, "a")
		r := b.limited(5, "a")
		b.queueNamed("a").freeze()
		p := b.open()
		p.publish("a", "1", "2", "3")
		r.call(1, &amqp.BasicQos{PrefetchCount: 1, Global: true}, "basic.qos-ok")
		b.queueNamed("a").thaw()
		m, _, _ := r.delivery()
		synctest.Wait()
		if c := b.queueNamed("a").counts(); c.Ready != 2 || c.Unacked != 1 {
			t.Errorf("%+v", c)
		}
		r.send(1, &amqp.BasicAck{DeliveryTag: m.DeliveryTag})
		r.expectDelivery("2", 2, false)
	})
}
