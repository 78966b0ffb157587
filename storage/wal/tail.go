package wal

import "sort"

// tail is the newest part of the log in memory: the chunks in which batches were collected, which are what was written. It is guarded by Log.mu.
type tail struct {
	chunkBytes, bytesMax int

	chunks []*chunk // in the order of the log; the last one collects
	free   []*chunk // of chunkBytes, used by nobody
	bytes  int      // of chunks
}

// chunk is memory for consecutive records.
type chunk struct {
	buf     []byte
	used    int
	places  []place // where parts of it were written, ascending
	pending int     // batches that are not yet written and have a part in it
	refs    int     // readers
	evicted bool
}

// place says where a part of a chunk stands in the log.
type place struct {
	file *logFile
	off  int64
	from int
	to   int
}

// room returns the chunk in which the next n bytes go.
func (t *tail) room(n int) *chunk {
	if len(t.chunks) > 0 {
		if c := t.chunks[len(t.chunks)-1]; len(c.buf)-c.used >= n {
			return c
		}
	}
	var c *chunk
	switch {
	case n > t.chunkBytes:
		c = &chunk{buf: make([]byte, n)}
	case len(t.free) > 0:
		c = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	default:
		c = &chunk{buf: make([]byte, t.chunkBytes)}
	}
	t.evict(len(c.buf))
	t.chunks = append(t.chunks, c)
	t.bytes += len(c.buf)
	return c
}

// evict drops the oldest chunks until there is room for so many bytes, but none that is not written.
func (t *tail) evict(bytes int) {
	drop := 0
	for t.bytes+bytes > t.bytesMax && drop < len(t.chunks) && t.chunks[drop].pending == 0 {
		c := t.chunks[drop]
		t.bytes -= len(c.buf)
		c.evicted = true
		if c.refs == 0 {
			t.recycle(c)
		}
		drop++
	}
	if drop > 0 {
		kept := copy(t.chunks, t.chunks[drop:])
		clear(t.chunks[kept:])
		t.chunks = t.chunks[:kept]
	}
}

// recycle keeps a chunk that nobody uses for later.
func (t *tail) recycle(c *chunk) {
	if len(c.buf) != t.chunkBytes || len(t.free)*t.chunkBytes >= t.bytesMax {
		return
	}
	clear(c.places)
	*c = chunk{buf: c.buf, places: c.places[:0]}
	t.free = append(t.free, c)
}

// wrote notes that a part of a chunk stands at off of file.
func (c *chunk) wrote(f *logFile, off int64, from, to int) {
	if last := len(c.places) - 1; last >= 0 {
		if p := &c.places[last]; p.file == f && p.to == from && p.off+int64(p.to-p.from) == off {
			p.to = to
			return
		}
	}
	c.places = append(c.places, place{file: f, off: off, from: from, to: to})
}

// find returns the bytes at off of file and the chunk that has them, which the caller must release; nil if they are not in memory.
func (t *tail) find(f *logFile, off int64) ([]byte, *chunk) {
	before := func(p place) bool { return p.file.number < f.number || p.file.number == f.number && p.off <= off }
	i := sort.Search(len(t.chunks), func(i int) bool { c := t.chunks[i]; return len(c.places) == 0 || !before(c.places[0]) }) - 1
	if i < 0 {
		return nil, nil
	}
	c := t.chunks[i]
	j := sort.Search(len(c.places), func(j int) bool { return !before(c.places[j]) }) - 1
	if p := c.places[j]; p.file == f && (off < p.off+int64(p.to-p.from) || mutant == mutantTailOfOtherPlace && p.from+int(off-p.off) < len(c.buf)) {
		c.refs++
		return c.buf[p.from+int(off-p.off) : p.to], c
	}
	return nil, nil
}

// release ends a reader's use of a chunk.
func (t *tail) release(c *chunk) {
	c.refs--
	if c.refs == 0 && c.evicted {
		t.recycle(c)
	}
}
