package queue

import (
	"cmp"
	"slices"
	"sort"
)

const (
	// windowSeqs is how many seqs one window covers: at most that many messages are packed together. It is part of the snapshot's format.
	windowSeqs = 512
	// fifoKeptMax is the capacity up to which an empty fifo keeps its memory.
	fifoKeptMax = 512
)

// fresh is a ready message that was never assigned and has no expiration of its own: 24 bytes. Its priority is that of its level.
type fresh struct {
	seq   Seq
	born  int64
	bytes uint32
	flags Flags
}

// fifo holds fresh messages in the order of their seq. The oldest ones stand in front, the youngest in back, as they are; what is between, however much, in packed pages. Nothing is packed before back is twice as
// long as a window, and a short queue only ever exchanges its two ends. Whether a message is packed is no state: see level.appendWindows.
type fifo struct {
	front []fresh // empty only if the fifo is
	first int     // of the oldest message in front
	pages []packed
	head  int // of the oldest page
	back  []fresh
	n     int
	// packedBefore is what the next page has as before.
	packedBefore uint64
	// window is how many seqs a window covers; not above windowSeqs.
	window Seq
}

func (f *fifo) push(x fresh) {
	f.n++
	if f.n == 1 {
		f.front = append(f.front, x)
		return
	}
	f.back = append(f.back, x)
	if len(f.back) >= 2*int(f.window) {
		f.pack()
	}
}

// pack makes pages of the windows that back begins with, until it is as long as one or only the last window is left.
func (f *fifo) pack() {
	at := 0
	for len(f.back)-at > int(f.window) {
		start := f.windowOf(f.back[at].seq)
		end := at + 1
		for end < len(f.back) && f.back[end].seq < start+f.window {
			end++
		}
		if end == len(f.back) {
			break
		}
		p := pack(start, f.back[at:end])
		if mutant == mutantPackedLosesLast && p.n > 1 {
			p = pack(start, f.back[at:end-1])
		}
		f.append(p)
		at = end
	}
	f.back = f.back[:copy(f.back, f.back[at:])]
}

// windowOf returns the first seq of the window that seq belongs to.
func (f *fifo) windowOf(seq Seq) Seq { return seq - seq%f.window }

// append adds a page behind all others.
func (f *fifo) append(p packed) {
	if len(f.pages) == cap(f.pages) && f.head > len(f.pages)/2 {
		kept := copy(f.pages, f.pages[f.head:])
		clear(f.pages[kept:])
		f.pages, f.head = f.pages[:kept], 0
	}
	p.before = f.packedBefore
	f.packedBefore += uint64(p.n)
	f.pages = append(f.pages, p)
}

// peek returns the oldest message; the fifo must not be empty.
func (f *fifo) peek() *fresh { return &f.front[f.first] }

// drop removes the oldest message.
func (f *fifo) drop() {
	f.n--
	if f.first++; f.first == len(f.front) {
		f.refill()
	}
}

// refill puts what follows in front, which was used up.
func (f *fifo) refill() {
	f.front, f.first = f.front[:0], 0
	switch {
	case f.head < len(f.pages):
		at := f.head
		if mutant == mutantPackedFromBehind {
			at = len(f.pages) - 1
		}
		f.front = f.pages[at].appendTo(f.front)
		f.pages[at] = packed{}
		if at == f.head {
			f.head++
		} else {
			f.pages = f.pages[:at]
		}
		if f.head == len(f.pages) {
			f.pages, f.head = nil, 0
		}
	case len(f.back) > 0:
		f.front, f.back = f.back, f.front
	default:
		if cap(f.front) > fifoKeptMax {
			f.front = nil
		}
		if cap(f.back) > fifoKeptMax {
			f.back = nil
		}
	}
}

// ascend calls visit for the messages from seq on, oldest first, as long as it says so.
func (f *fifo) ascend(seq Seq, visit func(x *fresh) bool) {
	if !ascendItems(f.front[f.first:], seq, visit) {
		return
	}
	pages := f.pages[f.head:]
	var room [windowSeqs]fresh
	for i := sort.Search(len(pages), func(i int) bool { return pages[i].last >= seq }); i < len(pages); i++ {
		if !ascendItems(pages[i].appendTo(room[:0]), seq, visit) {
			return
		}
	}
	ascendItems(f.back, seq, visit)
}

func ascendItems(items []fresh, seq Seq, visit func(x *fresh) bool) bool {
	i := place(items, seq)
	for ; i < len(items); i++ {
		if !visit(&items[i]) {
			return false
		}
	}
	return true
}

// place returns how many of the items have a lower seq.
func place(items []fresh, seq Seq) int {
	i, _ := slices.BinarySearchFunc(items, seq, compareSeq)
	return i
}

func compareSeq(x fresh, seq Seq) int { return cmp.Compare(x.seq, seq) }

