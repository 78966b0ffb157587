//go:build linux || darwin

package alarm

import "syscall"

// DiskSpace is what an unprivileged process may still write to the file system of a directory, and all that it holds; false if that is not known.
func DiskSpace(dir string) (free, all uint64, ok bool) {
	var st syscall.Statfs_t
	if dir == "" || syscall.Statfs(dir, &st) != nil {
		return 0, 0, false
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), true
}
