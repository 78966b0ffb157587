package queue

import (
	"github.com/warrenmq/warren/internal/codec"
)

// How transactions stand in snapshots.

// appendStaged appends messages of a transaction.
func appendStaged(dst []byte, messages []record) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(messages)))
	last, born := Seq(0), int64(0)
	for i := range messages {
		x := &messages[i]
		dst = append(dst, x.priority)
		dst = appendRecord(dst, uint64(x.seq-last), born, x)
		if last = x.seq; x.flags&FlagDelay == 0 {
			born = x.born
		}
	}
	return dst
}

// appendOpenTxs appends reservations and decisions.
func (m *Machine) appendOpenTxs(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(len(m.reservations)))
	for _, r := range m.reservations {
		dst = r.coordinated.appendTo(dst)
		dst = codec.AppendUvarint(dst, uint64(r.home))
		dst = appendStaged(dst, r.messages)
		dst = codec.AppendUvarint(dst, uint64(len(r.settled)))
		for i := range r.settled {
			x := &r.settled[i]
			dst = append(dst, byte(x.outcome), x.record.priority)
			dst = appendRecord(dst, uint64(x.record.place), 0, &x.record)
		}
	}
	if mutant == mutantSnapshotOmitsDecisions {
		return append(dst, 0)
	}
	dst = codec.AppendUvarint(dst, uint64(len(m.decisions)))
	for _, d := range m.decisions {
		dst = d.coordinated.appendTo(dst)
		dst = codec.AppendUvarint(dst, uint64(len(d.left)))
		for _, q := range d.left {
			dst = codec.AppendUvarint(dst, uint64(q))
		}
	}
	return dst
}

func (c *coordinated) appendTo(dst []byte) []byte {
	dst = codec.AppendUvarint(dst, uint64(c.id.Node))
	dst = codec.AppendUvarint(dst, c.id.Boot.Counter)
	dst = codec.AppendUint64(dst, c.id.Boot.Nonce)
	dst = codec.AppendUvarint(dst, uint64(c.id.Session))
	dst = codec.AppendUvarint(dst, uint64(c.id.N))
	dst = codec.AppendUvarint(dst, uint64(c.since))
	return codec.AppendBool(dst, c.orphan)
}

func (r *restorer) openTxs() {
	if r.version < 3 {
		return
	}
	m := r.m
	n := r.Count(10)
	r.need(n <= m.bounds.reservations, "number of reservations")
	for i := 0; i < n && r.Err() == nil; i++ {
		r.reservation()
	}
	n = r.Count(10)
	r.need(n <= m.bounds.decisions, "number of decisions")
	for i := 0; i < n && r.Err() == nil; i++ {
		d := &decision{coordinated: r.coordinated()}
		r.need(i == 0 || m.decisions[i-1].id.less(d.id), "order of decisions")
		left := r.Count(1)
		r.need(left > 0 && left <= txQueuesMax && (!m.sealed || m.cfg.Draining), "decision")
		for k := 0; k < left && r.Err() == nil; k++ {
			d.left = append(d.left, QueueID(r.Uvarint()))
			r.need(k == 0 || d.left[k-1] < d.left[k], "queues of a decision")
		}
		m.decisions = append(m.decisions, d)
	}
}

func (r *restorer) reservation() {
	m := r.m
	x := &reservation{coordinated: r.coordinated(), home: QueueID(r.Uvarint())}
	n := len(m.reservations)
	r.need(n == 0 || m.reservations[n-1].id.less(x.id), "order of reservations")
	x.messages = r.staged()
	settled := r.Count(6)
	for i := 0; i < settled && r.Err() == nil; i++ {
		outcome := Outcome(r.Uint8())
		priority := r.Uint8()
		distance, rec := r.record(priority, 0)
		rec.put(Seq(distance))
		r.need(outcome >= OutcomeAck && outcome <= OutcomeReturnFresh && rec.flags&(FlagNoAck|flagFailed) == 0 && rec.acquired > 0, "reserved message")
		if !r.admit(&rec) {
			return
		}
		x.settled = append(x.settled, reserved{record: rec, outcome: outcome})
		m.away.add(rec.seq)
		m.unacked.add(&rec)
	}
	m.reservations = append(m.reservations, x)
}

// staged reads messages of a transaction.
func (r *restorer) staged() (messages []record) {
	n, seq, born := r.Count(5), Seq(0), int64(0)
	for i := 0; i < n; i++ {
		priority := r.Uint8()
		distance, x := r.record(priority, born)
		seq += Seq(distance)
		x.put(seq)
		r.need(distance > 0 && x.place == x.seq && (x.born >= born || x.flags&FlagDelay != 0) && x.flags&(FlagNoAck|flagFailed) == 0 && x.acquired|x.failures == 0, "staged message")
		if !r.admit(&x) {
			return messages
		}
		messages = append(messages, x)
		r.m.away.add(seq)
		r.waits.add(seq)
		if x.flags&FlagDelay == 0 {
			born = x.born
		}
	}
	return messages
}

// coordinated reads whose transaction it is. One that is no orphan has its pipeline.
func (r *restorer) coordinated() coordinated {
	c := coordinated{id: TxID{Node: NodeID(r.Uvarint()), Boot: Boot{Counter: r.Uvarint(), Nonce: r.Uint64()}, Session: SessionID(r.Uvarint()), N: TxNumber(r.Uvarint())}}
	c.since, c.orphan = int64(r.Uvarint()), r.Bool()
	r.need(c.id.Session > 0 && c.id.N > 0 && c.since >= 0 && c.since <= r.m.seenMillis, "transaction")
	r.need(c.orphan || r.m.speaks(c.id), "orphan")
	return c
}

// speaks tells whether the incarnation that coordinates a transaction has a pipeline that was not evicted.
func (m *Machine) speaks(id TxID) bool {
	first, end := m.nodeRange(id.Node)
	for _, p := range m.pipelines[first:end] {
		if p.id.Boot == id.Boot && !p.evicted {
			return true
		}
	}
	return false
}
