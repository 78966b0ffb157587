package queue

import (
	"cmp"
	"slices"
	"sort"

	"github.com/google/btree"
)

const (
	// windowSeqs is how many seqs one window covers: at most that many messages are packed together. It is part of the snapshot's format.
	windowSeqs = 512
	// fifoKeptMax is the capacity up to which an empty fifo keeps its memory.
	fifoKeptMax = 512
)

// fresh is a ready message that was never assigned: 32 bytes. Its priority is that of its level.
type fresh struct {
	seq   Seq
	born  int64
	due   int64 // when it expires by its own expiration; 0: never
	bytes uint32
	flags Flags
}

// fifo holds fresh messages in the order of their seq. The oldest ones stand in front, the youngest in back, as they are; what is between, however much, in packed pages. Nothing is packed before back is twice as
// long as a window, and a short queue only ever exchanges its two ends. Whether a message is packed is no state: see level.appendWindows.
type fifo struct {
	front []fresh  // empty only if the fifo is
	first int      // of the oldest message in front
	pages []packed // one that all messages were taken out of stays until there are many
	head  int      // of the oldest page
	empty int      // pages without messages
	back  []fresh
	n     int
	// timed is how many messages have an expiration of their own. timers are the soonest of pages, nil until needed, nexts where in front the one stands that is the soonest from a place on, if it is as long as front,
	// backSoonest that of back if it is known.
	timed       int
	timers      *btree.BTreeG[timer]
	nexts       []int16
	backSoonest timer
	backKnown   bool
	scratch     []byte // for pages that messages are taken out of
	// window is how many seqs a window covers; not above windowSeqs.
	window Seq
}

