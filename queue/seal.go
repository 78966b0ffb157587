package queue

// seal carries out OpSeal.
func (m *Machine) seal(cond Condition) Reply {
	if !m.sealed {
		if due, ok := m.Expiry(); cond&IfExpired != 0 && !(ok && due <= m.seenMillis) {
			return Reply{Code: CodeInUse}
		}
		if cond&IfUnused != 0 && m.roster.size > 0 || cond&IfAutoDelete != 0 && !(m.cfg.AutoDelete && m.hadConsumer && m.roster.size == 0) {
			return Reply{Code: CodeInUse}
		}
		if cond&IfEmpty != 0 && m.ready.sums.n+m.away.n+m.delayed.sums.n > 0 || cond&IfAutoDelete != 0 && !m.returning.isEmpty() {
			return Reply{Code: CodeNotEmpty}
		}
		if len(m.decisions) > 0 && mutant != mutantSealedUndecided {
			return Reply{Code: CodeDeciding}
		}
		m.sealed = true
		m.seals++
	}
	if m.cfg.Relay {
		return Reply{A: m.seals, B: m.untargeted(), C: m.outbox.sums.n}
	}
	return Reply{A: m.seals, B: m.ready.sums.n, C: m.outbox.sums.n}
}

// untargeted counts the messages of a relay that are due to go on and have no targets yet; those that are due and asleep count as one.
func (m *Machine) untargeted() (n uint64) {
	if m.outbox.unresolved != nil {
		n = uint64(m.outbox.unresolved.Len())
	}
	if x, ok := m.delayed.next(); ok && x.until <= m.seenMillis {
		n++
	}
	return n
}

// retire begins the end of a deleted queue from which messages still leave (Config.Draining).
func (m *Machine) retire(out []Effect) []Effect {
	if !m.sealed {
		m.sealed = true
		m.seals++
	}
	_, out = m.purge(out)
	return out
}

// Drained tells whether a draining queue has nothing left to do: the leader should have the catalogue remove it.
func (m *Machine) Drained() bool {
	return m.cfg.Draining && m.outbox.sums.n == 0 && len(m.decisions) == 0
}

// unseal carries out OpUnseal.
func (m *Machine) unseal(token uint64) Reply {
	if !m.sealed || token != m.seals || m.cfg.Draining && mutant != mutantDrainingUnsealed {
		return Reply{Code: CodeStale}
	}
	m.sealed = false
	return Reply{}
}

// Sealed returns the token of the present seal; ok is false if the queue is not sealed.
func (m *Machine) Sealed() (token uint64, ok bool) {
	if !m.sealed {
		return 0, false
	}
	return m.seals, true
}

// Unused tells whether an auto-delete queue has had a consumer, has none now and no message is left to return: the leader should Seal it with IfAutoDelete. A new leader asks this,
// because the KindUnused effect comes only once.
func (m *Machine) Unused() bool {
	return m.cfg.AutoDelete && m.hadConsumer && m.roster.size == 0 && m.returning.isEmpty()
}

// Expiry returns when the queue will have been unused for as long as its Config allows: then the leader should Seal it with IfExpired. ok is false while it is in use, and if it may be
// unused for ever. Letters that wait in the outbox are no matter: the queue is draining then.
func (m *Machine) Expiry() (millis int64, ok bool) {
	if m.roster.size > 0 || m.cfg.Draining || m.cfg.ExpiresIfEmpty && m.ready.sums.n+m.away.n+m.delayed.sums.n > 0 {
		return 0, false
	}
	return m.cfg.Expires.after(m.lastUse)
}
