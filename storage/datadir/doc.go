// Package datadir is the directory that a node keeps its state in: the lock, the identity and the boots.
//
//	LOCK      locked (flock) while a process uses the directory; holds its process id, for messages
//	identity  text: format version, log store, node id, cluster id, CRC-32C
//	boot      text: counter and nonce of the last boot, CRC-32C
//
// The rest of the directory belongs to others (Raft log, queues).
//
// Invariants:
//   - One process at a time.
//   - A node id is drawn when a directory is new, or renewed by who has set aside all that was kept under the old one, and never again: an identity that is missing in a directory with content is an error. An old node id
//     with an empty Raft log would be vote amnesia, a new one with an old log a stranger.
//   - A boot counter that NextBoot returned was never returned before, over any crash.
//   - The form of both text files is canonical: any changed bit is noticed.
//
// Hop before: internal/node at start. Hop after: storage.FS.
package datadir
