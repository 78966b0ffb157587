// Package segment is the message store of one queue: bodies on disk, keyed by the sequence number that the queue's machine gave them.
//
// A store is a folder of append-only files (the folder may hold other files, too):
//
//	NNNNNNNN.seg  header | record | record | ...
//	header        "WRNSEGM\n" | version u32 | number u32 | salt u64 | crc u32 | two marks (see storage/internal/frame)
//	NNNNNNNN.lst  what records a sealed file has (list.go); it may be missing
//
// Bodies are written only if they must stay: most messages are acknowledged before a checkpoint and never come here. The index (sequence number to
// place) is kept in memory, as runs of records of equal length (index.go, span.go), and is rebuilt when the store is opened: from the lists, and from the records of the last file.
//
// Invariants:
//   - A body is durable when a Sync that began after its Append returned nil. The owner makes a checkpoint durable only after that.
//   - Only the file with the highest number is written. Every other one is sealed: synced to its end, so that anything wrong in it is damage.
//   - A record goes only when its release is older than a cut that the owner passes to Collect, which it does when the checkpoint taken at that cut is
//     durable. Until then it stays readable: the older checkpoint, or a stream, may still refer to it.
//   - Read returns the bytes that were appended or an error.
//   - A list is believed only if it names the salt and the length of its file. A record in a sealed file that rotted is found when it is read, by Read or by a compaction.
//   - After a crash the unsynced end of the last file may be torn; it is ignored and cut off before the next append. A bad record anywhere else, where Open reads it, is
//     a *storage.CorruptError, and no file is changed then.
//
// Hop before: quorum (checkpointer, body budget, readers). Hop after: storage.FS.
package segment
