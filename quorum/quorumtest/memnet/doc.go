// Package memnet is a network in memory for tests of clusters: hosts with listeners and connections, latency, partitions that stall or reset in one or both
// directions, killed processes and hosts without power.
//
// A connection behaves as one of TCP: a stream with a bounded window that applies back-pressure, a close that arrives behind the data, deadlines. What is sent
// into a stalled direction waits and arrives after the heal, as a retransmission does; data that was received but whose acknowledgement cannot travel back keeps
// filling the sender's window, and no connection opens unless both directions are open.
//
// Invariants: bytes of one direction arrive in order, whole, once; nothing draws random numbers; every wait is on a sync.Cond, a channel or a timer, so that in a
// testing/synctest bubble waits take virtual time only. All state of a Net is under one lock, which is never held while waiting. A Net is made and used inside one
// bubble or outside of any.
//
// Hop before: tests of quorum, quorum/transport and quorum/quorumtest. Hop after: none. It belongs in no binary.
package memnet