func (f *fifo) push(x fresh) {
	f.n++
	if x.due != 0 {
		f.timed++
	}
	if f.n == 1 {
		f.front = append(f.front, x)
		return
	}
	if x.due != 0 && f.backKnown {
		f.backSoonest = f.backSoonest.orSooner(x.timer())
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
	f.backKnown = false
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
	f.watch(&p)
	f.pages = append(f.pages, p)
}

// watch notes when the first message of a page expires, unwatch forgets it.
func (f *fifo) watch(p *packed) {
	if p.dues == nil {
		return
	}
	if f.timers == nil {
		f.timers = newTree(byDue)
	}
	f.timers.ReplaceOrInsert(p.dues.soonest)
}

func (f *fifo) unwatch(p *packed) {
	if p.dues != nil {
		f.timers.Delete(p.dues.soonest)
	}
}

// peek returns the oldest message; the fifo must not be empty.
func (f *fifo) peek() *fresh { return &f.front[f.first] }

// last returns a seq that no message is above.
func (f *fifo) last() Seq {
	switch {
	case len(f.back) > 0:
		return f.back[len(f.back)-1].seq
	case f.head < len(f.pages):
		return f.pages[len(f.pages)-1].last
	case f.n > 0:
		return f.front[len(f.front)-1].seq
	}
	return 0
}

// drop removes the oldest message.
func (f *fifo) drop() {
	f.n--
	if f.front[f.first].due != 0 {
		f.timed--
	}
	if f.first++; f.first == len(f.front) {
		f.refill()
	}
}

// refill puts what follows in front, which was used up.
func (f *fifo) refill() {
	f.front, f.first, f.nexts = f.front[:0], 0, f.nexts[:0]
	for f.head < len(f.pages) && f.pages[f.head].n == 0 {
		f.head++
		f.empty--
	}
	if f.head == len(f.pages) {
		f.pages, f.head = nil, 0
	}
	switch {
	case f.head < len(f.pages):
		at := f.head
		if mutant == mutantPackedFromBehind {
			at = len(f.pages) - 1
		}
		f.unwatch(&f.pages[at])
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
		f.backSoonest, f.backKnown = timer{}, true
	default:
		f.scratch = nil
		if cap(f.front) > fifoKeptMax {
			f.front, f.nexts = nil, nil
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
	var room [windowSeqs]fresh
	for i := f.pageOf(seq); i < len(f.pages); i++ {
		if !ascendItems(f.pages[i].appendTo(room[:0]), seq, visit) {
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

// pageOf returns the place of the first page whose last message is not below seq.
func (f *fifo) pageOf(seq Seq) int {
	pages := f.pages[f.head:]
	return f.head + sort.Search(len(pages), func(i int) bool { return pages[i].last >= seq })
}

// below counts the messages with a lower seq.
func (f *fifo) below(seq Seq) int {
	front := f.front[f.first:]
	n := place(front, seq)
	i := f.pageOf(seq)
	for j := f.head; j < i; j++ {
		n += f.pages[j].n
	}
	if i < len(f.pages) {
		n += f.pages[i].below(seq)
	}
	return n + place(f.back, seq)
}

// take takes out those of the messages, which are in ascending order, that it holds, as long as visit says so. It costs a look at each page that one of them may stand in.
func (f *fifo) take(seqs []Seq, visit func(x *fresh) bool) {
	f.takeAll(&taking{seqs: seqs, visit: visit, scratch: f.scratch})
}

func (f *fifo) takeAll(t *taking) {
	kept := t.from(f.front[f.first:])
	f.front = f.front[:f.first+kept]
	if t.n > 0 {
		f.nexts = f.nexts[:0]
	}
	t.fromPages(f)
	kept = t.from(f.back)
	f.backKnown = f.backKnown && kept == len(f.back)
	f.back = f.back[:kept]
	f.n, f.timed, f.scratch = f.n-t.n, f.timed-t.timed, t.scratch
	if f.first == len(f.front) {
		f.refill()
	}
}

// takeOne takes out one message; false if it is not there.
func (f *fifo) takeOne(seq Seq) (fresh, bool) {
	t := taking{scratch: f.scratch}
	one := [1]Seq{seq}
	t.seqs = one[:]
	f.takeAll(&t)
	return t.found, t.n > 0
}

// taking is a take under way.
type taking struct {
	seqs    []Seq               // what is still to be looked for
	visit   func(x *fresh) bool // nil: what is taken is noted in found
	found   fresh
	stopped bool
	n       int    // taken so far
	timed   int    // of those that have an expiration of their own
	page    *dues  // of the page that messages are taken out of, nil if none of it expires
	at      int    // of the first message of the run in the page
	places  []int  // in the page, of what was taken out of it
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
			t.count(&items[i])
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
	t.stopped = !t.accepts(x)
	return !t.stopped && mutant != mutantTakenShown
}

// accepts tells whether who takes wants a message, too.
func (t *taking) accepts(x *fresh) bool {
	if t.visit == nil {
		t.found = *x
		return true
	}
	return t.visit(x)
}

// count counts a message that is taken out.
func (t *taking) count(x *fresh) {
	t.n++
	if x.due != 0 {
		t.timed++
	}
}

// fromPages packs the pages anew that messages are taken out of. Of those that are empty it makes an end when they are more than the others.
func (t *taking) fromPages(f *fifo) {
	for len(t.seqs) > 0 && !t.stopped {
		i := f.pageOf(t.seqs[0])
		if i == len(f.pages) {
			break
		}
		if p := &f.pages[i]; p.n > 0 {
			f.unwatch(p)
			if t.fromPage(p); p.n == 0 {
				*p = packed{start: p.start, first: p.first, last: p.last}
				f.empty++
			}
			f.watch(p)
		}
		t.skip(f.pages[i].last + 1)
	}
	if f.empty > (len(f.pages)-f.head)/2 {
		live := slices.DeleteFunc(f.pages[f.head:], func(p packed) bool { return p.n == 0 })
		f.pages, f.empty = f.pages[:f.head+len(live)], 0
	}
}

// fromPage takes messages out of a page. Runs that are not touched stay as they are, but for one that follows one that was: what differs between them has changed.
func (t *taking) fromPage(p *packed) {
	t.skip(p.first)
	if !t.reaches(p.last+1) || p.n == 0 {
		return
	}
	t.page, t.at, t.places = p.dues, 0, t.places[:0]
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
		t.at += u.n
	}
	if again.flush(); !changed {
		again.dst = append(again.dst, p.runs[copied:]...)
	}
	t.scratch = again.dst
	if mutant != mutantPackedMiscounted {
		p.n -= t.n - taken
	}
	if p.n > 0 && t.n > taken && mutant != mutantPackedTakenShown {
		p.runs = append(p.runs[:0], again.dst...)
		if first == p.first || t.last == p.last {
			p.measure()
		}
	}
	if len(t.places) > 0 && p.dues != nil {
		p.dropDues(t.places)
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
		i := int(at - x.seq)
		m := x.at(i)
		if t.page != nil {
			m.due = t.page.at(t.at + i)
		}
		if t.stopped = !t.accepts(&m); t.stopped {
			break
		}
		t.seqs = t.seqs[1:]
		t.count(&m)
		t.places = append(t.places, t.at+i)
		t.last = at
		piece := rest
		piece.n = int(at - rest.seq)
		to.add(piece)
		rest.seq, rest.n = at+1, rest.n-piece.n-1
	}
	to.add(rest)
}
