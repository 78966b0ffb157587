package quorum

import (
	"maps"
	"slices"

	"github.com/warrenmq/warren/queue"
)

// bodyPageSeqs is how many consecutive messages one page of bodies covers.
const bodyPageSeqs = 256

// bodies keeps the envelopes of a queue's messages that are in memory, by seq. Seqs are dense and mostly leave in order, so pages of consecutive ones cost one map entry per 256
// messages. An envelope aliases the log entry that brought it, and keeps all of it: what is counted is entries.
type bodies struct {
	pages map[uint64]*bodyPage
	last  *bodyPage  // the page used last, most often the right one
	free  *bodyPage  // one empty page kept for the next need
	spare *bodyEntry // the same of entries

	bytes int64 // of the entries that envelopes in memory are parts of
	count int
}

type bodyPage struct {
	number uint64
	live   int
	env    [bodyPageSeqs][]byte
	entry  [bodyPageSeqs]*bodyEntry
	saved  [bodyPageSeqs / 64]uint64
}

// bodyEntry is the memory of one log entry: it is given back when no envelope in it is left.
type bodyEntry struct {
	bytes int64
	live  int
}

// newEntry is for the envelopes of one log entry of so many bytes.
func (b *bodies) newEntry(bytes int) *bodyEntry {
	e := b.spare
	if b.spare = nil; e == nil {
		e = new(bodyEntry)
	}
	*e = bodyEntry{bytes: int64(bytes)}
	return e
}

func (b *bodies) page(seq queue.Seq) *bodyPage {
	n := uint64(seq) / bodyPageSeqs
	if b.last != nil && b.last.number == n {
		return b.last
	}
	if p := b.pages[n]; p != nil {
		b.last = p
		return p
	}
	return nil
}

// put keeps an envelope, which is part of an entry.
func (b *bodies) put(seq queue.Seq, env []byte, e *bodyEntry) {
	p := b.page(seq)
	if p == nil {
		p = b.free
		if b.free = nil; p == nil {
			p = new(bodyPage)
		}
		p.number = uint64(seq) / bodyPageSeqs
		if b.pages == nil {
			b.pages = make(map[uint64]*bodyPage)
		}
		b.pages[p.number] = p
		b.last = p
	}
	p.env[seq%bodyPageSeqs], p.entry[seq%bodyPageSeqs] = env, e
	p.live++
	b.count++
	if e.live++; e.live == 1 {
		b.bytes += e.bytes
	}
}

// get returns the envelope of seq, nil if it is not in memory.
func (b *bodies) get(seq queue.Seq) []byte {
	if p := b.page(seq); p != nil {
		return p.env[seq%bodyPageSeqs]
	}
	return nil
}

func (p *bodyPage) isSaved(i uint64) bool { return p.saved[i/64]&(1<<(i%64)) != 0 }

// release forgets from..to.
func (b *bodies) release(from, to queue.Seq) {
	for seq := from; seq <= to; seq++ {
		p := b.page(seq)
		if p == nil {
			seq = queue.Seq((uint64(seq)/bodyPageSeqs+1)*bodyPageSeqs - 1) // nothing of this page is in memory
			continue
		}
		first := uint64(seq) % bodyPageSeqs
		last := min(first+uint64(to-seq), bodyPageSeqs-1)
		for i := first; i <= last; i++ {
			b.drop(p, i)
		}
		seq += queue.Seq(last - first)
	}
}

// drop forgets one envelope of a page.
func (b *bodies) drop(p *bodyPage, i uint64) {
	if p.env[i] == nil {
		return
	}
	e := p.entry[i]
	if e.live--; e.live == 0 {
		b.bytes -= e.bytes
		b.spare = e
	}
	p.saved[i/64] &^= 1 << (i % 64)
	p.env[i], p.entry[i] = nil, nil
	p.live--
	b.count--
	if p.live == 0 {
		delete(b.pages, p.number)
		b.last = nil
		b.free = p
	}
}

// markSaved notes that seq is in the message store; with evict its memory is given back. It reports whether the message was still in memory.
func (b *bodies) markSaved(seq queue.Seq, evict bool) bool {
	p := b.page(seq)
	if p == nil {
		return false
	}
	i := uint64(seq) % bodyPageSeqs
	if p.env[i] == nil {
		return false
	}
	p.saved[i/64] |= 1 << (i % 64)
	if evict {
		b.drop(p, i)
	}
	return true
}

// numbers lists the pages in order.
func (b *bodies) numbers() []uint64 { return slices.Sorted(maps.Keys(b.pages)) }

// each calls visit for the messages in memory, in order.
func (b *bodies) each(visit func(seq queue.Seq, env []byte)) {
	for _, n := range b.numbers() {
		p := b.pages[n]
		for i := range p.env {
			if p.env[i] != nil {
				visit(queue.Seq(n*bodyPageSeqs+uint64(i)), p.env[i])
			}
		}
	}
}

// unsaved appends those messages of a page, in order, that are not in the message store.
func (b *bodies) unsaved(list []stored, number uint64) []stored {
	p := b.pages[number]
	if p == nil {
		return list
	}
	for i := range uint64(bodyPageSeqs) {
		if p.env[i] != nil && !p.isSaved(i) {
			list = append(list, stored{queue.Seq(number*bodyPageSeqs + i), p.env[i]})
		}
	}
	return list
}

// evictSaved gives back the memory of everything that the message store has.
func (b *bodies) evictSaved() {
	for _, p := range b.pages {
		for i := range uint64(bodyPageSeqs) {
			if p.live > 0 && p.isSaved(i) {
				b.drop(p, i)
			}
		}
	}
}
