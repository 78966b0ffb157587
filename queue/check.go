package queue

import (
	"fmt"
	"maps"
	"slices"

	"github.com/warrenmq/warren/config/limits"
)

// Check walks the whole state and returns what is wrong with it, nil if nothing is. It costs as much as a snapshot: tests run it after each step, shells on demand.
func (m *Machine) Check() error {
	k := checker{m: m}
	k.ready()
	k.returning()
	k.delayed()
	k.outbox()
	k.pipelines()
	k.openTxs()
	k.roster()
	k.sets()
	k.flags()
	k.ids()
	return k.err
}

// checker collects what it sees on its walk; err is the first fault.
type checker struct {
	m           *Machine
	err         error
	readySeqs   seqSet
	awaySeqs    seqSet
	outboxSeqs  seqSet
	delayedSeqs seqSet
	unacked     sums
	sessions    int
	consumers   int
	waiting     int
	exclusive   int
	hungry      int
	checks      int
	waits       seqSet // staged messages
}

func (k *checker) need(ok bool, format string, args ...any) {
	if !ok && k.err == nil {
		k.err = fmt.Errorf("queue: "+format, args...)
	}
}

// meet notes that a message was seen in a place. No message is in two.
func (k *checker) meet(set *seqSet, seq Seq) {
	fresh := seq > 0 && seq < k.m.nextSeq && !k.readySeqs.has(seq) && !k.awaySeqs.has(seq) && !k.outboxSeqs.has(seq) && !k.delayedSeqs.has(seq)
	k.need(fresh, "message %d is in two places or was never given (next is %d)", seq, k.m.nextSeq)
	if fresh {
		set.add(seq)
	}
}

func (k *checker) ready() {
	r := &k.m.ready
	var total sums
	timers, next := 0, timer{}
	for i := range r.levels {
		l := &r.levels[i]
		k.need((l.size() > 0) == (r.filled[i/64]&(1<<(i%64)) != 0), "priority %d: %d messages, wrong mark", i, l.size())
		last, born := Seq(0), int64(0)
		k.fifo(&l.fresh)
		l.fresh.ascend(0, func(f *fresh) bool {
			k.need(f.seq > last, "priority %d: message %d stands behind %d", i, f.seq, last)
			k.need(f.flags&^(FlagPersistent|FlagRedelivered) == 0, "message %d has flags %x", f.seq, f.flags)
			k.need(f.born >= born && f.born <= k.m.seenMillis, "priority %d: message %d was born before %d", i, f.seq, last)
			last, born = f.seq, f.born
			k.need(f.due == 0 || f.due >= f.born, "message %d expires at %d, was born at %d", f.seq, f.due, f.born)
			next = next.orSooner(timer{due: f.due, place: f.seq, priority: uint8(i)})
			k.meet(&k.readySeqs, f.seq)
			total.add(&record{bytes: f.bytes, flags: f.flags})
			return true
		})
		place := Seq(0)
		visitOthers(l, func(x record) bool {
			k.need(x.place > place && x.place < k.m.nextSeq && x.place >= x.seq && x.born <= k.m.seenMillis, "message %d stands at %d behind %d", x.seq, x.place, place)
			place = x.place
			k.need(int(x.priority) == i, "message %d of priority %d stands at %d", x.seq, x.priority, i)
			k.need(x.flags&^(FlagPersistent|FlagRedelivered) == 0, "message %d has flags %x", x.seq, x.flags)
			k.meet(&k.readySeqs, x.seq)
			total.add(&x)
			if x.due != 0 {
				timers++
				next = next.orSooner(x.timer())
				k.need(r.timers != nil && r.timers.Has(x.timer()), "message %d has no timer", x.seq)
			}
			return true
		})
	}
	k.need(r.timers == nil && timers == 0 || r.timers != nil && r.timers.Len() == timers, "counted %d timers", timers)
	k.need(!r.nextKnown || r.next == next, "%v expires next, kept %v", next, r.next)
	k.need(total == r.sums, "ready: counted %v, kept %v", total, r.sums)
}

