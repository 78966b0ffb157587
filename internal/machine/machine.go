// Package machine holds the values that every replicated state machine (queue, meta, later stream) shares.
//
// It is a pure leaf: the shells (quorum) fill a Stamp from the Raft entry, the machines read it.
package machine

// Stamp is the outside world as a machine may see it: where the command stands in the log and what time its proposer had.
type Stamp struct {
	// Index is the position of the command's entry in the replicated log, counted from 1. Local runners count by themselves.
	Index uint64
	// NowMillis is the proposer's clock in milliseconds since the Unix epoch. A machine never goes back behind what it has seen by small steps.
	NowMillis int64
}
