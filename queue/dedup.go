package queue

import "github.com/google/btree"

// A queue that deduplicates refuses a message whose id it knows: as long as the first one is in the queue, or for a time since it came. An id is known from the message that was stored with it, so one that was
// refused may be tried again at once.

// DedupID stands for the value of a message's deduplication header: 128 bits of a digest of it, so that ids cost the same whatever publishers choose.
type DedupID struct{ High, Low uint64 }

// known is an id that was accepted.
type known struct {
	id DedupID
	// holder is the seq of the message that holds the id; of a window the number of the acceptance, counted from 1.
	holder uint64
	since  int64 // of a window: when it was accepted, in milliseconds
}

func byID(a, b known) bool {
	return a.id.High < b.id.High || a.id.High == b.id.High && a.id.Low < b.id.Low
}

func byHolder(a, b known) bool { return a.holder < b.holder }

// dedup is the ids that were accepted. Whether one still counts follows from what else the machine holds (see stands), so nothing needs to be done when a message leaves the queue, were it a
// million of them in a purge. Those that count no more are garbage, which nobody sees and which goes bit by bit.
type dedup struct {
	ids *btree.BTreeG[known] // by id; nil until it is needed
	// What follows belongs to a window. All that counts stands in the numbers behind one of them without a gap, for ids leave in the order in which they came.
	order *btree.BTreeG[known] // by number
	last  uint64
	// What was accepted before pastMillis, or up to the number past, had left when the limits of the window were changed, whatever they are now.
	pastMillis int64
	past       uint64
	// freed is messages whose id does not count any more though they are here: they were handed out without acknowledgement, and count as gone. What comes back all the same does not get it back. No state:
	// snapshots leave their ids out.
	freed seqSet
	// sweeping says that garbage is being looked for, from the id next on; no state.
	sweeping bool
	next     DedupID
}

// isWindow tells whether ids count for a time, or for a number of others, and not as long as their message is in the queue.
func (c *Config) isWindow() bool { return c.DedupTTL|c.DedupSize != 0 }

// dedupSize is how many ids a window holds at most.
func (m *Machine) dedupSize() uint64 {
	if n, ok := m.cfg.DedupSize.Get(); ok {
		return min(n, m.bounds.ids)
	}
	return m.bounds.ids
}

// stands tells whether an id that was accepted still counts.
func (m *Machine) stands(k *known) bool {
	if !m.cfg.isWindow() {
		seq := Seq(k.holder)
		return (m.ready.seqs.has(seq) || m.away.has(seq) && mutant != mutantIDFreedEarly || m.delayed.seqs.has(seq)) && !m.dedup.freed.has(seq)
	}
	d := &m.dedup
	due, ends := m.cfg.DedupTTL.after(k.since)
	return k.holder > d.past && k.since >= d.pastMillis && d.last-k.holder < m.dedupSize() && !(ends && due <= m.seenMillis)
}

// isDuplicate tells whether a message comes with an id that counts.
func (m *Machine) isDuplicate(id DedupID) bool {
	if m.dedup.ids == nil {
		return false
	}
	k, ok := m.dedup.ids.Get(known{id: id})
	return ok && m.stands(&k)
}

// staysDuplicate tells whether an id counts whatever is settled: its message is not unacked.
func (m *Machine) staysDuplicate(id DedupID) bool {
	if m.dedup.ids == nil {
		return false
	}
	k, ok := m.dedup.ids.Get(known{id: id})
	return ok && m.stands(&k) && (m.cfg.isWindow() || !m.away.has(Seq(k.holder)))
}

// dropsDuplicate counts a message with an id that counts.
func (m *Machine) dropsDuplicate(id DedupID) bool {
	if !m.isDuplicate(id) {
		return false
	}
	m.totals.duplicates++
	if mutant == mutantWindowRefreshed && m.cfg.isWindow() {
		m.accept(id, 0)
	}
	return true
}

// accept makes the id of a message known that was stored as seq, and is no duplicate.
func (m *Machine) accept(id DedupID, seq Seq) {
	if !m.cfg.Deduplicate {
		return
	}
	d := &m.dedup
	if d.ids == nil {
		d.ids = newTree(byID)
	}
	if !m.cfg.isWindow() {
		d.ids.ReplaceOrInsert(known{id: id, holder: uint64(seq)})
		return
	}
	if d.order == nil {
		d.order = newTree(byHolder)
	}
	d.last++
	k := known{id: id, holder: d.last, since: m.seenMillis}
	if old, ok := d.ids.ReplaceOrInsert(k); ok {
		d.order.Delete(old)
	}
	d.order.ReplaceOrInsert(k)
	for range dedupForgotten {
		if old, ok := d.order.Min(); ok && !m.stands(&old) {
			d.order.DeleteMin()
			d.ids.Delete(old)
		}
	}
}

