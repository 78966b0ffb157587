package queue

import (
	"slices"

	"github.com/warrenmq/warren/internal/codec"
)

// A message that waits far from either end of its fifo has no record of its own: a run of messages is described once. A packed page is the messages of one level that stand in the same window of seqs,
// as runs one behind the other. Its bytes say everything about it but the window and the level, and equal messages have equal bytes. A run is consecutive seqs with the same length, flags and time of birth, as
// long as there are any; what it has in common with the run before it is left out:
//
//	control   bits 0-3: runSkips, runBytes, runFlags, runBorn; bits 4-7: messages - 1, 15: a count follows
//	count     uvarint, messages - 16
//	skips     uvarint, seqs left out before the run, from the first of the window on
//	bytes     uvarint
//	flags     octet, below 128
//	born      uvarint, milliseconds later than the run before, which at first is 0
const (
	runSkips = 1
	runBytes = 2
	runFlags = 4
	runBorn  = 8

	runCountShift = 4
	runCountMore  = 15
)

// run is n messages from seq on that differ in nothing else.
type run struct {
	seq   Seq
	n     int
	bytes uint32
	flags Flags
	born  int64
}

// extends tells whether a run goes on with x.
func (r *run) extends(x *run) bool {
	return x.seq+Seq(x.n) == r.seq && r.bytes == x.bytes && r.flags == x.flags && r.born == x.born
}

// at returns message i of a run.
func (r *run) at(i int) fresh {
	return fresh{seq: r.seq + Seq(i), born: r.born, bytes: r.bytes, flags: r.flags}
}

// packer makes the bytes of a page of runs in ascending order.
type packer struct {
	dst     []byte
	written run // the last run in dst
	open    run // what may still grow; none if n is 0
}

// newPacker begins a page of the window that begins with first.
func newPacker(dst []byte, first Seq) packer { return packer{dst: dst, written: run{seq: first}} }

// add adds a run; an empty one is none.
func (p *packer) add(x run) {
	if x.n == 0 {
		return
	}
	if p.open.n > 0 && x.extends(&p.open) {
		p.open.n += x.n
		return
	}
	p.flush()
	p.open = x
}

func (p *packer) addFresh(x *fresh) {
	if o := &p.open; o.n > 0 && o.seq+Seq(o.n) == x.seq && o.bytes == x.bytes && o.flags == x.flags && o.born == x.born {
		o.n++
		return
	}
	p.flush()
	p.open = run{seq: x.seq, n: 1, bytes: x.bytes, flags: x.flags, born: x.born}
}

// flush appends the run that is open.
func (p *packer) flush() {
	x, last := &p.open, &p.written
	if x.n == 0 {
		return
	}
	at := len(p.dst)
	control := byte(min(x.n-1, runCountMore) << runCountShift)
	p.dst = append(p.dst, control)
	if x.n > runCountMore {
		p.dst = codec.AppendUvarint(p.dst, uint64(x.n-runCountMore-1))
	}
	if skipped := x.seq - last.seq - Seq(last.n); skipped != 0 {
		control |= runSkips
		p.dst = codec.AppendUvarint(p.dst, uint64(skipped))
	}
	if x.bytes != last.bytes {
		control |= runBytes
		p.dst = codec.AppendUvarint(p.dst, uint64(x.bytes))
	}
	if x.flags != last.flags && mutant != mutantPackedForgetsFlags {
		control |= runFlags
		p.dst = append(p.dst, byte(x.flags))
	}
	if x.born != last.born && mutant != mutantPackedForgetsBirth {
		control |= runBorn
		p.dst = codec.AppendUvarint(p.dst, uint64(x.born-last.born))
	}
	p.dst[at] = control
	p.written, p.open = *x, run{}
}

// unpacker reads the runs of a page. The bytes must be those of a packer, or checked (see restorer.window).
type unpacker struct {
	run
	src []byte
	pos int  // of what follows in src
	bad bool // what followed was no run
}

func newUnpacker(src []byte, first Seq) unpacker { return unpacker{src: src, run: run{seq: first}} }

