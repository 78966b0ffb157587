package queue

import (
	"cmp"
	"slices"
)

const (
	// fifoChunkMin and fifoChunkMax are the numbers of messages in the first and the largest chunks of a fifo.
	fifoChunkMin = 16
	fifoChunkMax = 512
)

// fresh is a ready message that was never assigned and has no expiration of its own: 24 bytes. Its priority is that of its level.
type fresh struct {
	seq   Seq
	born  int64
	bytes uint32
	flags Flags
}

// flagTaken marks a message that was taken out of the middle of a fifo. It has the place of a flag that no ready message has.
const flagTaken = FlagNoAck

// chunk is a run of a fifo. The pointer comes first so that the collector looks no further. taken counts the items that were taken out of the middle.
type chunk struct {
	next  *chunk
	items []fresh
	taken int
}

// fifo holds fresh messages in the order of their seq, in a list of chunks: a long backlog is never copied, and its memory goes chunk by chunk. One empty chunk is
// kept so that a short queue allocates nothing. A message in the middle is taken out by a mark; the oldest one has none, and a chunk in the middle with nothing but marks goes with the next take.
type fifo struct {
	head, tail *chunk
	spare      *chunk
	first      int // of the oldest message in head
	end        int // behind the youngest place in tail
	n          int // without those that were taken
}

func (f *fifo) push(x fresh) {
	if f.tail == nil || f.end == len(f.tail.items) {
		f.grow()
	}
	f.tail.items[f.end] = x
	f.end++
	f.n++
}

func (f *fifo) grow() {
	c := f.spare
	f.spare = nil
	if c == nil {
		size := fifoChunkMin
		if f.tail != nil {
			size = min(2*len(f.tail.items), fifoChunkMax)
		}
		c = &chunk{items: make([]fresh, size)}
	}
	if f.tail == nil {
		f.head = c
	} else {
		f.tail.next = c
	}
	f.tail, f.end = c, 0
}

// peek returns the oldest message; the fifo must not be empty.
func (f *fifo) peek() *fresh { return &f.head.items[f.first] }

// drop removes the oldest message.
func (f *fifo) drop() {
	f.n--
	f.advance()
	f.skip()
}

// advance passes over the oldest place.
func (f *fifo) advance() {
	f.first++
	if f.first == len(f.head.items) && f.head != f.tail {
		c := f.head
		f.head, f.first = c.next, 0
		if f.spare == nil || len(f.spare.items) < len(c.items) {
			c.next, c.taken = nil, 0
			f.spare = c
		}
	}
}

// skip passes over what was taken out before the oldest message. An empty fifo begins anew.
func (f *fifo) skip() {
	if f.n == 0 && f.head != nil {
		f.head, f.first, f.end, f.spare = f.tail, 0, 0, nil
		f.head.taken = 0
		return
	}
	for f.n > 0 && f.peek().flags&flagTaken != 0 && mutant != mutantTakenShown {
		f.advance()
	}
}

// run returns the places of a chunk that are in use; first is that of the oldest message if it is the head.
func (f *fifo) run(c *chunk) []fresh {
	items := c.items
	if c == f.tail {
		items = items[:f.end]
	}
	if c == f.head {
		items = items[f.first:]
	}
	return items
}

// each calls visit for every message, oldest first.
func (f *fifo) each(visit func(x *fresh)) {
	if f.n == 0 {
		return
	}
	for c := f.head; c != nil; c = c.next {
		items := f.run(c)
		for i := range items {
			if items[i].flags&flagTaken == 0 {
				visit(&items[i])
			}
		}
	}
}

// take takes out those of the messages, which are in ascending order, that it holds, as long as visit says so. It costs a look at each chunk up to the last of them.
func (f *fifo) take(seqs []Seq, visit func(x *fresh) bool) {
	if f.n == 0 {
		return
	}
	var before *chunk
	for c := f.head; c != nil && len(seqs) > 0; c = c.next {
		items := f.run(c)
		for len(seqs) > 0 && seqs[0] <= items[len(items)-1].seq {
			i, found := slices.BinarySearchFunc(items, seqs[0], compareSeq)
			seqs = seqs[1:]
			if !found || items[i].flags&flagTaken != 0 {
				continue
			}
			if !visit(&items[i]) {
				f.skip()
				return
			}
			items[i].flags |= flagTaken
			c.taken++
			f.n--
		}
		if c.taken == len(c.items) && before != nil && c != f.tail {
			before.next = c.next
			continue
		}
		before = c
	}
	f.skip()
}

// behind calls visit for messages with a higher seq, in order, as long as it says so.
func (f *fifo) behind(after Seq, visit func(x *fresh) bool) {
	if f.n == 0 {
		return
	}
	for c := f.head; c != nil; c = c.next {
		items := f.run(c)
		if items[len(items)-1].seq <= after {
			continue
		}
		i, _ := slices.BinarySearchFunc(items, after+1, compareSeq)
		for ; i < len(items); i++ {
			if items[i].flags&flagTaken == 0 && !visit(&items[i]) {
				return
			}
		}
	}
}

func compareSeq(x fresh, seq Seq) int { return cmp.Compare(x.seq, seq) }
