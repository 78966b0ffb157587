package quorum

import (
	"maps"
	"slices"

	"github.com/warrenmq/warren/queue"
)

// bodyPageSeqs is how many consecutive messages one page of bodies covers.
const bodyPageSeqs = 256

// bodies keeps the envelopes of a queue's messages that are in memory, by seq. Seqs are dense and mostly leave in order, so pages of consecutive ones cost one map entry per 256
// messages. An envelope aliases the log entry that brought it.
type bodies struct {
	pages map[uint64]*bodyPage
	last  *bodyPage // the page used last, most often the right one
	free  *bodyPage // one empty page kept for the next need

	bytes   int64 // envelopes in memory
	unsaved int64 // of them, not in the message store
	count   int
}

type bodyPage struct {
	number uint64
	live   int
	env    [bodyPageSeqs][]byte
	saved  [bodyPageSeqs / 64]uint64
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

func (b *bodies) put(seq queue.Seq, env []byte) {
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
	p.env[seq%bodyPageSeqs] = env
	p.live++
	b.count++
	b.bytes += int64(len(env))
	b.unsaved += int64(len(env))
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
		b.drop(p, uint64(seq)%bodyPageSeqs)
	}
}

// drop forgets one envelope of a page.
func (b *bodies) drop(p *bodyPage, i uint64) {
	env := p.env[i]
	if env == nil {
		return
	}
	b.bytes -= int64(len(env))
	if p.isSaved(i) {
		p.saved[i/64] &^= 1 << (i % 64)
	} else {
		b.unsaved -= int64(len(env))
	}
	p.env[i] = nil
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
	env := p.env[i]
	if env == nil {
		return false
	}
	if !p.isSaved(i) {
		p.saved[i/64] |= 1 << (i % 64)
		b.unsaved -= int64(len(env))
	}
	if evict {
		b.drop(p, i)
	}
	return true
}

// each calls visit for the messages in memory, in order.
func (b *bodies) each(visit func(seq queue.Seq, env []byte)) {
	b.eachIn(func(p *bodyPage, i uint64) { visit(queue.Seq(p.number*bodyPageSeqs+i), p.env[i]) })
}

// eachUnsaved is each for those that are not in the message store.
func (b *bodies) eachUnsaved(visit func(seq queue.Seq, env []byte)) {
	b.eachIn(func(p *bodyPage, i uint64) {
		if !p.isSaved(i) {
			visit(queue.Seq(p.number*bodyPageSeqs+i), p.env[i])
		}
	})
}

// eachIn calls visit for the messages in memory by their place in a page.
func (b *bodies) eachIn(visit func(p *bodyPage, i uint64)) {
	for _, n := range slices.Sorted(maps.Keys(b.pages)) {
		p := b.pages[n]
		for i := range p.env {
			if p.env[i] != nil {
				visit(p, uint64(i))
			}
		}
	}
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