func (u *unpacker) uvarint() uint64 {
	v := uint64(0)
	for shift, pos := 0, u.pos; pos < len(u.src) && shift < 64; shift, pos = shift+7, pos+1 {
		b := u.src[pos]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 && (shift < 63 || b == 1) {
			u.pos = pos + 1
			return v
		}
	}
	u.bad = true
	return 0
}

// skipTo returns the seqs of messages i and j of a page that was not read yet: what next does without what nobody asks for.
func (u *unpacker) skipTo(i, j int) (first, second Seq) {
	src, pos, seq, at := u.src, 0, u.seq, 0
	for {
		control := src[pos]
		u.pos = pos + 1
		n := int(control>>runCountShift) + 1
		if n > runCountMore {
			n += int(u.uvarint())
		}
		if control&runSkips != 0 {
			seq += Seq(u.uvarint())
		}
		if i >= at && i < at+n {
			first = seq + Seq(i-at)
		}
		if j >= at && j < at+n {
			second = seq + Seq(j-at)
		}
		if at, seq, pos = at+n, seq+Seq(n), u.pos; i < at && j < at {
			return first, second
		}
		if control&runBytes != 0 {
			pos = behindUvarint(src, pos)
		}
		if control&runFlags != 0 {
			pos++
		}
		if control&runBorn != 0 {
			pos = behindUvarint(src, pos)
		}
	}
}

func behindUvarint(src []byte, pos int) int {
	for src[pos] >= 0x80 {
		pos++
	}
	return pos + 1
}

// next reads one more run; false at the end, or when what follows is no run.
func (u *unpacker) next() bool {
	if u.pos >= len(u.src) || u.bad {
		return false
	}
	x, control := &u.run, u.src[u.pos]
	u.pos++
	x.seq += Seq(x.n)
	x.n = int(control>>runCountShift) + 1
	if x.n > runCountMore {
		x.n += int(min(u.uvarint(), windowSeqs))
	}
	if control&runSkips != 0 {
		x.seq += Seq(u.uvarint())
	}
	if control&runBytes != 0 {
		v := u.uvarint()
		u.bad = u.bad || v > 1<<32-1
		x.bytes = uint32(v)
	}
	if control&runFlags != 0 {
		v := u.uvarint()
		u.bad = u.bad || v > 0x7f
		x.flags = Flags(v)
	}
	if control&runBorn != 0 {
		x.born += int64(u.uvarint())
	}
	return !u.bad
}

// packed is a packed page: n messages, from seq first to last. Behind it in the fifo stand the messages above last.
type packed struct {
	runs        []byte
	start       Seq // of the window
	first, last Seq
	n           int
	dues        *dues // nil if none expires by its own expiration
}

// pack makes a page of messages in ascending order, all of the window that begins with start.
func pack(start Seq, items []fresh) packed {
	var room [512]byte // most pages are shorter
	var list [windowSeqs]int64
	p := newPacker(room[:0], start)
	timed := false
	for i := range items {
		p.addFresh(&items[i])
		list[i] = items[i].due
		timed = timed || list[i] != 0
	}
	p.flush()
	page := packed{runs: slices.Clone(p.dst), start: start, first: items[0].seq, last: items[len(items)-1].seq, n: len(items)}
	if timed {
		page.setDues(items[0].born, list[:len(items)])
	}
	return page
}

// measure finds the first and the last message of a page that messages were taken out of.
func (p *packed) measure() {
	u := newUnpacker(p.runs, p.start)
	for first := true; u.next(); first = false {
		if first {
			p.first = u.seq
		}
		p.last = u.seq + Seq(u.n) - 1
	}
}

// appendTo appends the messages of a page.
func (p *packed) appendTo(dst []fresh) []fresh {
	before := len(dst)
	for u := newUnpacker(p.runs, p.start); u.next(); {
		for i := range u.n {
			dst = append(dst, u.at(i))
		}
	}
	if p.dues != nil {
		for i := range dst[before:] {
			dst[before+i].due = p.dues.at(i)
		}
	}
	return dst
}

// below counts the messages of a page with a lower seq.
func (p *packed) below(seq Seq) (n int) {
	for u := newUnpacker(p.runs, p.start); u.next() && u.seq < seq; {
		n += min(u.n, int(seq-u.seq))
	}
	return n
}