// fifo looks at the pages of a fifo: each is the page of its messages, which belong to its window, and counts them right.
func (k *checker) fifo(f *fifo) {
	n, empty, timers := len(f.front)-f.first+len(f.back), 0, 0
	k.need(f.n == 0 || f.first < len(f.front), "a fifo of %d messages has none in front", f.n)
	for i := f.head; i < len(f.pages); i++ {
		p := &f.pages[i]
		items := p.appendTo(nil)
		n += len(items)
		k.need(len(items) == p.n, "page of window %d: counted %d, kept %d", p.start, len(items), p.n)
		if len(items) == 0 || p.n == 0 {
			empty++
			continue
		}
		again := pack(p.start, items)
		k.need(string(again.runs) == string(p.runs) && again.first == p.first && again.last == p.last, "page of window %d is not that of its messages", p.start)
		k.need(p.start%f.window == 0 && p.first >= p.start && p.last < p.start+f.window, "page of window %d has messages from %d to %d", p.start, p.first, p.last)
		k.need((p.dues == nil) == (again.dues == nil), "page of window %d expires or does not", p.start)
		if p.dues != nil && again.dues != nil {
			timers++
			k.need(string(again.dues.values) == string(p.dues.values) && again.dues.soonest == p.dues.soonest && again.dues.from == p.dues.from && (p.dues.second.due == 0 || p.dues.second == again.dues.second && p.dues.place == again.dues.place) && f.timers.Has(p.dues.soonest), "page of window %d expires at other times", p.start)
		}
	}
	k.need(n == f.n && empty == f.empty, "fifo: counted %d messages, %d empty pages, kept %d, %d", n, empty, f.n, f.empty)
	k.need(f.timers == nil && timers == 0 || f.timers != nil && f.timers.Len() == timers, "fifo: counted %d pages that expire", timers)
	timed := 0
	f.ascend(0, func(x *fresh) bool {
		if x.due != 0 {
			timed++
		}
		return true
	})
	k.need(timed == f.timed, "fifo: counted %d messages that expire, kept %d", timed, f.timed)
}

func visitOthers(l *level, visit func(record) bool) {
	if l.others != nil {
		l.others.Ascend(visit)
	}
}

func (k *checker) outbox() {
	o := &k.m.outbox
	var total sums
	last, unresolved, moving := uint64(0), 0, uint64(0)
	left := make(map[uint64]uint32)
	o.each(func(p *parcel) {
		k.need(p.n > last && p.n <= o.last, "outbox: %d behind %d, last is %d", p.n, last, o.last)
		k.need(p.died <= k.m.seenMillis && (p.reason == ReasonRelayed || p.reason.IsDeath() || p.reason.isMove()), "outbox: %d died at %d for %d", p.n, p.died, p.reason)
		last = p.n
		k.need((p.left == 0) == o.unresolved.Has(p.n), "outbox: %d has %d targets left, is unresolved: %t", p.n, p.left, o.unresolved.Has(p.n))
		if p.left == 0 {
			unresolved++
		}
		left[p.n] = p.left
		if p.reason.isMove() {
			moving++
			k.need(p.left == 1, "outbox: %d is moved and has %d targets left", p.n, p.left)
		}
		k.meet(&k.outboxSeqs, p.record.seq)
		total.add(&p.record)
	})
	k.need(total == o.sums && moving == o.moving, "outbox: counted %v, %d moving, kept %v, %d", total, moving, o.sums, o.moving)
	k.need(o.unresolved == nil || o.unresolved.Len() == unresolved, "outbox: counted %d unresolved", unresolved)
	for i, l := range o.lanes {
		k.need(i == 0 || o.lanes[i-1].target < l.target, "lane of queue %d out of order", l.target)
		for _, n := range l.parcels {
			k.need(left[n] > 0, "lane of queue %d: entry %d is one too many", l.target, n)
			left[n]--
		}
	}
	for _, n := range slices.Sorted(maps.Keys(left)) {
		k.need(left[n] == 0, "outbox: %d stands in no lane", n)
	}
	for i := 1; i < len(k.m.marks); i++ {
		a, b := &k.m.marks[i-1], &k.m.marks[i]
		k.need(a.source < b.source || a.source == b.source && a.epoch < b.epoch, "marks out of order")
	}
	k.need(len(o.lanes) <= k.m.bounds.lanes && len(k.m.marks) <= k.m.bounds.marks, "too many lanes or marks")
}

