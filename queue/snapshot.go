package queue

import (
	"github.com/warrenmq/warren/internal/codec"
)

// snapshotVersion stands in the first octet of a snapshot. Version 1 had no evicted pipelines; 2 no times, deaths, limits of queues and sessions, and transactions;
// 3 a record for every ready message; 4 one for every message with an expiration of its own.
const snapshotVersion = 5

// recordHasCounts marks an encoded record that has acquired and failures, recordHasDue one that has due; they share an octet with the record's flags.
const (
	recordHasCounts = 0x80
	recordHasDue    = 0x40
	// recordHasPlace marks one whose place is not its seq.
	recordHasPlace = 0x20
	// recordIsLater marks one with FlagDelay, which has no place in the octet.
	recordIsLater = 0x02
)

// recordFlags are the flags that a record may have.
const recordFlags = FlagPersistent | FlagRedelivered | FlagNoAck | flagFailed

// AppendSnapshot appends the whole state. It is canonical: machines in the same state give the same bytes, however they came there. It changes nothing.
func (m *Machine) AppendSnapshot(dst []byte) []byte {
	dst = append(dst, snapshotVersion)
	dst = appendConfig(dst, &m.cfg)
	dst = codec.AppendUint64(dst, uint64(m.seenMillis))
	dst = codec.AppendUvarint(dst, uint64(m.nextSeq))
	dst = codec.AppendUvarint(dst, m.seals)
	dst = codec.AppendBool(dst, m.sealed)
	dst = codec.AppendBool(dst, m.hadConsumer)
	dst = codec.AppendBool(dst, m.unusedDue)
	dst = codec.AppendUvarint(dst, uint64(m.lastUse))
	dst = codec.AppendUvarint(dst, m.succession.joined)
	dst = codec.AppendUvarint(dst, m.succession.epoch)
	for _, v := range m.totals.values() {
		dst = codec.AppendUvarint(dst, *v)
	}
	dst = m.ready.appendTo(dst)
	dst = m.returning.appendTo(dst)
	dst = m.delayed.appendTo(dst)
	dst = m.outbox.appendTo(dst)
	dst = appendMarks(dst, m.marks)
	dst = m.dropped.appendTo(dst)
	dst = codec.AppendUvarint(dst, uint64(len(m.deadBoots)))
	for _, b := range m.deadBoots {
		dst = codec.AppendUvarint(dst, uint64(b.node))
		dst = codec.AppendUvarint(dst, b.counter)
	}
	dst = codec.AppendUvarint(dst, uint64(len(m.pipelines)))
	for _, p := range m.pipelines {
		dst = p.appendTo(dst)
	}
	dst = m.appendOpenTxs(dst)
	return m.appendIDs(m.appendWaiting(dst))
}

// values lists the totals in the order of the snapshot: add at the end, with a new version.
func (t *totals) values() [15]*uint64 {
	return [...]*uint64{
		&t.enqueued, &t.delivered, &t.deliveredNoAck, &t.got, &t.gotNoAck, &t.getEmpty, &t.acked, &t.redelivered, &t.deaths[ReasonRejected-1],
		&t.rejected, &t.deaths[ReasonExpired-1], &t.deaths[ReasonMaxLength-1], &t.deaths[ReasonDeliveryLimit-1], &t.timedOut, &t.duplicates,
	}
}

// appendRecord appends a record whose priority is known. Its place is told by its distance from another, its seq by that from its place, its time of birth by that from an earlier record's.
func appendRecord(dst []byte, distance uint64, born int64, x *record) []byte {
	dst = codec.AppendUvarint(dst, distance)
	dst = codec.AppendUvarint(dst, uint64(x.bytes))
	flags := byte(x.flags)
	if x.acquired|x.failures != 0 {
		flags |= recordHasCounts
	}
	if x.due != 0 {
		flags |= recordHasDue
	}
	if x.place != x.seq {
		flags |= recordHasPlace
	}
	if x.flags&FlagDelay != 0 {
		flags |= recordIsLater
	}
	dst = append(dst, flags)
	if x.place != x.seq {
		dst = codec.AppendUvarint(dst, uint64(x.place-x.seq))
	}
	dst = codec.AppendUvarint(dst, zigzag(x.born-born))
	if flags&recordHasCounts != 0 {
		dst = codec.AppendUvarint(dst, uint64(x.acquired))
		dst = codec.AppendUvarint(dst, uint64(x.failures))
	}
	if flags&recordHasDue != 0 {
		dst = codec.AppendUvarint(dst, uint64(x.due))
	}
	return dst
}

