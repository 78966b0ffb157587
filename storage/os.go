package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// OS is the file system of the operating system. It implements FS and Locker.
var OS osFS

type osFS struct{}

type osFile struct{ *os.File }

var (
	_ FS     = OS
	_ Locker = OS
)

const (
	filePerm = 0o600
	dirPerm  = 0o700
)

// OpenFile opens a file as os.OpenFile does.
func (osFS) OpenFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Create opens an empty file for reading and writing.
func (o osFS) Create(name string) (File, error) {
	return o.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open opens a file for reading.
func (o osFS) Open(name string) (File, error) { return o.OpenFile(name, os.O_RDONLY) }

// Rename moves a file within its file system in one step.
func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove deletes a file or an empty directory.
func (osFS) Remove(name string) error { return os.Remove(name) }

// MkdirAll makes the missing directories of a path.
func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirPerm) }

// List returns the sorted names in a directory.
func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Stat describes what a name stands for, behind symbolic links.
func (osFS) Stat(name string) (Info, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{SizeBytes: fi.Size(), IsDir: fi.IsDir()}, nil
}

// SyncDir syncs the directory itself.
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock takes an flock on the file. It ends when the process does, however that ends.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		pid := readPID(f)
		f.Close()
		if errors.Is(err, fs.ErrExist) {
			return nil, &LockedError{File: name, PID: pid}
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if err := writePID(f, os.Getpid()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Sync makes bytes and size durable.
func (f osFile) Sync() error { return syncData(f.File) }

// Size asks the operating system.
func (f osFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}
