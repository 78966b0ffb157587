package wal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"os"

	"github.com/warrenmq/warren/storage"
)

// Open reads the log in a directory and makes durable what it finds. The torn end that a crash may leave is left out; damage of what was durable is a
// *storage.CorruptError, a file of a newer Warren a *storage.VersionError, one of another storage an *IncarnationError. Then no file was changed.
func Open(o Options) (*Log, error) { return open(o, boundsOf(o)) }

func open(o Options, b bounds) (*Log, error) {
	l := &Log{
		fsys: o.FS, dir: o.Dir, opts: o, bounds: b, groups: map[Group]*group{}, batch: &batch{}, next: 1,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), tail: tail{chunkBytes: b.chunkBytes, bytesMax: b.tailBytes},
	}
	if err := storage.EnsureDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := l.recover(names); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	if err := l.findSpares(names); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
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

// recover builds the index from the files, oldest first.
func (l *Log) recover(names []string) error {
	err := scanLog(l.fsys, l.dir, names, os.O_RDWR, scanner{
		incarnation: &l.opts.Incarnation,
		opened:      func(f *logFile) { l.files = append(l.files, f) },
		record: func(f *logFile, off int64, rec []byte) error {
			if err := l.apply(rec, f, off); err != nil {
				return &storage.CorruptError{File: f.name, OffsetBytes: off, Reason: err.Error()}
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	if n := len(l.files); n > 0 {
		// What this process found may be in the page cache only. The files before were synced when their successors began.
		l.next = l.files[n-1].number + 1
		if err := l.files[n-1].file.Sync(); err != nil {
			return storage.Fatal(err)
		}
		if err := l.fsys.SyncDir(l.dir); err != nil {
			return storage.Fatal(err)
		}
	}
	for g, gr := range l.groups {
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
	closed      func(f *logFile, torn bool)
}

// scanLog reads all files of a log, oldest first, and verifies them. It changes nothing. f.end and f.last are set when closed is called. The files
// stay open.
func scanLog(fsys storage.FS, dir string, names []string, flag int, s scanner) error {
	numbers := numbersOf(names, fileSuffix)
	var buf []byte
	var before *scannedFile
	for i, n := range numbers {
		if i > 0 && n != numbers[i-1]+1 {
			return &storage.CorruptError{File: fileName(dir, numbers[i-1]+1, fileSuffix), OffsetBytes: -1, Reason: "the file is missing"}
		}
		f := &logFile{number: n, name: fileName(dir, n, fileSuffix)}
		var err error
		if f.file, err = fsys.OpenFile(f.name, flag); err != nil {
			return err
		}
		if s.opened != nil {
			s.opened(f)
		}
		if buf, err = readWhole(f, buf); err != nil {
			return err
		}
		sf := &scannedFile{logFile: f}
		if err := sf.begin(buf, s.incarnation); err != nil {
			return err
		}
		if before != nil {
			if err := before.finish(&sf.header, s); err != nil {
				return err
			}
		}
		sf.data, before = buf, sf
		if i < len(numbers)-1 {
			buf = nil
		}
	}
	if before == nil {
		return nil
	}
	return before.finish(nil, s)
}

// readWhole reads a file into buf, if that is large enough.
func readWhole(f *logFile, buf []byte) ([]byte, error) {
	size, err := f.file.Size()
	if err != nil {
		return nil, err
	}
	f.size = size
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	return buf, storage.ReadFull(f.file, buf, 0)
}

// scannedFile is a file being verified.
type scannedFile struct {
	*logFile
	header fileHeader
	data   []byte
}

// begin reads the header.
func (f *scannedFile) begin(data []byte, incarnation *uint64) error {
	h, ok := parseFileHeader(data)
	switch {
	case !ok || len(data) < recordsAt:
		return &storage.CorruptError{File: f.name, OffsetBytes: 0, Reason: "the file header does not match its checksum"}
	case h.version != formatVersion:
		return &storage.VersionError{File: f.name, Found: h.version, Supported: formatVersion}
	case h.number != f.number:
		return &storage.CorruptError{File: f.name, OffsetBytes: int64(len(magic)), Reason: "the file header names another file"}
	case incarnation != nil && h.incarnation != *incarnation:
		return &IncarnationError{File: f.name, Found: h.incarnation, Want: *incarnation}
	}
	f.header, f.nonce, f.end, f.last = h, h.nonce, recordsAt, h.crc
	return nil
}

// finish reads the records. next is the header of the file behind, nil if this is the last one.
func (f *scannedFile) finish(next *fileHeader, s scanner) error {
	limit := int64(len(f.data))
	if next != nil {
		if next.prevEnd > limit || next.prevEnd < recordsAt {
			return &storage.CorruptError{File: f.name, OffsetBytes: limit, Reason: "the file is shorter than the next one says"}
		}
		limit = next.prevEnd
	}
	for f.end < limit {
		rec := f.data[f.end:limit]
		h, ok := intact(rec, f.nonce, f.end)
		if !ok || h.prev != f.last {
			break
		}
		rec = rec[:recordBytes(int64(h.bodyBytes))]
		if s.record != nil {
			if err := s.record(f.logFile, f.end, rec); err != nil {
				return err
			}
		}
		f.end, f.last = f.end+int64(len(rec)), h.crc
	}
	f.synced = f.end
	torn := false
	if next != nil {
		if f.end != limit || f.last != next.prevCRC {
			return &storage.CorruptError{File: f.name, OffsetBytes: f.end, Reason: "the record does not match its checksum or the one before"}
		}
	} else {
		var durable int64
		if torn, durable = f.behind(); durable > f.end {
			return &storage.CorruptError{File: f.name, OffsetBytes: f.end, Reason: fmt.Sprintf("the record does not match its checksum or the one before, though all before offset %d was durable", durable)}
		}
	}
	if s.closed != nil {
		s.closed(f.logFile, torn)
	}
	f.data = nil
	return nil
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
