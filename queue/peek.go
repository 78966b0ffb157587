package queue

import (
	"cmp"
	"math/bits"
	"slices"
)

// Looks at messages. They change nothing, not even what the machine remembers for speed, so whoever holds the machine still may look as often as he likes. No part of the backlog is copied
// but the messages that are asked for: their place is found by counting, a few times, how many stand before a seq.

// Peeked is what a look shows of a message. The body is the shell's.
type Peeked struct {
	Seq Seq
	// Place is where it stands among the others; it differs from Seq if the message was to become ready later, and was.
	Place       Seq
	Bytes       uint32
	Priority    uint8
	Redelivered bool
	// DeliveryCount is how often it was returned as a failure.
	DeliveryCount uint32
	// EnqueuedMillis is when it came, or became ready if that was to be later, ExpiresMillis when it expires by its own expiration, 0 if it has none.
	EnqueuedMillis, ExpiresMillis int64
	// UntilMillis is when a delayed message is to be ready; 0 for any other.
	UntilMillis int64
	// Session of an incarnation of a node holds the message, for Consumer or, if that is 0, by a Get. All are zero for a ready message and for one that is on its way back from an ended session.
	Node        NodeID
	BootCounter uint64
	Session     SessionID
	Consumer    ConsumerID
}

// PeekReady returns up to count ready messages in the order in which consumers would get them if none aged, without the first offset.
func (m *Machine) PeekReady(offset, count int) []Peeked {
	var out []Peeked
	for p := len(m.ready.levels) - 1; p >= 0; p-- {
		l := &m.ready.levels[p]
		if l.size() == 0 {
			continue
		}
		out = peekLevel(out, &offset, count, l.size(), l.first(), m.nextSeq, l.below, func(from, to Seq, out []Peeked) []Peeked {
			return l.between(uint8(p), from, to, out)
		})
	}
	return out
}

// PriorityCounts returns how many ready messages there are of each priority, from 0 to the highest that has any.
func (m *Machine) PriorityCounts() []uint64 {
	if m.ready.sums.n == 0 {
		return nil
	}
	counts := make([]uint64, int(m.ready.top())+1)
	for p := range counts {
		counts[p] = uint64(m.ready.levels[p].size())
	}
	return counts
}

// PeekUnacked returns up to count messages that wait for an acknowledgement, by priority and age, without the first offset.
func (m *Machine) PeekUnacked(offset, count int) []Peeked {
	var levels [256]struct {
		n     int
		first Seq
	}
	m.eachUnacked(func(x *record, _ *session, _ ConsumerID) {
		l := &levels[x.priority]
		if l.n++; l.n == 1 || x.place < l.first {
			l.first = x.place
		}
	})
	var out []Peeked
	for p := len(levels) - 1; p >= 0; p-- {
		below := func(seq Seq) (n int) {
			m.eachUnacked(func(x *record, _ *session, _ ConsumerID) {
				if int(x.priority) == p && x.place < seq {
					n++
				}
			})
			return n
		}
		out = peekLevel(out, &offset, count, levels[p].n, levels[p].first, m.nextSeq, below, func(from, to Seq, out []Peeked) []Peeked {
			m.eachUnacked(func(x *record, s *session, id ConsumerID) {
				if int(x.priority) == p && x.place >= from && x.place < to {
					out = append(out, x.peeked(s, id))
				}
			})
			return out
		})
	}
	return out
}

// peekLevel appends the messages of one priority, size of them from seq first on, that offset and count leave; offset is lowered by those that it passes over. below counts the messages with a
// lower seq, between appends those with from <= seq < to in any order.
func peekLevel(out []Peeked, offset *int, count, size int, first, next Seq, below func(Seq) int, between func(from, to Seq, out []Peeked) []Peeked) []Peeked {
	want := min(count-len(out), size-*offset)
	if want <= 0 {
		*offset = max(0, *offset-size)
		return out
	}
	r := ranked{first: first, next: next, size: uint64(size), below: below}
	from, before := r.before(uint64(*offset)), len(out)
	to := next
	if *offset+want < size {
		to = r.before(uint64(*offset + want))
	}
	*offset = 0
	out = between(from, to, out)
	sortPeeked(out[before:])
	return out
}

