package quorumtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/lni/vfs"

	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

// raftDisk is a node's disk as the Raft library wants it for its own files: the same disk as everything else's, so that one loss of power takes from both.
type raftDisk struct{ m *storagetest.Mem }

var _ vfs.FS = raftDisk{}

// forLibrary is the disk in the only wrapping in which the library takes a file system that is not its own: one that injects errors, none here.
func (d raftDisk) forLibrary() vfs.FS { return vfs.Wrap(quorum.LibraryFS(d), noErrors{}) }

type noErrors struct{}

// MaybeError implements vfs.Injector.
func (noErrors) MaybeError(vfs.Op) error { return nil }

// Create implements vfs.FS.
func (d raftDisk) Create(name string) (vfs.File, error) {
	f, err := d.m.Create(name)
	return d.file(name, f, 0, err)
}

// file makes a vfs.File of a storage.File.
func (d raftDisk) file(name string, f storage.File, cursor int64, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &raftFile{d: d, name: name, f: f, cursor: cursor}, nil
}

// Link implements vfs.FS. Nothing that Warren uses of the library links files.
func (d raftDisk) Link(_, newname string) error {
	return &fs.PathError{Op: "link", Path: newname, Err: errors.ErrUnsupported}
}

// Open implements vfs.FS.
func (d raftDisk) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	if info, err := d.m.Stat(name); err == nil && info.IsDir {
		return d.OpenDir(name)
	}
	f, err := d.m.Open(name)
	return d.file(name, f, 0, err)
}

// OpenDir implements vfs.FS.
func (d raftDisk) OpenDir(name string) (vfs.File, error) {
	if _, err := d.m.List(name); err != nil {
		return nil, err
	}
	return &raftFile{d: d, name: name}, nil
}

// OpenForAppend implements vfs.FS.
func (d raftDisk) OpenForAppend(name string) (vfs.File, error) {
	f, err := d.m.OpenFile(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	return d.file(name, f, size, err)
}

// Remove implements vfs.FS.
func (d raftDisk) Remove(name string) error { return d.m.Remove(name) }

// RemoveAll implements vfs.FS.
func (d raftDisk) RemoveAll(name string) error {
	info, err := d.m.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir {
		var names []string
		if names, err = d.m.List(name); err != nil {
			return err
		}
		for _, base := range names {
			if err := d.RemoveAll(path.Join(name, base)); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	return d.m.Remove(name)
}

// Rename implements vfs.FS.
func (d raftDisk) Rename(oldname, newname string) error { return d.m.Rename(oldname, newname) }

// ReuseForWrite implements vfs.FS.
func (d raftDisk) ReuseForWrite(oldname, newname string) (vfs.File, error) {
	if err := d.m.Rename(oldname, newname); err != nil {
		return nil, err
	}
	f, err := d.m.OpenFile(newname, os.O_RDWR)
	return d.file(newname, f, 0, err)
}

// MkdirAll implements vfs.FS.
func (d raftDisk) MkdirAll(dir string, _ os.FileMode) error { return d.m.MkdirAll(dir) }

// Lock implements vfs.FS.
func (d raftDisk) Lock(name string) (io.Closer, error) { return d.m.Lock(name) }

// List implements vfs.FS.
func (d raftDisk) List(dir string) ([]string, error) { return d.m.List(dir) }

// Stat implements vfs.FS.
func (d raftDisk) Stat(name string) (os.FileInfo, error) {
	info, err := d.m.Stat(name)
	return raftFileInfo{path.Base(name), info}, err
}

// PathBase implements vfs.FS.
func (raftDisk) PathBase(p string) string { return path.Base(p) }

// PathJoin implements vfs.FS.
func (raftDisk) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (raftDisk) PathDir(p string) string { return path.Dir(p) }

// diskBytes is the size that the disk says it has.
const diskBytes = 1 << 40

// GetDiskUsage implements vfs.FS.
func (raftDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: diskBytes, TotalBytes: diskBytes}, nil
}

// syncsForgotten is a planted bug: the Raft log is not synced. It is false but in TestPlantedBugsAreFound.
var syncsForgotten = false

// forgetful is a disk on which the files of the Raft log are not synced.
type forgetful struct{ storage.FS }

// forQuorum is the disk for the Raft log and for what queues keep.
func forQuorum(m *storagetest.Mem) storage.FS {
	if syncsForgotten {
		return forgetful{m}
	}
	return m
}

func (d forgetful) OpenFile(name string, flag int) (storage.File, error) {
	f, err := d.FS.OpenFile(name, flag)
	return forget(name, f), err
}

func (d forgetful) Create(name string) (storage.File, error) {
	f, err := d.FS.Create(name)
	return forget(name, f), err
}

func forget(name string, f storage.File) storage.File {
	if f == nil || path.Base(path.Dir(name)) != "wal" {
		return f
	}
	return unsynced{f}
}

type unsynced struct{ storage.File }

func (unsynced) Sync() error { return nil }

// raftFile is an open file, or with a nil f an open directory.
type raftFile struct {
	d      raftDisk
	name   string
	f      storage.File
	cursor int64
}

var _ vfs.File = (*raftFile)(nil)

// Read implements io.Reader.
func (r *raftFile) Read(p []byte) (int, error) {
	n, err := r.f.ReadAt(p, r.cursor)
	r.cursor += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (r *raftFile) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAt(p, off) }

// Write implements io.Writer.
func (r *raftFile) Write(p []byte) (int, error) {
	n, err := r.f.WriteAt(p, r.cursor)
	r.cursor += int64(n)
	return n, err
}

// WriteAt implements io.WriterAt.
func (r *raftFile) WriteAt(p []byte, off int64) (int, error) { return r.f.WriteAt(p, off) }

// Seek implements io.Seeker.
func (r *raftFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.cursor
	case io.SeekEnd:
		size, err := r.f.Size()
		if err != nil {
			return 0, err
		}
		offset += size
	}
	r.cursor = offset
	return offset, nil
}

// Stat implements vfs.File.
func (r *raftFile) Stat() (os.FileInfo, error) {
	if r.f == nil {
		return r.d.Stat(r.name)
	}
	size, err := r.f.Size()
	return raftFileInfo{path.Base(r.name), storage.Info{SizeBytes: size}}, err
}

// Sync implements vfs.File.
func (r *raftFile) Sync() error {
	if r.f == nil {
		return r.d.m.SyncDir(r.name)
	}
	return r.f.Sync()
}

// Close implements io.Closer.
func (r *raftFile) Close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

// raftFileInfo describes a file.
type raftFileInfo struct {
	name string
	info storage.Info
}

// Name implements fs.FileInfo.
func (i raftFileInfo) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i raftFileInfo) Size() int64 { return i.info.SizeBytes }

// Mode implements fs.FileInfo.
func (i raftFileInfo) Mode() fs.FileMode {
	if i.info.IsDir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// ModTime implements fs.FileInfo.
func (raftFileInfo) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i raftFileInfo) IsDir() bool { return i.info.IsDir }

// Sys implements fs.FileInfo.
func (raftFileInfo) Sys() any { return nil }
