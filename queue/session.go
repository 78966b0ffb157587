package queue

import (
	"sort"
)

// session is a channel of a node incarnation as far as this queue knows it.
type session struct {
	pipeline *pipeline
	id       SessionID
	// lastD is the number of the session's last delivery; all d <= drained were written to the socket.
	lastD, drained uint64
	lastConsumer   ConsumerID
	consumers      []*consumer // by id
	recent         *consumer   // one of consumers, or nil: the one that was looked up last
	out            outstanding
	tx             *tx // what it has staged, or nil

	// unsettled counts the deliveries to its consumers, past ones included, that need an acknowledgement; limit is how many they may be, see OpCredit. barred counts its consumers that only the limit
	// keeps from waiting; wants is the mark that it was told so.
	unsettled, limit uint32
	barred           int
	wants            bool

	// check is when it is looked through for overdue deliveries, 0: never; lostSome tells that it had some.
	check    int64
	lostSome bool
}

// isHungry tells that the session is to be told as soon as a message is ready.
func (s *session) isHungry() bool { return s.barred > 0 && !s.wants }

// consumer returns the consumer with that id, nil if there is none (any more).
func (s *session) consumer(id ConsumerID) *consumer {
	if s.recent != nil && s.recent.id == id {
		return s.recent
	}
	if id == 0 {
		return nil
	}
	i := sort.Search(len(s.consumers), func(i int) bool { return s.consumers[i].id >= id })
	if i == len(s.consumers) || s.consumers[i].id != id {
		return nil
	}
	s.recent = s.consumers[i]
	return s.recent
}

// openSession adds a session, which the pipeline must not have.
func (m *Machine) openSession(p *pipeline, id SessionID) *session {
	s := &session{pipeline: p, id: id, limit: NoLimit}
	i := p.searchSession(id)
	p.sessions = append(p.sessions, nil)
	copy(p.sessions[i+1:], p.sessions[i:])
	p.sessions[i] = s
	m.sessions++
	return s
}

// drain carries out OpDrained: windows open, and deliveries without acknowledgement are done.
func (m *Machine) drain(p *pipeline, cmd *Command, out []Effect) []Effect {
	s := p.session(cmd.Session)
	if s == nil {
		return out
	}
	to := min(cmd.To, s.lastD)
	if to <= s.drained {
		return out
	}
	from := s.drained + 1
	s.drained = to
	for {
		d, page := s.out.next(from)
		if page == nil || d > to {
			return out
		}
		x := page.at(d)
		if c := s.consumer(x.consumer); c != nil && mutant != mutantDrainKeepsWindow {
			c.undrained--
			c.undrainedBytes -= uint64(x.bytes)
			m.roster.place(c)
		}
		if x.isNoAck() {
			seq := x.seq
			s.out.remove(d, page, &m.pool)
			m.away.remove(seq)
			out = m.release(seq, out)
		}
		from = d + 1
	}
}

// closeSession carries out OpSessionClose.
func (m *Machine) closeSession(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	m.orphanTxs(p.id, cmd.Session)
	i := p.searchSession(cmd.Session)
	if i == len(p.sessions) || p.sessions[i].id != cmd.Session {
		return Reply{}, out
	}
	s := p.sessions[i]
	p.removeSession(i)
	m.endSession(s, max(min(cmd.To, s.lastD), s.drained))
	m.elect()
	return Reply{A: s.lastD}, m.work(out)
}

// endSession ends a session that was taken out of its pipeline; when all are ended that end, elect must follow. Deliveries up to written were written to the socket: those without acknowledgement are done,
// the others count as failures. All else will return uncounted, as soon as work allows.
func (m *Machine) endSession(s *session, written uint64) {
	m.sessions--
	m.checks.set(s, 0)
	for _, c := range s.consumers {
		m.dismiss(c)
	}
	m.dropTx(s)
	m.endNoAck(s, written)
	m.returning.add(s.out, written)
}

// endNoAck ends the deliveries without acknowledgement of an ended session. All of them are beyond what it reported as drained, so the windows of its consumers bound their number.
func (m *Machine) endNoAck(s *session, written uint64) {
	for d, page := s.out.next(s.drained + 1); page != nil; d, page = s.out.next(d + 1) {
		x := page.at(d)
		switch {
		case !x.isNoAck():
		case d <= written:
			m.away.remove(x.seq)
			m.forgetFreed(x.seq)
			m.dropped.add(x.seq)
			s.out.remove(d, page, &m.pool)
		default:
			x.flags &^= FlagNoAck
			m.unacked.add(&x.record)
		}
	}
}
