package segment

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

const (
	// compactSegmentsMax bounds how many files one Collect compacts, and so how long it takes.
	compactSegmentsMax = 4
	// aliveDivisor: a file is compacted when less than one in aliveDivisor of its bytes is alive.
	aliveDivisor = 4
	// deadBytesMax is how much of all files may be dead beside as much as is alive; beyond it files are compacted of which more is alive.
	deadBytesMax = 32 << 20
	// compactActiveBytesMin is from what length on the active file is worth compacting, too.
	compactActiveBytesMin = 1 << 20
)

// Cut is a moment in the life of a store: releases before it belong to it, those after it do not. Cuts count up from 1 and mean nothing after the
// store was closed.
type Cut uint64

// releases are the records released in one epoch, by page.
type releases struct {
	epoch Cut
	pages map[uint64]*Mask
}

// Release says that the machine needs the numbers from..to no more. The records stay, and can be read, until a Collect of a cut taken after this call. A number that the store does not have, or that was
// released before, is ignored. A released number is not appended again. It costs as many steps as the range has pages,
// whatever stands in them: an entry of a queue's log waits for it.
func (s *Store) Release(from, to uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index.n == 0 {
		return
	}
	i, _ := s.index.find(from / PageSeqs)
	for ; i < len(s.index.pages) && s.index.pages[i].no <= to/PageSeqs; i++ {
		s.releasePage(s.index.pages[i], from, to)
	}
}

// releasePage releases the records of a page from..to; s.mu is held.
func (s *Store) releasePage(p *indexPage, from, to uint64) {
	low, high := uint64(0), uint64(PageSeqs)
	if first := p.no * PageSeqs; from > first {
		low = from - first
	}
	if to/PageSeqs == p.no {
		high = to%PageSeqs + 1
	}
	s.releaseMembers(p, p.has.between(low, high))
}

// Retain releases every record but those that live tells of its page: the state was replaced by another one.
func (s *Store) Retain(live func(page uint64) Mask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.index.pages {
		gone, keep := p.has, live(p.no)
		for w := range gone {
			gone[w] &^= keep[w]
		}
		s.releaseMembers(p, gone)
	}
}

// releaseMembers releases those of the members of a page that are not released yet; s.mu is held.
func (s *Store) releaseMembers(p *indexPage, members Mask) {
	for w := range members {
		members[w] &^= p.released[w]
		p.released[w] |= members[w]
	}
	if members.isEmpty() {
		return
	}
	s.pending += members.count()
	if n := len(s.released); n == 0 || s.released[n-1].epoch != s.epoch {
		s.released = append(s.released, releases{epoch: s.epoch, pages: map[uint64]*Mask{}})
	}
	pages := s.released[len(s.released)-1].pages
	sum := pages[p.no]
	if sum == nil {
		sum = new(Mask)
		pages[p.no] = sum
	}
	for w := range members {
		sum[w] |= members[w]
	}
}

// Cut marks the moment at which the state for a checkpoint (or a stream) is taken: call it at the same entry boundary.
func (s *Store) Cut() Cut {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	return s.epoch
}

// Collect drops the records that were released before the cut, deletes the files without a record, and rewrites the live records of files that are
// less than a quarter alive (at most four files in one call) behind the others. Call it with the cut of a checkpoint when that checkpoint is durable;
// pinned are older cuts that streams still read from: nothing released after any of them is dropped.
//
// An error that is not storage.ErrFatal leaves the store usable and is worth a later try; a *storage.CorruptError names a damaged file.
func (s *Store) Collect(durable Cut, pinned ...Cut) error {
	for _, c := range pinned {
		durable = min(durable, c)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	s.dropReleased(durable)
	// A file may be empty because its records were appended once more: those must be durable first.
	if err := s.sync(); err != nil {
		return err
	}
	removed, err := s.removeEmpty()
	if err == nil {
		var more bool
		more, err = s.compact()
		removed = removed || more
	}
	if removed {
		// Else a deleted file that was not sealed could come back in front of a newer one.
		if syncErr := s.fsys.SyncDir(s.dir); syncErr != nil {
			return s.fail(syncErr)
		}
	}
	return err
}

// dropReleased takes the records released before the cut out of the index, page by page, so that Read and Release need not wait for all of it.
func (s *Store) dropReleased(cut Cut) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.released) && s.released[n].epoch < cut {
		pages := s.released[n].pages // no release adds to it any more
		for _, no := range slices.Sorted(maps.Keys(pages)) {
			s.dropPage(no, pages[no])
			s.mu.Unlock()
			s.mu.Lock()
		}
		n++
	}
	if n > 0 {
		s.index.sweep()
		s.released = append(s.released[:0:0], s.released[n:]...)
	}
}

