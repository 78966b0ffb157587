//go:build linux || darwin

package management

import "syscall"

// openFilesMax is the limit of file descriptors.
func openFilesMax() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur == 0 {
		return fallbackTotal
	}
	return limit.Cur
}

// contextSwitches counts how often threads of the process gave up a processor or lost it.
func contextSwitches() uint64 {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return uint64(use.Nvcsw + use.Nivcsw)
}
