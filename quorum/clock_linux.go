package quorum

import "golang.org/x/sys/unix"

// bootMillis reads CLOCK_BOOTTIME, which goes on while the machine sleeps.
var bootMillis = func() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // no lease is ever valid
	}
	return ts.Nano() / 1e6
}
