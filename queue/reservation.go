package queue

import (
	"slices"
	"sort"

	"github.com/warrenmq/warren/internal/codec"
)

// A transaction over several queues has a home, which decides it, and others, which take part (docs/adr/0013). What a session has staged in one of the others is reserved there by OpTxPrepare: nobody
// gets it, and nothing that happens to the session gives it back, until the queue hears what the home decided. The home commits its own part and the decision in one entry, and keeps the decision until all
// others have heard it.

// TxID names a transaction in the whole cluster. The gen of a pipeline is no part of it: it differs from queue to queue.
type TxID struct {
	Node    NodeID
	Boot    Boot
	Session SessionID
	N       TxNumber
}

func (t TxID) less(o TxID) bool {
	a, b := PipelineID{Node: t.Node, Boot: t.Boot}, PipelineID{Node: o.Node, Boot: o.Boot}
	switch {
	case a != b:
		return a.less(b)
	case t.Session != o.Session:
		return t.Session < o.Session
	}
	return t.N < o.N
}

// coordinated is what reservations and decisions have in common. Orphan says that the session which coordinates the transaction has ended here: nobody may come to end it.
type coordinated struct {
	id     TxID
	since  int64 // in milliseconds
	orphan bool
}

// reservation is a part of a transaction that waits for the decision of another queue.
type reservation struct {
	coordinated
	home     QueueID
	messages []record // in order of seq
	settled  []reserved
}

// reserved is a delivery that was settled in a transaction.
type reserved struct {
	record  record
	outcome Outcome
}

// decision is a committed transaction that not all others are known to have heard of.
type decision struct {
	coordinated
	left []QueueID // ascending
}

// txID names a transaction of a session of this pipeline.
func (p *pipeline) txID(session SessionID, n TxNumber) TxID {
	return TxID{Node: p.id.Node, Boot: p.id.Boot, Session: session, N: n}
}

// txID is the transaction that a command outside pipelines is about.
func (c *Command) txID() TxID { return TxID{Node: c.Node, Boot: c.Boot, Session: c.Session, N: c.Tx} }

func (m *Machine) searchReservation(id TxID) (int, bool) {
	i := sort.Search(len(m.reservations), func(i int) bool { return !m.reservations[i].id.less(id) })
	return i, i < len(m.reservations) && m.reservations[i].id == id
}

func (m *Machine) searchDecision(id TxID) (int, bool) {
	i := sort.Search(len(m.decisions), func(i int) bool { return !m.decisions[i].id.less(id) })
	return i, i < len(m.decisions) && m.decisions[i].id == id
}

// prepareTx carries out OpTxPrepare.
func (m *Machine) prepareTx(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	id := p.txID(cmd.Session, cmd.Tx)
	i, twice := m.searchReservation(id)
	s, t, code := m.takeTx(p, cmd, twice || len(m.reservations) >= m.bounds.reservations)
	if code != CodeOK {
		return Reply{Code: code}, m.work(out)
	}
	r := &reservation{coordinated: coordinated{id: id, since: m.seenMillis}, home: cmd.Peer, messages: t.messages}
	for k := range t.settlements {
		m.reserveRange(s, &t.settlements[k], r)
	}
	m.reservations = slices.Insert(m.reservations, i, r)
	m.forgetUnused(p, s)
	return Reply{}, out
}

// reserveRange takes those deliveries of a settlement that are outstanding. Those without acknowledgement are the client's already.
func (m *Machine) reserveRange(s *session, r *settlement, to *reservation) {
	for d := r.from; ; d++ {
		var page *page
		if d, page = s.out.next(d); page == nil || d > r.to {
			return
		}
		x := page.at(d)
		if x.isNoAck() || r.consumer != 0 && x.consumer != r.consumer {
			continue
		}
		m.forgive(s, d, x)
		to.settled = append(to.settled, reserved{record: x.record, outcome: r.outcome})
		s.out.remove(d, page, &m.pool)
	}
}

// decideTx carries out OpTxDecide.
func (m *Machine) decideTx(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	id := p.txID(cmd.Session, cmd.Tx)
	i, twice := m.searchDecision(id)
	s, t, code := m.takeTx(p, cmd, twice || len(m.decisions) >= m.bounds.decisions)
	if code != CodeOK {
		return Reply{Code: code}, m.work(out)
	}
	out = m.carryOut(s, t, out)
	d := &decision{coordinated: coordinated{id: id, since: m.seenMillis}}
	for r := codec.NewReader(cmd.Envelope); r.Len() > 0; {
		d.left = append(d.left, QueueID(r.Uvarint()))
	}
	m.decisions = slices.Insert(m.decisions, i, d)
	m.forgetUnused(p, s)
	return Reply{}, out
}

// finishTx carries out OpTxFinish.
func (m *Machine) finishTx(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	id := p.txID(cmd.Session, cmd.Tx)
	if i, ok := m.searchDecision(id); ok {
		out = m.forgetDecision(i, out)
	}
	if i, ok := m.searchReservation(id); ok {
		out = m.endReservation(i, true, out)
	}
	return Reply{}, out
}

// endTx carries out OpTxEnd.
func (m *Machine) endTx(cmd *Command, out []Effect) (Reply, []Effect) {
	i, ok := m.searchReservation(cmd.txID())
	if !ok {
		return Reply{Code: CodeStale}, out
	}
	return Reply{}, m.endReservation(i, cmd.To == TxCommitted, out)
}

