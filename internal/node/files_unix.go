//go:build linux || darwin

package node

import "syscall"

// filesMax is the limit of open files, 0 if there is none.
func filesMax() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
