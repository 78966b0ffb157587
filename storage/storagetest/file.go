package storagetest

import (
	"errors"
	"io"
	"io/fs"

	"github.com/warrenmq/warren/storage"
)

// ErrCrashed is returned by handles from before a crash.
var ErrCrashed = errors.New("storagetest: the machine crashed")

// file is an open file.
type file struct {
	m          *Mem
	n          *node
	name       string
	generation int
	writable   bool
	closed     bool
	cursor     int64
}

var _ storage.File = (*file)(nil)

// usable says why the handle cannot be used; m.mu is held.
func (f *file) usable() error {
	switch {
	case f.generation != f.m.generation:
		return ErrCrashed
	case f.closed:
		return fs.ErrClosed
	}
	return nil
}

func (n *node) change(c change) {
	n.data = c.apply(n.data)
	n.changes = append(n.changes, c)
}

// apply returns data with the change made, possibly in place.
func (c change) apply(data []byte) []byte {
	end := c.offset + int64(len(c.data))
	if grow := end - int64(len(data)); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	if c.truncate {
		clear(data[c.offset:])
		return data[:c.offset]
	}
	copy(data[c.offset:], c.data)
	return data
}

// ReadAt reads what was written, synced or not.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.m.begin(Op{Kind: OpRead, Name: f.name, Offset: off, Bytes: len(p)}); err != nil {
		return 0, pathError("read", f.name, err)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, pathError("read", f.name, err)
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes; the bytes are durable after Sync.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	faultErr := f.m.begin(Op{Kind: OpWrite, Name: f.name, Offset: off, Bytes: len(p)})
	n := len(p)
	if faultErr != nil {
		n = 0
		var torn *TornWrite
		if errors.As(faultErr, &torn) {
			n = min(torn.Bytes, len(p))
		}
		faultErr = pathError("write", f.name, faultErr)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, pathError("write", f.name, err)
	}
	if !f.writable {
		return 0, pathError("write", f.name, fs.ErrPermission)
	}
	if n > 0 {
		f.n.change(change{offset: off, data: append([]byte(nil), p[:n]...)})
	}
	return n, faultErr
}

// Write writes at the cursor.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.cursor)
	f.cursor += int64(n)
	return n, err
}

// Sync makes the file's bytes durable, not its name.
func (f *file) Sync() error {
	if err := f.m.begin(Op{Kind: OpSync, Name: f.name}); err != nil {
		return pathError("sync", f.name, err)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return pathError("sync", f.name, err)
	}
	for _, c := range f.n.changes {
		f.n.synced = c.apply(f.n.synced)
	}
	f.n.changes = nil
	return nil
}

// Truncate sets the size.
func (f *file) Truncate(size int64) error {
	if err := f.m.begin(Op{Kind: OpTruncate, Name: f.name, Offset: size}); err != nil {
		return pathError("truncate", f.name, err)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return pathError("truncate", f.name, err)
	}
	if !f.writable {
		return pathError("truncate", f.name, fs.ErrPermission)
	}
	f.n.change(change{offset: size, truncate: true})
	return nil
}

// Size returns the present size.
func (f *file) Size() (int64, error) {
	if err := f.m.begin(Op{Kind: OpStat, Name: f.name}); err != nil {
		return 0, pathError("stat", f.name, err)
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, pathError("stat", f.name, err)
	}
	return int64(len(f.n.data)), nil
}

// Close ends the use of the handle. A second Close is an error, as with os.File.
func (f *file) Close() error {
	faultErr := f.m.begin(Op{Kind: OpClose, Name: f.name})
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable(); err != nil {
		return pathError("close", f.name, err)
	}
	f.closed = true
	if faultErr != nil {
		return pathError("close", f.name, faultErr)
	}
	return nil
}
