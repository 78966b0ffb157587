package limits

// Bounds of memory and disk space, beyond which publishers are held back. All are used by internal/alarm.
const (
	// MemoryHighPercent is the default of key vm_memory_high_watermark.relative: how much of the memory limit the process may take until publishers are blocked.
	MemoryHighPercent = 60

	// DiskFreeBytes and DiskFreeShare are the default of key disk_free_limit: publishers are blocked while less than so much, and less than this part of the file system, is free.
	DiskFreeBytes = 1 << 30
	DiskFreeShare = 10

	// DiskFloorBytes is below which publishes are nacked; half of the disk limit if that is less.
	DiskFloorBytes = 32 << 20
)