func (k *checker) heap(h *heap) {
	for i := 1; i < h.n; i++ {
		k.need(!h.at(i).before(h.at((i-1)/2)), "heap order: %d above %d", h.at((i-1)/2).seq, h.at(i).seq)
	}
}

func (k *checker) returning() {
	r := &k.m.returning
	k.heap(&r.heap)
	k.need(r.gathering >= r.len()-r.heap.n && r.gathering <= r.len(), "%d of %d returning messages are to be gathered, %d are in order", r.gathering, r.len(), r.heap.n)
	r.each(func(x *record) {
		k.need(x.flags&^(FlagPersistent|FlagRedelivered|flagFailed) == 0, "message %d has flags %x", x.seq, x.flags)
		k.need(x.acquired > 0, "returning message %d was never acquired", x.seq)
		k.meet(&k.awaySeqs, x.seq)
		k.unacked.add(x)
	})
}

func (k *checker) delayed() {
	d := &k.m.delayed
	var total sums
	d.each(func(x *asleep) {
		r := &x.record
		k.need(r.flags&^(FlagPersistent|FlagRedelivered|FlagDelay) == 0, "delayed message %d has flags %x", r.seq, r.flags)
		k.need(r.flags&FlagDelay == 0 && r.acquired > 0 || r.flags&FlagDelay != 0 && r.acquired == 0 && r.place == r.seq && r.born == x.until, "message %d waits until %d, is to be ready at %d", r.seq, x.until, r.born)
		k.meet(&k.delayedSeqs, x.record.seq)
		total.add(&x.record)
	})
	k.need(total == d.sums, "delayed: counted %v, kept %v", total, d.sums)
	k.need(equalSets(&k.delayedSeqs, &d.seqs), "delayed messages differ from their set")
}

func (k *checker) pipelines() {
	m := k.m
	for i, p := range m.pipelines {
		counter, dead := m.dead(p.id.Node)
		k.need(!dead || p.id.Boot.Counter > counter, "pipeline %v of a dead boot", p.id)
		k.need(p.lastK > 0, "pipeline %v without a batch", p.id)
		k.need(!p.evicted || len(p.sessions) == 0, "evicted pipeline %v with sessions", p.id)
		if i > 0 {
			before := m.pipelines[i-1].id
			k.need(before.less(p.id), "pipelines %v and %v out of order", before, p.id)
			k.need(before.Node != p.id.Node, "pipelines %v and %v are of one node", before, p.id)
		}
		for j, s := range p.sessions {
			k.need(s.id > 0 && (j == 0 || p.sessions[j-1].id < s.id), "session %d out of order", s.id)
			k.need(s.pipeline == p, "session %d has another pipeline", s.id)
			k.session(s)
		}
	}
	for i := 1; i < len(m.deadBoots); i++ {
		k.need(m.deadBoots[i-1].node < m.deadBoots[i].node, "dead boots out of order")
	}
	k.need(m.checks.order == nil && k.checks == 0 || m.checks.order != nil && m.checks.order.Len() == k.checks, "checks: counted %d", k.checks)
	k.need(k.sessions == m.sessions, "sessions: counted %d, kept %d", k.sessions, m.sessions)
}

// tx looks at what a session has staged.
func (k *checker) tx(s *session) {
	t := s.tx
	if t == nil {
		k.need(s.lastConsumer > 0 || s.lastD > 0, "session %d was never used", s.id)
		return
	}
	k.need(t.n > 0 && t.size() > 0 && t.size() <= k.m.bounds.txCommands, "session %d: transaction %d of %d commands", s.id, t.n, t.size())
	k.staged(t.messages)
	for i := range t.settlements {
		r := &t.settlements[i]
		k.need(r.outcome >= OutcomeAck && r.outcome <= OutcomeReturnFresh && r.from > 0 && r.to >= r.from, "session %d: settlement of %d..%d", s.id, r.from, r.to)
	}
}

