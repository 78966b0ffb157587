package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps in the kernel.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal ends it early, which the caller's loop bears
}
