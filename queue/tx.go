package queue

// A transaction is what a session stages and commits: messages and settlements that take effect in one entry, whichever batches brought them (PROTOCOL 4). Until then messages have a position and are
// kept, but nobody gets, counts or purges them; deliveries whose settlement is staged stay outstanding.

// tx is the open transaction of a session. Its name in the cluster is (pipeline, session, n).
type tx struct {
	n           TxNumber
	messages    []record // in order of seq
	settlements []settlement
}

func (t *tx) size() int { return len(t.messages) + len(t.settlements) }

// openTx returns the transaction that a command stages into, and opens it with the first one.
func (m *Machine) openTx(p *pipeline, cmd *Command) (*tx, Code) {
	s := p.session(cmd.Session)
	if s == nil {
		if m.sessions >= m.bounds.sessions {
			return nil, CodeLimit
		}
		s = m.openSession(p, cmd.Session)
	}
	switch {
	case s.tx == nil:
	case cmd.Tx < s.tx.n:
		return nil, CodeStale
	case cmd.Tx > s.tx.n:
		m.dropTx(s)
	case s.tx.size() >= m.bounds.txCommands:
		return nil, CodeLimit
	}
	if s.tx == nil {
		s.tx = &tx{n: cmd.Tx}
	}
	return s.tx, CodeOK
}

// stageEnqueue carries out OpTxEnqueue.
func (m *Machine) stageEnqueue(p *pipeline, cmd *Command, index uint32, out []Effect) (Reply, []Effect) {
	t, code := m.openTx(p, cmd)
	if t == nil {
		return Reply{Code: code}, out
	}
	x := m.newRecord(cmd)
	m.nextSeq++
	out = append(out, Effect{Kind: KindStore, Index: index, Seq: x.seq})
	if mutant == mutantTxVisibleEarly {
		m.ready.putBack(&x)
		return Reply{}, out
	}
	t.messages = append(t.messages, x)
	if cmd.Flags&FlagDedup != 0 {
		m.stageID(cmd.ID, x.seq)
	}
	m.away.add(x.seq)
	return Reply{}, out
}

// stageSettle carries out OpTxSettle.
func (m *Machine) stageSettle(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	t, code := m.openTx(p, cmd)
	if t == nil {
		return Reply{Code: code}, out
	}
	r := settlement{outcome: cmd.Outcome, consumer: cmd.Consumer, from: cmd.From, to: cmd.To}
	if mutant == mutantTxSettlesEarly {
		_, out = m.settleRange(p.session(cmd.Session), &r, out)
	}
	t.settlements = append(t.settlements, r)
	return Reply{}, out
}

// takeTx takes what a session has staged for OpTxCommit, OpTxPrepare or OpTxDecide, if it is whole, there is room for it, and nothing else bars it. Else it is dropped, and work must follow; what is
// staged under a higher number stays.
func (m *Machine) takeTx(p *pipeline, cmd *Command, barred bool) (*session, *tx, Code) {
	s := p.session(cmd.Session)
	if s == nil || s.tx == nil || cmd.Tx < s.tx.n {
		return s, nil, CodeStale
	}
	code := CodeOK
	switch whole := cmd.Tx == s.tx.n && cmd.To == uint64(s.tx.size()); {
	case !whole && mutant != mutantTxPartCommitted:
		code = CodeStale
	case barred:
		code = CodeLimit
	case m.refusesTx(s.tx):
		code = CodeRejected
		m.totals.rejected += uint64(len(s.tx.messages))
	case s.lacks(s.tx):
		code = CodeNotOutstanding
	}
	if code != CodeOK {
		m.dropTx(s)
		m.forgetUnused(p, s)
		return s, nil, code
	}
	t := s.tx
	s.tx = nil
	return s, t, CodeOK
}

// commitTx carries out OpTxCommit: all that is staged or nothing.
func (m *Machine) commitTx(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	s, t, code := m.takeTx(p, cmd, false)
	if code != CodeOK {
		return Reply{Code: code}, m.work(out)
	}
	out = m.carryOut(s, t, out)
	m.forgetUnused(p, s)
	return Reply{}, out
}