// staged looks at messages of a transaction.
func (k *checker) staged(messages []record) {
	last, born := Seq(0), int64(0)
	for i := range messages {
		x := &messages[i]
		later := x.flags&FlagDelay != 0
		k.need(x.seq > last && x.place == x.seq && (later || x.born >= born && x.born <= k.m.seenMillis), "staged message %d stands behind %d", x.seq, last)
		k.need(x.flags&^(FlagPersistent|FlagRedelivered|FlagDelay) == 0 && x.acquired|x.failures == 0, "staged message %d has flags %x or was acquired", x.seq, x.flags)
		if last = x.seq; !later {
			born = x.born
		}
		k.meet(&k.awaySeqs, x.seq)
		k.waits.add(x.seq)
	}
}

// openTxs looks at transactions over several queues.
func (k *checker) openTxs() {
	m := k.m
	k.need(len(m.reservations) <= m.bounds.reservations && len(m.decisions) <= m.bounds.decisions, "too many open transactions")
	k.need(!m.sealed || len(m.decisions) == 0 || m.cfg.Draining, "sealed with decisions that others have to hear of")
	for i, r := range m.reservations {
		k.need(i == 0 || m.reservations[i-1].id.less(r.id), "reservation %v out of order", r.id)
		k.coordinated(&r.coordinated)
		k.need(len(r.messages)+len(r.settled) <= m.bounds.txCommands*limits.SettleRangeMax, "reservation %v is too large", r.id)
		k.staged(r.messages)
		for j := range r.settled {
			x := &r.settled[j]
			k.need(x.outcome >= OutcomeAck && x.outcome <= OutcomeReturnFresh, "reserved message %d with outcome %d", x.record.seq, x.outcome)
			k.need(x.record.acquired > 0 && x.record.flags&^(FlagPersistent|FlagRedelivered) == 0, "reserved message %d was never acquired or has flags %x", x.record.seq, x.record.flags)
			k.meet(&k.awaySeqs, x.record.seq)
			k.unacked.add(&x.record)
		}
	}
	for i, d := range m.decisions {
		k.need(i == 0 || m.decisions[i-1].id.less(d.id), "decision %v out of order", d.id)
		k.coordinated(&d.coordinated)
		k.need(len(d.left) > 0 && slices.IsSorted(d.left), "decision %v is for %v", d.id, d.left)
	}
}

func (k *checker) coordinated(c *coordinated) {
	k.need(c.id.Session > 0 && c.id.N > 0 && c.since <= k.m.seenMillis, "transaction %v since %d", c.id, c.since)
	k.need(c.orphan || k.m.speaks(c.id), "transaction %v is an orphan and not marked", c.id)
}

