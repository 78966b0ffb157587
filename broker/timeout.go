package broker

import (
	"slices"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// A queue that waits for too long for an acknowledgement takes the delivery back and cancels its consumer. The client keeps its channel: it is told by basic.cancel, and what it settles late changes nothing, but
// a transaction that does so fails. A client that cannot take a basic.cancel loses the channel, as in RabbitMQ 4.3: it would wait for ever.

// late replaces what the client has to settle after it was taken back. Its tag stays good, once.
var late = unacked{d: gotMark}

// isLate tells whether a delivery was taken back.
func (u *unacked) isLate() bool { return u.src == nil }

// Cancelled implements quorum.Receiver.
func (ch *channel) Cancelled(_ meta.QueueID, id queue.ConsumerID) {
	defer ch.c.guard()
	ch.mu.Lock()
	cons := ch.consumer(id)
	ch.mu.Unlock()
	if cons != nil {
		ch.overdue(cons)
	}
}

// overdue ends a consumer that kept a delivery for too long.
func (ch *channel) overdue(cons *consumer) {
	ch.mu.Lock()
	if ch.consumers[cons.id] != cons {
		ch.mu.Unlock()
		return
	}
	ch.cancelled(cons)
	open := ch.state == chanOpen
	ch.mu.Unlock()
	ch.c.b.log.Info("a consumer kept a delivery for too long and is cancelled", "connection", ch.c.name(), "channel", ch.number, "queue", cons.src.queue.Name, "consumer", cons.tag)
	if open && !ch.c.cancelNotify {
		ch.fail(errConsumerTimeout(ch.number, ch.timeoutMillis(cons)))
	}
}

// timeoutMillis is how long a consumer may keep what it gets from now on, 0: for ever.
func (ch *channel) timeoutMillis(cons *consumer) int64 {
	q := ch.view().QueueByID(cons.src.queue.ID)
	if q == nil {
		q = cons.src.queue
	}
	return quorum.ConsumerTimeoutMillis(q, cons.arguments)
}

// TimedOut implements quorum.Receiver.
func (ch *channel) TimedOut(q meta.QueueID, ds []uint64) {
	defer ch.c.guard()
	ch.takeBack(q, func(d uint64) bool {
		_, ok := slices.BinarySearch(ds, d)
		return ok
	})
}

// Synced implements quorum.Receiver: what the queue has not any more was taken back while nobody told.
func (ch *channel) Synced(q meta.QueueID, st *queue.SessionSync) {
	defer ch.c.guard()
	var ended []*consumer
	ch.mu.Lock()
	for _, cons := range ch.consumers {
		if cons.active && cons.src.queue.ID == q && !cons.src.gone && !slices.Contains(st.Consumers, cons.id) {
			ended = append(ended, cons)
		}
	}
	ch.mu.Unlock()
	for _, cons := range ended {
		ch.overdue(cons)
	}
	if st.LostSome {
		ch.takeBack(q, func(d uint64) bool {
			_, kept := slices.BinarySearch(st.Kept, d)
			return d <= st.Seen && !kept
		})
	}
}

// takeBack notes that deliveries of a queue came back to it.
func (ch *channel) takeBack(q meta.QueueID, gone func(d uint64) bool) {
	ch.mu.Lock()
	src := ch.known(q)
	if src == nil || ch.state != chanOpen {
		ch.mu.Unlock()
		return
	}
	ch.unacked.each(func(_ uint64, u *unacked) {
		if u.src != src || !gone(u.d&^gotMark) {
			return
		}
		src.unsettled--
		ch.unackedBytes -= uint64(u.bytes)
		if u.d&gotMark == 0 {
			src.part.charged--
			ch.share.charged--
		}
		ch.late++
		*u = late
	})
	if ch.share.total > 0 {
		ch.wakeCredit()
	}
	resume := ch.withheld && !src.isWithheld()
	if resume {
		ch.withheld = false
	}
	ch.mu.Unlock()
	if resume {
		ch.resume()
	}
}
