package segment

import "slices"

// chunkEntriesMax is how many entries one chunk of the index holds.
const chunkEntriesMax = 256

// place says where a record is.
type place struct {
	number    uint32 // of the segment file
	offset    uint32 // of the record in it
	bodyBytes uint32 // with releasedBit
}

// releasedBit marks a record that the owner released but that no collection dropped yet. Bodies are far shorter.
const releasedBit = 1 << 31

func (p place) released() bool      { return p.bodyBytes&releasedBit != 0 }
func (p place) length() int64       { return int64(p.bodyBytes &^ releasedBit) }
func (p place) sameAs(q place) bool { return p.number == q.number && p.offset == q.offset }

// chunk holds entries in ascending order of seq. Two slices, because a struct of both would waste four bytes per entry.
type chunk struct {
	seqs   []uint64
	places []place
}

// index maps sequence numbers to places: an ordered list of ordered chunks. Unlike a map it takes 20 bytes an entry and gives memory back when a
// backlog drains; appends in order, the usual case, fill chunks to the brim.
type index struct {
	chunks []*chunk
	n      int
}

// find returns the chunk and the position in it where seq is or would be inserted. The index must not be empty.
func (x *index) find(seq uint64) (ci, i int, found bool) {
	lo, hi := 0, len(x.chunks) // chunks before lo begin at or before seq, those from hi on behind it
	for lo < hi {
		mid := (lo + hi) / 2
		if x.chunks[mid].seqs[0] <= seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, 0, false
	}
	i, found = slices.BinarySearch(x.chunks[lo-1].seqs, seq)
	return lo - 1, i, found
}

// get returns the place of seq.
func (x *index) get(seq uint64) (place, bool) {
	if x.n == 0 {
		return place{}, false
	}
	ci, i, found := x.find(seq)
	if !found {
		return place{}, false
	}
	return x.chunks[ci].places[i], true
}

// put sets the place of seq and returns the one it had before.
func (x *index) put(seq uint64, p place) (old place, replaced bool) {
	if x.n == 0 {
		x.chunks = append(x.chunks[:0], &chunk{seqs: []uint64{seq}, places: []place{p}})
		x.n = 1
		return place{}, false
	}
	ci, i, found := x.find(seq)
	c := x.chunks[ci]
	if found {
		old, c.places[i] = c.places[i], p
		return old, true
	}
	if len(c.seqs) == chunkEntriesMax {
		if ci == len(x.chunks)-1 && i == chunkEntriesMax {
			c, i = &chunk{seqs: make([]uint64, 0, chunkEntriesMax), places: make([]place, 0, chunkEntriesMax)}, 0
			x.chunks = append(x.chunks, c)
		} else {
			c, i = x.split(ci, i)
		}
	}
	c.insert(i, seq, p)
	x.n++
	return place{}, false
}

// split halves chunk ci and returns the half, and the position in it, that position i falls into.
func (x *index) split(ci, i int) (*chunk, int) {
	c := x.chunks[ci]
	half := len(c.seqs) / 2
	upper := &chunk{seqs: append([]uint64(nil), c.seqs[half:]...), places: append([]place(nil), c.places[half:]...)}
	c.seqs, c.places = c.seqs[:half], c.places[:half]
	x.chunks = append(x.chunks, nil)
	copy(x.chunks[ci+2:], x.chunks[ci+1:])
	x.chunks[ci+1] = upper
	if i > half {
		return upper, i - half
	}
	return c, i
}

func (c *chunk) insert(i int, seq uint64, p place) {
	c.seqs = append(c.seqs, 0)
	copy(c.seqs[i+1:], c.seqs[i:])
	c.seqs[i] = seq
	c.places = append(c.places, place{})
	copy(c.places[i+1:], c.places[i:])
	c.places[i] = p
}

// del removes seq and returns the place it had.
func (x *index) del(seq uint64) (place, bool) {
	if x.n == 0 {
		return place{}, false
	}
	ci, i, found := x.find(seq)
	if !found {
		return place{}, false
	}
	c := x.chunks[ci]
	old := c.places[i]
	c.seqs = append(c.seqs[:i], c.seqs[i+1:]...)
	c.places = append(c.places[:i], c.places[i+1:]...)
	x.n--
	if len(c.seqs) <= chunkEntriesMax/4 {
		x.shrink(ci)
	}
	return old, true
}

// shrink drops chunk ci if it is empty and joins it with a neighbour if both are small, so that a sparse index stays short.
func (x *index) shrink(ci int) {
	switch n := len(x.chunks[ci].seqs); {
	case n == 0:
		x.remove(ci)
	case ci+1 < len(x.chunks) && n+len(x.chunks[ci+1].seqs) <= chunkEntriesMax/2:
		x.join(ci)
	case ci > 0 && n+len(x.chunks[ci-1].seqs) <= chunkEntriesMax/2:
		x.join(ci - 1)
	}
}

// join moves the entries of the chunk behind ci into it.
func (x *index) join(ci int) {
	c, next := x.chunks[ci], x.chunks[ci+1]
	c.seqs = append(c.seqs, next.seqs...)
	c.places = append(c.places, next.places...)
	x.remove(ci + 1)
}

func (x *index) remove(ci int) {
	copy(x.chunks[ci:], x.chunks[ci+1:])
	x.chunks[len(x.chunks)-1] = nil
	x.chunks = x.chunks[:len(x.chunks)-1]
	if len(x.chunks) == 0 {
		x.chunks = nil
	}
}
