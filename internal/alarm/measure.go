package alarm

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

func measure(dir string) Usage {
	u := Usage{MemoryBytes: ResidentBytes()}
	u.DiskFreeBytes, u.DiskBytes, u.DiskKnown = DiskSpace(dir)
	return u
}

// ResidentBytes is the memory of the process that is in RAM, 0 if the platform does not tell. The page cache belongs to nobody and is not in it; the figure of a control group has it.
func ResidentBytes() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return pages * uint64(os.Getpagesize())
}

// MemoryLimit is the memory that the process may take: the least of what its control group, the machine and GOMEMLIMIT give it; math.MaxInt64 if nobody tells.
func MemoryLimit() uint64 {
	soft := uint64(debug.SetMemoryLimit(-1)) // math.MaxInt64 if GOMEMLIMIT is not set
	return min(platformLimit(os.DirFS("/")), soft)
}

// platformLimit is MemoryLimit without GOMEMLIMIT; root is the file system of the machine.
func platformLimit(root fs.FS) uint64 {
	least := uint64(math.MaxInt64)
	take := func(n uint64, ok bool) {
		if ok && n > 0 {
			least = min(least, n)
		}
	}
	take(machineMemory(root))
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range bytes.Lines(groups) { // HIERARCHY:CONTROLLERS:PATH; version 2 has hierarchy 0 and no controllers
		parts := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(parts) < 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			eachGroup(parts[2], func(dir string) { take(readNumber(root, "sys/fs/cgroup"+dir+"/memory.max")) })
		case strings.Contains(","+parts[1]+",", ",memory,"):
			eachGroup(parts[2], func(dir string) { take(readNumber(root, "sys/fs/cgroup/memory"+dir+"/memory.limit_in_bytes")) })
		}
	}
	return least
}

// eachGroup calls f with a control group and those that it is in, down to the empty name: in a container the group's own path is mostly not there, and the root is the group.
func eachGroup(dir string, f func(dir string)) {
	for dir = path.Clean("/" + dir); dir != "/"; dir = path.Dir(dir) {
		f(dir)
	}
	f("")
}

func readNumber(root fs.FS, name string) (uint64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64) // "max" is no number
	return n, err == nil
}

func machineMemory(root fs.FS) (uint64, bool) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) >= 2 && string(fields[0]) == "MemTotal:" {
			n, err := strconv.ParseUint(string(fields[1]), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}
