// Package storage is the seam between Warren and the disk: a small file system interface, the implementation over the operating system, and the
// typed errors that every package below it returns.
//
// Role: everything that Warren itself keeps (data directory, write-ahead log, checkpoints, message bodies) goes through FS, so that tests can take
// the disk away at any operation (storage/storagetest).
//
// Hop before: quorum, which decides what must be durable and when. Hop after: the operating system.
//
// Invariants:
//   - Nothing is durable before Sync (a file's bytes) and SyncDir (a name) returned nil; a process that was killed has lost neither, a machine that
//     lost power has lost both. What a fresh process finds may therefore still be volatile: packages sync it before they rely on it.
//   - A failed sync is final. What the disk holds is unknown after it, the error wraps ErrFatal, and no package tries the sync again.
//   - Damage is reported as *CorruptError with file and offset, never repaired by guess and never answered with other bytes than were written.
package storage
