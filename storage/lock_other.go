//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package storage

import (
	"errors"
	"os"
)

// lockFile refuses: without a lock two processes could write one data directory.
func lockFile(*os.File) error { return errors.ErrUnsupported }
