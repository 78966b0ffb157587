// Package checkpoint keeps the durable state of one queue's machine: a snapshot and, behind it, the log entries applied since.
//
// A checkpoint is one file in the queue's folder (which may hold other files, too):
//
//	IIIIIIIIIIIIIIII.ckpt   header | snapshot | entry | entry | ...      I: the index of the snapshot, 16 hex digits
//	header                  "WRNCKPT\n" | version u32 | shard u64 | index u64 | snapshot bytes u64 | snapshot crc u32 | salt u64 | crc u32 |
//	                        two marks (see storage/internal/frame)
//	entry                   a record of storage/internal/frame whose key is the log index
//
// The snapshot and the entries known when it is written go to a temporary file that is synced and renamed; later entries (the tail) are appended.
// Snapshot and tail share one file, so a tail cannot be lost, left over or paired with another snapshot.
//
// Invariants:
//   - A file is written and synced whole, with a mark that says so, before it gets its final name: what was in it then is never torn.
//   - An entry is durable when a Tail.Sync that began after its Append returned nil. The owner lets the Raft log be cut only after that.
//   - Behind the last sync the tail may be torn by a crash; that end is ignored, and cut off before the next append. Damage before it is a
//     *storage.CorruptError. An older checkpoint is never used in place of a damaged newer one: the Raft log between them is gone.
//   - Write never goes back behind what is durable already, and deletes older checkpoints only when the new one is durable.
//
// Entries rise by index but need not be dense: the Raft library keeps entries of its own (elections, membership) to itself.
//
// Hop before: quorum (checkpointer). Hop after: storage.FS.
package checkpoint
