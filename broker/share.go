package broker

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// A prefetch for the channel as a whole (basic.qos with global) is shared out to the queues that it consumes: each may have as many unacked deliveries as its part says, and the parts are never more than the
// whole. An acknowledgement makes room in the part of its queue without a word. A part is made smaller only when another queue has messages that it may not send and nothing else is left; what it loses
// is given to others when its queue has answered and the client has no more than the rest. So the limit holds whatever is under way, and with one queue the whole stays there.
//
// What a queue tells of its messages may be old: where queues compete, one that seems idle is asked again, with the limit that it has.

// share is a channel's prefetch as a whole and its parts. It decides; credit.go carries out. It is guarded by the channel's lock.
type share struct {
	// total is the limit, 0 if there is none.
	total int
	// charged is how many deliveries to consumers the client has to settle, of all queues and of deleted ones.
	charged int
	parts   []*part
	// hungry is how many parts want more.
	hungry int
	// turns counts the parts that were given more, for their order; told what queues were told.
	turns, told uint64
}

// part is what one queue has of it.
type part struct {
	queue meta.QueueID
	// charged is how many deliveries to consumers the client has to settle. limit is what the queue was told last, held the highest limit that it may still go by.
	charged, limit, held int
	// takers is how many consumers take part. wants is how many messages the queue could send but for its limit, as far as is known.
	takers, wants int
	// told is the serial number of the credit that the queue has not answered, 0 if it has; since is when it was sent.
	told  uint64
	since uint32
	// ask has the queue told its limit even if that is as it was.
	ask bool
	// turn is when it was last given more.
	turn uint64
	// next is the limit that it gets now, aim the one that would be fair.
	next, aim int
}

// noLimit is the limit of a part while the channel has none.
const noLimit = queue.NoLimit

// bound is how many deliveries the client may have of the part's queue, whatever is under way.
func (p *part) bound() int { return max(p.held, p.charged) }

// isHungry tells whether the part could be given more now: one that its queue has not answered is let alone.
func (p *part) isHungry() bool { return p.wants > 0 && p.told == 0 }

// demand is how many deliveries the part could make use of.
func (p *part) demand() int {
	if p.isHungry() {
		return p.charged + p.wants
	}
	return p.charged
}

// want notes how many more messages a part could have.
func (s *share) want(p *part, messages int) {
	if p.takers == 0 {
		messages = 0
	}
	if (messages > 0) != (p.wants > 0) {
		if messages > 0 {
			s.hungry++
		} else {
			s.hungry--
		}
	}
	p.wants = messages
}

// full tells whether the client has as many deliveries as it may.
func (s *share) full() bool { return s.total > 0 && s.charged >= s.total }

// left is how much of the whole belongs to no part once what is under way is answered and settled; less than nothing after the limit was lowered.
func (s *share) left() int {
	left := s.total - s.charged
	for _, p := range s.parts {
		left += p.charged - p.limit
	}
	return left
}

// free is how much of the whole can be given away at once.
func (s *share) free() int {
	free := s.total - s.charged
	for _, p := range s.parts {
		free += p.charged - p.bound()
	}
	return free
}

// decide sets next of all parts: the limits that their queues are to have now. A part that its queue has not answered stays as it is.
func (s *share) decide() {
	for _, p := range s.parts {
		p.next = p.limit
		if s.total == 0 && p.told == 0 {
			p.next = noLimit
		}
	}
	if s.total == 0 {
		return
	}
	s.aim()
	s.take()
	if s.give(s.free()) {
		s.spread()
	}
}

// aim finds what would be fair: nobody has more than it can make use of, and beyond that all have the same. What cannot be divided stays where it is; if it is less than one for each, those go first who have
// waited longest.
func (s *share) aim() {
	order := slices.Clone(s.parts)
	slices.SortStableFunc(order, func(a, b *part) int { return cmp.Compare(a.demand(), b.demand()) })
	left := max(s.total-s.orphans(), 0)
	for i, p := range order {
		level := left / (len(order) - i)
		if p.demand() <= level {
			p.aim = p.demand()
			left -= p.aim
			continue
		}
		rest := order[i:]
		for _, p := range rest {
			p.aim = level
		}
		left -= level * len(rest)
		slices.SortStableFunc(rest, func(a, b *part) int {
			if level > 0 && (a.limit > level) != (b.limit > level) {
				return cmp.Compare(b.limit, a.limit)
			}
			return cmp.Compare(a.turn, b.turn)
		})
		for _, p := range rest[:left] {
			p.aim++
		}
		return
	}
}

// orphans is how many deliveries of queues that have no part any more the client has.
func (s *share) orphans() int {
	n := s.charged
	for _, p := range s.parts {
		n -= p.charged
	}
	return n
}

// take makes parts smaller: by what is too much, by what others could have at once, and by what they are to have when clients have settled what they have of it. What clients do not have of a part goes first.
func (s *share) take() {
	excess, short := s.excess(), -s.left()
	idle := excess
	for _, p := range s.parts {
		if p.isHungry() {
			idle += max(p.aim-max(p.limit, p.charged), 0)
			short += max(p.aim-p.limit, 0)
		}
	}
	for _, pass := range [...]struct {
		n        *int
		toCharge bool // what the client has is left alone
		toAim    bool // and what is fair
	}{{&excess, true, false}, {&idle, true, true}, {&short, false, true}} {
		for _, p := range s.parts {
			least := 0
			if pass.toCharge {
				least = p.charged
			}
			if pass.toAim {
				least = max(least, p.aim)
			}
			n := p.cut(least, *pass.n)
			excess, idle, short = excess-n, idle-n, short-n
		}
	}
}