// endReservation carries out what is reserved, whatever the limits say by now, or gives it back: the messages are gone, and what was settled returns, which counts as no failure.
func (m *Machine) endReservation(i int, commit bool, out []Effect) []Effect {
	r := m.reservations[i]
	m.reservations = slices.Delete(m.reservations, i, i+1)
	if commit {
		if mutant == mutantFinishObeysLimits && m.refusesTx(&tx{messages: r.messages}) {
			m.discard(r.messages)
			r.messages = nil
		}
		for k := range r.settled {
			if r.settled[k].outcome.ends() && mutant != mutantTxKeepsIDs {
				m.freeID(r.settled[k].record.seq)
			}
		}
		out = m.enter(r.messages, out)
		for k := range r.settled {
			out = m.finish(&r.settled[k].record, r.settled[k].outcome, out)
		}
		return out
	}
	m.discard(r.messages)
	for k := range r.settled {
		m.returning.heap.push(r.settled[k].record)
	}
	return m.work(out)
}

// askTx carries out OpTxAsk: what is not decided yet is given up, so that a late OpTxDecide finds nothing.
func (m *Machine) askTx(cmd *Command, out []Effect) (Reply, []Effect) {
	id := cmd.txID()
	if _, ok := m.searchDecision(id); ok {
		return Reply{A: TxCommitted}, out
	}
	first, end := m.nodeRange(id.Node)
	for _, p := range m.pipelines[first:end] {
		s := p.session(id.Session)
		if p.id.Boot == id.Boot && s != nil && s.tx != nil && s.tx.n == id.N && mutant != mutantAskedStaysOpen {
			m.dropTx(s)
			m.forgetUnused(p, s)
		}
	}
	return Reply{}, m.work(out)
}

// txDone carries out OpTxDone: another queue has heard of the decision, or is gone.
func (m *Machine) txDone(cmd *Command, out []Effect) (Reply, []Effect) {
	i, ok := m.searchDecision(cmd.txID())
	if !ok {
		return Reply{Code: CodeStale}, out
	}
	d := m.decisions[i]
	k, ok := slices.BinarySearch(d.left, cmd.Peer)
	if !ok {
		return Reply{Code: CodeStale}, out
	}
	if d.left = slices.Delete(d.left, k, k+1); len(d.left) == 0 {
		out = m.forgetDecision(i, out)
	}
	return Reply{}, out
}

// forgetDecision removes a decision that all know. If a queue that nobody uses was kept by it, that is reported again.
func (m *Machine) forgetDecision(i int, out []Effect) []Effect {
	m.decisions = slices.Delete(m.decisions, i, i+1)
	if len(m.decisions) == 0 && m.Unused() {
		out = append(out, Effect{Kind: KindUnused})
	}
	return out
}

// orphanTxs notes that a session of an incarnation has ended here, with session 0 all of them.
func (m *Machine) orphanTxs(id PipelineID, session SessionID) {
	note := func(c *coordinated) {
		if c.id.Node == id.Node && c.id.Boot == id.Boot && (session == 0 || c.id.Session == session) && !c.orphan {
			c.orphan, m.orphaned = true, true
		}
	}
	for _, r := range m.reservations {
		note(&r.coordinated)
	}
	for _, d := range m.decisions {
		note(&d.coordinated)
	}
}

// OpenTx is a transaction over several queues that is not over here: reserved for the decision of Home, or decided here with queues Left that may not have heard of it.
type OpenTx struct {
	ID          TxID
	Home        QueueID
	Left        []QueueID
	SinceMillis int64
	// Orphan says that nobody may come to end it.
	Orphan bool
}

// OpenTxs appends the reservations of the queue, then its decisions. The leader looks after those that are orphans or old.
func (m *Machine) OpenTxs(dst []OpenTx) []OpenTx {
	for _, r := range m.reservations {
		dst = append(dst, OpenTx{ID: r.id, Home: r.home, SinceMillis: r.since, Orphan: r.orphan})
	}
	for _, d := range m.decisions {
		dst = append(dst, OpenTx{ID: d.id, Left: slices.Clone(d.left), SinceMillis: d.since, Orphan: d.orphan})
	}
	return dst
}

// MayDecide tells whether other queues may have to hear from this one what became of a transaction: it has decided one that not all know of, or something is staged that it may yet decide.
func (m *Machine) MayDecide() bool {
	for _, p := range m.pipelines {
		for _, s := range p.sessions {
			if s.tx != nil {
				return true
			}
		}
	}
	return len(m.decisions) > 0
}

// AppendQueue appends a queue to the list of an OpTxDecide, which must ascend.
func AppendQueue(dst []byte, q QueueID) []byte { return codec.AppendUvarint(dst, uint64(q)) }

// validQueues tells whether a list of queues is whole, ascends and is no longer than it may be.
func validQueues(list []byte) bool {
	r := codec.NewReader(list)
	n, last := 0, uint64(0)
	for r.Len() > 0 {
		q := r.Uvarint()
		if n++; q <= last || n > txQueuesMax {
			return false
		}
		last = q
	}
	return r.Err() == nil && n > 0
}
