package queue

import "github.com/google/btree"

// A client that holds a delivery for too long is taken to be stuck: its consumer is cancelled and what is overdue comes back, without an error for channel or connection. Only deliveries that need an
// acknowledgement have a deadline, told when they are assigned by the consumer's own timeout or else the queue's; a change of the queue's is for later ones. On a queue with a single active consumer
// all that the cancelled one has comes back, for the next one takes over at once and is to get the messages in order.
//
// The message path pays for this with a sum and a comparison: a session is looked through when its check is due, which is a lower bound for the deadlines of what it has, and not before. It happens in
// OpTick alone, so what is settled before the Tick counts, however late it is.

// checkGapMillis is the least time between two looks at what a session has, so that staggered deadlines cost one look a second and not one each.
const checkGapMillis = 1000

// check says when a session is looked through next.
type check struct {
	at int64
	s  *session
}

func byCheck(a, b check) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if p, q := a.s.pipeline.id, b.s.pipeline.id; p != q {
		return p.less(q)
	}
	return a.s.id < b.s.id
}

// checks is all sessions that have a check, the next one first.
type checks struct{ order *btree.BTreeG[check] } // nil until it is needed

// set has a session looked through at a time, 0: never.
func (k *checks) set(s *session, at int64) {
	if s.check == at {
		return
	}
	if s.check != 0 {
		k.order.Delete(check{s.check, s})
	}
	if s.check = at; at == 0 {
		return
	}
	if k.order == nil {
		k.order = newTree(byCheck)
	}
	k.order.ReplaceOrInsert(check{at, s})
}

// next returns the session that is looked through first; false if there is none.
func (k *checks) next() (check, bool) {
	if k.order == nil {
		return check{}, false
	}
	return k.order.Min()
}

// deadline returns when a delivery to s that is assigned now is overdue, 0: never. own is the consumer's timeout, which goes before the queue's; a timeout of 0 is none.
func (m *Machine) deadline(s *session, own Limit) int64 {
	if own == 0 {
		own = m.cfg.ConsumerTimeout
	}
	if own <= LimitOf(0) {
		return 0
	}
	at, _ := own.after(m.seenMillis)
	if s.check == 0 || at < s.check {
		m.checks.set(s, at)
	}
	return at
}

// timeOut takes overdue deliveries back, as far as the budget of the entry goes.
func (m *Machine) timeOut(out []Effect) []Effect {
	for m.budget.returns > 0 {
		next, ok := m.checks.next()
		if !ok || next.at > m.seenMillis {
			break
		}
		out = m.lookThrough(next.s, out)
	}
	return out
}

// lookThrough takes back what is overdue of a session. While the session stages a transaction nothing is: it may settle any of it.
func (m *Machine) lookThrough(s *session, out []Effect) []Effect {
	if s.tx != nil && mutant != mutantTimeoutTakesStaged {
		m.checks.set(s, m.seenMillis+checkGapMillis)
		return out
	}
	out = m.cancelOverdue(s, out)
	next := int64(0)
	for d := uint64(1); ; d++ {
		var page *page
		if d, page = s.out.next(d); page == nil {
			break
		}
		x := page.at(d)
		if x.deadline == 0 {
			continue
		}
		if x.deadline > m.seenMillis {
			if next == 0 || x.deadline < next {
				next = x.deadline
			}
			continue
		}
		if m.budget.returns == 0 {
			return out // the check stays due
		}
		m.budget.returns--
		out = m.takeBack(s, d, page, out)
	}
	if next != 0 {
		next = max(next, m.seenMillis+checkGapMillis)
	}
	m.checks.set(s, next)
	return out
}

// cancelOverdue cancels the consumers that have overdue deliveries.
func (m *Machine) cancelOverdue(s *session, out []Effect) []Effect {
	var cancelled []ConsumerID
	s.out.each(func(_ uint64, x *delivery) {
		if x.deadline == 0 || x.deadline > m.seenMillis || s.consumer(x.consumer) == nil {
			return
		}
		cancelled = append(cancelled, x.consumer)
		out = append(out, Effect{Kind: KindCancel, Node: s.pipeline.id.Node, BootCounter: s.pipeline.id.Boot.Counter, Session: s.id, Consumer: x.consumer})
		m.removeConsumer(s, x.consumer)
	})
	if !m.cfg.SingleActive || mutant == mutantTimeoutSplitsOrder {
		return out
	}
	for _, id := range cancelled {
		s.out.each(func(_ uint64, x *delivery) {
			if x.consumer == id {
				x.deadline = m.seenMillis
			}
		})
	}
	return out
}

// takeBack returns the overdue delivery d, which page has. It counts as given back by the client.
func (m *Machine) takeBack(s *session, d uint64, page *page, out []Effect) []Effect {
	x := page.at(d)
	out = append(out, Effect{Kind: KindTimedOut, Node: s.pipeline.id.Node, BootCounter: s.pipeline.id.Boot.Counter, Session: s.id, Consumer: x.consumer, D: d, Seq: x.seq})
	m.forgive(s, d, x)
	ended := x.record
	if mutant != mutantTimeoutSettledTwice {
		s.out.remove(d, page, &m.pool)
	}
	s.lostSome = true
	m.totals.timedOut++
	outcome := OutcomeReturn
	if mutant == mutantTimeoutCounts {
		outcome = OutcomeReturnCounted
	}
	return m.finish(&ended, outcome, out)
}