// dedupForgotten is how many ids that left a window one that comes takes away: more than one, so that they become fewer.
const dedupForgotten = 2

// stageID keeps the id of a message that is staged in a transaction: it counts once the message is in the queue, if it is no duplicate then.
func (m *Machine) stageID(id DedupID, seq Seq) {
	if m.stagedIDs == nil {
		m.stagedIDs = newTree(byHolder)
	}
	m.stagedIDs.ReplaceOrInsert(known{id: id, holder: uint64(seq)})
}

// stagedID returns the id of a staged message; ok is false if it has none.
func (m *Machine) stagedID(seq Seq) (id DedupID, ok bool) {
	if m.stagedIDs == nil {
		return id, false
	}
	k, ok := m.stagedIDs.Get(known{holder: uint64(seq)})
	return k.id, ok
}

// unstageID is stagedID of a message that is not staged any more.
func (m *Machine) unstageID(seq Seq) (id DedupID, ok bool) {
	if m.stagedIDs == nil {
		return id, false
	}
	k, ok := m.stagedIDs.Delete(known{holder: uint64(seq)})
	if m.stagedIDs.Len() == 0 {
		m.stagedIDs = nil
	}
	return k.id, ok
}

// followDedup takes over what a new Config says about ids, in place of old. A queue that changes from one kind of deduplication to another, or to none, begins anew.
func (m *Machine) followDedup(old *Config) {
	d := &m.dedup
	switch now := &m.cfg; {
	case now.Deduplicate != old.Deduplicate || now.isWindow() != old.isWindow():
		*d = dedup{}
	case now.isWindow() && (now.DedupTTL != old.DedupTTL || now.DedupSize != old.DedupSize):
		size := m.bounds.ids
		if n, ok := old.DedupSize.Get(); ok {
			size = min(size, n)
		}
		d.past = max(d.past, d.last-min(d.last, size))
		if ttl, ok := old.DedupTTL.Get(); ok {
			d.pastMillis = max(d.pastMillis, m.seenMillis-int64(max(min(ttl, numberMax), 1))+1)
		}
	}
}

// freeID has a message hold its id no longer.
func (m *Machine) freeID(seq Seq) {
	if d := &m.dedup; d.ids != nil && !m.cfg.isWindow() && !d.freed.has(seq) {
		m.dedup.freed.add(seq)
	}
}

// forgetFreed forgets that a message that leaves was freed of its id.
func (m *Machine) forgetFreed(seq Seq) {
	if m.dedup.freed.n > 0 {
		m.dedup.freed.remove(seq)
	}
}

// sweep looks for garbage among the ids of messages, once there may be as much of it as of others: from one end to the other, over as many log entries as it takes. Each pass finds as many as it passes over
// that count, or nearly so, and the memory is at most twice what is needed.
func (m *Machine) sweep() {
	d := &m.dedup
	if d.ids == nil || m.cfg.isWindow() {
		return
	}
	held := m.ready.sums.n + m.away.n + m.delayed.sums.n
	if held == 0 {
		*d = dedup{}
		return
	}
	excess := func() bool { return uint64(d.ids.Len()) > 2*held+m.bounds.garbage }
	if !d.sweeping && !excess() {
		return
	}
	var garbage []known
	d.sweeping = false
	d.ids.AscendGreaterOrEqual(known{id: d.next}, func(k known) bool {
		if m.budget.sweeps == 0 {
			d.sweeping, d.next = true, k.id
			return false
		}
		m.budget.sweeps--
		if !m.stands(&k) {
			garbage = append(garbage, k)
		}
		return true
	})
	for _, k := range garbage {
		d.ids.Delete(k)
	}
	if !d.sweeping {
		d.sweeping, d.next = excess(), DedupID{}
	}
}

// eachID visits the ids that count: of a window in the order in which they came, else in their own order.
func (m *Machine) eachID(visit func(k *known)) {
	tree := m.dedup.ids
	if m.cfg.isWindow() {
		tree = m.dedup.order
	}
	if tree == nil {
		return
	}
	tree.Ascend(func(k known) bool {
		if m.stands(&k) {
			visit(&k)
		}
		return true
	})
}
