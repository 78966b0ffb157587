package broker

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/queue"
)

// impatient starts a consumer of q that may keep a delivery for a second.
func (c *rawClient) impatient(prefetch uint16) {
	c.tb.Helper()
	c.call(1, &amqp.BasicQos{PrefetchCount: prefetch}, "basic.qos-ok")
	c.call(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "slow", Arguments: amqp.Table{{Key: "x-consumer-timeout", Value: amqp.Int32(1000)}}}, `basic.consume-ok consumer-tag="slow"`)
}

// unackedOf is how many deliveries the broker says that the only channel with a number of a client has to settle.
func (b *testBroker) unackedOf(number int) (n int) {
	for _, ch := range b.Channels() {
		if ch.Number == number {
			n += ch.Unacked
		}
	}
	return n
}

// TestConsumerTimeout: who keeps a delivery for too long is cancelled and told so, and keeps its channel. The delivery goes to somebody else; to settle it late is accepted once and changes nothing. What is
// not overdue is still the client's.
func TestConsumerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r, other := b.open(), b.open()
		r.declare("q")
		r.impatient(2)
		r.publish("q", "1")
		r.expectDelivery("1", 1, false)
		time.Sleep(600 * time.Millisecond)
		r.publish("q", "2", "3")
		r.expectDelivery("2", 2, false)
		time.Sleep(600 * time.Millisecond)
		r.expect(`basic.cancel consumer-tag="slow" no-wait`)
		b.holds("q", 2, 1)
		if n := b.unackedOf(1); n != 1 {
			t.Errorf("the channel has %d to settle, want 1", n)
		}
		other.consume("q", "c", false)
		other.expectDelivery("1", 1, true)
		other.expectDelivery("3", 2, false)
		r.send(1, &amqp.BasicAck{DeliveryTag: 2, Multiple: true})
		r.sync(1)
		b.holds("q", 0, 2)
		other.send(1, &amqp.BasicAck{DeliveryTag: 2, Multiple: true})
		other.sync(1)
		b.holds("q", 0, 0)
		r.fails(1, &amqp.BasicAck{DeliveryTag: 1}, "406 PRECONDITION_FAILED - unknown delivery tag 1")
	})
}

// TestLateSettlements: whatever a client does with what was taken back, it is accepted and changes nothing.
func TestLateSettlements(t *testing.T) {
	for _, c := range []struct {
		name   string
		settle func(r *rawClient)
	}{
		{"ack", func(r *rawClient) { r.send(1, &amqp.BasicAck{DeliveryTag: 1}, &amqp.BasicAck{DeliveryTag: 2}) }},
		{"nack", func(r *rawClient) { r.send(1, &amqp.BasicNack{DeliveryTag: 2, Multiple: true}) }},
		{"reject", func(r *rawClient) {
			r.send(1, &amqp.BasicReject{DeliveryTag: 1}, &amqp.BasicReject{DeliveryTag: 2, Requeue: true})
		}},
		{"recover", func(r *rawClient) { r.call(1, &amqp.BasicRecover{Requeue: true}, "basic.recover-ok") }},
		{"commit", func(r *rawClient) {
			r.call(1, &amqp.TxSelect{}, "tx.select-ok")
			r.send(1, &amqp.BasicNack{DeliveryTag: 2, Multiple: true, Requeue: true})
			r.call(1, &amqp.TxCommit{}, "tx.commit-ok")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := startBroker(t)
				r := b.open()
				r.declare("q")
				r.publish("q", "1", "2")
				r.impatient(0)
				r.expectDelivery("1", 1, false)
				r.expectDelivery("2", 2, false)
				time.Sleep(1100 * time.Millisecond)
				r.expect(`basic.cancel consumer-tag="slow" no-wait`)
				c.settle(r)
				r.sync(1)
				b.holds("q", 2, 0)
				if n := b.unackedOf(1); n != 0 {
					t.Errorf("the channel has %d to settle", n)
				}
				r.consume("q", "again", false)
				r.expectDelivery("1", 3, true)
				r.expectDelivery("2", 4, true)
				r.send(1, &amqp.BasicAck{DeliveryTag: 4, Multiple: true})
				if c.name == "commit" {
					r.call(1, &amqp.TxCommit{}, "tx.commit-ok")
				}
				if r.sync(1); b.unackedOf(1) != 0 {
					t.Error("the channel has something to settle")
				}
				b.holds("q", 0, 0)
			})
		})
	}
}

