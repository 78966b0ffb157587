package queue

import (
	"cmp"
	"slices"
)

// Sync answers an Attach: what a node must know of its pipeline. Outcomes are those of batches above answeredK that are kept; deliveries those above the mark of their
// session (all, for a session without a mark). It changes nothing; the answer aliases nothing.
func (m *Machine) Sync(id PipelineID, answeredK uint64, marks []SessionMark) SyncState {
	var st SyncState
	st.DeadBoot, _ = m.dead(id.Node)
	st.Evicted = m.evicted(id)
	p := m.pipeline(id)
	if p == nil {
		return st
	}
	st.Known, st.LastK = true, p.lastK
	for k := max(p.oldestK(), min(answeredK, p.lastK)+1); k <= p.lastK; k++ {
		st.Outcomes = append(st.Outcomes, BatchOutcome{K: k, Exceptions: p.exceptions(k, nil)})
	}
	bySession := slices.Clone(marks)
	slices.SortFunc(bySession, func(a, b SessionMark) int { return cmp.Compare(a.Session, b.Session) })
	for _, s := range p.sessions {
		for len(bySession) > 0 && bySession[0].Session < s.id {
			bySession = bySession[1:]
		}
		seen := uint64(0)
		if len(bySession) > 0 && bySession[0].Session == s.id {
			seen = bySession[0].LastD
		}
		ss := s.sync(seen)
		if s.wants && mutant != mutantSyncForgetsReady {
			ss.Ready = max(m.ready.sums.n, 1)
		}
		st.Sessions = append(st.Sessions, ss)
	}
	return st
}

func (s *session) sync(seen uint64) SessionSync {
	st := SessionSync{Session: s.id, LastD: s.lastD, LostSome: s.lostSome}
	if s.lostSome {
		st.Seen = min(seen, s.lastD)
		for d, p := s.out.next(1); p != nil && d <= seen; d, p = s.out.next(d + 1) {
			st.Kept = append(st.Kept, d)
		}
	}
	for _, c := range s.consumers {
		st.Consumers = append(st.Consumers, c.id)
	}
	for d, p := s.out.next(min(seen, s.lastD) + 1); p != nil; d, p = s.out.next(d + 1) {
		x := p.at(d)
		e := s.effect(d, x.consumer, &x.record, x.acquired-1)
		if c := s.consumer(x.consumer); c != nil {
			e.Epoch = c.epoch
		}
		st.Deliveries = append(st.Deliveries, e)
	}
	return st
}

// effect describes the delivery d of a message that had been acquired so often before it.
func (s *session) effect(d uint64, id ConsumerID, x *record, acquired uint32) Effect {
	redelivered := acquired > 0 || x.flags&FlagRedelivered != 0
	if mutant == mutantRedeliveredLost {
		redelivered = x.flags&FlagRedelivered != 0
	}
	return Effect{
		Kind: KindDeliver, Redelivered: redelivered, Consumer: id, DeliveryCount: x.failures, AcquiredCount: acquired,
		Node: s.pipeline.id.Node, BootCounter: s.pipeline.id.Boot.Counter, Session: s.id, D: d, Seq: x.seq,
	}
}
