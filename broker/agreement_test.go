package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
)

// overTwo stages a transaction of which q is the home, and p the other queue: what was got from q is acknowledged, and both get a message.
func (b *testBroker) overTwo() *rawClient {
	b.tb.Helper()
	r := b.open()
	r.declare("q")
	r.declare("p")
	r.publish("q", "old")
	r.selectTx()
	r.send(1, &amqp.BasicAck{DeliveryTag: r.get("q", "old")})
	r.publish("p", "1", "2")
	r.publish("q", "3")
	r.sync(1)
	return r
}

// calm checks that nothing is in flight.
func (b *testBroker) calm() {
	b.tb.Helper()
	synctest.Wait()
	if c := b.connections()[0]; c.inflightBytes.Load() != 0 || c.inflightCount.Load() != 0 {
		b.tb.Errorf("%d publishes of %d bytes are in flight", c.inflightCount.Load(), c.inflightBytes.Load())
	}
}

// TestTxOverQueues: nothing is seen of a transaction until the other queue has its part, and all by the time of the answer; until then later frames wait.
func TestTxOverQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.overTwo()
		b.queueNamed("p").freeze()
		r.send(1, &amqp.TxCommit{})
		r.publish("p", "4")
		r.send(1, &amqp.TxCommit{})
		synctest.Wait()
		b.holds("q", 0, 1)
		b.holds("p", 0, 0)
		b.queueNamed("p").thaw()
		r.expect("tx.commit-ok")
		b.holds("q", 1, 0)
		r.expect("tx.commit-ok")
		b.holds("p", 3, 0)
		b.calm()
		if n := b.queueNamed("q").openTxs(); n != 0 {
			t.Errorf("the home keeps %d decisions", n)
		}
	})
}

// TestTxOverQueuesUnanswered: a queue does not answer, before anything was decided. The channel is closed, and nothing happened. What is in flight stays so until the queue has answered.
func TestTxOverQueuesUnanswered(t *testing.T) {
	for _, name := range []string{"q", "p"} {
		synctest.Test(t, func(t *testing.T) {
			b := startBroker(t)
			r := b.overTwo()
			b.queueNamed(name).freeze()
			r.send(1, &amqp.TxCommit{})
			r.closed(1, amqp.MethodTxCommit, "406 PRECONDITION_FAILED - partial tx completion")
			if b.connections()[0].inflightCount.Load() != 3 {
				t.Errorf("%d publishes are in flight", b.connections()[0].inflightCount.Load())
			}
			b.queueNamed(name).thaw()
			time.Sleep(time.Second)
			b.holds("q", 1, 0)
			b.holds("p", 0, 0)
			b.calm()
		})
	}
}

// TestTxUndecided: the home does not answer when it is to decide. Nobody knows what it will do.
func TestTxUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.overTwo()
		b.queueNamed("p").freeze()
		r.send(1, &amqp.TxCommit{})
		synctest.Wait()
		b.queueNamed("q").freeze()
		b.queueNamed("p").thaw()
		r.closed(1, amqp.MethodTxCommit, "541 INTERNAL_ERROR - the queue that decides about the transaction did not answer: it may be committed or not")
		b.queueNamed("q").thaw()
		time.Sleep(time.Second)
		b.holds("q", 1, 0)
		if b.queueNamed("p").openTxs() != 1 || b.queueNamed("q").openTxs() != 1 {
			t.Error("what the channel has left open is not kept")
		}
		b.calm()
	})
}

// TestTxHomeDeleted: somebody deletes the home while it is asked to decide. If it had not decided nothing happened, and the client hears that; if it had, the transaction goes on.
func TestTxHomeDeleted(t *testing.T) {
	for _, decided := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := startBroker(t)
			r := b.overTwo()
			home, other := b.queueNamed("q"), b.queueNamed("p")
			other.freeze()
			r.send(1, &amqp.TxCommit{})
			synctest.Wait()
			home.freeze()
			other.thaw()
			synctest.Wait()
			if decided { // and its answer is lost
				home.mu.Lock()
				waiting := home.mailbox
				home.mailbox = nil
				for _, x := range waiting {
					lost := *x
					lost.waiters = make([]fakeWaiter, len(x.waiters))
					home.apply(&lost)
				}
				home.mailbox = waiting
				home.mu.Unlock()
			}
			r2 := b.open()
			ready := 0
			if decided {
				ready = 1
			}
			r2.call(1, &amqp.QueueDelete{Queue: "q"}, fmt.Sprint("queue.delete-ok message-count=", ready))
			if decided {
				r.expect("tx.commit-ok")
				b.holds("p", 2, 0)
			} else {
				r.closed(1, amqp.MethodTxCommit, "406 PRECONDITION_FAILED - partial tx completion")
				b.holds("p", 0, 0)
			}
			b.calm()
		})
	}
}

// TestTxHidden: another queue does not answer when all is decided.
func TestTxHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.overTwo()
		b.queueNamed("p").freeze()
		r.send(1, &amqp.TxCommit{})
		synctest.Wait()
		b.queueNamed("q").freeze()
		b.queueNamed("p").thaw()
		synctest.Wait()
		b.queueNamed("p").freeze()
		b.queueNamed("q").thaw()
		r.closed(1, amqp.MethodTxCommit, "541 INTERNAL_ERROR - committed, not yet visible")
		b.holds("q", 1, 0)
		b.holds("p", 0, 0)
		b.queueNamed("p").thaw()
		time.Sleep(time.Second)
		b.holds("p", 2, 0)
		b.calm()
	})
}

// openTxs counts the transactions that are not over in a queue.
func (q *fakeQueue) openTxs() int {
	q.runMu.Lock()
	defer q.runMu.Unlock()
	return len(q.m.OpenTxs(nil))
}
