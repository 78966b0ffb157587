package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the bytes and the size of f durable without forcing out time stamps, which fsync would.
func syncData(f *os.File) error {
	if plantedNoSync {
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			syncErr = unix.Fdatasync(int(fd))
			if !errors.Is(syncErr, unix.EINTR) {
				return
			}
		}
	})
	if err != nil {
		syncErr = os.ErrClosed // the one reason for which Control does not call
	}
	if syncErr != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: syncErr}
	}
	return nil
}
