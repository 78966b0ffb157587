package segment

import (
	"errors"
	"fmt"
	"sync"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

const (
	// SegmentBytesMax is where a segment file ends, unless its only record is longer.
	SegmentBytesMax = 64 << 20
	// BodyBytesMax bounds one body: the largest AMQP message (128 MiB) and its envelope.
	BodyBytesMax = 129 << 20
	// directBodyBytes is from where a body is written by itself and not copied into the buffer.
	directBodyBytes = 64 << 10
	// openFilesMax is how many sealed segments a store keeps open for reading.
	openFilesMax = 8
)

var (
	// ErrNotFound says that the store has no such record (never appended, or collected after its release).
	ErrNotFound = errors.New("segment: no such record")
	// ErrTooLarge says that a body is longer than BodyBytesMax.
	ErrTooLarge = errors.New("segment: the body is too large")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("segment: the store is closed")
)

// Store is the message store of one queue. All methods may be called concurrently. Append, Sync and Collect wait for each other; Read, Release, Cut,
// Has, Len and Stats never wait for a write or a sync.
type Store struct {
	fsys  storage.FS
	dir   string
	limit limits

	writing sync.Mutex // one writer at a time; taken before mu
	failed  error      // a sync failed: nothing is written any more (guarded by writing)
	closed  bool       // guarded by writing and mu: set under both
	dirty   bool       // something was written that is not synced (guarded by writing)
	// dirDirty: the name of the active file may not be durable (guarded by writing).
	dirDirty bool
	highest  uint32 // number of the newest file so far (guarded by writing)
	// cut: the active file ends in garbage of a crash or of a failed write (guarded by writing).
	cut bool

	mu       sync.Mutex
	index    index
	segments []*segmentFile // ascending by number
	active   *segmentFile   // the last of segments, nil if the next append makes one
	buf      []byte         // records at the end of the active file that are not written yet
	flushed  int64          // the active file is written up to here; buf follows
	clock    uint64         // counts uses of files
	open     int            // sealed files that are open
	epoch    Cut            // the present epoch; releases belong to it
	released []releases     // ascending by epoch
	pending  int            // records in released
}

// limits are the named limits that tests make small.
type limits struct {
	segmentBytesMax       int64
	directBodyBytes       int
	compactActiveBytesMin int64
	deadBytesMax          int64
}

var defaultLimits = limits{
	segmentBytesMax: SegmentBytesMax, directBodyBytes: directBodyBytes, compactActiveBytesMin: compactActiveBytesMin, deadBytesMax: deadBytesMax,
}

// Stats says how much a store holds.
type Stats struct {
	// Records is the number of live records.
	Records int
	// LiveBytes is what live records take on disk, and those that were released and not collected yet.
	LiveBytes int64
	// ReleasedBytes is about what of them the released ones take: as if all were of one length.
	ReleasedBytes int64
	// DiskBytes is the length of all segment files, with what is not written yet.
	DiskBytes int64
	// Segments is the number of segment files.
	Segments int
}

// Append adds a body under a sequence number. It is readable at once and durable after Sync. Appending a number again (after a crash) adds it once
// more and the later one counts; the bytes must be the same. body is not kept. When an error is returned nothing was added, and the call may be
// repeated unless the error is storage.ErrFatal (a full disk, for example).
func (s *Store) Append(seq uint64, body []byte) error {
	if len(body) > BodyBytesMax {
		return ErrTooLarge
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	return s.append(seq, body)
}

func (s *Store) usable() error {
	if s.closed {
		return ErrClosed
	}
	return s.failed
}

// append does Append under s.writing. A record that replaces a released one (compaction) stays released. Sums and copies are made without s.mu, behind
// the part of the buffer that readers know, because Release and Read wait for s.mu.
func (s *Store) append(seq uint64, body []byte) error {
	total := int64(frame.OverheadBytes + len(body))
	if err := s.room(total); err != nil {
		return err
	}
	seg := s.active
	at, seed := seg.end, frame.Seed(seg.salt, seg.end)
	buf, flushed := s.buf, s.flushed
	if buf == nil {
		buf = frame.GetBuffer()[:0]
	}
	s.dirty = true
	if len(body) < s.limit.directBodyBytes {
		buf = frame.Append(buf, seed, seq, body)
	} else {
		if err := s.writeDirect(frame.AppendHeader(buf, seed, seq, body), body); err != nil {
			return err
		}
		buf, flushed = buf[:0], at+total
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf, s.flushed = buf, flushed
	seg.end = at + total
	seg.lastSeq = seq
	s.setPlace(seq, place{number: seg.number, offset: uint32(at), bodyBytes: uint32(len(body))})
	seg.list.add(span{seq: seq, n: 1, place: place{number: seg.number, offset: uint32(at), bodyBytes: uint32(len(body))}})
	return nil
}

// writeDirect writes the collected records and the header of one more, then its body. After a failure the collected records are written once more by
// whatever comes next.
func (s *Store) writeDirect(collected, body []byte) error {
	s.cut = true
	if _, err := s.active.file.WriteAt(collected, s.flushed); err != nil {
		return err
	}
	if _, err := s.active.file.WriteAt(body, s.flushed+int64(len(collected))); err != nil {
		return err
	}
	s.cut = false
	return nil
}

// writeBuffer writes what is collected. A repeated call after a failure writes the same bytes to the same place.
func (s *Store) writeBuffer() error {
	if len(s.buf) == 0 {
		return nil
	}
	if _, err := s.active.file.WriteAt(s.buf, s.flushed); err != nil {
		return err
	}
	s.mu.Lock()
	s.flushed += int64(len(s.buf))
	s.buf = s.buf[:0]
	s.mu.Unlock()
	return nil
}

// room sees to it that the active file exists, that its end is clean and that total bytes may be added to it and to the buffer.
func (s *Store) room(total int64) error {
	if s.writable() {
		if err := s.cutGarbage(); err != nil {
			return err
		}
		if s.active.end+total > s.limit.segmentBytesMax && s.active.end > int64(headerBytes) {
			if err := s.seal(); err != nil {
				return err
			}
		}
	}
	if !s.writable() {
		if err := s.create(); err != nil {
			return err
		}
	}
	if int64(len(s.buf))+min(total, directBodyBytes+frame.OverheadBytes) > frame.BufferBytes {
		return s.writeBuffer()
	}
	return nil
}

// writable says whether there is an active file with a header.
func (s *Store) writable() bool { return s.active != nil && s.active.salt != 0 }

// cutGarbage takes off what a crash or a failed write left behind the last record. The cut is synced before anything is written there, so that no
// old record can come back behind a new one.
func (s *Store) cutGarbage() error {
	if !s.cut {
		return nil
	}
	if err := s.active.file.Truncate(s.flushed); err != nil {
		return err
	}
	if err := s.active.file.Sync(); err != nil {
		return s.fail(err)
	}
	s.cut = false
	return nil
}

// create starts a new active file. A file whose header a crash tore is started anew under its own number.
func (s *Store) create() error {
	number := s.highest + 1
	if s.active != nil {
		number = s.active.number
	}
	if s.highest == 0 {
		if err := storage.EnsureDir(s.fsys, s.dir); err != nil {
			return err
		}
	}
	if s.active != nil && s.active.file != nil {
		if err := s.active.file.Close(); err != nil {
			return err
		}
		s.active.file = nil
	}
	seg := newSegmentFile(s.dir, number)
	seg.salt, seg.end = newSalt()|1, int64(headerBytes)
	file, err := s.fsys.Create(seg.name)
	if err != nil {
		return err
	}
	seg.file = file
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil {
		s.segments = s.segments[:len(s.segments)-1]
	}
	s.segments = append(s.segments, seg)
	s.active, s.highest = seg, number
	s.buf = appendFileHeader(frame.GetBuffer()[:0], number, seg.salt)
	s.flushed = 0
	s.dirty, s.dirDirty, s.cut = true, true, false
	return nil
}

// Sync makes everything that was appended before it durable. Without anything new it does nothing. An error that is storage.ErrFatal is final.
func (s *Store) Sync() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	return s.sync()
}

func (s *Store) sync() error {
	if !s.writable() || !s.dirty {
		return nil
	}
	if err := s.writeBuffer(); err != nil {
		return err
	}
	s.mu.Lock()
	frame.PutBuffer(s.buf)
	s.buf = nil
	s.mu.Unlock()
	if err := s.active.file.Sync(); err != nil {
		return s.fail(err)
	}
	if s.dirDirty {
		if err := s.fsys.SyncDir(s.dir); err != nil {
			return s.fail(err)
		}
	}
	s.dirty, s.dirDirty = false, false
	// The bytes are durable. The mark only sharpens what recovery can tell, so a failure to write it is not one of Sync.
	mark := frame.Mark{SyncedBytes: s.active.end, Last: s.active.lastSeq}
	at := int64(marksAt + s.active.nextMark*frame.MarkBytes)
	if _, err := s.active.file.WriteAt(mark.Append(nil), at); err == nil {
		s.active.nextMark = 1 - s.active.nextMark
	}
	return nil
}

// seal ends the active file, synced to its very end. Only then may a file with a higher number exist: what is wrong in it from now on is damage.
func (s *Store) seal() error {
	if err := s.cutGarbage(); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return err
	}
	s.active.writeList(s.fsys, s.dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch(s.active)
	s.active = nil
	s.open++
	s.closeIdle()
	return nil
}

// fail makes a failed sync final.
func (s *Store) fail(err error) error {
	s.failed = storage.Fatal(fmt.Errorf("segment store %s: %w", s.dir, err))
	return s.failed
}

// Has says whether the store has a record for seq that may be read.
func (s *Store) Has(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index.page(seq / PageSeqs)
	return p != nil && p.has.has(seq%PageSeqs)
}

// Held returns which numbers of a page the store has records for that may be read.
func (s *Store) Held(page uint64) Mask {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.index.page(page); p != nil {
		return p.has
	}
	return Mask{}
}

// Len returns the number of live records: appended or recovered, and not released.
func (s *Store) Len() int { return s.Stats().Records }

// Stats returns the present sizes.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Records: s.index.n - s.pending, Segments: len(s.segments)}
	for _, seg := range s.segments {
		st.LiveBytes += seg.liveBytes
		st.DiskBytes += seg.end
	}
	if s.pending > 0 {
		st.ReleasedBytes = int64(float64(st.LiveBytes) * float64(s.pending) / float64(s.index.n))
	}
	return st
}

// Close closes the files. It does not sync: what was not synced may be lost. Readers that are at work finish.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	frame.PutBuffer(s.buf)
	s.buf = nil
	var errs []error
	for _, seg := range s.segments {
		seg.gone = true
		if seg.refs == 0 && seg.file != nil {
			errs = append(errs, seg.file.Close())
			seg.file = nil
		}
	}
	return errors.Join(errs...)
}
