// Package raftlog is the Raft library's log store (raftio.ILogDB) over the shared log of the node, storage/wal: it turns the library's structures into records and back and knows what
// has to be durable when.
//
// Invariants:
//   - When SaveRaftState returns, terms, votes, entries and snapshots of its updates are durable. How far entries are committed is not: Raft finds that out again. It becomes durable with the
//     next thing that must be, and before a snapshot that lies behind it, as the library does not start on a snapshot that it takes for uncommitted.
//   - What one update says of a group is found whole after a crash, or not at all.
//   - An entry that IterateEntries returned is the caller's: it shares no memory with the log.
//   - After an error of the disk, which Options.Fatal has heard of, nothing is written any more.
//
// The contract is that of the library's own store on Pebble; contract_test.go plays random histories against both. They differ where the library does not look: in entries up to the last snapshot or
// the last removal, which the library's store may still have, and after RemoveNodeData, as a removed replica's id never comes back.
//
// Hop before: the library's step workers, started by quorum. Hop after: storage/wal.
package raftlog
