package queue

import "math/bits"

const (
	// setPageBits is how many seqs one page of a seqSet covers, a power of two.
	setPageBits  = 512
	setPageShift = 9
	setWords     = setPageBits / 64
	// setShrinkMin is the capacity below which a seqSet keeps its memory.
	setShrinkMin = 16
)

// setPage covers the seqs no*setPageBits onwards; it is never empty.
type setPage struct {
	no   uint64
	bits [setWords]uint64
}

func (p *setPage) isEmpty() bool {
	var all uint64
	for _, w := range p.bits {
		all |= w
	}
	return all == 0
}

// seqSet is a set of seqs: pages of bits in ascending order, only those that have members. Adding above and removing from below, which a queue does most, move nothing.
type seqSet struct {
	pages []setPage
	head  int // of the first page in use
	n     uint64
}

// find returns the place of page no in use, or where it belongs.
func (s *seqSet) find(no uint64) (int, bool) {
	live := s.pages[s.head:]
	if len(live) == 0 {
		return s.head, false
	}
	// Without holes between pages the place can be computed.
	if first := live[0].no; no >= first && no-first < uint64(len(live)) && live[no-first].no == no {
		return s.head + int(no-first), true
	}
	if last := len(live) - 1; no >= live[last].no {
		if no == live[last].no {
			return s.head + last, true
		}
		return s.head + last + 1, false
	}
	low, high := 0, len(live)
	for low < high {
		if mid := (low + high) / 2; live[mid].no < no {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return s.head + low, low < len(live) && live[low].no == no
}

func (s *seqSet) has(q Seq) bool {
	i, ok := s.find(uint64(q) >> setPageShift)
	return ok && s.pages[i].bits[uint64(q)/64%setWords]&(1<<(uint64(q)%64)) != 0
}

// add adds q, which must not be a member.
func (s *seqSet) add(q Seq) {
	no := uint64(q) >> setPageShift
	i, ok := s.find(no)
	if !ok {
		i = s.insert(i, no)
	}
	s.pages[i].bits[uint64(q)/64%setWords] |= 1 << (uint64(q) % 64)
	s.n++
}

// addRun adds n seqs from q on. It reports whether none of them was a member.
func (s *seqSet) addRun(q Seq, n int) bool {
	fits := true
	for n > 0 {
		no := uint64(q) >> setPageShift
		i, ok := s.find(no)
		if !ok {
			i = s.insert(i, no)
		}
		w, bit := uint64(q)/64%setWords, uint64(q)%64
		m := min(n, int(64-bit))
		mask := (^uint64(0) >> (64 - m)) << bit
		word := &s.pages[i].bits[w]
		fits = fits && *word&mask == 0
		s.n += uint64(bits.OnesCount64(mask &^ *word))
		*word |= mask
		q, n = q+Seq(m), n-m
	}
	return fits
}

// remove removes q and tells whether it was a member.
func (s *seqSet) remove(q Seq) bool {
	i, ok := s.find(uint64(q) >> setPageShift)
	if !ok {
		return false
	}
	p := &s.pages[i]
	w, bit := uint64(q)/64%setWords, uint64(1)<<(uint64(q)%64)
	if p.bits[w]&bit == 0 {
		return false
	}
	p.bits[w] &^= bit
	s.n--
	if p.bits[w] == 0 && p.isEmpty() {
		s.erase(i)
	}
	return true
}

// insert makes an empty page no at place i and returns its place.
func (s *seqSet) insert(i int, no uint64) int {
	if i == s.head && s.head > 0 {
		s.head--
		s.pages[s.head] = setPage{no: no}
		return s.head
	}
	if len(s.pages) == cap(s.pages) && s.head > len(s.pages)/2 {
		n := copy(s.pages, s.pages[s.head:])
		s.pages = s.pages[:n]
		i -= s.head
		s.head = 0
	}
	s.pages = append(s.pages, setPage{})
	copy(s.pages[i+1:], s.pages[i:])
	s.pages[i] = setPage{no: no}
	return i
}

// erase removes the page at place i.
func (s *seqSet) erase(i int) {
	if i == s.head {
		s.head++
	} else {
		s.pages = append(s.pages[:i], s.pages[i+1:]...)
	}
	s.trim()
}

// trim gives memory back when most of it is unused.
func (s *seqSet) trim() {
	live := len(s.pages) - s.head
	if live == 0 {
		s.pages, s.head = s.pages[:0], 0
	}
	if cap(s.pages) > setShrinkMin && live < cap(s.pages)/4 {
		s.pages = append(make([]setPage, 0, cap(s.pages)/2), s.pages[s.head:]...)
		s.head = 0
	}
}

// next returns the least member >= q.
func (s *seqSet) next(q Seq) (Seq, bool) {
	no := uint64(q) >> setPageShift
	i, ok := s.find(no)
	if ok {
		w := uint64(q) / 64 % setWords
		if word := s.pages[i].bits[w] &^ (1<<(uint64(q)%64) - 1); word != 0 {
			return q&^63 + Seq(bits.TrailingZeros64(word)), true
		}
		if m, ok := s.pages[i].least(w + 1); ok {
			return m, true
		}
		i++
	}
	if i == len(s.pages) {
		return 0, false
	}
	return s.pages[i].least(0)
}

func (p *setPage) least(from uint64) (Seq, bool) {
	for w := from; w < setWords; w++ {
		if p.bits[w] != 0 {
			return Seq(p.no<<setPageShift + w*64 + uint64(bits.TrailingZeros64(p.bits[w]))), true
		}
	}
	return 0, false
}

// before returns the greatest member < q.
func (s *seqSet) before(q Seq) (Seq, bool) {
	if q == 0 {
		return 0, false
	}
	q--
	i, ok := s.find(uint64(q) >> setPageShift)
	if ok {
		p := &s.pages[i]
		w := uint64(q) / 64 % setWords
		word := p.bits[w] & (^uint64(0) >> (63 - uint64(q)%64))
		for {
			if word != 0 {
				return Seq(p.no<<setPageShift + w*64 + 63 - uint64(bits.LeadingZeros64(word))), true
			}
			if w == 0 {
				break
			}
			w--
			word = p.bits[w]
		}
	}
	if i == s.head {
		return 0, false
	}
	p := &s.pages[i-1]
	for w := setWords - 1; ; w-- {
		if word := p.bits[w]; word != 0 {
			return Seq(p.no<<setPageShift + uint64(w)*64 + 63 - uint64(bits.LeadingZeros64(word))), true
		}
	}
}

// dropThrough removes all members <= q.
func (s *seqSet) dropThrough(q Seq) {
	no := uint64(q) >> setPageShift
	for s.head < len(s.pages) && s.pages[s.head].no < no {
		s.n -= s.pages[s.head].count()
		s.head++
	}
	if s.head < len(s.pages) && s.pages[s.head].no == no {
		p := &s.pages[s.head]
		s.n -= p.count()
		last := uint64(q) / 64 % setWords
		for w := uint64(0); w < last; w++ {
			p.bits[w] = 0
		}
		p.bits[last] &^= ^uint64(0) >> (63 - uint64(q)%64)
		s.n += p.count()
		if p.isEmpty() {
			s.head++
		}
	}
	s.trim()
}

func (p *setPage) count() uint64 {
	n := 0
	for _, w := range p.bits {
		n += bits.OnesCount64(w)
	}
	return uint64(n)
}

// union yields the members of all sets in ascending order until yield returns false.
func union(yield func(Seq) bool, sets ...*seqSet) {
	unionPages(func(p *setPage) bool {
		for w, word := range p.bits {
			for ; word != 0; word &= word - 1 {
				if !yield(Seq(p.no<<setPageShift + uint64(w*64+bits.TrailingZeros64(word)))) {
					return false
				}
			}
		}
		return true
	}, sets...)
}

// unionPages is union by pages.
func unionPages(yield func(p *setPage) bool, sets ...*seqSet) {
	at := make([]int, len(sets))
	for i, s := range sets {
		at[i] = s.head
	}
	for {
		next := setPage{no: ^uint64(0)}
		for i, s := range sets {
			if at[i] == len(s.pages) {
				continue
			}
			switch p := &s.pages[at[i]]; {
			case p.no < next.no:
				next = *p
			case p.no == next.no:
				for w := range p.bits {
					next.bits[w] |= p.bits[w]
				}
			}
		}
		if next.no == ^uint64(0) {
			return
		}
		for i, s := range sets {
			if at[i] < len(s.pages) && s.pages[at[i]].no == next.no {
				at[i]++
			}
		}
		if !yield(&next) {
			return
		}
	}
}

// addAll adds all members of o, which are none of s. o must not be used any more.
func (s *seqSet) addAll(o *seqSet) {
	if s.n == 0 {
		*s = *o
		return
	}
	a, b := s.pages[s.head:], o.pages[o.head:]
	merged := make([]setPage, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].no < b[0].no:
			merged, a = append(merged, a[0]), a[1:]
		case a[0].no > b[0].no:
			merged, b = append(merged, b[0]), b[1:]
		default:
			p := a[0]
			for w := range p.bits {
				p.bits[w] |= b[0].bits[w]
			}
			merged, a, b = append(merged, p), a[1:], b[1:]
		}
	}
	merged = append(append(merged, a...), b...)
	s.pages, s.head = merged, 0
	s.n += o.n
}
