package queue

import "github.com/warrenmq/warren/internal/invariant"

// settle carries out OpSettle.
func (m *Machine) settle(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	s := p.session(cmd.Session)
	if s == nil {
		return Reply{}, out
	}
	settled, out := m.settleRange(s, &settlement{outcome: cmd.Outcome, consumer: cmd.Consumer, from: cmd.From, to: cmd.To}, out)
	return Reply{A: settled}, out
}

// settlement is an outcome for deliveries from..to of a session, with consumer not 0 only of that one.
type settlement struct {
	outcome  Outcome
	consumer ConsumerID
	from, to uint64
}

// settleRange ends those deliveries of a settlement that are outstanding and returns how many there were.
func (m *Machine) settleRange(s *session, r *settlement, out []Effect) (settled uint64, _ []Effect) {
	for d := r.from; ; d++ {
		var page *page
		if d, page = s.out.next(d); page == nil || d > r.to {
			break
		}
		x := page.at(d)
		if r.consumer != 0 && x.consumer != r.consumer || x.isNoAck() && !r.outcome.settlesNoAck() {
			continue
		}
		settled++
		m.forgive(s, d, x)
		ended := x.record
		s.out.remove(d, page, &m.pool)
		out = m.finish(&ended, r.outcome, out)
	}
	if mutant == mutantAckTwice && r.outcome == OutcomeAck {
		m.totals.acked += settled
	}
	return settled, out
}

// settlesNoAck tells whether the outcome may end a delivery without acknowledgement. An acknowledgement that spans it says that it was received. The client cannot
// reject or requeue what is its own already; only what it never saw comes back.
func (o Outcome) settlesNoAck() bool { return o == OutcomeAck || o == OutcomeReturnFresh }

// forgive takes a delivery that ends off the counts of its consumer.
func (m *Machine) forgive(s *session, d uint64, x *delivery) {
	c := s.consumer(x.consumer)
	counts := x.consumer != 0 && !x.isNoAck()
	if counts && !(mutant == mutantLimitForgetsCancelled && c == nil) {
		s.unsettled--
	}
	if c == nil {
		if counts && s.unsettled+1 == s.limit {
			m.roster.placeAll(s)
		}
		return
	}
	if d > s.drained && mutant != mutantReturnForgetsWindow {
		c.undrained--
		c.undrainedBytes -= uint64(x.bytes)
	}
	if !x.isNoAck() {
		c.unsettled--
	}
	if counts && s.unsettled+1 == s.limit {
		m.roster.placeAll(s)
	} else {
		m.roster.place(c)
	}
	if c.passive && c.unsettled == 0 {
		m.elect()
	}
}

// finish carries out the outcome for a message whose delivery was taken away.
func (m *Machine) finish(x *record, outcome Outcome, out []Effect) []Effect {
	if x.isNoAck() {
		x.flags &^= FlagNoAck
		if outcome == OutcomeAck {
			m.away.remove(x.seq)
			return m.release(x.seq, out)
		}
		m.unacked.add(x)
	}
	switch outcome {
	case OutcomeAck, OutcomeDiscard:
		m.unacked.sub(x)
		m.away.remove(x.seq)
		if outcome == OutcomeDiscard {
			return m.die(x, ReasonRejected, out)
		}
		m.totals.acked++
		return m.release(x.seq, out)
	case OutcomeReturn:
		if !m.cfg.CountReturns {
			return m.putBack(x, returned, out)
		}
		raise(&x.failures)
		return m.putBack(x, failure, out)
	case OutcomeReturnCounted:
		raise(&x.failures)
		return m.putBack(x, failure, out)
	case OutcomeReturnFresh:
		x.acquired--
		return m.putBack(x, unseen, out)
	}
	invariant.Failf("settle with outcome %d", outcome)
	return out
}