// below counts the messages with a lower seq.
func (f *fifo) below(seq Seq) int {
	front := f.front[f.first:]
	n := place(front, seq)
	if pages := f.pages[f.head:]; len(pages) > 0 {
		i := sort.Search(len(pages), func(i int) bool { return pages[i].last >= seq })
		if i == len(pages) {
			n += int(f.packedBefore - pages[0].before)
		} else {
			n += int(pages[i].before-pages[0].before) + pages[i].below(seq)
		}
	}
	return n + place(f.back, seq)
}

// take takes out those of the messages, which are in ascending order, that it holds, as long as visit says so. It costs a look at each page that one of them may stand in.
func (f *fifo) take(seqs []Seq, visit func(x *fresh) bool) {
	t := taking{seqs: seqs, visit: visit}
	kept := t.from(f.front[f.first:])
	f.front = f.front[:f.first+kept]
	t.fromPages(f)
	f.back = f.back[:t.from(f.back)]
	f.n -= t.n
	if f.first == len(f.front) {
		f.refill()
	}
}

// taking is a take under way.
type taking struct {
	seqs    []Seq // what is still to be looked for
	visit   func(x *fresh) bool
	stopped bool
	n       int    // taken so far
	last    Seq    // of those
	scratch []byte // for pages
}

// from takes messages out of items and returns how many are left, which stand in their order at its start.
func (t *taking) from(items []fresh) int {
	if len(t.seqs) == 0 || len(items) == 0 {
		return len(items)
	}
	kept := place(items, t.seqs[0])
	for i := kept; i < len(items); i++ {
		if t.isTaken(&items[i]) {
			t.n++
			continue
		}
		items[kept] = items[i]
		kept++
	}
	return kept
}

// isTaken tells whether the next message is to be taken out.
func (t *taking) isTaken(x *fresh) bool {
	t.skip(x.seq)
	if t.stopped || len(t.seqs) == 0 || t.seqs[0] != x.seq {
		return false
	}
	t.stopped = !t.visit(x)
	return !t.stopped && mutant != mutantTakenShown
}

// fromPages packs the pages anew that messages are taken out of. One that is empty goes.
func (t *taking) fromPages(f *fifo) {
	pages, before := f.pages[f.head:], t.n
	if len(t.seqs) == 0 || len(pages) == 0 || t.seqs[0] > pages[len(pages)-1].last {
		return
	}
	kept := 0
	for i := range pages {
		p := pages[i]
		if mutant != mutantPackedMiscounted {
			p.before -= uint64(t.n - before)
		}
		if t.fromPage(&p); p.n > 0 {
			pages[kept] = p
			kept++
		}
	}
	clear(pages[kept:])
	f.pages = f.pages[:f.head+kept]
	f.packedBefore -= uint64(t.n - before)
}

// fromPage takes messages out of a page. Runs that are not touched stay as they are, but for one that follows one that was: what differs between them has changed.
func (t *taking) fromPage(p *packed) {
	t.skip(p.first)
	if !t.reaches(p.last + 1) {
		return
	}
	again, u, taken := newPacker(t.scratch[:0], p.start), newUnpacker(p.runs, p.start), t.n
	first := t.seqs[0]
	copied, changed := 0, false // runs[:copied] is done with; changed: what stands before the next run is not what it was
	for last, before := u.run, 0; (changed || t.reaches(p.last+1)) && u.next(); last, before = u.run, u.pos {
		t.skip(u.seq)
		switch hit := t.reaches(u.seq + Seq(u.n)); {
		case hit && !changed:
			again.dst, again.written = append(again.dst, p.runs[copied:before]...), last
			changed = true
			t.fromRun(&u.run, &again)
		case hit:
			t.fromRun(&u.run, &again)
		case changed:
			again.add(u.run)
			again.flush()
			copied, changed = u.pos, false
		}
	}
	if again.flush(); !changed {
		again.dst = append(again.dst, p.runs[copied:]...)
	}
	t.scratch = again.dst
	if p.n -= t.n - taken; p.n > 0 && t.n > taken && mutant != mutantPackedTakenShown {
		p.runs = append(p.runs[:0], again.dst...)
		if first == p.first || t.last == p.last {
			p.measure()
		}
	}
}

// skip passes over the seqs below seq, of which there are no messages.
func (t *taking) skip(seq Seq) {
	for len(t.seqs) > 0 && t.seqs[0] < seq {
		t.seqs = t.seqs[1:]
	}
}

// reaches tells whether something below end is still to be looked for.
func (t *taking) reaches(end Seq) bool { return !t.stopped && len(t.seqs) > 0 && t.seqs[0] < end }

// fromRun takes messages out of a run and adds the others to a page.
func (t *taking) fromRun(x *run, to *packer) {
	rest := *x
	for t.reaches(x.seq + Seq(x.n)) {
		at := t.seqs[0]
		m := x.at(int(at - x.seq))
		if t.stopped = !t.visit(&m); t.stopped {
			break
		}
		t.seqs = t.seqs[1:]
		t.n++
		t.last = at
		piece := rest
		piece.n = int(at - rest.seq)
		to.add(piece)
		rest.seq, rest.n = at+1, rest.n-piece.n-1
	}
	to.add(rest)
}