// appendTo appends the levels that have messages, by priority ascending.
func (r *ready) appendTo(dst []byte) []byte {
	filled := 0
	for i := range r.levels {
		if r.levels[i].size() > 0 {
			filled++
		}
	}
	dst = codec.AppendUvarint(dst, uint64(filled))
	for i := range r.levels {
		if r.levels[i].size() > 0 {
			dst = r.levels[i].appendTo(append(dst, byte(i)))
		}
	}
	return dst
}

func (r *returning) appendTo(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(r.len()))
	dst = codec.AppendUvarint(dst, uint64(r.gathering))
	for _, x := range r.sorted() {
		dst = append(dst, x.priority)
		dst = appendRecord(dst, uint64(x.place), 0, &x)
	}
	return dst
}

func (d *delayed) appendTo(dst []byte) []byte {
	if mutant == mutantSnapshotOmitsDelayed {
		return codec.AppendUvarint(dst, 0)
	}
	dst = codec.AppendUvarint(dst, d.sums.n)
	last := asleep{}
	d.each(func(x *asleep) {
		dst = codec.AppendUvarint(dst, uint64(x.until-last.until))
		dst = append(dst, x.record.priority)
		dst = appendRecord(dst, zigzag(int64(x.record.place-last.record.place)), last.record.born, &x.record)
		last = *x
	})
	return dst
}

func (o *outbox) appendTo(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, o.last)
	if mutant == mutantSnapshotOmitsOutbox {
		return append(dst, 0, 0)
	}
	dst = codec.AppendUvarint(dst, o.sums.n)
	last := parcel{}
	o.each(func(p *parcel) {
		dst = codec.AppendUvarint(dst, p.n-last.n)
		dst = append(dst, byte(p.reason), p.record.priority)
		dst = codec.AppendUvarint(dst, uint64(p.left))
		dst = codec.AppendUvarint(dst, zigzag(p.died-last.died))
		dst = appendRecord(dst, zigzag(int64(p.record.place-last.record.place)), last.record.born, &p.record)
		last = *p
	})
	dst = codec.AppendUvarint(dst, uint64(len(o.lanes)))
	for _, l := range o.lanes {
		dst = codec.AppendUvarint(dst, uint64(l.target))
		dst = codec.AppendUvarint(dst, l.done)
		dst = codec.AppendUvarint(dst, uint64(len(l.parcels)))
		n := uint64(0)
		for _, next := range l.parcels {
			dst = codec.AppendUvarint(dst, zigzag(int64(next-n)))
			n = next
		}
	}
	return dst
}

func appendMarks(dst []byte, marks []mark) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(marks)))
	for _, k := range marks {
		dst = codec.AppendUvarint(dst, uint64(k.source))
		dst = codec.AppendUvarint(dst, k.epoch)
		dst = codec.AppendUvarint(dst, k.last)
	}
	return dst
}

func (s *seqSet) appendTo(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(s.pages)-s.head))
	for i := s.head; i < len(s.pages); i++ {
		dst = codec.AppendUvarint(dst, s.pages[i].no)
		for _, w := range s.pages[i].bits {
			dst = codec.AppendUint64(dst, w)
		}
	}
	return dst
}

func (p *pipeline) appendTo(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(p.id.Node))
	dst = codec.AppendUvarint(dst, p.id.Boot.Counter)
	dst = codec.AppendUint64(dst, p.id.Boot.Nonce)
	dst = codec.AppendUvarint(dst, p.id.Gen)
	dst = codec.AppendBool(dst, p.evicted)
	dst = codec.AppendUvarint(dst, p.lastK)
	for k := p.oldestK(); k <= p.lastK; k++ {
		dst = codec.AppendBytes(dst, p.outcomes[k%pipelineWindow])
	}
	dst = codec.AppendUvarint(dst, uint64(len(p.sessions)))
	for _, s := range p.sessions {
		dst = s.appendTo(dst)
	}
	return dst
}

