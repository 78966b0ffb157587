package wal

import (
	"slices"
	"sort"
)

// group is what the log has of one group. Log.mu guards it.
type group struct {
	bootstrap, state, snapshot kept
	snapshotIndex              uint64
	spans                      []span // ascending and, but while the log is being read, without gaps
	truncations                int    // that are not yet written
	floor                      uint64 // while there are such: entries up to here are hidden

	pending int   // records that are not yet written
	ahead   ahead // what there will be when they are
}

// ahead is what decides how a new record changes a group, all records before it counted.
type ahead struct {
	next          uint64 // index behind the last entry, 0 if there are none
	hasSnapshot   bool
	snapshotIndex uint64
}

// put counts an update and says what of it counts: whether its snapshot does, and whether its entries do not follow those before. That stands in the record,
// because who reads the log later may lack what was before.
func (a *ahead) put(u *Update) (snapshot, apart bool) {
	if u.Snapshot != nil && (!a.hasSnapshot || u.SnapshotIndex >= a.snapshotIndex || mutant == mutantOldSnapshotCounts) {
		snapshot, a.hasSnapshot, a.snapshotIndex = true, true, u.SnapshotIndex
		if u.Restored {
			a.next = 0
		}
	}
	if len(u.Ends) > 0 {
		apart = u.First > a.next && mutant != mutantFollowsAnything
		a.next = u.First + uint64(len(u.Ends))
	}
	return snapshot, apart
}

// kept is a small value that is held in memory, too.
type kept struct {
	data []byte
	file *logFile // that has it; nil if there is none
}

// span is a run of entries in one record.
type span struct {
	first uint64
	count uint64
	file  *logFile
	off   int64 // of the record
	bytes int64 // of the record
}

func (s span) last() uint64 { return s.first + s.count - 1 }

func (k *kept) set(data []byte, f *logFile) {
	k.clear()
	k.data = append(k.data[:0], data...)
	if k.data == nil {
		k.data = []byte{} // there, and empty
	}
	k.file = f
	f.live++
}

func (k *kept) clear() {
	if k.file != nil {
		k.file.live--
		k.file = nil
	}
}

// get returns a copy.
func (k *kept) get() ([]byte, bool) {
	if k.file == nil {
		return nil, false
	}
	return slices.Clone(k.data), true
}

// apply takes an intact record at off of file f into the index; mu is held. It is how the index comes to be, when the log is written and when it is read.
func (l *Log) apply(rec []byte, f *logFile, off int64) error {
	var c content
	if err := parseContent(rec, &c); err != nil {
		return err
	}
	if c.kind == kindMarker {
		return nil
	}
	g := l.groups[c.group]
	if g == nil {
		g = &group{}
		l.groups[c.group] = g
	}
	if g.pending > 0 && c.kind != kindCopy {
		g.pending--
	}
	switch c.kind {
	case kindTruncate:
		g.truncate(c.index)
		if g.truncations > 0 {
			if g.truncations--; g.truncations == 0 {
				g.floor = 0
			}
		}
	case kindReset:
		g.clear()
	}
	g.take(&c, f)
	if c.count > 0 {
		s := span{first: c.first, count: uint64(c.count), file: f, off: off, bytes: int64(len(rec))}
		f.live++
		if c.kind == kindCopy && mutant != mutantCopyCutsEntries {
			g.fill(s)
		} else {
			g.extend(s, c.flags&flagApart != 0)
		}
	}
	if g.empty() {
		delete(l.groups, c.group)
	}
	return nil
}

// take applies all of a record but the entries.
func (g *group) take(c *content, f *logFile) {
	if c.flags&flagBootstrap != 0 {
		g.bootstrap.set(c.bootstrap, f)
	}
	if c.flags&flagState != 0 {
		g.state.set(c.state, f)
	}
	if c.flags&flagSnapshot != 0 {
		g.snapshot.set(c.snapshot, f)
		g.snapshotIndex = c.snapshotIndex
		if c.flags&flagRestored != 0 {
			g.dropEntries(0)
		}
	}
}

func (g *group) empty() bool {
	return g.bootstrap.file == nil && g.state.file == nil && g.snapshot.file == nil && len(g.spans) == 0 && g.pending == 0
}

func (g *group) clear() {
	g.bootstrap.clear()
	g.state.clear()
	g.snapshot.clear()
	g.snapshotIndex = 0
	g.dropEntries(0)
}

// find returns the position of the first span that ends at index or behind it.
func (g *group) find(index uint64) int {
	return sort.Search(len(g.spans), func(i int) bool { return g.spans[i].last() >= index })
}

// dropEntries removes the entries from index on.
func (g *group) dropEntries(index uint64) {
	i := g.find(index)
	if i < len(g.spans) && g.spans[i].first < index {
		g.spans[i].count = index - g.spans[i].first
		i++
	}
	for _, s := range g.spans[i:] {
		s.file.live--
	}
	clear(g.spans[i:])
	g.spans = g.spans[:i]
}

// truncate removes the entries up to index.
func (g *group) truncate(index uint64) {
	i := 0
	for ; i < len(g.spans) && g.spans[i].last() <= index; i++ {
		g.spans[i].file.live--
	}
	clear(g.spans[:i])
	g.spans = g.spans[i:]
	if len(g.spans) == 0 {
		g.spans = nil
		return
	}
	if s := &g.spans[0]; s.first <= index {
		s.count = s.last() - index
		s.first = index + 1
	}
}

// extend adds entries that take the place of all from their first one on, or of all.
func (g *group) extend(s span, apart bool) {
	if apart {
		g.dropEntries(0)
	} else {
		g.dropEntries(s.first)
	}
	g.spans = append(g.spans, s)
}

// fill gives entries another place. What is not there (because its file has gone since) comes to be there again.
func (g *group) fill(s span) {
	from := g.find(s.first)
	to := from
	var around []span
	if from < len(g.spans) && g.spans[from].first < s.first {
		left := g.spans[from]
		left.count = s.first - left.first
		around = append(around, left)
	}
	around = append(around, s)
	for ; to < len(g.spans) && g.spans[to].first <= s.last(); to++ {
		old := g.spans[to]
		old.file.live--
		if old.last() > s.last() {
			right := old
			right.first = s.last() + 1
			right.count = old.last() - s.last()
			around = append(around, right)
		}
	}
	for _, piece := range around {
		if piece != s {
			piece.file.live++
		}
	}
	g.spans = slices.Replace(g.spans, from, to, around...)
}

// hole returns the span behind a gap, or nil.
func (g *group) hole() *span {
	for i := 1; i < len(g.spans); i++ {
		if g.spans[i-1].last()+1 != g.spans[i].first {
			return &g.spans[i]
		}
	}
	return nil
}

// bounds returns the first and the last entry that can be read.
func (g *group) bounds() (first, last uint64, ok bool) {
	if len(g.spans) == 0 {
		return 0, 0, false
	}
	floor := g.floor
	if mutant == mutantTruncatedShown {
		floor = 0
	}
	first, last = max(g.spans[0].first, floor+1), g.spans[len(g.spans)-1].last()
	return first, last, first <= last
}
