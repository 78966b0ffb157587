// Package quorumtest is a cluster of Warren in virtual time, for tests: nodes of package quorum in one testing/synctest bubble, on disks that forget what was not synced,
// over a network in memory that can be cut, delayed and emptied, with publishers and consumers that keep the books of every message.
//
// Run opens a bubble with a Cluster in it. A Cluster starts, kills, stops and restarts nodes, cuts and heals their network and loses, repeats and reorders their Raft messages.
// A Publisher publishes unique messages, a Consumer takes, holds, acknowledges and returns them; both note everything in the Books, which know what must never be seen (Books.Violations).
//
// What the books hold a cluster to, whatever was done to it:
//
//   - a confirmed message is delivered until it is settled, none is invented, none is stored twice;
//   - messages of one publisher stand in the queue in the order in which it sent them;
//   - a session's deliveries are numbered 1, 2, 3... and first deliveries come in the order of the queue;
//   - every delivery but the first is flagged, none comes twice, none comes after a settle was answered;
//   - what a session settles was outstanding;
//   - a transaction is delivered as a whole, after its commit, or not at all.
//
// Time is virtual and waits cost nothing, but the order in which goroutines run is Go's: a seed repeats a schedule of faults, not an interleaving.
//
// Hop before: tests of quorum and of the packages above it. Hop after: quorum, quorumtest/memnet, storage/storagetest. It belongs in no binary.
package quorumtest
