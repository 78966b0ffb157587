package wal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// Open reads the log in a directory and makes durable what it finds. The torn end that a crash may leave is left out; damage of what was durable is a
// *storage.CorruptError, a file of a newer Warren a *storage.VersionError, one of another storage an *IncarnationError. Then no file was changed.
func Open(o Options) (*Log, error) { return open(o, boundsOf(o)) }

func open(o Options, b bounds) (*Log, error) {
	l := &Log{
		fsys: o.FS, dir: o.Dir, opts: o, bounds: b, groups: map[Group]*group{}, batch: newBatch(), next: 1, writing: newTurn(), tidying: newTurn(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), tail: tail{chunkBytes: b.chunkBytes, bytesMax: b.tailBytes},
	}
	if err := storage.EnsureDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, err
	}
	lost, err := l.recover(names)
	if err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	if err := l.findSpares(names); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	if err := l.forgetLost(lost); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	if !b.inline {
		l.background.Add(1)
		go l.tidyInBackground()
		l.kick()
	}
	return l, nil
}

// numbersOf returns the numbers of the files with that suffix among names, ascending.
func numbersOf(names []string, suffix string) []uint64 {
	var numbers []uint64
	for _, name := range names {
		if n, ok := parseName(name, suffix); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// forgetLost has the caller note which replicas lost something, and removes what is left of them.
func (l *Log) forgetLost(lost lostGroups) error {
	if len(lost) == 0 {
		return nil
	}
	if err := l.opts.Damaged(lost.list()); err != nil {
		return err
	}
	for _, g := range lost.list() {
		if err := l.Remove(g.Group); err != nil {
			return err
		}
	}
	return nil
}

// lostGroups are the replicas that lost something, with the first place of each.
type lostGroups map[Group]error

func (m lostGroups) add(g Group, err error) {
	if _, ok := m[g]; !ok {
		m[g] = err
	}
}

// list returns them in order.
func (m lostGroups) list() []Lost {
	list := make([]Lost, 0, len(m))
	for g, err := range m {
		list = append(list, Lost{g, err})
	}
	slices.SortFunc(list, func(a, b Lost) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Replica, b.Replica)) })
	return list
}

// lose notes that a record of a group is damaged: what else the log has of the group is of no use.
func (l *Log) lose(m lostGroups, f *logFile, off int64, h recordHeader) {
	if h.kind == kindMarker || h.group == (Group{}) {
		return // it had nothing
	}
	m.add(h.group, &storage.CorruptError{File: f.name, OffsetBytes: off, Reason: "the record does not match its checksum or the one before"})
	if g := l.groups[h.group]; g != nil {
		g.clear()
		delete(l.groups, h.group)
	}
}

