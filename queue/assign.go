package queue

// assign gives ready messages to consumers until one of both runs out. The head of the queue goes first: nobody gets a later message because the head does not fit.
func (m *Machine) assign(out []Effect) []Effect {
	if m.sealed {
		return out
	}
	var x record
	for m.ready.sums.n > 0 && m.roster.waiting > 0 && m.budget.assignments > 0 {
		m.head(&x)
		c := m.roster.pick(x.bytes)
		if c == nil {
			return out
		}
		m.budget.assignments--
		m.ready.drop(&x)
		out = m.deliver(c, &x, out)
	}
	return out
}

// canAssign tells whether a budget kept assign from going on.
func (m *Machine) canAssign() bool {
	if m.sealed || m.ready.sums.n == 0 || m.roster.waiting == 0 {
		return false
	}
	var x record
	m.head(&x)
	return m.roster.pick(x.bytes) != nil
}

// deliver assigns a message that was taken out of ready to a consumer.
func (m *Machine) deliver(c *consumer, x *record, out []Effect) []Effect {
	c.undrained++
	c.undrainedBytes += uint64(x.bytes)
	if c.noAck {
		m.totals.deliveredNoAck++
	} else {
		c.unsettled++
		c.session.unsettled++
		m.totals.delivered++
	}
	m.roster.served(c)
	return m.hand(c.session, c.id, c.noAck, c.epoch, c.timeout, x, out)
}

// hand puts a message under the session's next delivery number.
func (m *Machine) hand(s *session, id ConsumerID, noAck bool, epoch uint64, timeout Limit, x *record, out []Effect) []Effect {
	s.lastD++
	e := s.effect(s.lastD, id, x, x.acquired)
	e.Epoch = epoch
	if e.Redelivered {
		m.totals.redelivered++
	}
	out = append(out, e)
	m.away.add(x.seq)
	raise(&x.acquired)
	deadline := int64(0)
	if noAck {
		x.flags |= FlagNoAck
		m.freeID(x.seq)
	} else {
		m.unacked.add(x)
		deadline = m.deadline(s, timeout)
	}
	s.out.add(s.lastD, delivery{record: *x, deadline: deadline, consumer: id}, &m.pool)
	return out
}

// get carries out OpGet.
func (m *Machine) get(p *pipeline, cmd *Command, out []Effect) (Reply, []Effect) {
	m.lastUse = m.seenMillis
	if m.succession.active != nil {
		return Reply{Code: CodeSingleActive}, out
	}
	var x record
	if m.ready.sums.n > 0 {
		m.head(&x)
	}
	if m.ready.sums.n == 0 || m.isExpired(&x) { // the budget for deaths may be used up
		m.totals.getEmpty++
		return Reply{Code: CodeEmpty}, out
	}
	s := p.session(cmd.Session)
	if s == nil {
		if m.sessions >= m.bounds.sessions {
			return Reply{Code: CodeLimit}, out
		}
		s = m.openSession(p, cmd.Session)
	}
	noAck := cmd.Flags&FlagNoAck != 0
	if noAck {
		m.totals.gotNoAck++
	} else {
		m.totals.got++
	}
	m.ready.drop(&x)
	out = m.hand(s, 0, noAck, 0, 0, &x, out)
	return Reply{A: s.lastD, B: m.ready.sums.n}, out
}
