package queue

import "math/bits"

// Strict priorities starve: as long as something of a higher priority comes, nothing lower goes. On a queue with aging a ready message counts as one priority higher for each so many milliseconds since it was
// enqueued, up to the queue's highest; of those that count as equal the one that stands nearer to the head goes first. A message that is old enough so goes before all that came after it, whatever they are.
// Within a priority the head is the oldest, so only heads are compared. What the message is, in snapshots, deliveries and limits, stays.

// head copies the message that goes next into x; there must be one.
func (m *Machine) head(x *record) {
	if m.cfg.PriorityAging <= LimitOf(0) || mutant == mutantAgingStarves {
		m.ready.peek(x)
		return
	}
	best := uint64(0)
	found := false
	for i := len(m.ready.filled) - 1; i >= 0; i-- {
		for w := m.ready.filled[i]; w != 0; {
			bit := 63 - bits.LeadingZeros64(w)
			w &^= 1 << bit
			var y record
			m.ready.peekAt(uint8(i*64+bit), &y)
			rank := m.rank(&y)
			if !found || rank > best || rank == best && y.place < x.place && mutant != mutantAgingForgetsPosition {
				best, *x, found = rank, y, true
			}
		}
	}
}

// rank is the priority that a ready message counts as.
func (m *Machine) rank(x *record) uint64 {
	step, _ := m.cfg.PriorityAging.Get()
	most := uint64(max(m.cfg.PriorityMax, x.priority))
	return min(uint64(x.priority)+uint64(m.seenMillis-x.born)/step, most)
}
