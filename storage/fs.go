package storage

import (
	"errors"
	"fmt"
	"io"
)

// FS is what Warren needs of a file system. Names are ordinary paths. A missing file is reported with an error that is fs.ErrNotExist. All methods
// may be called concurrently.
type FS interface {
	// OpenFile opens name with the O_ flags of package os. A file it creates can be read and written by its owner only (0600).
	OpenFile(name string, flag int) (File, error)
	// Create opens name for reading and writing, empty, whether it existed or not.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// Rename gives a file another name in one step, replacing what had that name. It is durable after SyncDir of the directory.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory. It is durable after SyncDir of the directory.
	Remove(name string) error
	// MkdirAll creates dir and the missing directories above it (0700). An existing directory is no error.
	MkdirAll(dir string) error
	// List returns the names in dir in ascending order, without the path.
	List(dir string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (Info, error)
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
}

// File is an open file. ReadAt and WriteAt may be called concurrently; the others by one caller at a time.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Write writes at the file's cursor, which starts at 0, and moves it.
	io.Writer
	io.Closer
	// Sync makes the bytes and the size durable (fdatasync where there is one).
	Sync() error
	// Truncate cuts the file, or extends it with zeros, to size bytes.
	Truncate(size int64) error
	// Size returns the present size in bytes.
	Size() (int64, error)
}

// Info describes a file or directory.
type Info struct {
	// SizeBytes is the length of a file; it means nothing for a directory.
	SizeBytes int64
	// IsDir says that it is a directory.
	IsDir bool
}

// Locker takes exclusive locks between processes. FS implementations that can hold a data directory implement it.
type Locker interface {
	// Lock creates the file if it is missing, takes an exclusive lock on it that ends with Close or with the process, and notes the process id in it.
	// A lock held elsewhere is a *LockedError; Lock never waits.
	Lock(name string) (io.Closer, error)
}

// LockedError says that somebody else holds a lock.
type LockedError struct {
	// File is the locked file.
	File string
	// PID is the process that holds the lock, 0 if it is not known.
	PID int
}

// Error names the file and, if known, the process.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.File)
	}
	return fmt.Sprintf("%s is locked by process %d", e.File, e.PID)
}

// CorruptError says that a file does not hold what was written to it.
type CorruptError struct {
	// File is the path of the damaged file.
	File string
	// OffsetBytes is where in the file the damage was noticed, -1 if it is the file as a whole.
	OffsetBytes int64
	// Reason says in a few words what does not hold there.
	Reason string
}

// Error names file, offset and reason.
func (e *CorruptError) Error() string {
	if e.OffsetBytes < 0 {
		return fmt.Sprintf("%s is corrupt: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s is corrupt at offset %d: %s", e.File, e.OffsetBytes, e.Reason)
}

// VersionError says that a file is intact but was written in a format that this binary does not know.
type VersionError struct {
	// File is the path of the file.
	File string
	// Found is the format version in the file.
	Found uint32
	// Supported is the highest format version that this binary reads.
	Supported uint32
}

// Error names the file and both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this version of Warren reads up to %d; use a newer one", e.File, e.Found, e.Supported)
}

// ErrFatal is wrapped by errors after which it is unknown what the disk holds: a sync failed. The process must stop; a new one reads what is there.
var ErrFatal = errors.New("sync failed, the state of the disk is unknown")

// Fatal wraps err so that it is also ErrFatal; nil stays nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrFatal, err)
}
