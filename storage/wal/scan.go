package wal

import (
	"errors"
	"os"

	"github.com/warrenmq/warren/storage"
)

// Record is a record of a log, for people who look into it.
type Record struct {
	// File is the path of its file, OffsetBytes its place there, Bytes its length.
	File               string
	OffsetBytes, Bytes int64
	// Kind is marker, update, copy, reset or truncate.
	Kind string
	// Group is whom it is about, zero for a marker.
	Group Group
	// SyncedBytes is up to where the file was known to be durable when the record was written.
	SyncedBytes int64
	// BootstrapBytes, StateBytes and SnapshotBytes are the lengths of what it has of those, -1 if it has none.
	BootstrapBytes, StateBytes, SnapshotBytes int
	// SnapshotIndex is the index of the snapshot, Restored says that it takes the place of all entries before.
	SnapshotIndex uint64
	Restored      bool
	// First and Last are the indices of its entries, EntriesBytes their length; First is 0 if it has none. Apart says that entries before them are gone.
	First, Last  uint64
	EntriesBytes int
	Apart        bool
	// Index is up to where a truncate record removes entries.
	Index uint64
}

// File is a file of a log, as Scan found it.
type File struct {
	// Name is the path.
	Name string
	// Incarnation is that of the storage, 0 if the header cannot be read.
	Incarnation uint64
	// SizeBytes is the file's length, EndBytes where its last good record ends, Records how many good ones it has.
	SizeBytes, EndBytes int64
	Records             int
	// Torn says that a write was cut off behind the end, which is no damage: nobody was told of it.
	Torn bool
	// Err is what is wrong with the file, nil if nothing is. Records behind damage are not looked at.
	Err error
}

var kindNames = map[byte]string{kindMarker: "marker", kindUpdate: "update", kindCopy: "copy", kindReset: "reset", kindTruncate: "truncate"}

// Scan verifies every file of the log in a directory, calls visit (unless it is nil) for each good record in the order of the log, and changes nothing. The
// log may be of any incarnation; it must not be in use. The error says that the directory cannot be read, or is visit's.
func Scan(fsys storage.FS, dir string, visit func(Record) error) ([]File, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var files []File
	var open []*logFile
	at := map[*logFile]int{}
	var failed error
	err = scanLog(fsys, dir, names, os.O_RDONLY, scanner{
		opened: func(f *logFile) {
			at[f] = len(files)
			files, open = append(files, File{Name: f.name}), append(open, f)
		},
		record: func(f *logFile, off int64, rec []byte) error {
			var c content
			if err := parseContent(rec, &c); err != nil {
				return &storage.CorruptError{File: f.name, OffsetBytes: off, Reason: err.Error()}
			}
			files[at[f]].Records++
			if visit != nil && failed == nil {
				failed = visit(describe(f, off, rec, &c))
			}
			return failed
		},
		closed: func(f *logFile, incarnation uint64, torn bool) {
			r := &files[at[f]]
			r.Incarnation, r.Torn = incarnation, torn
		},
		damaged: func(f *logFile, err error) error {
			if failed != nil {
				return failed
			}
			r := &files[at[f]]
			r.Err = errors.Join(r.Err, err)
			return nil
		},
	})
	for i, f := range open {
		files[i].SizeBytes, files[i].EndBytes = f.size, f.end
		_ = f.file.Close() // it was only read
	}
	return files, err
}

func describe(f *logFile, off int64, rec []byte, c *content) Record {
	h := parseRecordHeader(rec)
	r := Record{
		File: f.name, OffsetBytes: off, Bytes: int64(len(rec)), Kind: kindNames[c.kind], Group: c.group, SyncedBytes: h.synced,
		BootstrapBytes: -1, StateBytes: -1, SnapshotBytes: -1, SnapshotIndex: c.snapshotIndex, First: c.first, EntriesBytes: len(c.entries), Index: c.index,
		Restored: c.flags&flagRestored != 0, Apart: c.flags&flagApart != 0,
	}
	if c.flags&flagBootstrap != 0 {
		r.BootstrapBytes = len(c.bootstrap)
	}
	if c.flags&flagState != 0 {
		r.StateBytes = len(c.state)
	}
	if c.flags&flagSnapshot != 0 {
		r.SnapshotBytes = len(c.snapshot)
	}
	if c.count > 0 {
		r.Last = c.first + uint64(c.count) - 1
	}
	return r
}
