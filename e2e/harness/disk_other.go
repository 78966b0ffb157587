//go:build !linux

package harness

import (
	"errors"
	"testing"
)

// Disk is a file system whose power can be lost. There is none here.
type Disk struct {
	// Dir is where it is mounted.
	Dir string
}

// NewDisk skips the test: the power of a file system is lost by an ioctl of Linux.
func NewDisk(t testing.TB, _ int64) *Disk {
	t.Helper()
	t.Skip("the power of a file system can be lost on Linux only")
	return nil
}

// LosePower fails the test.
func LosePower(t testing.TB, _ *Broker, _ *Disk) {
	t.Helper()
	t.Fatal(errors.ErrUnsupported)
}
