package queue

// AtRest tells whether a queue can be left alone: no session, no message that is outstanding or on its way to another queue, nothing open between queues, no bounded work left. It may have deadlines:
// see NextDeadline, Expiry. The outcomes that pipelines remember are no hindrance.
func (m *Machine) AtRest() bool {
	leaving := m.outbox.sums.n > 0 && mutant != mutantRestsWithLetters
	open := m.sessions > 0 || len(m.reservations) > 0 || len(m.decisions) > 0 && mutant != mutantRestsUndecided
	return !open && !leaving && m.away.n == 0 && m.dropped.n == 0 && !m.sealed && !m.unusedDue && !m.Unused()
}

// LastUse is the last time the queue was used, in milliseconds, as Config.Expires counts it.
func (m *Machine) LastUse() int64 { return m.lastUse }
