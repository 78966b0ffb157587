package queue

import (
	"math/bits"

	"github.com/google/btree"

	"github.com/warrenmq/warren/internal/invariant"
)

const (
	// treeDegree is the degree of the ordered sets of messages, treeSpares how many empty nodes each keeps.
	treeDegree = 16
	treeSpares = 2
)

// newTree makes an ordered set.
func newTree[T any](less btree.LessFunc[T]) *btree.BTreeG[T] {
	return btree.NewWithFreeListG(treeDegree, less, btree.NewFreeListG[T](treeSpares))
}

// level is the ready messages of one priority. Messages that were neither assigned nor staged come in order of seq and stand in fresh; all others stand in others. The head of the level is the one with the lower place of the two fronts, so a returned message is back at its original position.
type level struct {
	fresh  fifo
	others *btree.BTreeG[record] // by place; nil until it is needed
}

// timer says when a ready message expires by its own expiration.
type timer struct {
	due      int64
	place    Seq
	priority uint8
}

func byDue(a, b timer) bool { return a.due < b.due || a.due == b.due && a.place < b.place }

// ready is all messages that wait for a consumer: one level per priority, the highest first.
type ready struct {
	levels []level // by priority; as many as were ever needed
	filled [4]uint64
	seqs   seqSet
	sums   sums
	timers *btree.BTreeG[timer] // of the levels' others that have an expiration of their own; nil until it is needed
	window Seq                  // of the levels' fifos
	// next is the message that expires first by its own expiration, nextKnown whether it is known; its due is 0 if there is none.
	next      timer
	nextKnown bool
}

// at returns the level of a priority.
func (r *ready) at(priority uint8) *level {
	if int(priority) >= len(r.levels) {
		levels := make([]level, int(priority)+1)
		for i := copy(levels, r.levels); i < len(levels); i++ {
			levels[i].fresh.window = r.window
		}
		r.levels = levels
	}
	return &r.levels[priority]
}

// push adds a new message, whose seq is above all others.
func (r *ready) push(x *record) {
	r.at(x.priority).fresh.push(fresh{seq: x.seq, bytes: x.bytes, flags: x.flags, born: x.born, due: x.due})
	r.note(x)
}

// putBack adds a message that was assigned before or was staged.
func (r *ready) putBack(x *record) {
	if mutant == mutantReturnsToTail && x.acquired > 0 {
		r.at(x.priority).fresh.push(fresh{seq: x.seq, bytes: x.bytes, flags: x.flags | FlagRedelivered, born: x.born, due: x.due})
		r.note(x)
		return
	}
	l := r.at(x.priority)
	if x.isPlain() && x.seq > l.fresh.last() { // of a transaction, most of all: nobody can tell it from one that just came
		l.fresh.push(fresh{seq: x.seq, bytes: x.bytes, flags: x.flags, born: x.born, due: x.due})
		r.note(x)
		return
	}
	if l.others == nil {
		l.others = newTree(byPlace)
	}
	l.others.ReplaceOrInsert(*x)
	if x.due != 0 {
		if r.timers == nil {
			r.timers = newTree(byDue)
		}
		r.timers.ReplaceOrInsert(x.timer())
	}
	r.note(x)
}

func (r *ready) note(x *record) {
	r.filled[x.priority/64] |= 1 << (x.priority % 64)
	r.seqs.add(x.seq)
	r.sums.add(x)
	if x.due != 0 && r.nextKnown {
		r.next = r.next.orSooner(x.timer())
	}
}

// timer returns when the message expires by its own expiration.
func (r *record) timer() timer { return timer{due: r.due, place: r.place, priority: r.priority} }

// top returns the highest priority that has messages; there must be one.
func (r *ready) top() uint8 {
	for i := len(r.filled) - 1; i > 0; i-- {
		if w := r.filled[i]; w != 0 {
			return uint8(i*64 + 63 - bits.LeadingZeros64(w))
		}
	}
	return uint8(63 - bits.LeadingZeros64(r.filled[0]))
}

// bottom returns the lowest priority that has messages; there must be one.
func (r *ready) bottom() uint8 {
	for i, w := range r.filled {
		if w != 0 {
			return uint8(i*64 + bits.TrailingZeros64(w))
		}
	}
	return 0
}

// peek copies the head of the queue into x; there must be one.
func (r *ready) peek(x *record) { r.peekAt(r.top(), x) }

// peekAt copies the head of a level, which must not be empty, into x.
func (r *ready) peekAt(priority uint8, x *record) {
	l := &r.levels[priority]
	if l.others != nil {
		if o, ok := l.others.Min(); ok && (l.fresh.n == 0 || o.place < l.fresh.peek().seq) {
			*x = o
			return
		}
	}
	*x = fromFresh(l.fresh.peek(), priority)
}

// drop removes the head of a level.
func (r *ready) drop(x *record) {
	l := &r.levels[x.priority]
	isOther := l.fresh.n == 0 || l.fresh.peek().seq != x.seq
	if isOther {
		l.others.Delete(record{place: x.place})
	} else {
		l.fresh.drop()
	}
	if x.due != 0 && mutant != mutantTimerKept {
		r.unwatch(x, isOther)
	}
	r.forget(x)
}

// forget follows when a message was taken out of its level.
func (r *ready) forget(x *record) {
	if r.levels[x.priority].size() == 0 {
		r.filled[x.priority/64] &^= 1 << (x.priority % 64)
	}
	r.seqs.remove(x.seq)
	r.sums.sub(x)
}

// unwatch forgets when a message expires that was taken out.
func (r *ready) unwatch(x *record, isOther bool) {
	if isOther {
		r.timers.Delete(x.timer())
	}
	if r.next.place == x.place {
		r.nextKnown = false
	}
}

// takeNext takes out the message with the earliest expiration of its own, which is known, see nextDue.
func (r *ready) takeNext() record {
	next := r.next
	l := &r.levels[next.priority]
	if l.fresh.n > 0 && l.fresh.peek().seq == next.place {
		x := fromFresh(l.fresh.peek(), next.priority)
		r.drop(&x)
		return x
	}
	x, isOther := record{place: next.place}, false
	if l.others != nil {
		x, isOther = l.others.Delete(x)
	}
	if !isOther {
		f, ok := l.fresh.takeOne(next.place)
		if !ok {
			invariant.Failf("message %d is to expire and is not there", next.place)
		}
		x = fromFresh(&f, next.priority)
	}
	if mutant != mutantTimerKept {
		r.unwatch(&x, isOther)
	}
	r.forget(&x)
	return x
}

// nextDue returns the earliest expiration of a message's own.
func (r *ready) nextDue() (millis int64, ok bool) {
	if !r.nextKnown {
		r.next, r.nextKnown = r.soonest(), true
	}
	return r.next.due, r.next.due != 0
}

// soonest looks for the message that expires first by its own expiration.
func (r *ready) soonest() (t timer) {
	if r.timers != nil {
		t, _ = r.timers.Min()
	}
	for i, w := range r.filled {
		for ; w != 0; w &= w - 1 {
			p := i*64 + bits.TrailingZeros64(w)
			f := r.levels[p].fresh.soonest()
			f.priority = uint8(p)
			t = t.orSooner(f)
		}
	}
	return t
}

func (l *level) size() int {
	if l.others == nil {
		return l.fresh.n
	}
	return l.fresh.n + l.others.Len()
}

// reset forgets all ready messages: whole pages, whatever their number.
func (r *ready) reset() { *r = ready{window: r.window} }
