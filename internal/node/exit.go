package node

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/warrenmq/warren/config"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// Exit codes of the process, as sysexits has them. Mistakes in settings have codes of their own: see config.
const (
	// ExitData: files in the data directory are damaged or of a version that this binary does not read.
	ExitData = 65
	// ExitCertificate: a file that settings name for TLS cannot be used; the same as for a mistake in the settings.
	ExitCertificate = config.ExitConfig
	// ExitPort: an address cannot be listened on.
	ExitPort = 69
	// ExitInternal: something that only a bug or a failing disk explains.
	ExitInternal = 70
	// ExitRefused: a cluster does not take the node in.
	ExitRefused = 77
	// ExitDirectory: the data directory is locked or cannot be written.
	ExitDirectory = 73
)

// ListenError says that an address cannot be listened on.
type ListenError struct {
	// What is served there, Key the setting that names the address, Address itself.
	What, Key, Address string
	// Err is what the operating system said.
	Err error
}

// CertificateError says that a file that a setting names for TLS cannot be used.
type CertificateError struct {
	// Prefix begins the names of the settings.
	Prefix string
	// Err names the file and what is wrong with it.
	Err error
}

// Error names the settings and the file.
func (e *CertificateError) Error() string {
	return fmt.Sprintf("%s*: %s; put it right or name others", e.Prefix, e.Err)
}

// Unwrap returns the cause.
func (e *CertificateError) Unwrap() error { return e.Err }

// Error names address and key, and the way out.
func (e *ListenError) Error() string {
	why := e.Err.Error()
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		why = "the port is in use"
	}
	return fmt.Sprintf("cannot listen on %s for %s: %s; stop what uses it or set %s", e.Address, e.What, why, e.Key)
}

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

// ExitCode tells the process's exit code for an error of Run.
func ExitCode(err error) int {
	var certificate *CertificateError
	var listen *ListenError
	var refused *quorum.JoinError
	var locked *datadir.LockedError
	var unwritable *datadir.NotWritableError
	var store *datadir.LogStoreError
	var corrupt *storage.CorruptError
	var version *storage.VersionError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &certificate):
		return ExitCertificate
	case errors.As(err, &listen):
		return ExitPort
	case errors.As(err, &refused), errors.Is(err, quorum.ErrReplaced):
		return ExitRefused
	case errors.As(err, &locked), errors.As(err, &unwritable):
		return ExitDirectory
	case errors.As(err, &store), errors.As(err, &corrupt), errors.As(err, &version):
		return ExitData
	}
	return ExitInternal
}
