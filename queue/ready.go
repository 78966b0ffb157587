package queue

import "math/bits"

// level is the ready messages of one priority. Messages that were never assigned come in order of seq and stand in fresh; those that came back stand in returned
// with their counts. The head of the level is the one with the lower seq of the two fronts, so a returned message is back at its original position.
type level struct {
	fresh    fifo
	returned heap
}

// ready is all messages that wait for a consumer: one level per priority, the highest first.
type ready struct {
	levels []level // by priority; as many as were ever needed
	filled [4]uint64
	seqs   seqSet
	sums   sums
}

// at returns the level of a priority.
func (r *ready) at(priority uint8) *level {
	if int(priority) >= len(r.levels) {
		levels := make([]level, int(priority)+1)
		copy(levels, r.levels)
		r.levels = levels
	}
	return &r.levels[priority]
}

// push adds a new message, whose seq is above all others.
func (r *ready) push(x *record) {
	r.at(x.priority).fresh.push(fresh{seq: x.seq, bytes: x.bytes, flags: x.flags})
	r.note(x)
}

// putBack adds a message that was assigned before.
func (r *ready) putBack(x *record) {
	if mutant == mutantReturnsToTail {
		r.at(x.priority).fresh.push(fresh{seq: x.seq, bytes: x.bytes, flags: x.flags | FlagRedelivered})
	} else {
		r.at(x.priority).returned.push(*x)
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

// peek copies the head of the queue into x; there must be one.
func (r *ready) peek(x *record) {
	priority := r.top()
	l := &r.levels[priority]
	if len(l.returned) > 0 && (l.fresh.n == 0 || l.returned[0].seq < l.fresh.peek().seq) {
		*x = l.returned[0]
		return
	}
	f := l.fresh.peek()
	*x = record{seq: f.seq, bytes: f.bytes, flags: f.flags, priority: priority}
}

// drop removes the head of the queue, which x is.
func (r *ready) drop(x *record) {
	l := &r.levels[x.priority]
	if len(l.returned) > 0 && l.returned[0].seq == x.seq {
		l.returned.pop()
	} else {
		l.fresh.drop()
	}
	if l.fresh.n == 0 && len(l.returned) == 0 {
		r.filled[x.priority/64] &^= 1 << (x.priority % 64)
	}
	r.seqs.remove(x.seq)
	r.sums.sub(x)
}

// reset forgets all ready messages: whole chunks, whatever their number.
func (r *ready) reset() { *r = ready{} }
