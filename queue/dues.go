package queue

import (
	"encoding/binary"
	"math/bits"
)

// dues says when the messages of a packed page expire by their own expiration: of each how many milliseconds after from, plus one, in as few octets as the longest takes; 0 is never. These differ when all
// else is alike, so they are no part of a run, and whoever looks for what is due next reads nothing else.
type dues struct {
	from    int64  // when the first message of the page was born
	values  []byte // of each message width octets, the lowest first
	width   int
	soonest timer // of the page; without priority
	place   int   // of the soonest in the page
	second  timer // the next one, if its due is not 0: else nobody has looked
}

// appendDues appends the values of messages; nothing if none of them expires.
func appendDues(dst []byte, from int64, list []int64) []byte {
	most := uint64(0)
	for _, due := range list {
		if due != 0 {
			most = max(most, uint64(due-from)+1)
		}
	}
	width := duesWidth(most)
	for _, due := range list {
		v := uint64(0)
		if due != 0 {
			v = uint64(due-from) + 1
		}
		for range width {
			dst = append(dst, byte(v))
			v >>= 8
		}
	}
	return dst
}

// duesWidth is how many octets a value takes.
func duesWidth(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// value returns that of message i of a page.
func (d *dues) value(i int) uint64 {
	at := i * d.width
	if at+8 <= len(d.values) {
		return binary.LittleEndian.Uint64(d.values[at:]) << (64 - 8*d.width) >> (64 - 8*d.width)
	}
	v := uint64(0)
	for j := range d.width {
		v |= uint64(d.values[at+j]) << (8 * j)
	}
	return v
}

// at returns when message i of a page expires, 0 for never.
func (d *dues) at(i int) int64 {
	if v := d.value(i); v != 0 {
		return d.from + int64(v-1)
	}
	return 0
}

// appendTo appends when the n messages of a page expire.
func (d *dues) appendTo(dst []int64, n int) []int64 {
	for i := range n {
		dst = append(dst, d.at(i))
	}
	return dst
}

// drop has the messages at places, which ascend, go.
func (d *dues) drop(places []int) {
	n := len(d.values) / d.width
	kept := places[0] * d.width
	for i, at := range places {
		end := n
		if i+1 < len(places) {
			end = places[i+1]
		}
		kept += copy(d.values[kept:], d.values[(at+1)*d.width:end*d.width])
	}
	d.values = d.values[:kept]
}

// setDues gives a page the times when its messages expire, in order.
func (p *packed) setDues(from int64, list []int64) {
	values := appendDues(nil, from, list)
	if p.dues = nil; len(values) > 0 && mutant != mutantPackedForgetsDue {
		p.dues = &dues{from: from, values: values, width: len(values) / len(list)}
		p.findSoonest()
	}
}

// findSoonest looks for the message that expires first, and the next one, and returns the highest value.
func (p *packed) findSoonest() (most uint64) {
	d, at, least, secondAt, second := p.dues, 0, ^uint64(0), 0, ^uint64(0)
	i, values, mask := 0, d.values, ^uint64(0)>>(64-8*d.width)
	look := func(v uint64) {
		most = max(most, v)
		if v--; v < second { // not 0, whose predecessor is the highest number
			if secondAt, second = i, v; v < least {
				at, least, secondAt, second = i, v, at, least
			}
		}
		i++
	}
	for ; len(values) >= 8; values = values[d.width:] {
		look(binary.LittleEndian.Uint64(values) & mask)
	}
	for i < p.n {
		look(d.value(i))
	}
	seq, next := p.seqsAt(at, secondAt)
	d.soonest, d.place, d.second = timer{due: d.from + int64(least), place: seq}, at, timer{}
	if second != ^uint64(0) {
		d.second = timer{due: d.from + int64(second), place: next}
	}
	return most
}

// seqsAt returns the seqs of messages i and j of a page.
func (p *packed) seqsAt(i, j int) (Seq, Seq) {
	if int(p.last-p.first) == p.n-1 {
		return p.first + Seq(i), p.first + Seq(j)
	}
	u := newUnpacker(p.runs, p.start)
	return u.skipTo(i, j)
}

// dropDues follows when the messages at places, which ascend, were taken out of a page.
func (p *packed) dropDues(places []int) {
	d := p.dues
	if p.n == 0 {
		p.dues = nil
		return
	}
	d.drop(places)
	if mutant == mutantSoonestStale {
		return
	}
	if len(places) == 1 && places[0] == d.place && places[0] > 0 && d.second.due != 0 {
		d.soonest, d.second, d.place = d.second, timer{}, -1 // the highest value stays
		return
	}
	if most := p.findSoonest(); places[0] > 0 && duesWidth(most) == d.width {
		return
	}
	var room [windowSeqs]int64
	u := newUnpacker(p.runs, p.start)
	u.next()
	p.setDues(u.born, d.appendTo(room[:0], p.n))
}

// soonest returns when which message expires first by its own expiration, without its priority; due is 0 if none does. Of pages it is known. Of the open ends it is found when somebody asks: in front it is kept for every rest
// of it, so that whoever takes the oldest away again and again finds it kept.
func (f *fifo) soonest() timer {
	if f.timed == 0 {
		return timer{}
	}
	t := f.frontSoonest()
	if f.timers != nil {
		if p, ok := f.timers.Min(); ok {
			t = t.orSooner(p)
		}
	}
	if !f.backKnown {
		f.backSoonest, f.backKnown = timer{}, true
		for i := range f.back {
			f.backSoonest = f.backSoonest.orSooner(f.back[i].timer())
		}
	}
	return t.orSooner(f.backSoonest)
}

func (f *fifo) frontSoonest() timer {
	if len(f.nexts) != len(f.front) {
		f.nexts = append(f.nexts[:0], make([]int16, len(f.front))...)
		next := len(f.front) - 1
		for i := next; i >= f.first; i-- {
			if t := f.front[i].timer(); t.due != 0 && t.orSooner(f.front[next].timer()) == t {
				next = i
			}
			f.nexts[i] = int16(next)
		}
	}
	return timer{}.orSooner(f.front[f.nexts[f.first]].timer())
}

// timer returns when the message expires.
func (x *fresh) timer() timer { return timer{due: x.due, place: x.seq} }

// orSooner returns the one of two that is due first; one that is due at 0 never is.
func (t timer) orSooner(o timer) timer {
	if o.due == 0 || t.due != 0 && byDue(t, o) {
		return t
	}
	return o
}
