package checkpoint

import (
	"fmt"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// tailBufferBytes is how much of appended entries is collected before it is written; longer ones are written by themselves.
const tailBufferBytes = frame.BufferBytes

// Tail appends the entries that are applied after a checkpoint to its file. It belongs to one goroutine at a time.
type Tail struct {
	fsys storage.FS
	dir  string
	name string
	file storage.File
	salt uint64

	last     uint64 // index of the last entry, or of the snapshot
	synced   uint64 // up to which index all is durable
	end      int64  // where the next entry goes
	flushed  int64  // the file is written up to here; buf follows
	buf      []byte // at most tailBufferBytes, pooled; nil while there is nothing to write
	nextMark int    // which of the two marks to overwrite
	dirty    bool   // something was written that is not synced
	dirDirty bool   // the file's name may not be durable
	cut      bool   // garbage of a crash follows flushed
	failed   error  // a sync failed: nothing is written any more
	closed   bool
}

// Append adds an applied entry, whose index is above all before. It is durable after Sync. command is not kept. When an error is returned nothing
// was added, and the call may be repeated unless the error is storage.ErrFatal.
func (t *Tail) Append(index uint64, command []byte) error {
	switch {
	case t.closed:
		return ErrClosed
	case t.failed != nil:
		return t.failed
	case index <= t.last:
		return ErrOrder
	case len(command) > CommandBytesMax:
		return ErrTooLarge
	}
	if err := t.cutGarbage(); err != nil {
		return err
	}
	total := frame.OverheadBytes + len(command)
	seed := frame.Seed(t.salt, t.end)
	if len(t.buf)+total > tailBufferBytes {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if total > tailBufferBytes {
		if err := t.writeDirect(frame.AppendHeader(nil, seed, index, command), command); err != nil {
			return err
		}
	} else {
		if t.buf == nil {
			t.buf = frame.GetBuffer()[:0]
		}
		t.buf = frame.Append(t.buf, seed, index, command)
	}
	t.end += int64(total)
	t.last = index
	t.dirty = true
	return nil
}

// writeDirect writes an entry that is too long for the buffer, which is empty. What a failed one leaves lies behind the last sync and is overwritten.
func (t *Tail) writeDirect(header, command []byte) error {
	t.dirty = true
	if _, err := t.file.WriteAt(header, t.end); err != nil {
		return err
	}
	if _, err := t.file.WriteAt(command, t.end+int64(len(header))); err != nil {
		return err
	}
	t.flushed = t.end + int64(len(header)+len(command))
	return nil
}

// flush writes the buffer. A repeated call after a failure writes the same bytes to the same place.
func (t *Tail) flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	t.dirty = true
	if _, err := t.file.WriteAt(t.buf, t.flushed); err != nil {
		return err
	}
	t.flushed += int64(len(t.buf))
	t.buf = t.buf[:0]
	return nil
}

// dropBuffer gives the buffer back: an idle tail holds none.
func (t *Tail) dropBuffer() {
	frame.PutBuffer(t.buf)
	t.buf = nil
}

// cutGarbage takes off what a crash left behind the last entry. The cut is synced before anything is written there, so that no old
// entry can come back behind a new one.
func (t *Tail) cutGarbage() error {
	if !t.cut {
		return nil
	}
	if err := t.file.Truncate(t.flushed); err != nil {
		return err
	}
	if err := t.file.Sync(); err != nil {
		return t.fail(err)
	}
	t.cut = false
	return nil
}

// Sync makes everything that was appended before it durable. Without anything new it does nothing. An error that is storage.ErrFatal is final.
func (t *Tail) Sync() error {
	switch {
	case t.closed:
		return ErrClosed
	case t.failed != nil:
		return t.failed
	case !t.dirty:
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	t.dropBuffer()
	if err := t.file.Sync(); err != nil {
		return t.fail(err)
	}
	if t.dirDirty {
		if err := t.fsys.SyncDir(t.dir); err != nil {
			return t.fail(err)
		}
	}
	t.dirty, t.dirDirty, t.synced = false, false, t.last
	// The entries are durable. The mark only sharpens what recovery can tell, so a failure to write it is not one of Sync.
	mark := frame.Mark{SyncedBytes: t.end, Last: t.last}
	if _, err := t.file.WriteAt(mark.Append(nil), int64(marksAt+t.nextMark*frame.MarkBytes)); err == nil {
		t.nextMark = 1 - t.nextMark
	}
	return nil
}

// fail makes a failed sync final.
func (t *Tail) fail(err error) error {
	t.failed = storage.Fatal(fmt.Errorf("checkpoint %s: %w", t.name, err))
	return t.failed
}

// LastIndex returns the index of the last entry appended, of the snapshot if there is none.
func (t *Tail) LastIndex() uint64 { return t.last }

// SyncedIndex returns the index up to which snapshot and tail are durable for certain.
func (t *Tail) SyncedIndex() uint64 { return t.synced }

// FileBytes returns the length of the file, snapshot and tail, with what is not written yet. It tells when a new checkpoint is worth its cost.
func (t *Tail) FileBytes() int64 { return t.end }

// Close closes the file. It does not sync: entries appended since the last Sync may be lost.
func (t *Tail) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	t.dropBuffer()
	return t.file.Close()
}