// TestLateTransaction: what a transaction publishes for a delivery that was taken back would be there twice, so all of it fails: whether the channel heard of it or only the queue knows.
func TestLateTransaction(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		for _, others := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := startBroker(t)
				r := b.open()
				r.declare("q")
				r.declare("results")
				r.declare("more")
				r.publish("q", "1")
				r.selectTx()
				r.impatient(0)
				r.expectDelivery("1", 1, false)
				r.send(1, &amqp.BasicAck{DeliveryTag: 1})
				r.publish("results", "r")
				if others {
					r.publish("more", "m")
				}
				r.sync(1)
				q := b.queueNamed("q")
				q.runMu.Lock()
				q.deaf = deaf
				q.runMu.Unlock()
				time.Sleep(1100 * time.Millisecond)
				if !deaf {
					r.expect(`basic.cancel consumer-tag="slow" no-wait`)
				}
				r.fails(1, &amqp.TxCommit{}, "406 PRECONDITION_FAILED - partial tx completion")
				b.holds("q", 1, 0)
				b.holds("results", 0, 0)
				b.holds("more", 0, 0)
			})
		}
	}
}

// TestConsumerTimeoutWithoutNotice: a client that cannot take a basic.cancel loses the channel, for it would wait for ever.
func TestConsumerTimeoutWithoutNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.raw()
		r.loginWith("guest", nil, amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
		r.send(1, &amqp.ChannelOpen{})
		r.expect("channel.open-ok")
		r.declare("q")
		r.impatient(1)
		r.publish("q", "1")
		r.expectDelivery("1", 1, false)
		time.Sleep(1100 * time.Millisecond)
		r.closed(1, 0, "406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms. This timeout value can be configured, see consumers doc guide to learn more")
		b.open().call(1, &amqp.BasicGet{Queue: "q", NoAck: true}, `basic.get-ok delivery-tag=1 redelivered exchange="" routing-key="q" message-count=0`)
	})
}

// TestGetTimesOut: the message of a basic.get comes back, too. Nobody is told; the channel lives.
func TestGetTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		b.queueNamed("q").configure(func(c *queue.Config) { c.ConsumerTimeout = queue.LimitOf(1000) })
		r.publish("q", "1")
		get := func(want string) {
			t.Helper()
			r.call(1, &amqp.BasicGet{Queue: "q"}, want)
			r.content()
		}
		get(`basic.get-ok delivery-tag=1 exchange="" routing-key="q" message-count=0`)
		time.Sleep(1100 * time.Millisecond)
		get(`basic.get-ok delivery-tag=2 redelivered exchange="" routing-key="q" message-count=0`)
		r.send(1, &amqp.BasicAck{DeliveryTag: 1})
		r.sync(1)
		b.holds("q", 0, 1)
		r.send(1, &amqp.BasicAck{DeliveryTag: 2})
		r.sync(1)
		b.holds("q", 0, 0)
	})
}

