package queue

import (
	"math/bits"

	"github.com/google/btree"
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

// level is the ready messages of one priority. Messages that were neither assigned nor staged and have no expiration of their own come in order of seq and stand in fresh; all
// others stand in others. The head of the level is the one with the lower place of the two fronts, so a returned message is back at its original position.
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
	timers *btree.BTreeG[timer] // of those with an expiration of their own; nil until it is needed
	window Seq                  // of the levels' fifos
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
	if x.due != 0 {
		r.putBack(x)
		return
	}
	r.at(x.priority).fresh.push(fresh{seq: x.seq, bytes: x.bytes, flags: x.flags, born: x.born})
	r.note(x)
}

// putBack adds a message that was assigned before, was staged, or has an expiration of its own.
func (r *ready) putBack(x *record) {
	if mutant == mutantReturnsToTail && x.acquired > 0 {
		r.at(x.priority).fresh.push(fresh{seq: x.seq, bytes: x.bytes, flags: x.flags | FlagRedelivered, born: x.born})
		r.note(x)
		return
	}
	l := r.at(x.priority)
	if l.others == nil {
		l.others = newTree(byPlace)
	}
	l.others.ReplaceOrInsert(*x)
	if x.due != 0 {
		if r.timers == nil {
			r.timers = newTree(byDue)
		}
		r.timers.ReplaceOrInsert(timer{x.due, x.place, x.priority})
	}
	r.note(x)
}

func (r *ready) note(x *record) {
	r.filled[x.priority/64] |= 1 << (x.priority % 64)
	r.seqs.add(x.seq)
	r.sums.add(x)
}

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

// drop removes a message, which is the head of its level or has an expiration of its own.
func (r *ready) drop(x *record) {
	l := &r.levels[x.priority]
	if l.fresh.n > 0 && l.fresh.peek().seq == x.seq {
		l.fresh.drop()
	} else {
		l.others.Delete(record{place: x.place})
	}
	if x.due != 0 && mutant != mutantTimerKept {
		r.timers.Delete(timer{due: x.due, place: x.place})
	}
	if l.size() == 0 {
		r.filled[x.priority/64] &^= 1 << (x.priority % 64)
	}
	r.seqs.remove(x.seq)
	r.sums.sub(x)
}

// timed returns the message with the earliest expiration of its own; false if there is none.
func (r *ready) timed(x *record) bool {
	if r.timers == nil {
		return false
	}
	t, ok := r.timers.Min()
	if ok {
		*x, _ = r.levels[t.priority].others.Get(record{place: t.place})
	}
	return ok
}

// nextDue returns the earliest expiration of a message's own.
func (r *ready) nextDue() (millis int64, ok bool) {
	if r.timers == nil {
		return 0, false
	}
	t, ok := r.timers.Min()
	return t.due, ok
}

func (l *level) size() int {
	if l.others == nil {
		return l.fresh.n
	}
	return l.fresh.n + l.others.Len()
}

// reset forgets all ready messages: whole pages, whatever their number.
func (r *ready) reset() { *r = ready{window: r.window} }
