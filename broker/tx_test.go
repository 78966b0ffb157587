package broker

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

func (c *rawClient) selectTx() { c.call(1, &amqp.TxSelect{}, "tx.select-ok") }
func (c *rawClient) commit()   { c.call(1, &amqp.TxCommit{}, "tx.commit-ok") }
func (c *rawClient) rollback() { c.call(1, &amqp.TxRollback{}, "tx.rollback-ok") }

// get takes a message, which must have that body.
func (c *rawClient) get(queue, body string) (tag uint64) {
	c.tb.Helper()
	c.send(1, &amqp.BasicGet{Queue: queue})
	m, ok := c.method().(*amqp.BasicGetOk)
	if !ok {
		c.tb.Fatalf("no message in %s, want %q", queue, body)
	}
	if _, got := c.content(); string(got) != body {
		c.tb.Fatalf("got %q, want %q", got, body)
	}
	return m.DeliveryTag
}

// holds checks how many messages are ready and unacked.
func (b *testBroker) holds(queue string, ready, unacked uint64) {
	b.tb.Helper()
	if n := b.queueNamed(queue).counts(); n.Ready != ready || n.Unacked != unacked {
		b.tb.Fatalf("%s: %d ready and %d unacked, want %d and %d", queue, n.Ready, n.Unacked, ready, unacked)
	}
}

func TestTxModes(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.fails(1, &amqp.TxCommit{}, "406 PRECONDITION_FAILED - channel is not transactional")
	r.fails(1, &amqp.TxRollback{}, "406 PRECONDITION_FAILED - channel is not transactional")
	r.selectTx()
	r.selectTx()
	r.commit()
	r.rollback()
	r.fails(1, &amqp.ConfirmSelect{}, "406 PRECONDITION_FAILED - cannot switch from tx to confirm mode")
	r.confirm()
	r.fails(1, &amqp.TxSelect{}, "406 PRECONDITION_FAILED - cannot switch from confirm to tx mode")
}

// TestTxPublishes: messages are in their queues from the commit on, in order; after a rollback they never are.
func TestTxPublishes(t *testing.T) {
	b := startBroker(t)
	r, other := b.open(), b.open()
	r.declare("q")
	r.declare("p")
	other.consume("q", "c", true)
	r.call(1, &amqp.QueueBind{Queue: "q", Exchange: "amq.fanout"}, "queue.bind-ok")
	r.call(1, &amqp.QueueBind{Queue: "p", Exchange: "amq.fanout"}, "queue.bind-ok")
	r.selectTx()
	r.publish("q", "never")
	r.rollback()
	r.publish("q", "1", "2")
	r.write(message(1, "amq.fanout", "", []byte("3")))
	r.sync(1)
	b.holds("p", 0, 0)
	other.sync(1) // nothing was delivered
	r.commit()
	b.holds("p", 1, 0)
	for i, body := range []string{"1", "2", "3"} {
		other.expectDelivery(body, uint64(i+1), false)
	}
	r.publish("p", "not committed")
	r.call(1, &amqp.ChannelClose{}, "channel.close-ok")
	b.holds("p", 1, 0)
	c := b.connections()[0]
	if n, m, k := c.txBytes.Load(), c.inflightBytes.Load(), c.inflightCount.Load(); n != 0 || m != 0 || k != 0 {
		t.Errorf("%d bytes held, %d bytes and %d publishes in flight", n, m, k)
	}
}

// TestTxSettlements: what is settled in a transaction is unacked until the commit, but cannot be settled again; a rollback makes that possible.
func TestTxSettlements(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.publish("q", "1", "2", "3", "4", "5")
	r.selectTx()
	first := r.get("q", "1")
	r.send(1, &amqp.BasicAck{DeliveryTag: first})
	r.sync(1)
	b.holds("q", 4, 1)
	r.rollback()
	r.send(1, &amqp.BasicAck{DeliveryTag: first})
	r.commit()
	b.holds("q", 4, 0)

	_, third, fourth := r.get("q", "2"), r.get("q", "3"), r.get("q", "4")
	r.send(1, &amqp.BasicReject{DeliveryTag: third, Requeue: true}, &amqp.BasicAck{DeliveryTag: fourth, Multiple: true}, &amqp.BasicAck{Multiple: true})
	r.sync(1)
	b.holds("q", 1, 3)
	if x := b.Channels()[0]; !x.Transactional || x.UncommittedAcks != 3 || x.Unacked != 0 || x.Uncommitted != 0 {
		t.Errorf("shown as %+v", x)
	}
	r.commit()
	b.holds("q", 2, 0) // 3, which was put back, and 5
	r.get("q", "3")

	fifth := r.get("q", "5")
	r.send(1, &amqp.BasicNack{DeliveryTag: fifth})
	r.fails(1, &amqp.BasicAck{DeliveryTag: fifth}, fmt.Sprintf("406 PRECONDITION_FAILED - unknown delivery tag %d", fifth))
	r.selectTx()
	r.get("q", "3") // the nack was never committed
	r.get("q", "5")
	r.fails(1, &amqp.BasicAck{DeliveryTag: 99, Multiple: true}, "406 PRECONDITION_FAILED - unknown delivery tag 99")
}