// TestTimeoutMakesRoom: what was taken back counts no more, neither for a prefetch of the whole channel nor for the bytes that a channel may have to acknowledge.
func TestTimeoutMakesRoom(t *testing.T) {
	t.Run("prefetch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := startBroker(t)
			r := b.open()
			r.declare("q")
			r.declare("p")
			r.publish("q", "1", "2")
			r.publish("p", "3", "4")
			r.call(1, &amqp.BasicQos{PrefetchCount: 2, Global: true}, "basic.qos-ok")
			r.call(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "slow", Arguments: amqp.Table{{Key: "x-consumer-timeout", Value: amqp.Int32(1000)}}}, `basic.consume-ok consumer-tag="slow"`)
			r.expectDelivery("1", 1, false)
			r.expectDelivery("2", 2, false)
			r.consume("p", "c", false)
			time.Sleep(1500 * time.Millisecond)
			r.expect(`basic.cancel consumer-tag="slow" no-wait`)
			r.expectDelivery("3", 3, false)
			r.expectDelivery("4", 4, false)
		})
	})
	t.Run("bytes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, r, got := startUnacked(t)
			b.queueNamed("q").configure(func(c *queue.Config) { c.ConsumerTimeout = queue.LimitOf(5000) })
			r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c"})
			first := quiet(got)
			time.Sleep(5 * time.Second)
			r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "d"})
			if second := quiet(got) - first; second < unackedMost/unackedBody {
				t.Errorf("%d deliveries to the next consumer, %d to the one before", second, first)
			}
			if n := b.queueNamed("q").counts(); n.TimedOut == 0 {
				t.Error("nothing timed out")
			}
		})
	})
}

// TestTimeoutsUnheardOf: what was taken back while no queue served the node is learned when one serves it again, and nothing else is lost by that.
func TestTimeoutsUnheardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		r.publish("q", "1", "2", "3", "4")
		r.consume("q", "c", false)
		for i, body := range []string{"1", "2", "3", "4"} {
			r.expectDelivery(body, uint64(i+1), false)
		}
		r.call(1, &amqp.BasicCancel{ConsumerTag: "c"}, `basic.cancel-ok consumer-tag="c"`)
		r.send(1, &amqp.BasicNack{DeliveryTag: 2, Multiple: true, Requeue: true})
		q := b.queueNamed("q")
		q.runMu.Lock()
		q.deaf = true
		q.runMu.Unlock()
		r.impatient(0)
		r.expectDelivery("1", 5, true)
		r.expectDelivery("2", 6, true)
		time.Sleep(1100 * time.Millisecond)
		b.holds("q", 2, 2)
		if n := b.unackedOf(1); n != 4 {
			t.Fatalf("the channel has %d to settle, want 4", n)
		}
		session := b.Channels()[0].Session
		q.sync(session, 6)
		r.expect(`basic.cancel consumer-tag="slow" no-wait`)
		if n := b.unackedOf(1); n != 2 {
			t.Fatalf("the channel has %d to settle, want 2", n)
		}
		q.sync(session, 6)
		r.send(1, &amqp.BasicAck{DeliveryTag: 6, Multiple: true})
		r.sync(1)
		b.holds("q", 2, 0)
	})
}

// TestSyncSparesConsumers: a sync cancels nobody whose consume or cancel is under way.
func TestSyncSparesConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		r.publish("q", "1")
		r.consume("q", "a", false)
		r.expectDelivery("1", 1, false)
		q := b.queueNamed("q")
		q.freeze()
		r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "b"})
		synctest.Wait()
		q.sync(b.Channels()[0].Session, 1)
		q.thaw()
		r.expect(`basic.consume-ok consumer-tag="b"`)
		q.freeze()
		r.send(1, &amqp.BasicCancel{ConsumerTag: "a"})
		synctest.Wait()
		q.sync(b.Channels()[0].Session, 1)
		q.thaw()
		r.expect(`basic.cancel-ok consumer-tag="a"`)
		r.sync(1)
	})
}

// TestTimeoutOfManyIsOnePass: the client is told of all that was taken back, whatever their tags are.
func TestTimeoutOfManyIsOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		const n = 500
		for range n {
			r.write(message(1, "", "q", bytes.Repeat([]byte("x"), 10)))
		}
		r.impatient(0)
		for i := range n {
			if m, _, _ := r.delivery(); m.DeliveryTag != uint64(i+1) {
				t.Fatalf("got %v", m)
			}
			if i%2 == 0 {
				r.send(1, &amqp.BasicAck{DeliveryTag: uint64(i + 1)})
			}
		}
		r.sync(1)
		time.Sleep(1100 * time.Millisecond)
		r.expect(`basic.cancel consumer-tag="slow" no-wait`)
		b.holds("q", n/2, 0)
		if left := b.unackedOf(1); left != 0 {
			t.Errorf("the channel has %d to settle", left)
		}
	})
}
