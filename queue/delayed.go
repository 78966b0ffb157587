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

// remove takes out a message that is there.
func (d *delayed) remove(x *asleep) {
	if mutant != mutantWakesTwice {
		d.messages.Delete(*x)
	}
	d.seqs.remove(x.record.seq)
	d.sums.sub(&x.record)
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
func (m *Machine) wake(out []Effect) []Effect {
	for m.budget.returns > 0 {
		x, ok := m.delayed.next()
		if !ok || x.until > m.seenMillis && mutant != mutantWakesEarly {
			return out
		}
		m.budget.returns--
		out = m.rouse(&x, out)
	}
	return out
}

// rouse makes a delayed message ready. One that nobody had yet takes the place and the age of one that has just come: it stands behind all that became ready before it, and its time to live begins. One that
// waited for another try goes back to its place. Limits of length do not hold it back, for it was confirmed long ago: where they refuse publishes the queue is longer for a while.
func (m *Machine) rouse(x *asleep, out []Effect) []Effect {
	m.delayed.remove(x)
	r := &x.record
	if r.flags&FlagDelay != 0 {
		r.flags &^= FlagDelay
		if r.due != 0 {
			r.due += m.seenMillis - r.born
		}
		r.born = m.seenMillis
		if mutant != mutantWakesToOldPlace {
			r.place = m.nextSeq
			m.nextSeq++
		}
	}
	switch {
	case m.cfg.Relay && m.cfg.Draining && mutant != mutantDrainingRelays:
		return m.release(r.seq, out) // its exchange went before it was due
	case m.cfg.Relay:
		return m.relay(r, out)
	}
	m.ready.putBack(r)
	return out
}

// schedule is when the message of an Enqueue is to become ready.
func (m *Machine) schedule(cmd *Command) int64 {
	switch {
	case cmd.Flags&FlagDelay == 0:
		return m.seenMillis
	case cmd.DelayUntil:
		return max(m.seenMillis, int64(min(cmd.Delay, timeMax)))
	}
	return m.seenMillis + int64(min(cmd.Delay, delayMax))
}

// timeMax bounds the times that messages can be scheduled for.
const timeMax = numberMax / 2
