package storage

import (
	"os"
	"strconv"
	"strings"
)

// pidBytesMax bounds what is read of a lock file: a process id and a line end.
const pidBytesMax = 32

// readPID returns the process id noted in a lock file, 0 if there is none. It is for messages only.
func readPID(f *os.File) int {
	var buf [pidBytesMax]byte
	n, _ := f.ReadAt(buf[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

func writePID(f *os.File, pid int) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}
