package broker

import "slices"

// span holds items under dense rising numbers from 1: deliveries by tag, publishes by number. A ring finds an item by its number without a map; items that
// stay while the numbers run on move to a sorted list, so that one that is never settled does not make the ring grow with the traffic. Memory is
// proportional to the items that are there. The zero item stands for none.
type span[T comparable] struct {
	// base..next-1 are in the ring: base is there, or there is none.
	base, next uint64
	ring       []T
	live       int
	old        []straggler[T] // numbers below base, rising
	oldLive    int
}

type straggler[T comparable] struct {
	n    uint64
	item T
}

const (
	spanFirst = 16
	// spanKeep is the size up to which an empty ring is kept for what comes.
	spanKeep = 1024
)

// len returns how many items there are.
func (s *span[T]) len() int { return s.live + s.oldLive }

// last returns the highest number given.
func (s *span[T]) last() uint64 {
	if s.next == 0 {
		return 0
	}
	return s.next - 1
}

// put adds an item under the next number.
func (s *span[T]) put(item T) uint64 {
	n := s.take1()
	s.ring[n&uint64(len(s.ring)-1)] = item
	s.live++
	return n
}

// skip gives away the next number without an item.
func (s *span[T]) skip() uint64 {
	if s.live == 0 {
		s.next = max(s.next, 1) + 1
		s.base = s.next
		return s.next - 1
	}
	return s.take1()
}

// take1 takes the next number and makes room for it; its place in the ring is vacant.
func (s *span[T]) take1() uint64 {
	if s.next == 0 {
		s.base, s.next = 1, 1
	}
	if int(s.next-s.base) == len(s.ring) {
		s.grow()
	}
	s.next++
	return s.next - 1
}

// at returns the item of a number, nil if it is not there (any more). The pointer is good until the next put or skip.
func (s *span[T]) at(n uint64) *T {
	var none T
	if n >= s.base {
		if n >= s.next {
			return nil
		}
		if p := &s.ring[n&uint64(len(s.ring)-1)]; *p != none {
			return p
		}
		return nil
	}
	if i, ok := s.find(n); ok && s.old[i].item != none {
		return &s.old[i].item
	}
	return nil
}

// drop removes the item of a number, which must be there.
func (s *span[T]) drop(n uint64) {
	var none T
	if n < s.base {
		i, _ := s.find(n)
		s.old[i].item = none
		s.oldLive--
		s.tidyOld()
		return
	}
	s.ring[n&uint64(len(s.ring)-1)] = none
	s.live--
	s.advance()
}

// settled tells whether no item with a number up to n is left in the ring.
func (s *span[T]) settled(n uint64) bool { return n < s.base }

func (s *span[T]) find(n uint64) (int, bool) {
	return slices.BinarySearchFunc(s.old, n, func(o straggler[T], n uint64) int {
		switch {
		case o.n < n:
			return -1
		case o.n > n:
			return 1
		}
		return 0
	})
}

// advance moves base to the first item.
func (s *span[T]) advance() {
	if s.live == 0 {
		s.base = s.next
		if len(s.ring) > spanKeep {
			s.ring = nil
		}
		return
	}
	var none T
	for s.ring[s.base&uint64(len(s.ring)-1)] == none {
		s.base++
	}
}

// grow makes room for one more number: the ring doubles, or if most of it is vacant, what is in its lower half moves to the list.
func (s *span[T]) grow() {
	if len(s.ring) > spanFirst && s.live < len(s.ring)/4 {
		s.spill(s.base + uint64(len(s.ring)/2) - 1)
		return
	}
	ring := make([]T, max(2*len(s.ring), spanFirst))
	for n := s.base; n < s.next; n++ {
		ring[n&uint64(len(ring)-1)] = s.ring[n&uint64(len(s.ring)-1)]
	}
	s.ring = ring
}

// spill moves the items with numbers up to n from the ring to the list.
func (s *span[T]) spill(n uint64) {
	var none T
	for ; s.base <= n && s.base < s.next; s.base++ {
		p := &s.ring[s.base&uint64(len(s.ring)-1)]
		if *p == none {
			continue
		}
		s.old = append(s.old, straggler[T]{s.base, *p})
		*p = none
		s.oldLive++
		s.live--
	}
	s.advance()
}

// tidyOld drops vacant places of the list when they are most of it.
func (s *span[T]) tidyOld() {
	if s.oldLive*2 > len(s.old) {
		return
	}
	var none T
	s.old = slices.DeleteFunc(s.old, func(o straggler[T]) bool { return o.item == none })
	if s.oldLive == 0 {
		s.old = nil
	}
}

// each calls f with every item in order of numbers. f must not change the span.
func (s *span[T]) each(f func(n uint64, item *T)) {
	var none T
	for i := range s.old {
		if s.old[i].item != none {
			f(s.old[i].n, &s.old[i].item)
		}
	}
	for n := s.base; n < s.next; n++ {
		if p := &s.ring[n&uint64(len(s.ring)-1)]; *p != none {
			f(n, p)
		}
	}
}

// between calls f with the numbers of all items from..to, both included, in order. f may drop the item that it is called with.
func (s *span[T]) between(from, to uint64, f func(n uint64)) {
	var numbers []uint64
	i, _ := s.find(from)
	for ; i < len(s.old) && s.old[i].n <= to; i++ {
		numbers = append(numbers, s.old[i].n)
	}
	for n := max(from, s.base); n <= to && n < s.next; n++ {
		numbers = append(numbers, n)
	}
	for _, n := range numbers {
		if s.at(n) != nil {
			f(n)
		}
	}
}

// dropThrough removes all items with numbers up to n and calls f with each, in order.
func (s *span[T]) dropThrough(n uint64, f func(item T)) {
	var none T
	i := 0
	for ; i < len(s.old) && s.old[i].n <= n; i++ {
		if s.old[i].item != none {
			f(s.old[i].item)
			s.oldLive--
		}
	}
	if i > 0 {
		s.old = slices.Delete(s.old, 0, i)
		s.tidyOld()
	}
	if n < s.base || s.live == 0 {
		return
	}
	for m := s.base; m <= n && m < s.next; m++ {
		if p := &s.ring[m&uint64(len(s.ring)-1)]; *p != none {
			f(*p)
			*p = none
			s.live--
		}
	}
	s.advance()
}

// first returns the lowest number that is in the ring; false if the ring is empty.
func (s *span[T]) first() (uint64, bool) { return s.base, s.live > 0 }