func (s *session) appendTo(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(s.id))
	dst = codec.AppendUvarint(dst, s.lastD)
	dst = codec.AppendUvarint(dst, s.drained)
	dst = codec.AppendUvarint(dst, uint64(s.lastConsumer))
	dst = codec.AppendUvarint(dst, uint64(s.limit+1)) // NoLimit is 0
	dst = codec.AppendBool(dst, s.wants)
	dst = codec.AppendUvarint(dst, uint64(s.check))
	dst = codec.AppendBool(dst, s.lostSome)
	dst = codec.AppendUvarint(dst, uint64(len(s.consumers)))
	for _, c := range s.consumers {
		dst = codec.AppendUvarint(dst, uint64(c.id))
		dst = codec.AppendUint32(dst, uint32(c.priority))
		dst = codec.AppendUvarint(dst, uint64(c.prefetch))
		dst = codec.AppendUvarint(dst, uint64(c.windowBytes))
		dst = codec.AppendUvarint(dst, uint64(c.windowCount))
		dst = codec.AppendBool(dst, c.noAck)
		dst = codec.AppendBool(dst, c.exclusive)
		dst = codec.AppendUvarint(dst, c.joined)
		dst = codec.AppendUvarint(dst, c.epoch)
		dst = codec.AppendBool(dst, c.passive)
		dst = codec.AppendUvarint(dst, uint64(c.timeout))
	}
	dst = s.tx.appendTo(dst)
	if mutant == mutantSnapshotOmitsUnacked {
		return codec.AppendUvarint(dst, 0)
	}
	dst = codec.AppendUvarint(dst, uint64(s.out.n))
	lastD, lastPlace, born := uint64(0), Seq(0), int64(0)
	s.out.each(func(d uint64, x *delivery) {
		dst = codec.AppendUvarint(dst, d-lastD)
		dst = codec.AppendUvarint(dst, uint64(x.consumer))
		dst = codec.AppendUvarint(dst, uint64(x.deadline))
		dst = append(dst, x.priority)
		dst = appendRecord(dst, zigzag(int64(x.place-lastPlace)), born, &x.record)
		lastD, lastPlace, born = d, x.place, x.born
	})
	return dst
}

// appendTo appends the number of the transaction, 0 if there is none, and what is staged.
func (t *tx) appendTo(dst []byte) []byte {
	if t == nil {
		return codec.AppendUvarint(dst, 0)
	}
	dst = codec.AppendUvarint(dst, uint64(t.n))
	dst = appendStaged(dst, t.messages)
	dst = codec.AppendUvarint(dst, uint64(len(t.settlements)))
	for i := range t.settlements {
		r := &t.settlements[i]
		dst = append(dst, byte(r.outcome))
		dst = codec.AppendUvarint(dst, uint64(r.consumer))
		dst = codec.AppendUvarint(dst, r.from)
		dst = codec.AppendUvarint(dst, r.to-r.from)
	}
	return dst
}

// appendIDs appends the ids of staged messages, then those that count; a queue that does not deduplicate has none of these.
func (m *Machine) appendIDs(dst []byte) []byte {
	if m.stagedIDs == nil {
		dst = append(dst, 0)
	} else {
		dst = codec.AppendUvarint(dst, uint64(m.stagedIDs.Len()))
		m.stagedIDs.Ascend(func(k known) bool {
			dst = codec.AppendUvarint(appendID(dst, k.id), k.holder)
			return true
		})
	}
	if !m.cfg.Deduplicate {
		return dst
	}
	n := uint64(0)
	m.eachID(func(*known) { n++ })
	if mutant == mutantSnapshotOmitsIDs {
		return append(dst, 0)
	}
	dst = codec.AppendUvarint(dst, n)
	window, since := m.cfg.isWindow(), int64(0)
	m.eachID(func(k *known) {
		dst = appendID(dst, k.id)
		if !window {
			dst = codec.AppendUvarint(dst, k.holder)
			return
		}
		dst = codec.AppendUvarint(dst, uint64(k.since-since))
		since = k.since
	})
	return dst
}

// zigzag maps small numbers of either sign to small ones.
func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// appendWaiting appends the order in which consumers wait, each by its place among all consumers of the snapshot.
func (m *Machine) appendWaiting(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(m.roster.waiting))
	if m.roster.waiting == 0 {
		return dst
	}
	m.numberConsumers()
	for i := range m.roster.lines {
		for c := m.roster.lines[i].first; c != nil; c = c.next {
			dst = codec.AppendUvarint(dst, uint64(c.place))
		}
	}
	return dst
}

// numberConsumers gives every consumer its place in the order of the snapshot and returns how many there are.
func (m *Machine) numberConsumers() int {
	n := 0
	for _, p := range m.pipelines {
		for _, s := range p.sessions {
			for _, c := range s.consumers {
				c.place = n
				n++
			}
		}
	}
	return n
}
