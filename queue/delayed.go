package queue

import "github.com/google/btree"

// RetryType says which messages wait before they are tried again. The numbers stand in logs: only add at the end.
type RetryType uint8

const (
	// RetryAtOnce: none.
	RetryAtOnce RetryType = 0
	// RetryAll: all that come back.
	RetryAll RetryType = 1
	// RetryFailed: those that come back as a failure.
	RetryFailed RetryType = 2
	// RetryReturned: those that come back and count as no failure.
	RetryReturned RetryType = 3
)

// comeback tells why an unacked message comes back; not persisted.
type comeback uint8

// The values are not persisted.
const (
	// unseen: no client was shown it, or nobody knows.
	unseen comeback = 0
	// returned: a client gave it back.
	returned comeback = 1
	// failure: a client failed at it.
	failure comeback = 2
)

// asleep is a message that waits for its time.
type asleep struct {
	until  int64 // in milliseconds
	record record
}

func byUntil(a, b asleep) bool {
	return a.until < b.until || a.until == b.until && a.record.seq < b.record.seq
}

// delayed is the messages that are to be ready later. Nobody gets, counts as ready or purges them.
type delayed struct {
	messages *btree.BTreeG[asleep] // nil until it is needed
	seqs     seqSet
	sums     sums
}

func (d *delayed) add(until int64, x *record) {
	if d.messages == nil {
		d.messages = newTree(byUntil)
	}
	d.messages.ReplaceOrInsert(asleep{until, *x})
	d.seqs.add(x.seq)
	d.sums.add(x)
}

// next returns the message whose time comes first; false if there is none.
func (d *delayed) next() (asleep, bool) {
	if d.messages == nil {
		return asleep{}, false
	}
	return d.messages.Min()
}

func (d *delayed) each(visit func(x *asleep)) {
	if d.messages != nil {
		d.messages.Ascend(func(x asleep) bool {
			visit(&x)
			return true
		})
	}
}

// retryDelay is how long a message that comes back waits, in milliseconds.
func (m *Machine) retryDelay(x *record, how comeback) int64 {
	if t := m.cfg.Retry; t == RetryAtOnce || how == unseen || t == RetryFailed && how != failure || t == RetryReturned && how != returned {
		return 0
	}
	first, _ := m.cfg.RetryMin.Get()
	most, ok := m.cfg.RetryMax.Get()
	if !ok {
		most = first
	}
	return int64(min(min(first, delayMax)*max(1, uint64(x.failures)), most, delayMax))
}

// delayMax is the longest wait, in milliseconds: a thousand years.
const delayMax = 1000 * 366 * 24 * 3600 * 1000

// wake makes messages ready whose time has come.
func (m *Machine) wake() {
	for m.budget.returns > 0 {
		x, ok := m.delayed.next()
		if !ok || x.until > m.seenMillis {
			return
		}
		m.budget.returns--
		m.delayed.messages.DeleteMin()
		m.delayed.seqs.remove(x.record.seq)
		m.delayed.sums.sub(&x.record)
		m.ready.putBack(&x.record)
	}
}