// recover builds the index from the files, oldest first.
func (l *Log) recover(names []string) (lostGroups, error) {
	lost := lostGroups{}
	var skip func(f *logFile, off int64, h recordHeader)
	if l.opts.Damaged != nil {
		skip = func(f *logFile, off int64, h recordHeader) { l.lose(lost, f, off, h) }
	}
	err := scanLog(l.fsys, l.dir, names, os.O_RDWR, scanner{
		incarnation: &l.opts.Incarnation,
		opened:      func(f *logFile) { f.filled, l.files = true, append(l.files, f) },
		skip:        skip,
		record: func(f *logFile, off int64, rec []byte) error {
			if h := parseRecordHeader(rec); lost[h.group] != nil {
				if h.kind != kindReset {
					return nil
				}
				delete(lost, h.group) // all before does not count
			}
			if err := l.apply(rec, f, off); err != nil {
				return &storage.CorruptError{File: f.name, OffsetBytes: off, Reason: err.Error()}
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if n := len(l.files); n > 0 {
		// What this process found may be in the page cache only. The files before were synced when their successors began.
		l.next = l.files[n-1].number + 1
		if mutant == mutantContinuesFile && l.files[n-1].size == l.bounds.fileBytes {
			l.active = l.files[n-1]
		}
		if mutant == mutantOpensUnsynced {
			return lost, nil
		}
		if err := l.files[n-1].file.Sync(); err != nil {
			return nil, storage.Fatal(err)
		}
		if err := l.fsys.SyncDir(l.dir); err != nil {
			return nil, storage.Fatal(err)
		}
	}
	return lost, l.lookAhead()
}

// lookAhead readies what was found for what comes.
func (l *Log) lookAhead() error {
	for g, gr := range l.groups {
		gr.ahead = ahead{hasSnapshot: gr.snapshot.file != nil, snapshotIndex: gr.snapshotIndex}
		if n := len(gr.spans); n > 0 {
			gr.ahead.next = gr.spans[n-1].last() + 1
		}
		if s := gr.hole(); s != nil {
			return &storage.CorruptError{File: s.file.name, OffsetBytes: s.off, Reason: fmt.Sprintf("the entries before %d of group %v are missing", s.first, g)}
		}
	}
	return nil
}

// scanner says what to do with what scanLog finds. Nil functions are left out.
type scanner struct {
	incarnation *uint64 // that the files must have
	opened      func(*logFile)
	record      func(f *logFile, off int64, rec []byte) error
	closed      func(f *logFile, incarnation uint64, torn bool)
	damaged     func(f *logFile, err error) error // nil from it: go on with the next file
	// skip is told of a damaged record that says whose it is, and the scan goes on behind it. nil: it is an error.
	skip func(f *logFile, off int64, h recordHeader)
}

// scanLog reads all files of a log, oldest first, and verifies them. It changes nothing. f.end and f.last are set when closed is called. The files
// stay open.
func scanLog(fsys storage.FS, dir string, names []string, flag int, s scanner) error {
	if s.damaged == nil {
		s.damaged = func(_ *logFile, err error) error { return err }
	}
	var buf []byte
	var before *scannedFile
	for _, n := range numbersOf(names, fileSuffix) {
		f := &scannedFile{logFile: &logFile{number: n, name: fileName(dir, n, fileSuffix)}}
		var err error
		if f.file, err = fsys.OpenFile(f.name, flag); err != nil {
			return err
		}
		if s.opened != nil {
			s.opened(f.logFile)
		}
		next := &f.header
		if err := f.begin(s.incarnation); err != nil {
			if err := s.damaged(f.logFile, err); err != nil {
				return err
			}
			next = nil
		} else if before != nil && n != before.number+1 {
			missing := &storage.CorruptError{File: fileName(dir, before.number+1, fileSuffix), OffsetBytes: -1, Reason: "the file is missing"}
			if err := s.damaged(f.logFile, missing); err != nil {
				return err
			}
		}
		if before != nil {
			if err := before.finish(next, s); err != nil {
				return err
			}
			buf = before.data
		}
		if before = nil; next == nil {
			continue
		}
		if err := f.load(buf); err != nil {
			return err
		}
		before = f
	}
	if before == nil {
		return nil
	}
	return before.finish(nil, s)
}

// scannedFile is a file being verified.
type scannedFile struct {
	*logFile
	header fileHeader
	data   []byte
	// skipped: the record before end is damaged, and sum is what its checksum would have to be.
	skipped bool
	sum     uint32
}

// begin reads the header.
func (f *scannedFile) begin(incarnation *uint64) error {
	var err error
	if f.size, err = f.file.Size(); err != nil {
		return err
	}
	head := make([]byte, min(f.size, recordsAt))
	if err := storage.ReadFull(f.file, head, 0); err != nil {
		return err
	}
	h, ok := parseFileHeader(head)
	switch {
	case !ok || len(head) < recordsAt:
		return &storage.CorruptError{File: f.name, OffsetBytes: 0, Reason: "the file header does not match its checksum"}
	case h.version == 0 || h.version > formatVersion:
		return &storage.VersionError{File: f.name, Found: h.version, Supported: formatVersion}
	case h.number != f.number:
		return &storage.CorruptError{File: f.name, OffsetBytes: int64(len(magic)), Reason: "the file header names another file"}
	case incarnation != nil && h.incarnation != *incarnation:
		return &IncarnationError{File: f.name, Found: h.incarnation, Want: *incarnation}
	}
	f.header, f.nonce, f.end, f.last = h, h.nonce, recordsAt, h.crc
	return nil
}

// load reads the file into buf, if that is large enough.
func (f *scannedFile) load(buf []byte) error {
	if int64(cap(buf)) < f.size {
		buf = make([]byte, f.size)
	}
	f.data = buf[:f.size]
	return storage.ReadFull(f.file, f.data, 0)
}

// finish reads the records. next is the header of the file behind, nil if this is the last one or that cannot be read.
func (f *scannedFile) finish(next *fileHeader, s scanner) error {
	torn, err := f.verify(next, s)
	if err != nil {
		if err := s.damaged(f.logFile, err); err != nil {
			return err
		}
	}
	if s.closed != nil {
		s.closed(f.logFile, f.header.incarnation, torn)
	}
	return nil
}

// verify reads the records and says whether a write was torn behind them.
func (f *scannedFile) verify(next *fileHeader, s scanner) (torn bool, err error) {
	limit := int64(len(f.data))
	if next != nil && next.number == f.number+1 {
		if next.prevEnd > limit || next.prevEnd < recordsAt {
			return false, &storage.CorruptError{File: f.name, OffsetBytes: limit, Reason: "the file is shorter than the next one says"}
		}
		limit = next.prevEnd
	}
	follows := next != nil && next.number == f.number+1
	for {
		if err := f.readGood(limit, s); err != nil {
			return false, err
		}
		if f.end >= limit || s.skip == nil || !f.skipDamaged(limit, follows, s) {
			break
		}
	}
	f.synced = f.end
	if follows {
		if (f.end != limit || !f.precedes(next.prevCRC)) && mutant != mutantEndUnread {
			return false, &storage.CorruptError{File: f.name, OffsetBytes: f.end, Reason: "the record does not match its checksum or the one before"}
		}
		return false, nil
	}
	torn, durable := f.behind()
	if durable > f.end && mutant != mutantTornIsTaken {
		return torn, &storage.CorruptError{
			File: f.name, OffsetBytes: f.end, Reason: fmt.Sprintf("the record does not match its checksum or the one before, though all before offset %d was durable", durable),
		}
	}
	return torn, nil
}

// readGood reads records up to the first that is not intact or does not follow.
func (f *scannedFile) readGood(limit int64, s scanner) error {
	for f.end < limit {
		rec := f.data[f.end:limit]
		h, ok := intact(rec, f.nonce, f.end)
		if !ok || !f.precedes(h.prev) && mutant != mutantChainUnread {
			return nil
		}
		rec = rec[:recordBytes(int64(h.bodyBytes))]
		if s.record != nil {
			if err := s.record(f.logFile, f.end, rec); err != nil {
				return err
			}
		}
		f.end, f.last, f.skipped = f.end+int64(len(rec)), h.crc, false
	}
	return nil
}

// precedes says whether prev is the checksum of the record before end. Of a damaged one either that or the rest may be.
func (f *scannedFile) precedes(prev uint32) bool {
	return prev == f.last || f.skipped && prev == f.sum
}

// skipDamaged passes over the record at end if it was durable, is damaged, and yet says whose it is. follows says that all up to limit was durable.
func (f *scannedFile) skipDamaged(limit int64, follows bool, s scanner) bool {
	rec := f.data[f.end:limit]
	durable := limit
	if !follows {
		_, durable = f.behind()
	}
	if _, ok := intact(rec, f.nonce, f.end); ok || durable <= f.end || f.header.version < versionNamed || !outlined(rec) {
		return false // a record that is intact and does not follow hides what was between
	}
	h := parseRecordHeader(rec)
	n := recordBytes(int64(h.bodyBytes))
	if f.end+n > durable {
		return false
	}
	s.skip(f.logFile, f.end, h)
	f.skipped, f.last, f.sum = true, h.crc, frame.Sum(frame.Seed(f.nonce, f.end), rec[4:recordHeaderBytes+int(h.bodyBytes)])
	f.end += n
	return true
}

// behind looks at what follows the last good record: whether there is something of this life of the file, and up to where such records say that all was durable.
func (f *scannedFile) behind() (torn bool, durable int64) {
	for at := f.end; at+recordHeaderBytes <= int64(len(f.data)); at += alignBytes {
		if h := parseRecordHeader(f.data[at:]); h.nonce != f.nonce {
			continue
		}
		torn = true
		if h, ok := intact(f.data[at:], f.nonce, at); ok {
			durable = max(durable, h.synced)
		}
	}
	return torn, durable
}
