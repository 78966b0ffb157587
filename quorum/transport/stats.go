package transport

import "sync/atomic"

// counters are what Stats reads.
type counters struct {
	refused, sessionsFailed, proposalsDropped, batchesLost                     atomic.Uint64
	raftBytesSent, raftBytesReceived, snapshotBytesSent, snapshotBytesReceived atomic.Uint64
}

// Stats are totals since Open, for metrics.
type Stats struct {
	// Refused counts accepted connections that came to nothing, SessionsFailed accepted ones that ended for another reason than that the peer went away.
	Refused, SessionsFailed uint64
	// ProposalsDropped counts Raft messages of type Propose that were neither sent nor taken.
	ProposalsDropped uint64
	// BatchesLost counts frames of Raft messages that could not be sent.
	BatchesLost uint64
	// Bytes of frames with Raft messages and chunks of snapshots.
	RaftBytesSent, RaftBytesReceived, SnapshotBytesSent, SnapshotBytesReceived uint64
	// Connections is how many connections with other nodes are open.
	Connections int
}

// Stats returns the present totals.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	connections := len(n.sessions)
	n.mu.Unlock()
	c := &n.counts
	return Stats{
		Refused: c.refused.Load(), SessionsFailed: c.sessionsFailed.Load(), ProposalsDropped: c.proposalsDropped.Load(), BatchesLost: c.batchesLost.Load(),
		RaftBytesSent: c.raftBytesSent.Load(), RaftBytesReceived: c.raftBytesReceived.Load(),
		SnapshotBytesSent: c.snapshotBytesSent.Load(), SnapshotBytesReceived: c.snapshotBytesReceived.Load(), Connections: connections,
	}
}
