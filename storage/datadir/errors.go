package datadir

import "fmt"

// LockedError says that another process uses the data directory (exit code 73).
type LockedError struct {
	// Dir is the data directory.
	Dir string
	// PID is the process that uses it, 0 if it is not known.
	PID int
}

// Error names the directory and, if known, the process.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process; stop it or use another directory", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d; stop it or use another directory", e.Dir, e.PID)
}

// NotWritableError says that the data directory cannot be made, read or written (exit code 73).
type NotWritableError struct {
	// Dir is the data directory.
	Dir string
	// Err is what the operating system said.
	Err error
}

// Error names the directory and the cause.
func (e *NotWritableError) Error() string {
	return fmt.Sprintf("data directory %s is not usable: %v; check its owner, its permissions and the space on its disk", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *NotWritableError) Unwrap() error { return e.Err }

// LogStoreError says that the directory was made with another kind of Raft log store (exit code 65).
type LogStoreError struct {
	// File is the identity file.
	File string
	// Found is the log store that the directory was made with.
	Found string
	// Supported is the log store of this binary.
	Supported string
}

// Error names the file and both stores.
func (e *LogStoreError) Error() string {
	return fmt.Sprintf("%s: the directory was made with the log store %q, this version of Warren uses %q; use the version that made it or another directory",
		e.File, e.Found, e.Supported)
}
