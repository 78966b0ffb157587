package queue

import (
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/invariant"
)

// Delayed messages may be dropped or made ready at once. A delayed message is named by the time at which it is to be ready and its seq, which is how they are ordered, so that finding one costs no index.

// pickMax bounds the messages that one OpUnschedule or OpExpedite names. It is part of the machine's behaviour.
const pickMax = 4096

// pick carries out OpUnschedule and OpExpedite as far as the entry's budget of returns goes.
func (m *Machine) pick(cmd *Command, out []Effect) (Reply, []Effect) {
	picked := uint64(0)
	take := func(x asleep, ok bool) bool {
		if m.budget.returns == 0 {
			return false
		}
		if !ok {
			return true
		}
		m.budget.returns--
		picked++
		if cmd.Op == OpExpedite {
			out = m.rouse(&x, out)
		} else {
			m.delayed.remove(&x)
			out = m.release(x.record.seq, out)
		}
		return true
	}
	if m.delayed.messages == nil {
		return Reply{}, out
	}
	for r := codec.NewReader(cmd.Envelope); r.Len() > 0; {
		until, seq := int64(r.Uvarint()), Seq(r.Uvarint())
		invariant.Check(r.Err() == nil, "a list of delayed messages does not decode")
		if !take(m.delayed.messages.Get(asleep{until: until, record: record{seq: seq}})) {
			break
		}
	}
	for picked < cmd.To && m.delayed.sums.n > 0 {
		if !take(m.delayed.next()) {
			break
		}
	}
	return Reply{A: picked}, out
}

// AppendDelayed appends an entry to the list of an OpUnschedule or OpExpedite.
func AppendDelayed(dst []byte, untilMillis int64, seq Seq) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(dst, uint64(untilMillis)), uint64(seq))
}

// validPick tells whether an OpUnschedule or OpExpedite names messages or a number of them, and no more than one command may.
func validPick(c *Command) bool {
	r, n := codec.NewReader(c.Envelope), 0
	for ; r.Len() > 0; n++ {
		if r.Uvarint() > numberMax || r.Uvarint() > numberMax {
			return false
		}
	}
	return r.Err() == nil && n <= pickMax && (n == 0) != (c.To == 0)
}

// PeekDelayed returns up to count delayed messages in the order in which they will be ready, from the one on that would be named by the time and the seq.
func (m *Machine) PeekDelayed(untilMillis int64, seq Seq, count int) []Peeked {
	var out []Peeked
	if m.delayed.messages == nil || count <= 0 {
		return nil
	}
	m.delayed.messages.AscendGreaterOrEqual(asleep{until: untilMillis, record: record{seq: seq}}, func(x asleep) bool {
		p := x.record.peeked(nil, 0)
		if p.UntilMillis = x.until; x.record.flags&FlagDelay != 0 {
			p.EnqueuedMillis, p.ExpiresMillis = 0, 0 // its life has not begun
		}
		out = append(out, p)
		return len(out) < count
	})
	return out
}

// NextDelayed returns when the first delayed message will be ready; false if there is none.
func (m *Machine) NextDelayed() (millis int64, ok bool) {
	x, ok := m.delayed.next()
	return x.until, ok
}
