package bench

import (
	"math/bits"
	"sync"
)

// pageBits is the number of sequence numbers in one page of a set.
const pageBits = 1 << 16

// pagesAheadMax bounds how far beyond the oldest missing number a number may be: 2^30 messages, 128 MiB when not one page is complete.
const pagesAheadMax = 1 << 14

type page struct {
	words [pageBits / 64]uint64
	count int
}

// fullPage stands for every page whose numbers were all seen, so that a set needs memory only around what is missing.
var fullPage = &page{count: pageBits}

// sequenceSet remembers which numbers of one producer were seen, from 1 on. Memory is O(missing), not O(seen).
type sequenceSet struct {
	first  uint64 // pages before this one are full and gone
	pages  []*page
	newest uint64 // largest number seen, to widen the 32 bits of a stamp
	seen   uint64
}

// widen returns the number nearest to the newest one whose low half is seq.
func (s *sequenceSet) widen(seq uint32) uint64 {
	return s.newest + uint64(int64(int32(seq-uint32(s.newest))))
}

// add records a number and tells whether it is new. A number that cannot be (zero or impossibly far ahead) is not.
func (s *sequenceSet) add(seq uint64) bool {
	at := seq - 1
	index := at / pageBits
	if seq == 0 || index < s.first || index-s.first >= pagesAheadMax {
		return false
	}
	index -= s.first
	for uint64(len(s.pages)) <= index {
		s.pages = append(s.pages, nil)
	}
	p := s.pages[index]
	if p == nil {
		p = new(page)
		s.pages[index] = p
	}
	word, bit := at%pageBits/64, uint64(1)<<(at%64)
	if p == fullPage || p.words[word]&bit != 0 {
		return false
	}
	p.words[word] |= bit
	p.count++
	s.seen++
	s.newest = max(s.newest, seq)
	if p.count == pageBits {
		s.pages[index] = fullPage
		for len(s.pages) > 0 && s.pages[0] == fullPage {
			s.pages, s.first = s.pages[1:], s.first+1
		}
	}
	return true
}

// missing returns how many numbers of 1..last were not seen, and the first of them (0 when there is none).
func (s *sequenceSet) missing(last uint64) (count, first uint64) {
	for at := s.first * pageBits; at < last; at += 64 {
		var word uint64
		if index := at/pageBits - s.first; index < uint64(len(s.pages)) {
			switch p := s.pages[index]; p {
			case fullPage:
				word = ^uint64(0)
			case nil:
			default:
				word = p.words[at%pageBits/64]
			}
		}
		absent := ^word
		if left := last - at; left < 64 {
			absent &= 1<<left - 1
		}
		if absent == 0 {
			continue
		}
		if first == 0 {
			first = at + uint64(bits.TrailingZeros64(absent)) + 1
		}
		count += uint64(bits.OnesCount64(absent))
	}
	return count, first
}

// tracker checks what the consumers of a run receive. It is shared by them: locked once per batch of deliveries.
type tracker struct {
	mu         sync.Mutex
	run        uint16
	sets       []sequenceSet // by producer
	unique     uint64
	duplicates uint64
	foreign    uint64 // messages of nobody in this run
}

func newTracker(run uint16, producers int) *tracker {
	return &tracker{run: run, sets: make([]sequenceSet, producers)}
}

// add records stamps. Without producers of its own a run cannot know what is foreign and only counts.
func (t *tracker) add(stamps []stamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sets) == 0 {
		t.unique += uint64(len(stamps))
		return
	}
	for _, s := range stamps {
		if s.run != t.run || int(s.producer) >= len(t.sets) {
			t.foreign++
			continue
		}
		set := &t.sets[s.producer]
		if set.add(set.widen(s.seq)) {
			t.unique++
		} else {
			t.duplicates++
		}
	}
}

// addForeign counts messages without a stamp.
func (t *tracker) addForeign(n uint64) {
	t.mu.Lock()
	t.foreign += n
	t.mu.Unlock()
}

// counts returns how many different messages of the run were seen, how many again, and how many of others.
func (t *tracker) counts() (unique, duplicates, foreign uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unique, t.duplicates, t.foreign
}