func sortPeeked(list []Peeked) {
	slices.SortFunc(list, func(a, b Peeked) int { return cmp.Compare(a.Place, b.Place) })
}

// ranked is a set of size seqs from first to below next, of which no more is known than how many are below a seq.
type ranked struct {
	first, next Seq
	size        uint64
	below       func(Seq) int
}

// before returns a seq that n members are below. It guesses as if the members stood at equal distances, and every other time halves what is left; what it counts bounds the place from both sides,
// for no seq is a member twice.
func (r *ranked) before(n uint64) Seq {
	if n == 0 {
		return r.first
	}
	low, high := r.first+Seq(n), r.next-Seq(r.size-n)
	a, before, b, after := r.first, uint64(0), r.next, r.size // before members are below a, after below b
	for halve := false; low < high; halve = !halve {
		guess := low + (high-low+1)/2
		if !halve {
			product, rest := bits.Mul64(n-before, uint64(b-a))
			way, _ := bits.Div64(product, rest, after-before)
			guess = min(max(a+Seq(way), low+1), high)
		}
		switch k := uint64(r.below(guess)); {
		case k == n:
			return guess
		case k < n:
			a, before, low = guess, k, guess+Seq(n-k)
		default:
			b, after, high = guess, k, guess-Seq(k-n)
		}
	}
	return low
}

// peeked describes a message that a session holds, or none if s is nil.
func (r *record) peeked(s *session, id ConsumerID) Peeked {
	x := Peeked{Seq: r.seq, Place: r.place, Bytes: r.bytes, Priority: r.priority, DeliveryCount: r.failures, EnqueuedMillis: r.born, ExpiresMillis: r.due, Consumer: id}
	acquired := r.acquired
	if s != nil {
		x.Node, x.BootCounter, x.Session = s.pipeline.id.Node, s.pipeline.id.Boot.Counter, s.id
		acquired-- // by the present delivery
	}
	x.Redelivered = acquired > 0 || r.flags&FlagRedelivered != 0
	return x
}

// eachUnacked visits every message that users call unacked, with the session that holds it; that is nil if it is on its way back.
func (m *Machine) eachUnacked(visit func(x *record, s *session, id ConsumerID)) {
	for _, p := range m.pipelines {
		for _, s := range p.sessions {
			s.out.each(func(_ uint64, x *delivery) {
				if !x.isNoAck() {
					visit(&x.record, s, x.consumer)
				}
			})
		}
	}
	for _, r := range m.reservations {
		for i := range r.settled {
			visit(&r.settled[i].record, nil, 0)
		}
	}
	m.returning.each(func(x *record) { visit(x, nil, 0) })
}

// first returns the lowest seq of a level that is not empty.
func (l *level) first() Seq {
	seq := ^Seq(0)
	if l.fresh.n > 0 {
		seq = l.fresh.peek().seq
	}
	if l.others != nil {
		if x, ok := l.others.Min(); ok {
			seq = min(seq, x.place)
		}
	}
	return seq
}

// below counts the messages of a level with a lower seq.
func (l *level) below(seq Seq) int {
	n := l.fresh.below(seq)
	if l.others != nil {
		l.others.AscendLessThan(record{place: seq}, func(record) bool {
			n++
			return true
		})
	}
	return n
}

// between appends the messages of a level with from <= seq < to, in any order.
func (l *level) between(priority uint8, from, to Seq, out []Peeked) []Peeked {
	if l.others != nil {
		l.others.AscendRange(record{place: from}, record{place: to}, func(x record) bool {
			out = append(out, x.peeked(nil, 0))
			return true
		})
	}
	l.fresh.ascend(from, func(f *fresh) bool {
		if f.seq >= to {
			return false
		}
		x := fromFresh(f, priority)
		out = append(out, x.peeked(nil, 0))
		return true
	})
	return out
}
