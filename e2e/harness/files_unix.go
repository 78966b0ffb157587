//go:build linux || darwin

package harness

import (
	"syscall"
	"testing"
)

// NeedFiles skips a test where a process may not have so many files open. The Go runtime has raised the soft limit to the hard one, here as in the broker.
func NeedFiles(t testing.TB, count int) {
	t.Helper()
	NeedProcess(t)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max < uint64(count) {
		t.Skipf("a process may have %d files open here, %d are needed (ulimit -Hn)", limit.Max, count)
	}
}
