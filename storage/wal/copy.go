package wal

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/config/limits"
)

// copying is what one group needs of the oldest file.
type copying struct {
	group Group
	spans []span
	// pieces are the entries of the spans, those that follow each other as one; each covers so many spans.
	pieces []Update
	covers []int
}

// copyOldest gives what is needed of the oldest file a new place at the end of the log, if the log has become long. Groups with too much in it are asked
// for a checkpoint. It says whether nothing in the file is needed any more.
func (l *Log) copyOldest() bool {
	f, plan, need := l.planCopy()
	if f == nil {
		return false
	}
	defer l.release(f)
	for len(plan) > 0 {
		round, bytes := 0, int64(0)
		for round < len(plan) && bytes < limits.WALFillBytes {
			c := &plan[round]
			n, err := c.read()
			if err != nil { // a checkpoint makes do without the damaged entries; who reads them hears of the damage
				need = append(need, *c)
				c.spans, c.pieces, c.covers = nil, nil, nil
			}
			bytes += n
			round++
		}
		if !l.copyRound(f, plan[:round]) {
			return false
		}
		plan = plan[round:]
	}
	if l.opts.NeedCheckpoint != nil {
		for _, c := range need {
			l.opts.NeedCheckpoint(c.group, c.spans[len(c.spans)-1].last())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.live == 0
}

// planCopy looks for what is needed of the oldest file, which must be released; it returns nil if there is nothing to do. need are the groups that
// have more in it than is copied.
func (l *Log) planCopy() (f *logFile, plan, need []copying) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := int64(0)
	for _, f := range l.files {
		held += f.size
	}
	if held <= l.bounds.pinnedBytes || len(l.files) < 2 || l.files[0].live == 0 {
		return nil, nil, nil
	}
	f = l.files[0]
	f.refs++
	for id, g := range l.groups {
		c := copying{group: id}
		bytes := int64(0)
		for _, s := range g.spans {
			if s.file == f {
				c.spans = append(c.spans, s)
				bytes += s.bytes
			}
		}
		if bytes > int64(l.bounds.copyBytes) {
			need, c.spans = append(need, c), nil
		}
		if len(c.spans) > 0 || g.bootstrap.file == f || g.state.file == f || g.snapshot.file == f {
			plan = append(plan, c)
		}
	}
	order := func(a, b copying) int {
		return cmp.Or(cmp.Compare(a.group.Shard, b.group.Shard), cmp.Compare(a.group.Replica, b.group.Replica))
	}
	slices.SortFunc(plan, order)
	slices.SortFunc(need, order)
	// Many small logs are better cut by checkpoints than copied from file to file.
	left := l.bounds.fileBytes / 4
	for i := range plan {
		for _, s := range plan[i].spans {
			left -= s.bytes
		}
		if left < 0 && len(plan[i].spans) > 0 {
			need = append(need, plan[i])
			plan[i].spans = nil
		}
	}
	return f, plan, need
}

// read reads the entries of the spans. It returns about how many bytes the copy has.
func (c *copying) read() (int64, error) {
	bytes := int64(recordHeaderBytes)
	for i := range c.spans {
		s := &c.spans[i]
		buf := make([]byte, s.bytes)
		if err := s.read(buf, c.group); err != nil {
			return 0, err
		}
		if i == 0 || c.spans[i-1].last()+1 != s.first {
			c.pieces = append(c.pieces, Update{Group: c.group, First: s.first})
			c.covers = append(c.covers, 0)
		}
		u := &c.pieces[len(c.pieces)-1]
		c.covers[len(c.covers)-1]++
		if _, err := s.visit(buf, s.first, s.first+s.count, func(_ uint64, data []byte) bool {
			u.Entries = append(u.Entries, data...)
			u.Ends = append(u.Ends, uint32(len(u.Entries)))
			return true
		}); err != nil {
			return 0, err
		}
		bytes += s.bytes
	}
	return bytes, nil
}

// copyRound writes copies of what is still needed of what was planned. It says whether the log can still be used.
func (l *Log) copyRound(f *logFile, plan []copying) bool {
	// Nothing is being written while writing is held, so the index is the state behind which the copies stand: none can undo what comes later.
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if l.usable() != nil {
		l.mu.Unlock()
		return false
	}
	c := &chunk{}
	for i := range plan {
		if g := l.groups[plan[i].group]; g != nil {
			c.buf = plan[i].encode(c.buf, g, f)
		}
	}
	c.used, c.pending = len(c.buf), 1
	l.stats.CopiedBytes += uint64(len(c.buf))
	l.mu.Unlock()
	if len(c.buf) == 0 {
		return true
	}
	return l.writeOut(&batch{parts: []part{{chunk: c, to: c.used}}}) == nil
}

// encode appends the records of the copies that are still needed.
func (c *copying) encode(dst []byte, g *group, f *logFile) []byte {
	u := Update{Group: c.group}
	var bootstrap []byte
	if g.bootstrap.file == f {
		bootstrap = g.bootstrap.data
	}
	if g.state.file == f {
		u.State = g.state.data
	}
	if g.snapshot.file == f {
		u.Snapshot, u.SnapshotIndex = g.snapshot.data, g.snapshotIndex
	}
	if bootstrap != nil || u.State != nil || u.Snapshot != nil {
		dst = appendRecord(dst, kindCopy, bootstrap, &u)
	}
	spans := c.spans
	for i := range c.pieces {
		still := true
		for _, s := range spans[:c.covers[i]] {
			at := g.find(s.first)
			still = still && (at < len(g.spans) && g.spans[at] == s || mutant == mutantCopiesGone)
		}
		spans = spans[c.covers[i]:]
		if still {
			dst = appendRecord(dst, kindCopy, nil, &c.pieces[i])
		}
	}
	return dst
}

// appendRecord appends a record as put makes it.
func appendRecord(dst []byte, kind byte, bootstrap []byte, u *Update) []byte {
	n := u.bodyBytes()
	if bootstrap != nil {
		n += 4 + len(bootstrap)
	}
	at := len(dst)
	dst = append(dst, make([]byte, recordBytes(int64(n)))...)
	encode(dst[at:at+recordHeaderBytes+n], kind, 0, bootstrap, u, n)
	return dst
}
