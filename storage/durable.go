package storage

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
)

// EnsureDir makes dir exist durably. Directories are created and synced one after the other from the top, so a crash leaves at most the deepest
// existing one unsynced: its name is synced again here, unless its parent may not be read (then an operator made it).
func EnsureDir(fsys FS, dir string) error {
	missing := []string{}
	at := filepath.Clean(dir)
	for {
		info, err := fsys.Stat(at)
		if err == nil && !info.IsDir {
			return &fs.PathError{Op: "mkdir", Path: at, Err: errors.New("it is not a directory")}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			return err
		}
		missing = append(missing, at)
		at = filepath.Dir(at)
	}
	if err := fsys.SyncDir(filepath.Dir(at)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return Fatal(err)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := fsys.MkdirAll(missing[i]); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(missing[i])); err != nil {
			return Fatal(err)
		}
	}
	return nil
}

// TempSuffix ends the names of files that are being written by WriteFile. One that is found belongs to an interrupted write and means nothing.
const TempSuffix = ".tmp"

// WriteFile replaces the file name by data in one durable step: after a crash the file holds either the old bytes or the new ones. An error that is
// ErrFatal leaves open which; after any other the old ones are in place.
func WriteFile(fsys FS, name string, data []byte) error {
	temp := name + TempSuffix
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close(), fsys.Remove(temp))
	}
	if err := f.Sync(); err != nil {
		return errors.Join(Fatal(err), f.Close())
	}
	if err := f.Close(); err != nil {
		return errors.Join(err, fsys.Remove(temp))
	}
	if err := fsys.Rename(temp, name); err != nil {
		return errors.Join(err, fsys.Remove(temp))
	}
	return Fatal(fsys.SyncDir(filepath.Dir(name)))
}

// ReadFile returns the whole content of a file. A file above bytesMax is refused, so that a wrong file cannot take the memory.
func ReadFile(fsys FS, name string, bytesMax int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil && size > bytesMax {
		err = &CorruptError{File: name, OffsetBytes: -1, Reason: "the file is longer than it can be"}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	data := make([]byte, size)
	if err := ReadFull(f, data, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return data, f.Close()
}

// ReadFull fills buf from offset or returns an error; a file that ends before is io.ErrUnexpectedEOF.
func ReadFull(f File, buf []byte, offset int64) error {
	if len(buf) == 0 {
		return nil
	}
	n, err := f.ReadAt(buf, offset)
	if n == len(buf) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// CopyDir makes a durable copy of those files of a directory whose names want takes; its folders are left out.
func CopyDir(fsys FS, from, to string, want func(name string) bool) error {
	if err := EnsureDir(fsys, to); err != nil {
		return err
	}
	names, err := fsys.List(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !want(name) {
			continue
		}
		if err := copyFile(fsys, filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return Fatal(fsys.SyncDir(to))
}

// copyStepBytes is how much of a file is in memory while it is copied.
const copyStepBytes = 1 << 20

func copyFile(fsys FS, from, to string) error {
	src, err := fsys.Open(from)
	if err != nil {
		return err
	}
	dst, err := fsys.Create(to)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	size, err := src.Size()
	buf := make([]byte, min(size, copyStepBytes))
	for at := int64(0); err == nil && at < size; at += int64(len(buf)) {
		buf = buf[:min(size-at, int64(len(buf)))]
		if err = ReadFull(src, buf, at); err == nil {
			_, err = dst.WriteAt(buf, at)
		}
	}
	if err == nil {
		err = Fatal(dst.Sync())
	}
	return errors.Join(err, dst.Close(), src.Close())
}