// TestTxRecover: what is settled in a transaction does not come back by basic.recover.
func TestTxRecover(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.publish("q", "1", "2")
	r.selectTx()
	tag := r.get("q", "1")
	r.get("q", "2")
	r.send(1, &amqp.BasicAck{DeliveryTag: tag})
	r.call(1, &amqp.BasicRecover{Requeue: true}, "basic.recover-ok")
	r.sync(1)
	synced := r.get("q", "2")
	r.commit()
	b.holds("q", 0, 1)
	r.send(1, &amqp.BasicAck{DeliveryTag: synced})
	r.commit()
	b.holds("q", 0, 0)
}

// TestTxReturns: what is mandatory and unroutable is returned at the commit, before its answer. A queue that was deleted since the publish counts as none.
func TestTxReturns(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	mandatory := func(m *amqp.BasicPublish, _ *amqp.Properties) { m.Mandatory = true }
	r.selectTx()
	r.write(message(1, "", "none", []byte("a"), mandatory))
	r.write(message(1, "", "q", []byte("b"), mandatory))
	r.write(message(1, "", "none", []byte("c")))
	r.sync(1)
	r.call(1, &amqp.QueueDelete{Queue: "q"}, "queue.delete-ok message-count=0")
	r.send(1, &amqp.TxCommit{})
	for _, want := range []string{"a", "b"} {
		if m, ok := r.method().(*amqp.BasicReturn); !ok || m.ReplyCode != amqp.ReplyNoRoute {
			t.Fatalf("got %v", m)
		}
		if _, body := r.content(); string(body) != want {
			t.Fatalf("%q was returned", body)
		}
	}
	r.expect("tx.commit-ok")
}

// TestTxIsDroppedByErrors: an error of a publish closes the channel at once, and nothing of its transaction takes effect.
func TestTxIsDroppedByErrors(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.selectTx()
	r.publish("q", "1")
	r.write(message(1, "none", "q", nil))
	r.closed(1, amqp.MethodBasicPublish, "404 NOT_FOUND - no exchange 'none' in vhost '/'")
	b.holds("q", 0, 0)
	if n := b.connections()[0].txBytes.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// TestTxCommitBusies: while a commit is under way later frames of the channel wait, those of others do not.
func TestTxCommitBusies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		r.call(2, &amqp.ChannelOpen{}, "channel.open-ok")
		r.selectTx()
		r.publish("q", "1")
		b.queueNamed("q").freeze()
		r.send(1, &amqp.TxCommit{})
		r.publish("q", "2")
		r.send(1, &amqp.TxCommit{})
		r.sync(2)
		b.queueNamed("q").thaw()
		r.expect("tx.commit-ok")
		r.expect("tx.commit-ok")
		b.holds("q", 2, 0)
	})
}

// TestTxLate: a commit that is not answered in time closes the channel. What the queue does later frees what was in flight.
func TestTxLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		r.selectTx()
		r.publish("q", "1")
		b.queueNamed("q").freeze()
		r.send(1, &amqp.TxCommit{})
		r.closed(1, amqp.MethodTxCommit, "406 PRECONDITION_FAILED - partial tx completion")
		b.queueNamed("q").thaw()
		time.Sleep(time.Second)
		if c := b.connections()[0]; c.inflightBytes.Load() != 0 || c.inflightCount.Load() != 0 {
			t.Errorf("%d bytes in flight", c.inflightBytes.Load())
		}
	})
}

// TestTxLimits: a transaction that takes more than a connection may hold is an error and no deadlock.
func TestTxLimits(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.selectTx()
	body := bytes.Repeat([]byte("x"), limits.TxBytesMax/4)
	for range 3 {
		r.write(message(1, "", "q", body))
	}
	r.sync(1)
	r.write(message(1, "", "q", body))
	r.closed(1, amqp.MethodBasicPublish, "406 PRECONDITION_FAILED - uncommitted messages of the connection exceed 33554432 bytes")
	r.selectTx()
	one := message(1, "", "q", nil)
	var many []byte
	for range 1024 {
		many = append(many, one...)
	}
	for range limits.TxCommandsMax / 1024 {
		r.write(many)
	}
	r.commit()
	b.holds("q", limits.TxCommandsMax, 0)
	for range limits.TxCommandsMax / 1024 {
		r.write(many)
	}
	r.write(one)
	r.closed(1, amqp.MethodBasicPublish, "406 PRECONDITION_FAILED - transaction exceeds 32768 messages")
	b.holds("q", limits.TxCommandsMax, 0)
	if n := b.connections()[0].txBytes.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
