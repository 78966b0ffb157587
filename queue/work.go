package queue

// budget is what is left of the work that one log entry may do (PROTOCOL 7).
type budget struct{ returns, gathers, releases, assignments, deaths, sweeps int }

// begin starts the work of a log entry whose effects are appended to out.
func (m *Machine) begin(out []Effect) {
	m.budget = budget{returns: m.bounds.returns, gathers: m.bounds.gathers, releases: m.bounds.releases, assignments: m.bounds.assignments, deaths: m.bounds.deaths, sweeps: m.bounds.sweeps}
	m.effectsBefore = len(out)
}

// work carries on what purges and ended sessions left, as far as the budget of the entry goes: first releases, then returns, which are put in order of position before.
func (m *Machine) work(out []Effect) []Effect {
	out = m.releaseDropped(out)
	if !m.returning.gather(&m.budget.gathers, &m.pool) && mutant != mutantReturnsHalfGathered {
		return out
	}
	for m.returning.heap.n > 0 && m.budget.returns > 0 {
		x := m.returning.heap.pop()
		m.budget.returns--
		how := unseen
		if x.flags&flagFailed != 0 {
			x.flags &^= flagFailed
			how = failure
		}
		out = m.putBack(&x, how, out)
	}
	return out
}

// putBack makes an unacked message ready again, now or later, unless it failed too often.
func (m *Machine) putBack(x *record, how comeback, out []Effect) []Effect {
	m.unacked.sub(x)
	m.away.remove(x.seq)
	if m.failed(x) {
		return m.die(x, ReasonDeliveryLimit, out)
	}
	if delay := m.retryDelay(x, how); delay > 0 {
		m.delayed.add(m.seenMillis+delay, x)
	} else {
		m.ready.putBack(x)
	}
	return out
}

// release reports that a message left the queue. Runs become one effect as long as nothing else comes between.
func (m *Machine) release(seq Seq, out []Effect) []Effect {
	m.forgetFreed(seq)
	if n := len(out); n > m.effectsBefore {
		if last := &out[n-1]; last.Kind == KindRelease && last.To+1 == seq {
			last.To = seq
			return out
		}
	}
	return append(out, Effect{Kind: KindRelease, Seq: seq, To: seq})
}

// releaseDropped reports messages that left in bulk, in ascending order. A range goes from the first dropped one to the last before the next message that the queue
// still holds, so a purge is as many effects as there are messages left in between, however many were purged.
func (m *Machine) releaseDropped(out []Effect) []Effect {
	for m.dropped.n > 0 && m.budget.releases > 0 {
		m.budget.releases--
		first, _ := m.dropped.next(0)
		end, ok := m.nextHeld(first)
		if !ok {
			end = m.nextSeq
		}
		last, _ := m.dropped.before(end)
		m.dropped.dropThrough(last)
		out = append(out, Effect{Kind: KindRelease, Seq: first, To: last})
	}
	return out
}

// nextHeld returns the least seq >= q that the queue holds.
func (m *Machine) nextHeld(q Seq) (Seq, bool) {
	next, found := Seq(0), false
	for _, s := range [...]*seqSet{&m.ready.seqs, &m.away, &m.delayed.seqs, &m.outbox.seqs} {
		if held, ok := s.next(q); ok && (!found || held < next) {
			next, found = held, true
		}
	}
	return next, found
}

// purge carries out OpPurge.
func (m *Machine) purge(out []Effect) (Reply, []Effect) {
	n := m.ready.sums.n
	if n == 0 {
		return Reply{}, out
	}
	for seq, ok := m.dedup.freed.next(0); ok; seq, ok = m.dedup.freed.next(seq + 1) { // few: they came back from sessions that ended
		if m.ready.seqs.has(seq) {
			m.dedup.freed.remove(seq)
		}
	}
	m.dropped.addAll(&m.ready.seqs)
	m.ready.reset()
	if mutant == mutantPurgeTakesReturning {
		for ; m.returning.heap.n > 0; n++ {
			x := m.returning.heap.pop()
			m.unacked.sub(&x)
			m.away.remove(x.seq)
			m.dropped.add(x.seq)
		}
	}
	return Reply{A: n}, m.releaseDropped(out)
}