func (k *checker) session(s *session) {
	k.sessions++
	k.tx(s)
	k.need(s.drained <= s.lastD, "session %d: drained %d, last %d", s.id, s.drained, s.lastD)
	if s.check != 0 {
		k.checks++
		k.need(k.m.checks.order != nil && k.m.checks.order.Has(check{s.check, s}), "session %d: its check is not due when it says", s.id)
	}
	found := make([]consumer, len(s.consumers)) // what each should count
	n, last, unsettled, barred := 0, uint64(0), uint32(0), 0
	s.out.each(func(d uint64, x *delivery) {
		n++
		k.need(d > last && d <= s.lastD, "session %d: delivery %d after %d, last is %d", s.id, d, last, s.lastD)
		k.need(x.consumer <= s.lastConsumer, "session %d: delivery %d to unknown consumer %d", s.id, d, x.consumer)
		k.need(x.acquired > 0, "delivery of message %d, never acquired", x.seq)
		k.need(!x.isNoAck() || d > s.drained, "session %d: delivery %d without acknowledgement is drained", s.id, d)
		last = d
		k.meet(&k.awaySeqs, x.seq)
		k.need(x.deadline == 0 || x.deadline > 0 && !x.isNoAck() && s.check > 0 && s.check <= max(x.deadline, k.m.seenMillis+checkGapMillis),
			"session %d: delivery %d is overdue at %d, looked for at %d", s.id, d, x.deadline, s.check)
		if !x.isNoAck() {
			k.unacked.add(&x.record)
			if x.consumer != 0 {
				unsettled++
			}
		}
		for i, c := range s.consumers {
			if c.id != x.consumer {
				continue
			}
			k.need(c.noAck == x.isNoAck(), "session %d: delivery %d of the other kind than consumer %d", s.id, d, c.id)
			if !x.isNoAck() {
				found[i].unsettled++
			}
			if d > s.drained {
				found[i].undrained++
				found[i].undrainedBytes += uint64(x.bytes)
			}
		}
	})
	k.need(n == s.out.n, "session %d: counted %d deliveries, kept %d", s.id, n, s.out.n)
	for i, c := range s.consumers {
		k.consumers++
		k.need(c.id > 0 && c.id <= s.lastConsumer && (i == 0 || s.consumers[i-1].id < c.id), "session %d: consumer %d out of order", s.id, c.id)
		k.need(c.session == s, "consumer %d has another session", c.id)
		k.need(c.unsettled == found[i].unsettled, "consumer %d: counted %d unsettled, kept %d", c.id, found[i].unsettled, c.unsettled)
		k.need(c.undrained == found[i].undrained && c.undrainedBytes == found[i].undrainedBytes, "consumer %d: counted %d undrained of %d bytes, kept %d of %d",
			c.id, found[i].undrained, found[i].undrainedBytes, c.undrained, c.undrainedBytes)
		k.need(c.passive == (k.m.succession.order != nil && (c != k.m.succession.active || !k.m.succession.order.Has(c) || c.passive)), "consumer %d: passive %t", c.id, c.passive)
		k.need(c.waiting == c.hasCredit(), "consumer %d: waiting %t, credit %t", c.id, c.waiting, c.hasCredit())
		k.need(c.keepsLimits(), "consumer %d: %d unsettled and %d undrained of %d bytes, prefetch %d, windows %d and %d bytes",
			c.id, c.unsettled, c.undrained, c.undrainedBytes, c.prefetch, c.windowCount, c.windowBytes)
		k.need(c.barred == (c.hasOwnCredit() && !c.hasCredit()), "consumer %d: barred %t", c.id, c.barred)
		if c.exclusive {
			k.exclusive++
		}
		if c.waiting {
			k.waiting++
		}
		if c.barred {
			barred++
		}
	}
	k.need(s.unsettled == unsettled, "session %d: counted %d unsettled, kept %d", s.id, unsettled, s.unsettled)
	k.need(s.barred == barred, "session %d: counted %d barred consumers, kept %d", s.id, barred, s.barred)
	if s.isHungry() {
		k.hungry++
	}
}

func (k *checker) roster() {
	r := &k.m.roster
	size, linked := 0, 0
	for i := range r.lines {
		l := &r.lines[i]
		size += l.size
		k.need(l.size > 0 && (i == 0 || r.lines[i-1].priority > l.priority), "consumer priority %d out of order or empty", l.priority)
		var last *consumer
		for c := l.first; c != nil && linked <= k.consumers; c = c.next {
			k.need(c.waiting && c.prev == last && c.priority == l.priority, "consumer %d is wrongly linked", c.id)
			last = c
			linked++
		}
		k.need(l.last == last, "consumer priority %d: wrong end", l.priority)
	}
	n := &k.m.succession
	k.need((n.order != nil) == k.m.cfg.SingleActive && n.isStable(), "the active consumer is not the one that it should be")
	k.need(n.order == nil || n.order.Len() == k.consumers, "succession: kept %d of %d consumers", k.consumers, k.consumers)
	k.need(size == k.consumers && r.size == k.consumers, "consumers: counted %d, kept %d and %d", k.consumers, r.size, size)
	k.need(linked == k.waiting && r.waiting == k.waiting, "waiting consumers: counted %d, kept %d, linked %d", k.waiting, r.waiting, linked)
	k.need(r.hungry == k.hungry, "sessions that want more: counted %d, kept %d", k.hungry, r.hungry)
	k.need(k.hungry == 0 || k.m.ready.sums.n == 0 || k.m.sealed, "%d sessions were not told that messages are ready", k.hungry)
	k.need(r.exclusive == (k.exclusive > 0) && (k.exclusive == 0 || k.consumers == 1), "exclusive: %d of %d consumers, kept %t", k.exclusive, k.consumers, r.exclusive)
}

