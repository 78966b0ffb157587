package queue

import "github.com/google/btree"

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
