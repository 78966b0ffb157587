package checkpoint

import (
	"errors"
	"os"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// Recovered is what Load found.
type Recovered struct {
	// Checkpoint is the newest one.
	Checkpoint
	// Entries are the entries of its tail, rising by index. They and the snapshot share memory.
	Entries []Entry
	// Tail continues the file. What was found may be in the operating system's memory only: SyncedIndex tells what is durable, Tail.Sync the rest.
	Tail *Tail
}

// Load reads the newest checkpoint in dir and its tail; ok is false if there is none. It changes no file. The torn end of a tail that was not synced
// is left out; any other damage is a *storage.CorruptError, also if an older checkpoint is still there.
func Load(fsys storage.FS, dir string) (r Recovered, ok bool, err error) {
	name, ok, err := newest(fsys, dir)
	if err != nil || !ok {
		return Recovered{}, false, err
	}
	f, err := fsys.OpenFile(name, os.O_RDWR)
	if err != nil {
		return Recovered{}, false, err
	}
	r, err = load(name, f)
	if err != nil {
		return Recovered{}, false, errors.Join(err, f.Close())
	}
	r.Tail.fsys, r.Tail.dir, r.Tail.name = fsys, dir, name
	return r, true, nil
}

func load(name string, f storage.File) (Recovered, error) {
	size, err := f.Size()
	if err != nil {
		return Recovered{}, err
	}
	src := make([]byte, size)
	if err := storage.ReadFull(f, src, 0); err != nil {
		return Recovered{}, err
	}
	h, err := parseHeader(name, src[:min(size, int64(headerBytes))], size)
	if err != nil {
		return Recovered{}, err
	}
	start := int64(headerBytes) + h.SnapshotBytes
	snapshot := src[headerBytes:start:start]
	if frame.Sum(0, snapshot) != h.snapshotCRC {
		return Recovered{}, &storage.CorruptError{File: name, OffsetBytes: int64(headerBytes), Reason: "the snapshot does not match its checksum"}
	}
	entries, end, err := parseEntries(name, src, start, &h)
	if err != nil {
		return Recovered{}, err
	}
	if end < h.mark.SyncedBytes {
		return Recovered{}, &storage.CorruptError{File: name, OffsetBytes: end, Reason: "the entry does not match its checksum"}
	}
	last := h.Index
	if n := len(entries); n > 0 {
		last = entries[n-1].Index
	}
	return Recovered{
		Checkpoint: Checkpoint{ShardID: h.ShardID, Index: h.Index, Snapshot: snapshot},
		Entries:    entries,
		Tail: &Tail{
			file: f, salt: h.salt, last: last, synced: min(h.SyncedIndex, last), end: end, flushed: end, nextMark: h.nextMark,
			dirty: true, dirDirty: true, cut: end < size,
		},
	}, nil
}

// parseEntries reads the records of src from start up to the first one that is not intact, and returns where it stopped.
func parseEntries(name string, src []byte, start int64, h *Header) (entries []Entry, end int64, err error) {
	at, size, last := start, int64(len(src)), h.Index
	for size-at >= frame.OverheadBytes {
		rec := frame.ParseHeader(src[at:])
		next := at + frame.OverheadBytes + int64(rec.BodyBytes)
		if next > size || !frame.Valid(src[at:next], frame.Seed(h.salt, at)) {
			break
		}
		if rec.Key <= last {
			return nil, at, &storage.CorruptError{File: name, OffsetBytes: at, Reason: "the entry's index does not rise"}
		}
		last = rec.Key
		entries = append(entries, Entry{Index: rec.Key, Command: src[at+frame.OverheadBytes : next : next]})
		at = next
	}
	return entries, at, nil
}
