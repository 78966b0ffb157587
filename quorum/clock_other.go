//go:build !linux

package quorum

// bootMillis is nil where there is no clock that goes on while the machine sleeps: leases are counted in monotonic time.
var bootMillis func() int64
