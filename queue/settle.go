package queue

import "github.com/warrenmq/warren/internal/invariant"

// settle carries out OpSettle.
func (m *Machine) settle(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	s := p.session(cmd.Session)
	if s == nil {
		return Reply{}, out
	}
	settled := uint64(0)
	for d := cmd.From; ; d++ {
		var page *page
		if d, page = s.out.next(d); page == nil || d > cmd.To {
			break
		}
		x := page.at(d)
		if cmd.Consumer != 0 && x.consumer != cmd.Consumer || x.isNoAck() && !cmd.Outcome.settlesNoAck() {
			continue
		}
		settled++
		m.forgive(s, d, x)
		r := x.record
		s.out.remove(d, page, &m.pool)
		out = m.finish(&r, cmd.Outcome, out)
	}
	if mutant == mutantAckTwice && cmd.Outcome == OutcomeAck {
		m.totals.acked += settled
	}
	return Reply{A: settled}, out
}

// settlesNoAck tells whether the outcome may end a delivery without acknowledgement. An acknowledgement that spans it says that it was received. The client cannot
// reject or requeue what is its own already; only what it never saw comes back.
func (o Outcome) settlesNoAck() bool { return o == OutcomeAck || o == OutcomeReturnFresh }

// forgive takes a delivery that ends off the counts of its consumer.
func (m *Machine) forgive(s *session, d uint64, x *delivery) {
	c := s.consumer(x.consumer)
	if c == nil {
		return
	}
	if d > s.drained && mutant != mutantReturnForgetsWindow {
		c.undrained--
		c.undrainedBytes -= uint64(x.bytes)
	}
	if !x.isNoAck() {
		c.unsettled--
	}
	m.roster.regained(c)
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
		if m.cfg.CountReturns {
			raise(&x.failures)
		}
	case OutcomeReturnCounted:
		raise(&x.failures)
	case OutcomeReturnFresh:
		x.acquired--
	default:
		invariant.Failf("settle with outcome %d", outcome)
	}
	return m.putBack(x, out)
}
