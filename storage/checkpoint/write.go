package checkpoint

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

const (
	// CommandBytesMax bounds one tail entry: a batch that holds the largest message, its envelope and other commands.
	CommandBytesMax = 192 << 20
	// tempName is the file that a checkpoint is written to before it gets its name. Only one is written at a time.
	tempName = "checkpoint" + storage.TempSuffix
)

var (
	// ErrNotNewer says that a checkpoint does not reach as far as what is durable in the folder already.
	ErrNotNewer = errors.New("checkpoint: a newer checkpoint is durable")
	// ErrOrder says that an entry's index is not above the one before it.
	ErrOrder = errors.New("checkpoint: entries must rise by index")
	// ErrTooLarge says that a command is longer than CommandBytesMax.
	ErrTooLarge = errors.New("checkpoint: the command is too large")
	// ErrClosed says that the tail was closed.
	ErrClosed = errors.New("checkpoint: the tail is closed")
)

// Checkpoint is a machine's state at an entry boundary.
type Checkpoint struct {
	// ShardID is the Raft group that the machine belongs to.
	ShardID uint64
	// Index is the log index of the last entry applied to the state.
	Index uint64
	// Snapshot is the state; its meaning is the machine's.
	Snapshot []byte
}

// Entry is one applied entry of the Raft log.
type Entry struct {
	// Index is the entry's log index.
	Index uint64
	// Command is the entry's payload.
	Command []byte
}

// Write makes cp, followed by the entries applied since its cut, the checkpoint of the folder, and returns its tail. The folder is created if it is
// missing. When Write returns nil all of it is durable and older checkpoints are gone; the tail of an older one must not be used again but closed.
//
// A cut taken in the background may be behind what an older tail made durable meanwhile: then the entries since the cut must be given, or Write
// refuses with ErrNotNewer. An error that is storage.ErrFatal leaves open which checkpoint a new process finds: stop. After any other error (a full
// disk) the older checkpoint and its tail are as before.
func Write(fsys storage.FS, dir string, cp Checkpoint, entries ...Entry) (*Tail, error) {
	first, err := allowed(fsys, dir, cp, entries)
	if err != nil {
		return nil, err
	}
	if first {
		if err := storage.EnsureDir(fsys, dir); err != nil {
			return nil, err
		}
	}
	name := filepath.Join(dir, baseName(cp.Index))
	temp := filepath.Join(dir, tempName)
	t, err := writeTemp(fsys, temp, cp, entries)
	if err != nil {
		return nil, err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return nil, errors.Join(err, t.file.Close(), fsys.Remove(temp))
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, errors.Join(storage.Fatal(err), t.file.Close())
	}
	t.fsys, t.dir, t.name = fsys, dir, name
	removeOlder(fsys, dir, cp.Index)
	return t, nil
}

// allowed checks the arguments of Write against each other and against the folder, and says whether the folder has no checkpoint yet.
func allowed(fsys storage.FS, dir string, cp Checkpoint, entries []Entry) (first bool, err error) {
	last := cp.Index
	for _, e := range entries {
		if e.Index <= last {
			return false, ErrOrder
		}
		if len(e.Command) > CommandBytesMax {
			return false, ErrTooLarge
		}
		last = e.Index
	}
	old, ok, err := ReadHeader(fsys, dir)
	if err != nil || !ok {
		return true, err
	}
	if cp.Index <= old.Index || last < old.SyncedIndex {
		return false, fmt.Errorf("%w: %s reaches index %d, the new one %d", ErrNotNewer, filepath.Join(dir, baseName(old.Index)), old.SyncedIndex, last)
	}
	return false, nil
}

// writeTemp writes and syncs the whole file under its temporary name. On failure the file is gone, as far as possible.
func writeTemp(fsys storage.FS, temp string, cp Checkpoint, entries []Entry) (*Tail, error) {
	h := Header{ShardID: cp.ShardID, Index: cp.Index, SnapshotBytes: int64(len(cp.Snapshot)), snapshotCRC: frame.Sum(0, cp.Snapshot), salt: newSalt()}
	h.mark = frame.Mark{SyncedBytes: int64(headerBytes + len(cp.Snapshot)), Last: cp.Index}
	for _, e := range entries {
		h.mark.SyncedBytes += int64(frame.OverheadBytes + len(e.Command))
		h.mark.Last = e.Index
	}
	file, err := fsys.Create(temp)
	if err != nil {
		return nil, err
	}
	start := int64(headerBytes + len(cp.Snapshot))
	t := &Tail{file: file, salt: h.salt, last: cp.Index, synced: cp.Index, end: start, flushed: start, nextMark: 1}
	err = t.fill(&h, cp.Snapshot, entries)
	if err != nil {
		return nil, errors.Join(err, file.Close(), fsys.Remove(temp))
	}
	if err := file.Sync(); err != nil {
		return nil, errors.Join(storage.Fatal(err), file.Close())
	}
	t.dirty, t.synced = false, t.last
	t.dropBuffer()
	return t, nil
}

func (t *Tail) fill(h *Header, snapshot []byte, entries []Entry) error {
	if _, err := t.file.WriteAt(h.append(nil), 0); err != nil {
		return err
	}
	if _, err := t.file.WriteAt(snapshot, int64(headerBytes)); err != nil {
		return err
	}
	for _, e := range entries {
		if err := t.Append(e.Index, e.Command); err != nil {
			return err
		}
	}
	return t.flush()
}

// removeOlder deletes the checkpoints before index. One that stays is ignored by Load and deleted by the next Write, so failures are no error.
func removeOlder(fsys storage.FS, dir string, index uint64) {
	found, err := list(fsys, dir)
	if err != nil {
		return
	}
	for _, i := range found {
		if i < index {
			_ = fsys.Remove(filepath.Join(dir, baseName(i)))
		}
	}
}

// newSalt draws the salt of a new file.
func newSalt() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: the runtime ends the process instead
	return binary.BigEndian.Uint64(b[:])
}
