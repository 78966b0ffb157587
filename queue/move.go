package queue

import (
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/invariant"
)

// Ready messages may be moved to another queue. They leave by the outbox, where they have their target from the start, so that each is here or there, once, whatever fails in between. No death is noted.

// isMove tells whether it is one of OpMove.
func (r Reason) isMove() bool { return r == ReasonMoved || r == ReasonRedriven }

// MoveMax bounds the messages that one OpMove names. It is part of the machine's behaviour.
const MoveMax = limits.ApplyWorkMax

// move carries out OpMove as far as the entry's budget of deaths goes.
func (m *Machine) move(cmd *Command, out []Effect) (Reply, []Effect) {
	if !m.outbox.fit([]QueueID{cmd.Peer}, m.bounds.lanes) && mutant != mutantMovePassesLimit {
		return Reply{Code: CodeLimit}, out
	}
	moved := uint64(0)
	ship := func(x *record) bool {
		if m.budget.deaths == 0 {
			return false
		}
		m.budget.deaths--
		moved++
		m.outbox.ship(x, cmd.Reason, m.seenMillis, cmd.Peer)
		out = append(out, Effect{Kind: KindDead, Seq: x.seq, Reason: cmd.Reason})
		return true
	}
	if len(cmd.Envelope) > 0 {
		m.ready.take(decodeSeqs(cmd.Envelope), ship)
		return Reply{A: moved}, out
	}
	for x := (record{}); moved < cmd.To && m.ready.sums.n > 0; {
		m.ready.peek(&x)
		if !ship(&x) {
			break
		}
		if mutant != mutantMovedStays {
			m.ready.drop(&x)
		}
	}
	return Reply{A: moved}, out
}

// ship adds a parcel that has its target already.
func (o *outbox) ship(x *record, reason Reason, now int64, target QueueID) {
	o.last++
	o.put(parcel{n: o.last, record: *x, reason: reason, died: now, left: 1})
	l := o.lane(target)
	l.parcels = append(l.parcels, o.last)
}

// take takes out those of the messages, which are in ascending order, that are ready, the highest priority first, as long as visit says so.
func (r *ready) take(seqs []Seq, visit func(x *record) bool) {
	for p := len(r.levels) - 1; p >= 0; p-- {
		l := &r.levels[p]
		if l.size() == 0 {
			continue
		}
		l.take(uint8(p), seqs, func(x *record, isOther bool) bool {
			if !visit(x) {
				return false
			}
			if x.due != 0 && mutant != mutantTakenTimerKept {
				r.unwatch(x, isOther)
			}
			r.seqs.remove(x.seq)
			r.sums.sub(x)
			return true
		})
		if l.size() == 0 {
			r.filled[p/64] &^= 1 << (p % 64)
		}
	}
}

// take takes out those of the messages that the level holds, in order, as long as visit says so, which learns whether a message stood among the others.
func (l *level) take(priority uint8, seqs []Seq, visit func(x *record, isOther bool) bool) {
	next, going := 0, true
	others := func(before Seq) {
		for ; going && next < len(seqs) && seqs[next] < before; next++ {
			if l.others == nil {
				continue
			}
			if x, ok := l.others.Get(record{place: seqs[next]}); ok {
				if going = visit(&x, true); going {
					l.others.Delete(x)
				}
			}
		}
	}
	l.fresh.take(seqs, func(f *fresh) bool {
		if others(f.seq); going {
			x := fromFresh(f, priority)
			going = visit(&x, false)
		}
		return going
	})
	others(^Seq(0))
}

// AppendSeqs appends the list of an OpMove: seqs in ascending order.
func AppendSeqs(dst []byte, seqs []Seq) []byte {
	last := Seq(0)
	for _, seq := range seqs {
		dst = codec.AppendUvarint(dst, uint64(seq-last))
		last = seq
	}
	return dst
}

func decodeSeqs(list []byte) []Seq {
	seqs, last := make([]Seq, 0, len(list)), Seq(0)
	for r := codec.NewReader(list); r.Len() > 0; {
		last += Seq(r.Uvarint())
		invariant.Check(r.Err() == nil, "a list of messages does not decode")
		seqs = append(seqs, last)
	}
	return seqs
}

// validSeqs tells whether a list of OpMove is whole, in order and no longer than one command may be.
func validSeqs(list []byte) bool {
	r, last, n := codec.NewReader(list), uint64(0), 0
	for ; r.Len() > 0; n++ {
		step := r.Uvarint()
		if step == 0 || step > numberMax || last+step > numberMax {
			return false
		}
		last += step
	}
	return r.Err() == nil && n <= MoveMax
}

// ScanReady returns up to count ready messages in the order in which consumers would get them, without those up to the message after of a priority; of priority 256 all follow. Whoever looks on from
// where he was misses none that stays ready.
func (m *Machine) ScanReady(priority int, after Seq, count int) []Peeked {
	var out []Peeked
	for p := min(priority, len(m.ready.levels)-1); p >= 0 && len(out) < count; p-- {
		from := Seq(0)
		if p == priority {
			from = after
		}
		l := &m.ready.levels[p]
		if l.size() > 0 {
			out = l.behind(uint8(p), from, count-len(out), out)
		}
	}
	return out
}

// behind appends up to count messages of a level with a higher seq.
func (l *level) behind(priority uint8, after Seq, count int, out []Peeked) []Peeked {
	before := len(out)
	l.fresh.ascend(after+1, func(f *fresh) bool {
		x := fromFresh(f, priority)
		out = append(out, x.peeked(nil, 0))
		return len(out) < before+count
	})
	if others := 0; l.others != nil {
		l.others.AscendGreaterOrEqual(record{place: after + 1}, func(x record) bool {
			out = append(out, x.peeked(nil, 0))
			others++
			return others < count
		})
	}
	sortPeeked(out[before:])
	return out[:min(len(out), before+count)]
}
