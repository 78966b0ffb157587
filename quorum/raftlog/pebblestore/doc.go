// Package pebblestore is the Raft library's own log store, on Pebble, for tests and benchmarks to compare quorum/raftlog with. It belongs in no binary.
//
// Hop before: tests of quorum and quorum/raftlog. Hop after: the library.
package pebblestore
