package segment

import (
	"errors"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// Read returns the body of seq in memory of its own. See ReadInto.
func (s *Store) Read(seq uint64) ([]byte, error) { return s.ReadInto(seq, nil) }

// ReadInto returns the body of seq, inside buf if buf has room for the body and 16 bytes more, else in new memory (to use buf again, pass buf and not
// the result). It returns ErrNotFound, or a
// *storage.CorruptError if the file does not hold what was appended; never other bytes. A released record can be read until it is collected.
func (s *Store) ReadInto(seq uint64, buf []byte) ([]byte, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	p, ok := s.index.get(seq)
	if !ok {
		s.mu.Unlock()
		return nil, ErrNotFound
	}
	total := int(p.bytes())
	if cap(buf) < total {
		buf = make([]byte, total)
	}
	buf = buf[:total]
	seg := s.segment(p.number)
	if seg == s.active && int64(p.offset) >= s.flushed {
		copy(buf, s.buf[int64(p.offset)-s.flushed:])
		s.mu.Unlock()
		return buf[frame.OverheadBytes:], nil
	}
	err := s.acquire(seg)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	err = readRecord(seg, p, seq, buf)
	s.mu.Lock()
	closeErr := s.release(seg)
	s.mu.Unlock()
	if err := errors.Join(err, closeErr); err != nil {
		return nil, err
	}
	return buf[frame.OverheadBytes:], nil
}

// readRecord fills buf with the record at p and verifies it.
func readRecord(seg *segmentFile, p place, seq uint64, buf []byte) error {
	if err := storage.ReadFull(seg.file, buf, int64(p.offset)); err != nil {
		return err
	}
	if !frame.Valid(buf, frame.Seed(seg.salt, int64(p.offset))) || frame.ParseHeader(buf).Key != seq {
		return &storage.CorruptError{File: seg.name, OffsetBytes: int64(p.offset), Reason: "the record does not match its checksum"}
	}
	return nil
}

// segment returns the file of that number; s.mu is held. The number must be one that the index names.
func (s *Store) segment(number uint32) *segmentFile {
	lo, hi := 0, len(s.segments)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.segments[mid].number < number {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return s.segments[lo]
}

// acquire makes sure that the file is open and stays so until release; s.mu is held.
func (s *Store) acquire(seg *segmentFile) error {
	if seg.file == nil {
		file, err := s.fsys.Open(seg.name)
		if err != nil {
			return err
		}
		seg.file = file
		s.open++
	}
	seg.refs++
	s.touch(seg)
	s.closeIdle()
	return nil
}

// release ends a use of the file; s.mu is held.
func (s *Store) release(seg *segmentFile) error {
	seg.refs--
	if !seg.gone || seg.refs > 0 {
		return nil
	}
	file := seg.file
	seg.file = nil
	return file.Close()
}

// touch notes that the file was used now; s.mu is held.
func (s *Store) touch(seg *segmentFile) {
	s.clock++
	seg.used = s.clock
}

// closeIdle closes sealed files that were not used for longest, until openFilesMax are open; s.mu is held.
func (s *Store) closeIdle() {
	for s.open > openFilesMax {
		var idle *segmentFile
		for _, seg := range s.segments {
			if seg.file != nil && seg.refs == 0 && seg != s.active && (idle == nil || seg.used < idle.used) {
				idle = seg
			}
		}
		if idle == nil {
			return
		}
		_ = idle.file.Close() // it was only read, or synced before it was sealed
		idle.file = nil
		s.open--
	}
}

// setPlace points the index at a record and keeps the counts of the files; s.mu is held, or nobody else knows the store. A record that was released
// at its old place is released at the new one.
func (s *Store) setPlace(seq uint64, at place) {
	if old, replaced := s.index.put(seq, at); replaced {
		s.uncount(old, 1)
	}
	seg := s.segment(at.number)
	seg.records++
	seg.liveBytes += at.bytes()
}

// setSpan is setPlace for those records of a span that keep says are live.
func (s *Store) setSpan(x span, keep func(page uint64) Mask) {
	for x.n > 0 {
		first := x.seq % PageSeqs
		part := x
		part.n = min(x.n, PageSeqs-first)
		live := keep(x.seq / PageSeqs)
		members := live.between(first, first+part.n)
		s.setPart(&part, &members)
		x.place = x.at(part.n)
		x.seq, x.n = x.seq+part.n, x.n-part.n
	}
}

// setPart is setSpan for a span in one page.
func (s *Store) setPart(x *span, members *Mask) {
	if p := s.index.page(x.seq / PageSeqs); p != nil && !p.has.isEmpty() {
		for i := range x.n {
			if members.has(x.seq%PageSeqs + i) {
				s.setPlace(x.seq+i, x.at(i))
			}
		}
		return
	}
	if n := members.count(); n > 0 {
		s.index.putSpan(x, members)
		seg := s.segment(x.number)
		seg.records += n
		seg.liveBytes += int64(n) * x.bytes()
	}
}

// uncount takes n records as long as the one at at out of the counts of its file; s.mu is held.
func (s *Store) uncount(at place, n int) {
	seg := s.segment(at.number)
	seg.records -= n
	seg.liveBytes -= int64(n) * at.bytes()
}