// excess is by how much the client's deliveries and the limits that queues were told are together more than the whole: what was lent came after all.
func (s *share) excess() int {
	n := s.charged - s.total
	for _, p := range s.parts {
		n += max(p.limit-p.charged, 0)
	}
	return n
}

// cut lowers the next limit of a part by n, but not below least, and returns by how much.
func (p *part) cut(least, n int) int {
	n = min(p.next-least, n)
	if p.told != 0 || n <= 0 {
		return 0
	}
	p.next -= n
	return n
}

// give makes parts that want more larger, as far as there is something free, and tells whether none was left wanting.
func (s *share) give(free int) bool {
	if s.hungry == 0 {
		return true
	}
	order := slices.Clone(s.parts)
	slices.SortStableFunc(order, func(a, b *part) int { return cmp.Compare(a.turn, b.turn) })
	for _, p := range order {
		if p.isHungry() {
			free -= p.grow(p.aim, free)
		}
	}
	satisfied := true
	for _, p := range s.parts {
		satisfied = satisfied && !(p.isHungry() && p.demand() > p.next)
	}
	return satisfied
}

// spread gives what nobody wants to all that have consumers, so that their next message need not wait for it.
func (s *share) spread() {
	free, left, takers := s.free(), s.left(), 0
	for _, p := range s.parts {
		free -= max(p.next-max(p.limit, p.charged), 0) // what is taken away is not there yet
		left -= p.next - p.limit
		if p.takers > 0 {
			takers++
		}
	}
	for _, p := range s.parts {
		if p.takers > 0 {
			more := left / takers
			if more > 0 && p.told == 0 {
				free -= p.grow(p.next+more, free)
			}
			left -= more
			takers--
		}
	}
}

// grow raises the next limit of a part, as far as there is so much free or its client has as many deliveries already. It returns what that took.
func (p *part) grow(to, free int) int {
	has := max(p.next, p.charged)
	to = min(to, has+max(free, 0))
	if to <= p.next {
		return 0
	}
	p.next = to
	return max(to-has, 0)
}

// doubtful tells whether a part that is said to want more seems to have nothing, while another could make use of what it has.
func (s *share) doubtful(p *part) bool {
	if p.wants == 0 || p.told != 0 || p.charged >= p.limit {
		return false
	}
	for _, o := range s.parts {
		if o != p && o.isHungry() && o.demand() > o.next {
			return true
		}
	}
	return false
}

// changes returns the parts whose queues are to be told their limit now, each with the number of the credit in told.
func (s *share) changes(now uint32) []*part {
	var list []*part
	for _, p := range s.parts {
		if s.isSilent(p, now) {
			p.lend()
			s.tell(p, now)
			list = append(list, p)
		}
	}
	s.decide()
	for _, p := range s.parts {
		if p.told == 0 && (p.next != p.limit || s.total > 0 && p.ask || s.doubtful(p)) {
			s.tell(p, now)
			list = append(list, p)
		}
	}
	return list
}

// settled tells whether no queue was told a limit by which it may send more than the client may have, but for what is under way.
func (s *share) settled() bool {
	if s.total == 0 || s.excess() <= 0 {
		return true
	}
	for _, p := range s.parts {
		if p.limit > p.charged {
			return false
		}
	}
	return true
}

// tell notes that the queue of p is told its next limit. Whatever it wanted, it will say anew.
func (s *share) tell(p *part, now uint32) {
	if p.next > p.limit {
		s.turns++
		p.turn = s.turns
	}
	p.limit = p.next
	p.held = max(p.held, p.limit)
	s.told++
	p.told, p.since, p.ask = s.told, now, false
	s.want(p, 0)
}

// answered takes the answer to a credit: nothing of higher limits is under way any more, and so many messages wait for a higher one.
func (s *share) answered(p *part, serial uint64, messages int) {
	if p.told != serial {
		return
	}
	p.told = 0
	p.held = p.limit
	if messages > 0 {
		s.want(p, messages)
	}
}

// isSilent tells whether the queue of p has not answered for so long that what it has is needed elsewhere.
func (s *share) isSilent(p *part, now uint32) bool {
	return s.hungry > 0 && p.told != 0 && p.held > p.charged && now-p.since >= silentTicks
}

// lend frees what a part has beyond its charges though its queue has not answered for long: its next limit says so, and what it may send against it meanwhile goes back.
func (p *part) lend() {
	p.next = min(p.limit, p.charged)
	p.limit, p.held = p.next, p.next
}

// drop forgets the part of a queue that is gone. What the client has of it counts on until it is settled.
func (s *share) drop(p *part) {
	s.want(p, 0)
	if i := slices.Index(s.parts, p); i >= 0 {
		s.parts = slices.Delete(s.parts, i, i+1)
	}
}
