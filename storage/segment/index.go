package segment

import (
	"math/bits"
	"slices"
)

// PageSeqs is how many consecutive sequence numbers one Mask covers.
const PageSeqs = 512

// Mask is a set of the sequence numbers of one page: bit i%64 of word i/64 stands for number page*PageSeqs+i.
type Mask [PageSeqs / 64]uint64

func (m *Mask) has(i uint64) bool { return m[i/64]&(1<<(i%64)) != 0 }
func (m *Mask) set(i uint64)      { m[i/64] |= 1 << (i % 64) }
func (m *Mask) clear(i uint64)    { m[i/64] &^= 1 << (i % 64) }

func (m *Mask) isEmpty() bool { return *m == Mask{} }

func (m *Mask) count() (n int) {
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

// between returns the members from <= i < to.
func (m *Mask) between(from, to uint64) (out Mask) {
	for w := range m {
		low := uint64(w) * 64
		if to <= low || from >= low+64 {
			continue
		}
		word := ^uint64(0)
		if from > low {
			word <<= from - low
		}
		if to < low+64 {
			word &= 1<<(to-low) - 1
		}
		out[w] = m[w] & word
	}
	return out
}

// indexPage is where the records of one page are.
type indexPage struct {
	no       uint64
	has      Mask
	released Mask   // by the owner, and not dropped by a collection yet; of those that it has
	spans    []byte // a spanList; not up to date while the page is open
}

// index maps sequence numbers to places. Records that were appended in order are told as runs, so one costs a few bytes, or a fraction of one if bodies are alike. Only the page that was written last is open: its places
// stand one by one.
type index struct {
	pages  []*indexPage // ascending
	n      int
	open   *indexPage // nil if none is
	places [PageSeqs]place
}

// find returns the place of page no, or where it belongs.
func (x *index) find(no uint64) (int, bool) {
	if n := len(x.pages); n == 0 || x.pages[n-1].no < no {
		return n, false
	}
	// Without holes between pages the place can be computed.
	if first := x.pages[0].no; no >= first && no-first < uint64(len(x.pages)) && x.pages[no-first].no == no {
		return int(no - first), true
	}
	return slices.BinarySearchFunc(x.pages, no, func(p *indexPage, no uint64) int {
		switch {
		case p.no < no:
			return -1
		case p.no > no:
			return 1
		}
		return 0
	})
}

// page returns page no, nil if it has no records.
func (x *index) page(no uint64) *indexPage {
	if x.open != nil && x.open.no == no {
		return x.open
	}
	if i, ok := x.find(no); ok {
		return x.pages[i]
	}
	return nil
}

// get returns the place of seq.
func (x *index) get(seq uint64) (place, bool) {
	p := x.page(seq / PageSeqs)
	if p == nil || !p.has.has(seq%PageSeqs) {
		return place{}, false
	}
	if p == x.open {
		return x.places[seq%PageSeqs], true
	}
	r := p.reader()
	for r.next() {
		if seq-r.seq < r.n {
			return r.at(seq - r.seq), true
		}
	}
	return place{}, false
}

func (p *indexPage) reader() spanReader {
	return spanReader{src: p.spans, span: span{seq: p.no * PageSeqs}}
}

// each calls visit for runs of records of equal length in one file that together are those members that the page has: n of them, each as long as the one at at.
func (x *index) each(p *indexPage, members *Mask, visit func(at place, n int)) {
	if p == x.open {
		for i := range uint64(PageSeqs) {
			if members.has(i) && p.has.has(i) {
				visit(x.places[i], 1)
			}
		}
		return
	}
	for r := p.reader(); r.next(); {
		first := r.seq % PageSeqs
		if part := members.between(first, first+r.n); !part.isEmpty() {
			visit(r.place, part.count())
		}
	}
}

// put sets the place of seq and returns the one it had before.
func (x *index) put(seq uint64, at place) (old place, replaced bool) {
	p, i := x.edit(seq/PageSeqs), seq%PageSeqs
	old, replaced = x.places[i], p.has.has(i)
	x.places[i] = at
	if !replaced {
		p.has.set(i)
		x.n++
		return place{}, false
	}
	return old, true
}

// putSpan sets the places of those records of a span that are members, of which the page must have none. All of the span is in one page.
func (x *index) putSpan(s *span, members *Mask) {
	p, first := x.edit(s.seq/PageSeqs), s.seq%PageSeqs
	for i := range s.n {
		if members.has(first + i) {
			x.places[first+i] = s.at(i)
		}
	}
	for w := range members {
		p.has[w] |= members[w]
	}
	x.n += members.count()
}

// edit opens page no, which is made if it is missing.
func (x *index) edit(no uint64) *indexPage {
	if x.open != nil && x.open.no == no {
		return x.open
	}
	x.close()
	i, ok := x.find(no)
	if !ok {
		x.pages = slices.Insert(x.pages, i, &indexPage{no: no})
	}
	p := x.pages[i]
	for r := p.reader(); r.next(); {
		for i := range r.n {
			x.places[(r.seq+i)%PageSeqs] = r.at(i)
		}
	}
	x.open, p.spans = p, nil
	return p
}

// close packs the open page.
func (x *index) close() {
	if p := x.open; p != nil {
		var l spanList
		var room [256]byte // most pages are shorter
		l.dst, l.written.seq = room[:0], p.no*PageSeqs
		for i := range uint64(PageSeqs) {
			if p.has.has(i) {
				l.add(span{seq: p.no*PageSeqs + i, n: 1, place: x.places[i]})
			}
		}
		l.flush()
		p.spans = slices.Clone(l.dst)
		x.open = nil
	}
}

// drop takes members out of a page.
func (x *index) drop(p *indexPage, members *Mask) {
	whole := true
	for w := range members {
		x.n -= bits.OnesCount64(members[w] & p.has[w])
		p.has[w] &^= members[w]
		p.released[w] &^= members[w]
		whole = whole && p.has[w] == 0
	}
	if !whole && p != x.open {
		x.edit(p.no) // packs it anew, without them, when it is closed
	}
}

// sweep forgets the pages without records.
func (x *index) sweep() {
	x.pages = slices.DeleteFunc(x.pages, func(p *indexPage) bool {
		if !p.has.isEmpty() {
			return false
		}
		if p == x.open {
			x.open = nil
		}
		return true
	})
	if cap(x.pages) > 16 && len(x.pages) < cap(x.pages)/4 {
		x.pages = slices.Clone(x.pages)
	}
}
