package queue

// Messages die when they expire, when the queue is too long, when a consumer rejects them, and when they failed too often. A death that the Config keeps goes to the
// outbox; of any other nothing is left.

// Reason says why a message died, or left for another queue. The numbers stand in logs: only add at the end.
type Reason uint8

const (
	// ReasonRejected: a consumer rejected it without requeue.
	ReasonRejected Reason = 1
	// ReasonExpired: its time to live was over.
	ReasonExpired Reason = 2
	// ReasonMaxLength: the queue was full.
	ReasonMaxLength Reason = 3
	// ReasonDeliveryLimit: it came back as a failure more often than the queue allows.
	ReasonDeliveryLimit Reason = 4
	reasonsEnd          Reason = 5
)

// Messages that did not die and leave all the same have reasons of their own.
const (
	// ReasonMoved: it was moved and arrives as it is.
	ReasonMoved Reason = 32
	// ReasonRedriven: it was moved back to where it had died, and arrives with the exchange and the routing key of before its last death.
	ReasonRedriven Reason = 33
	// ReasonRelayed: its queue is a relay, and it goes on as it came.
	ReasonRelayed Reason = 34
)

// IsDeath tells whether it stands for a death; other messages just go elsewhere.
func (r Reason) IsDeath() bool { return r > 0 && r < reasonsEnd }

// String returns the reason as RabbitMQ's x-death has it.
func (r Reason) String() string {
	switch r {
	case ReasonRejected:
		return "rejected"
	case ReasonExpired:
		return "expired"
	case ReasonMaxLength:
		return "maxlen"
	case ReasonDeliveryLimit:
		return "delivery_limit"
	case ReasonMoved:
		return "moved"
	case ReasonRedriven:
		return "redriven"
	case ReasonRelayed:
		return "relayed"
	}
	return "unknown"
}

// die carries out the death of a message that was taken out of its place.
func (m *Machine) die(x *record, reason Reason, out []Effect) []Effect {
	m.totals.deaths[reason-1]++
	if (m.cfg.DeadLetter || reason == ReasonDeliveryLimit && m.cfg.ParkPoison) && (!m.cfg.Draining || mutant == mutantDrainingDies) {
		if !m.outboxIsFull() {
			m.outbox.add(x, reason, m.seenMillis)
			return append(out, Effect{Kind: KindDead, Seq: x.seq, Reason: reason})
		}
		out = append(out, Effect{Kind: KindLost, Seq: x.seq, Reason: reason})
	}
	return m.release(x.seq, out)
}

// outboxIsFull tells whether a message that dies now is lost: so many wait in the outbox that it costs more memory than it may. What is moved, relayed or published is never lost.
func (m *Machine) outboxIsFull() bool {
	return m.outbox.sums.n >= m.bounds.letters && mutant != mutantOutboxUnbounded
}

// isExpired tells whether a message must not be handed out any more.
func (m *Machine) isExpired(x *record) bool {
	if x.due != 0 && x.due <= m.seenMillis {
		return true
	}
	due, ok := m.cfg.MessageTTL.after(x.born)
	return ok && due <= m.seenMillis && mutant != mutantExpiresLate
}

// expire lets ready messages die whose time is over: first by their own expiration, then by the queue's. It reports whether that is all of them; else the budget is used up.
func (m *Machine) expire(out []Effect) (bool, []Effect) {
	for due, ok := m.ready.nextDue(); ok && due <= m.seenMillis; due, ok = m.ready.nextDue() {
		if m.budget.deaths == 0 {
			return false, out
		}
		m.budget.deaths--
		x := m.ready.takeNext()
		out = m.die(&x, ReasonExpired, out)
	}
	if m.cfg.MessageTTL == 0 {
		return true, out
	}
	var x record
	for p := len(m.ready.levels) - 1; p >= 0; p-- {
		for m.ready.levels[p].size() > 0 {
			if m.ready.peekAt(uint8(p), &x); !m.isExpired(&x) {
				break
			}
			if m.budget.deaths == 0 {
				return false, out
			}
			out = m.kill(&x, ReasonExpired, out)
		}
	}
	return true, out
}

// kill lets a ready message die.
func (m *Machine) kill(x *record, reason Reason, out []Effect) []Effect {
	m.budget.deaths--
	m.ready.drop(x)
	return m.die(x, reason, out)
}

// isOver tells whether more messages are ready than may be, if so many of so many bytes are added. A queue that refuses what it cannot keep refuses publishes while its outbox is full, too.
func (m *Machine) isOver(count, bytes uint64) bool {
	if count > 0 && m.cfg.Overflow == RejectPublish && m.cfg.DeadLetter && m.outboxIsFull() {
		return true // it would die, sooner or later
	}
	if mutant == mutantFullByOne {
		count--
	}
	return m.cfg.MaxLength.exceeded(m.ready.sums.n+count) || m.cfg.MaxLengthBytes.exceeded(m.ready.sums.bytes+bytes)
}

// overflow lets messages die until the queue is as short as it must be.
func (m *Machine) overflow(out []Effect) []Effect {
	for m.ready.sums.n > 0 && m.isOver(0, 0) && m.budget.deaths > 0 {
		var x record
		m.ready.peekAt(m.ready.bottom(), &x)
		out = m.kill(&x, ReasonMaxLength, out)
	}
	return out
}

// failed tells whether a message that comes back as often as it says has failed too often.
func (m *Machine) failed(x *record) bool {
	failures := uint64(x.failures)
	if mutant == mutantDeliveryLimitEarly {
		failures++
	}
	return m.cfg.DeliveryLimit.exceeded(failures)
}

// nextDeath returns the earliest time at which a ready message expires.
func (m *Machine) nextDeath() (millis int64, ok bool) {
	millis, ok = m.ready.nextDue()
	if m.cfg.MessageTTL == 0 {
		return millis, ok
	}
	for p := range m.ready.levels {
		if m.ready.levels[p].size() == 0 {
			continue
		}
		var x record
		m.ready.peekAt(uint8(p), &x)
		if due, _ := m.cfg.MessageTTL.after(x.born); !ok || due < millis {
			millis, ok = due, true
		}
	}
	return millis, ok
}
