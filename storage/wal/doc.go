// Package wal is the one write-ahead log of a node: what all Raft groups on it must not forget.
//
// A log is a directory of files of fixed length, which are filled with zeros once and then used again under new numbers, because syncing a file whose
// blocks are written already is several times cheaper than appending:
//
//	NNNNNNNNNNNNNNNN.wal   header | record | record | ... | anything
//	NNNNNNNNNNNNNNNN.free  anything: waits to become a part of the log
//
// A file's header says where and with which checksum the file before ended, a record's header has the checksum of the record before, the nonce of this
// life of the file, and up to where the file was known to be durable when the record was written. So what follows a bad record decides what it was: a
// write that power loss tore, which nobody was told of, or rot in what was durable.
//
// Concurrent commits share one write and one sync: who comes first writes for all that come while the batch before is being written. The memory in which a
// batch was collected is kept for a while as the cache of the log's tail. The index has places of records, not entries.
//
// Invariants:
//   - What Commit, Bootstrap, Import and Remove were given is durable when they return nil, and seen by readers not before that.
//   - Records of one group are applied in the order of their calls, when the log is written as when it is read again, by the same code (index.go).
//   - A file is never continued by another process: a new one is begun. A file has its name only when its header is durable, and a successor only when
//     all in it is.
//   - Only the oldest file goes, when nothing of it is needed; so what a record takes back is always older than it, and goes first.
//   - A failed write or sync of the log is final: storage.ErrFatal, told to Options.Fatal once. A full disk is none: commits wait until there is space.
//   - Read returns the bytes that were committed or an error.
//
// Hop before: quorum/raftlog. Hop after: storage.FS.
package wal