// sets compares the sets of seqs with what was seen: every message that was given and not released is in one place.
func (k *checker) sets() {
	m := k.m
	k.need(equalSets(&k.readySeqs, &m.ready.seqs), "ready messages differ from their set")
	k.need(equalSets(&k.awaySeqs, &m.away), "outstanding, returning, staged and reserved messages differ from their set")
	k.need(equalSets(&k.outboxSeqs, &m.outbox.seqs), "the outbox differs from its set")
	k.need(k.unacked == m.unacked, "unacked: counted %v, kept %v", k.unacked, m.unacked)
	for q, ok := m.dropped.next(0); ok; q, ok = m.dropped.next(q + 1) {
		k.need(q < m.nextSeq && !m.Has(q), "dropped message %d is still held", q)
	}
}

func equalSets(a, b *seqSet) bool {
	if a.n != b.n {
		return false
	}
	for q, ok := a.next(0); ok; q, ok = a.next(q + 1) {
		if !b.has(q) {
			return false
		}
	}
	return true
}

func (k *checker) flags() {
	m := k.m
	k.need(m.lastUse <= m.seenMillis, "used at %d, seen is %d", m.lastUse, m.seenMillis)
	k.need(m.hadConsumer || m.roster.size == 0, "consumers without ever having had one")
	k.need(!m.sealed || m.seals > 0, "sealed without a token")
	k.need(!m.cfg.Draining || m.sealed, "draining and not sealed")
	k.need(!m.unusedDue || m.cfg.AutoDelete && m.hadConsumer && m.roster.size == 0 && !m.returning.isEmpty(), "report of an unused queue is overdue")
	k.need(len(m.pipelines) <= m.bounds.pipelines && m.sessions <= m.bounds.sessions && m.roster.size <= m.bounds.consumers, "a limit is exceeded")
}

// ids looks at the ids that were accepted. In a window those that count are the last ones, in the order in which they came; else each is held by a message of its own, which is in the queue.
func (k *checker) ids() {
	m, d := k.m, &k.m.dedup
	window := m.cfg.isWindow()
	k.need(m.cfg.Deduplicate || d.ids == nil && d.order == nil, "ids in a queue that does not deduplicate")
	k.need(window || d.order == nil && d.last == 0, "a window where there is none")
	k.need(d.order == nil || d.order.Len() == d.ids.Len(), "a window's trees differ")
	k.need(d.past <= d.last && d.pastMillis <= m.seenMillis, "the past of a window lies in the future")
	for q, ok := d.freed.next(0); ok; q, ok = d.freed.next(q + 1) {
		k.need(d.ids != nil && !window && m.Has(q), "message %d was freed of its id and is gone", q)
	}
	if m.stagedIDs != nil {
		k.need(m.stagedIDs.Len() > 0, "an empty set of staged ids")
		m.stagedIDs.Ascend(func(x known) bool {
			k.need(k.waits.has(Seq(x.holder)), "id of message %d, which is not staged", x.holder)
			return true
		})
	}
	holders := make(map[uint64]bool)
	counted, first := uint64(0), uint64(0)
	since := int64(0)
	m.eachID(func(x *known) {
		counted++
		if !window {
			k.need(!holders[x.holder] && Seq(x.holder) < m.nextSeq && !k.waits.has(Seq(x.holder)), "an id is held by message %d", x.holder)
			holders[x.holder] = true
			return
		}
		if first == 0 {
			first = x.holder
		}
		same, ok := d.ids.Get(*x)
		k.need(ok && same == *x && x.since >= since && x.since <= m.seenMillis, "id %d of a window is unknown or out of order", x.holder)
		since = x.since
	})
	k.need(!window || counted == 0 || first+counted-1 == d.last && counted <= m.dedupSize(), "ids of a window: %d from %d on, the last is %d", counted, first, d.last)
	if held := m.ready.sums.n + m.away.n + m.delayed.sums.n; d.ids != nil && !window {
		k.need(held > 0 && (d.sweeping || uint64(d.ids.Len()) <= 2*held+m.bounds.garbage), "%d ids of %d messages", d.ids.Len(), held)
	}
}
