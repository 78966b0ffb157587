package queue

import (
	"bytes"
	"slices"

	"github.com/warrenmq/warren/internal/codec"
)

// In a snapshot the plain messages of a level stand in packed pages, one for each window of seqs that has any: what is packed already is copied, whatever the length of the queue. The windows follow from
// the seqs alone, so machines in the same state give the same bytes whatever each of them has packed.

// isPlain tells whether a ready message has nothing that a fresh one has not, however it came to be ready.
func (r *record) isPlain() bool { return r.acquired|r.failures == 0 && r.place == r.seq }

// appendTo appends the windows of the plain messages, then the others by place.
func (l *level) appendTo(dst []byte) []byte {
	dst = l.appendWindows(dst)
	n := 0
	l.eachOther(func(*record) { n++ })
	dst = codec.AppendUvarint(dst, uint64(n))
	last, born := Seq(0), int64(0)
	l.eachOther(func(x *record) {
		dst = appendRecord(dst, uint64(x.place-last), born, x)
		last, born = x.place, x.born
	})
	return dst
}

// eachOther visits the messages that are not plain.
func (l *level) eachOther(visit func(x *record)) {
	if l.others == nil {
		return
	}
	l.others.Ascend(func(x record) bool {
		if !x.isPlain() {
			visit(&x)
		}
		return true
	})
}

// appendWindows appends the plain messages, those among the others included, window by window.
func (l *level) appendWindows(dst []byte) []byte {
	f := &l.fresh
	w := windowWriter{dst: dst, size: f.window}
	next := l.plainFrom(0)
	upTo := func(seq Seq) { // adds the plain ones among the others
		for next.seq < seq {
			w.add(&next)
			next = l.plainFrom(next.seq + 1)
		}
	}
	all := func(items []fresh) {
		for i := range items {
			upTo(items[i].seq)
			w.add(&items[i])
		}
	}
	all(f.front[f.first:])
	var room [windowSeqs]fresh
	for i := f.head; i < len(f.pages); i++ {
		p := &f.pages[i]
		if p.n == 0 {
			continue
		}
		upTo(p.start)
		end := p.start + f.window
		alone := next.seq >= end && (i+1 == len(f.pages) || f.pages[i+1].first >= end) && (len(f.back) == 0 || f.back[0].seq >= end) && w.isBefore(p.start)
		if alone || mutant == mutantSnapshotPagesStale {
			w.whole(p)
		} else {
			all(p.appendTo(room[:0]))
		}
	}
	all(f.back)
	upTo(noSeq)
	w.flush()
	return append(w.dst, 0)
}

// noSeq is above every seq.
const noSeq = ^Seq(0)

// plainFrom returns the first plain message among the others from seq on; its seq is noSeq if there is none.
func (l *level) plainFrom(seq Seq) fresh {
	found := fresh{seq: noSeq}
	if l.others == nil {
		return found
	}
	l.others.AscendGreaterOrEqual(record{place: seq}, func(x record) bool {
		if !x.isPlain() {
			return true
		}
		found = fresh{seq: x.seq, born: x.born, due: x.due, bytes: x.bytes, flags: x.flags}
		return false
	})
	return found
}

// windowWriter appends windows of messages that come in ascending order: of each its distance from the one before, counted from 1, the bytes of its page, and the values of its dues. 0 is the end, which the caller
// appends.
type windowWriter struct {
	dst    []byte
	size   Seq
	ended  uint64 // 1 + the number of the last window appended
	start  Seq    // of the window that is open
	isOpen bool
	packer packer
	born   int64   // of the first message of the window that is open
	dues   []int64 // of its messages
}

// isBefore tells whether all windows so far lie before the one that begins with start.
func (w *windowWriter) isBefore(start Seq) bool { return !w.isOpen || w.start < start }

func (w *windowWriter) add(x *fresh) {
	if !w.isOpen || x.seq >= w.start+w.size {
		w.flush()
		w.start, w.isOpen = x.seq-x.seq%w.size, true
		w.packer = newPacker(w.packer.dst[:0], w.start)
		w.born, w.dues = x.born, w.dues[:0]
	}
	w.packer.addFresh(x)
	w.dues = append(w.dues, x.due)
}

// flush appends the window that is open.
func (w *windowWriter) flush() {
	if w.isOpen {
		w.packer.flush()
		w.append(w.start, w.packer.dst, appendDues(nil, w.born, w.dues))
		w.isOpen = false
	}
}

