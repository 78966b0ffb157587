package limits

// Bounds of the write-ahead log.
const (
	// WALFileBytes is the length of one file of the log; a record that is longer gets a file of its own length. Used by storage/wal.
	WALFileBytes = 16 << 20

	// WALFilesBytes is how much disk the log keeps for its next files when nothing in it is needed any more. Used by storage/wal.
	WALFilesBytes = 256 << 20

	// WALPinnedBytes is how long the log may become before its oldest file is made free: what is still needed of it is copied to the log's end, or its groups are asked for checkpoints. Used by storage/wal.
	WALPinnedBytes = 128 << 20

	// WALCopyBytes bounds the entries of one group that are copied to make one file free; a group with more is asked for a checkpoint. Used by storage/wal.
	WALCopyBytes = 64 << 10

	// WALTailBytes bounds the newest part of the log that is kept in memory for readers, WALChunkBytes is the unit of it: it has room for a batch of BatchBytesMax with what is around that. A longer
	// record has memory of its own. Used by storage/wal.
	WALTailBytes  = 8 << 20
	WALChunkBytes = 1<<20 + 64<<10

	// WALRecordBytesMax bounds one record: what one group adds in one step. A longer one is refused. Used by storage/wal.
	WALRecordBytesMax = 1 << 30

	// WALFillBytes is how much of a new file is filled with zeros in one step. Used by storage/wal.
	WALFillBytes = 1 << 20

	// WALMarkerMillis is after how long at most an idle log notes that its last record is durable. Used by storage/wal.
	WALMarkerMillis = 100

	// WALSpareRetryMillis is the pause between two attempts to make a file ahead when the disk refuses. Used by storage/wal.
	WALSpareRetryMillis = 1_000

	// WALFullRetryMillis is the pause between two attempts to write to a full disk. Used by storage/wal.
	WALFullRetryMillis = 50
)