// carryOut has a transaction take effect: its messages first, as in RabbitMQ, but one may take the id of a message that the transaction ends.
func (m *Machine) carryOut(s *session, t *tx, out []Effect) []Effect {
	for i := range t.settlements {
		m.freeIDs(s, &t.settlements[i])
	}
	out = m.enter(t.messages, out)
	for i := range t.settlements {
		_, out = m.settleRange(s, &t.settlements[i], out)
	}
	return out
}

// freeIDs has the messages that a settlement is about to end hold their ids no longer.
func (m *Machine) freeIDs(s *session, r *settlement) {
	if m.dedup.ids == nil || !r.outcome.ends() || mutant == mutantTxKeepsIDs {
		return
	}
	for d := r.from; ; d++ {
		var page *page
		if d, page = s.out.next(d); page == nil || d > r.to {
			return
		}
		if x := page.at(d); (r.consumer == 0 || x.consumer == r.consumer) && !x.isNoAck() {
			m.freeID(x.seq)
		}
	}
}

// ends tells whether a message leaves the queue by an outcome.
func (o Outcome) ends() bool { return o == OutcomeAck || o == OutcomeDiscard }

// enter has staged messages become messages of the queue, but for duplicates.
func (m *Machine) enter(messages []record, out []Effect) []Effect {
	for i := range messages {
		x := &messages[i]
		m.away.remove(x.seq)
		if id, ok := m.unstageID(x.seq); ok {
			if m.dropsDuplicate(id) {
				out = m.release(x.seq, out)
				continue
			}
			m.accept(id, x.seq)
		}
		m.totals.enqueued++
		if to := m.taker(x); to != nil {
			m.budget.assignments--
			out = m.deliver(to, x, out)
			continue
		}
		switch {
		case x.flags&FlagDelay != 0:
			m.delayed.add(x.born, x)
		case m.cfg.Relay:
			out = m.relay(x, out)
		default:
			m.ready.putBack(x)
		}
	}
	return out
}

// refusesTx tells whether a queue that refuses publishes has no room for all messages of a transaction. That they might go to consumers at once does not count.
func (m *Machine) refusesTx(t *tx) bool {
	if m.cfg.Overflow == DropHead || m.cfg.Relay || len(t.messages) == 0 {
		return false
	}
	count, bytes := uint64(0), uint64(0)
	for i := range t.messages {
		x := &t.messages[i]
		if id, ok := m.stagedID(x.seq); !ok || !m.staysDuplicate(id) {
			count++
			bytes += uint64(x.bytes)
		}
	}
	return count > 0 && m.isOver(count, bytes)
}

// lacks tells whether a transaction acknowledges or rejects deliveries that the session does not have: they were taken back, and somebody else may have them. What is given back has come back already.
func (s *session) lacks(t *tx) bool {
	if mutant == mutantTxForgetsLate {
		return false
	}
	for i := range t.settlements {
		if r := &t.settlements[i]; !s.hasAll(r) && (r.outcome == OutcomeAck || r.outcome == OutcomeDiscard) {
			return true
		}
	}
	return false
}

// hasAll tells whether all deliveries of a settlement are outstanding. One of a consumer is for those that it has.
func (s *session) hasAll(r *settlement) bool {
	if r.consumer != 0 {
		return true
	}
	for d := r.from; d <= r.to; d++ {
		if at, page := s.out.next(d); page == nil || at != d {
			return false
		}
	}
	return true
}

// dropTx forgets what a session has staged. The bodies are released as work allows.
func (m *Machine) dropTx(s *session) {
	if s.tx == nil {
		return
	}
	m.discard(s.tx.messages)
	s.tx = nil
}

// discard drops staged messages.
func (m *Machine) discard(messages []record) {
	for i := range messages {
		x := &messages[i]
		m.away.remove(x.seq)
		m.unstageID(x.seq)
		if mutant == mutantTxSurvivesClose {
			m.ready.putBack(x)
		} else {
			m.dropped.add(x.seq)
		}
	}
}

// forgetUnused removes a session that was there for its transaction alone.
func (m *Machine) forgetUnused(p *pipeline, s *session) {
	if s.lastConsumer == 0 && s.lastD == 0 && s.tx == nil {
		p.removeSession(p.searchSession(s.id))
		m.sessions--
	}
}