// dropPage takes members out of a page; s.mu is held.
func (s *Store) dropPage(no uint64, members *Mask) {
	s.pending -= members.count()
	if p := s.index.page(no); p != nil { // what it has of the members is released
		s.index.each(p, members, s.uncount)
		s.index.drop(p, members)
	}
}

// removeEmpty deletes every file without a record, the active one included.
func (s *Store) removeEmpty() (removed bool, err error) {
	for i := 0; i < len(s.segments); {
		if s.segments[i].records > 0 {
			i++
			continue
		}
		if err := s.remove(i); err != nil {
			return removed, err
		}
		removed = true
	}
	return removed, nil
}

// remove deletes file i. Readers of it finish first with what they have open.
func (s *Store) remove(i int) error {
	seg := s.segments[i]
	if seg.listed {
		_ = s.fsys.Remove(seg.listName(s.dir)) // before the file: a list without its file would stay
	}
	if err := s.fsys.Remove(seg.name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = append(s.segments[:i:i], s.segments[i+1:]...)
	seg.gone = true
	if seg == s.active {
		s.active = nil
		frame.PutBuffer(s.buf)
		s.buf = nil
		s.dirty, s.dirDirty, s.cut = false, false, false
	} else if seg.file != nil {
		s.open--
	}
	if seg.refs > 0 || seg.file == nil {
		return nil
	}
	_ = seg.file.Close() // nothing in it matters any more
	seg.file = nil
	return nil
}

// compact rewrites the live records of mostly dead files and deletes these.
func (s *Store) compact() (removed bool, err error) {
	if a := s.active; s.writable() && a.end >= s.limit.compactActiveBytesMin && a.liveBytes*aliveDivisor < a.end {
		if err := s.seal(); err != nil {
			return false, err
		}
	}
	victims := s.victims()
	if len(victims) == 0 {
		return false, nil
	}
	for _, seg := range victims {
		if err := s.rewrite(seg); err != nil {
			return false, err
		}
	}
	if err := s.sync(); err != nil {
		return false, err
	}
	return s.removeEmpty()
}

// victims are the sealed files to compact: those that are mostly dead, then, while too much of all files is dead, those with the most.
func (s *Store) victims() []*segmentFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*segmentFile
	excess := -s.limit.deadBytesMax
	for _, seg := range s.segments {
		excess += seg.end - 2*seg.liveBytes
		if seg != s.active {
			list = append(list, seg)
		}
	}
	slices.SortStableFunc(list, func(a, b *segmentFile) int { return cmp.Compare(b.end-b.liveBytes, a.end-a.liveBytes) })
	n := 0
	for _, seg := range list {
		if n == compactSegmentsMax {
			break
		}
		if seg.liveBytes*aliveDivisor >= seg.end && excess <= 0 {
			continue
		}
		excess -= seg.end - seg.liveBytes
		list[n] = seg
		n++
	}
	list = list[:n]
	slices.SortFunc(list, func(a, b *segmentFile) int { return cmp.Compare(a.number, b.number) })
	return list
}

// rewrite appends the live records of a sealed file to the active one.
func (s *Store) rewrite(seg *segmentFile) error {
	s.mu.Lock()
	err := s.acquire(seg)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.rewriteOpen(seg)
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.release(seg))
}

func (s *Store) rewriteOpen(seg *segmentFile) error {
	type live struct {
		seq uint64
		at  place
	}
	var found []live
	buf := frame.GetBuffer()
	defer frame.PutBuffer(buf)
	end, err := scan(seg, seg.end, buf, func(seq uint64, p place) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if now, ok := s.index.get(seq); ok && now == p {
			found = append(found, live{seq, now})
		}
	})
	if err != nil {
		return err
	}
	if end != seg.end {
		return &storage.CorruptError{File: seg.name, OffsetBytes: end, Reason: "the record does not match its checksum"}
	}
	var record []byte
	for _, l := range found {
		total := int(l.at.bytes())
		if cap(record) < total {
			record = make([]byte, total)
		}
		record = record[:total]
		if err := readRecord(seg, l.at, l.seq, record); err != nil {
			return err
		}
		if err := s.append(l.seq, record[frame.OverheadBytes:]); err != nil {
			return err
		}
	}
	return nil
}
