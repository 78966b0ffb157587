package queue

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

// chunk is a run of a fifo. The pointer comes first so that the collector looks no further.
type chunk struct {
	next  *chunk
	items []fresh
}

// fifo holds fresh messages in the order of their seq, in a list of chunks: a long backlog is never copied, and its memory goes chunk by chunk. One empty chunk is
// kept so that a short queue allocates nothing.
type fifo struct {
	head, tail *chunk
	spare      *chunk
	first      int // of the oldest message in head
	end        int // behind the youngest message in tail
	n          int
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
	f.first++
	f.n--
	if f.n == 0 {
		f.first, f.end, f.spare = 0, 0, nil
		return
	}
	if f.first == len(f.head.items) {
		c := f.head
		f.head, f.first = c.next, 0
		if f.spare == nil || len(f.spare.items) < len(c.items) {
			c.next = nil
			f.spare = c
		}
	}
}

// each calls visit for every message, oldest first.
func (f *fifo) each(visit func(x *fresh)) {
	left := f.n
	i := f.first
	for c := f.head; left > 0; c = c.next {
		for ; i < len(c.items) && left > 0; i++ {
			visit(&c.items[i])
			left--
		}
		i = 0
	}
}
