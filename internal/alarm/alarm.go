package alarm

import (
	"math"

	"github.com/warrenmq/warren/config/limits"
)

// Set is what a node, or a cluster, is short of. The bits travel between nodes.
type Set uint32

const (
	// Memory: the process takes more than the watermark.
	Memory Set = 1
	// Disk: less is free than the limit.
	Disk Set = 2
	// DiskFull: so little is free that publishes are refused. It comes with Disk.
	DiskFull Set = 4
)

// Reason is what clients are told, in RabbitMQ's words; empty if nothing is short.
func (s Set) Reason() string {
	switch s & (Memory | Disk) {
	case Memory:
		return "low on memory"
	case Disk:
		return "low on disk"
	case Memory | Disk:
		return "low on disk & memory"
	}
	return ""
}

// Threshold is a bound as operators give it: bytes, or a fraction of the memory limit. The zero value stands for the default.
type Threshold struct {
	kind     thresholdKind
	fraction float64
	bytes    uint64
}

type thresholdKind uint8

const (
	thresholdDefault thresholdKind = iota
	thresholdRelative
	thresholdAbsolute
)

// Relative is a fraction of the memory limit, not negative.
func Relative(fraction float64) Threshold {
	return Threshold{kind: thresholdRelative, fraction: fraction}
}

// Absolute is a number of bytes.
func Absolute(bytes uint64) Threshold { return Threshold{kind: thresholdAbsolute, bytes: bytes} }

// IsSet tells whether the threshold is not the default.
func (t Threshold) IsSet() bool { return t.kind != thresholdDefault }

// of returns the bound in bytes; false if it is the default, or cannot be said, for the memory limit is not known.
func (t Threshold) of(memoryLimit uint64) (uint64, bool) {
	switch {
	case t.kind == thresholdAbsolute:
		return t.bytes, true
	case t.kind == thresholdRelative && memoryLimit < math.MaxInt64:
		return uint64(min(t.fraction*float64(memoryLimit), math.MaxInt64/2)), true
	}
	return 0, false
}

// Usage is what a node takes and has.
type Usage struct {
	// MemoryBytes is the memory of the process that is in RAM, without the page cache; 0 if the platform does not tell.
	MemoryBytes uint64
	// DiskFreeBytes and DiskBytes are what is free, and all there is, on the file system of the data directory.
	DiskFreeBytes, DiskBytes uint64
	// DiskKnown says that the platform tells of the disk.
	DiskKnown bool
}

// Bounds are thresholds in bytes.
type Bounds struct {
	// MemoryHighBytes is above which memory is short, MemoryLimitBytes what the process may take in all.
	MemoryHighBytes, MemoryLimitBytes uint64
	// DiskLimitBytes is below which disk space is short.
	DiskLimitBytes uint64
}

// clearMargin is by which part of its bound a value must be better for an alarm to be taken back.
const clearMargin = 20

// Judge returns what is short, after what was.
func Judge(was Set, u Usage, b Bounds) Set {
	now := Set(0)
	memory, disk, floor := b.MemoryHighBytes, b.DiskLimitBytes, diskFloor(b.DiskLimitBytes)
	if was&Memory != 0 {
		memory -= memory / clearMargin
	}
	if was&Disk != 0 {
		disk += disk / clearMargin
	}
	if was&DiskFull != 0 {
		floor += floor / clearMargin
	}
	if u.MemoryBytes > memory {
		now |= Memory
	}
	if u.DiskKnown && u.DiskFreeBytes < disk {
		now |= Disk
		if u.DiskFreeBytes < floor {
			now |= DiskFull
		}
	}
	return now
}

// diskFloor is below which publishes are refused.
func diskFloor(limit uint64) uint64 { return min(limits.DiskFloorBytes, limit/2) }

// isPressing tells whether so much memory is taken that an alarm cannot wait for garbage to be collected: more than half of what is left above the watermark.
func isPressing(used uint64, b Bounds) bool {
	return used > b.MemoryHighBytes+(max(b.MemoryLimitBytes, b.MemoryHighBytes)-b.MemoryHighBytes)/2
}