// whole appends a page that is all of its window.
func (w *windowWriter) whole(p *packed) {
	w.flush()
	var values []byte
	if p.dues != nil {
		values = p.dues.values
	}
	w.append(p.start, p.runs, values)
}

func (w *windowWriter) append(start Seq, page, dues []byte) {
	no := uint64(start/w.size) + 1
	w.dst = codec.AppendUvarint(w.dst, no-w.ended)
	w.dst = codec.AppendBytes(w.dst, page)
	w.dst = codec.AppendBytes(w.dst, dues)
	w.ended = no
}

// windows reads the windows of a level.
func (r *restorer) windows(priority uint8) {
	l := r.m.ready.at(priority)
	size, ended, born := r.m.bounds.window, uint64(0), int64(0)
	for r.Err() == nil {
		step := r.Uvarint()
		if step == 0 {
			return
		}
		ended += step
		if r.need(step <= numberMax && ended-1 <= uint64(r.m.nextSeq/size), "number of a window"); r.Err() == nil {
			born = r.window(&l.fresh, priority, Seq(ended-1)*size, born)
		}
	}
}

// window reads a window that begins with start, whose first message was born no earlier than born; it returns when its last one was. The page is kept as it is; that it is the one of its messages is seen by packing
// these anew.
func (r *restorer) window(f *fifo, priority uint8, start Seq, born int64) int64 {
	m, src := r.m, r.Bytes()
	p := packed{start: start}
	again, end := newPacker(make([]byte, 0, len(src)), start), min(start+f.window, m.nextSeq)
	u := newUnpacker(src, start)
	for next := max(start, 1); u.next(); next = u.seq + Seq(u.n) {
		r.need(u.seq >= next && u.seq < end && u.seq+Seq(u.n) <= end, "seqs of a window")
		r.need(u.born >= born && u.born <= m.seenMillis && u.flags&^(FlagPersistent|FlagRedelivered) == 0, "messages of a window")
		if r.Err() != nil || !r.admitRun(&u.run, priority) {
			return born
		}
		if p.n == 0 {
			p.first = u.seq
		}
		p.last, p.n, born = u.seq+Seq(u.n)-1, p.n+u.n, u.born
		again.add(u.run)
	}
	again.flush()
	if r.need(p.n > 0 && u.pos == len(src) && !u.bad && bytes.Equal(again.dst, src), "form of a window"); r.Err() != nil {
		return born
	}
	p.runs = slices.Clip(again.dst)
	if r.dues(f, &p); r.Err() != nil {
		return born
	}
	f.n += p.n
	if f.n == p.n {
		f.front = p.appendTo(f.front)
	} else {
		f.append(p)
	}
	return born
}

// dues reads when the messages of a window of f expire. That the values are in the form that they have to have is seen by writing them anew.
func (r *restorer) dues(f *fifo, p *packed) {
	if r.version < 5 {
		return
	}
	src := r.Bytes()
	width := len(src) / p.n
	if r.need(len(src)%p.n == 0 && width <= 8, "length of the dues of a window"); r.Err() != nil || len(src) == 0 {
		return
	}
	var list [windowSeqs]int64
	var items [windowSeqs]fresh
	births := p.appendTo(items[:0])
	d := dues{from: births[0].born, values: src, width: width}
	for i := range births {
		v := d.value(i)
		r.need(v <= numberMax && (v == 0 || d.at(i) >= max(births[i].born, 1)), "dues of a window")
		if list[i] = d.at(i); v != 0 {
			f.timed++
		}
	}
	if r.need(bytes.Equal(appendDues(nil, d.from, list[:p.n]), src), "form of the dues of a window"); r.Err() == nil {
		p.setDues(d.from, list[:p.n])
	}
}

// admitRun is admit for the messages of a run, which are ready.
func (r *restorer) admitRun(x *run, priority uint8) bool {
	ready := &r.m.ready
	for seq := x.seq; r.places.n > 0 && seq < x.seq+Seq(x.n); seq++ {
		r.need(!r.places.has(seq), "seq of a message")
	}
	r.need(ready.seqs.addRun(x.seq, x.n), "seq of a message")
	ready.filled[priority/64] |= 1 << (priority % 64)
	ready.sums.addRun(x)
	return r.Err() == nil
}
