package limits

// Bounds of the connections between nodes. All are used by quorum/transport.
const (
	// HandshakeMillis is how long a connection between nodes may take until both ends have proved that they know the secret; then it is closed.
	HandshakeMillis = 5_000

	// HandshakesAtOnce bounds the accepted connections that have not proved anything yet; beyond it a new one closes the oldest.
	HandshakesAtOnce = 64

	// HandshakeBytesMax bounds one message of the handshake; a longer one closes the connection.
	HandshakeBytesMax = 512

	// PeerConnectionsMax bounds the accepted connections of all kinds that have proved themselves; beyond it callers are refused.
	PeerConnectionsMax = 1_024

	// DialMillis is how long a connection to another node may take to open, before the handshake.
	DialMillis = 1_000

	// LinkFrameBytesMax bounds one frame of a link: the largest body and what is around it. A larger one is refused by the sender, and closes the link at the receiver.
	LinkFrameBytesMax = 160 << 20

	// LinkQueueBytesMax and LinkQueueFramesMax bound what waits in a link to be written; beyond them Send says busy. One frame may always wait.
	LinkQueueBytesMax  = 32 << 20
	LinkQueueFramesMax = 16_384

	// LinkPingMillis is the silence after which a link sends a sign of life.
	LinkPingMillis = 150

	// LinkSilentMillis is the silence after which a link makes its peer suspect (PROTOCOL 8).
	LinkSilentMillis = 600

	// LinkDeadMillis is the silence, or the wait for one write, after which a link is closed: a new connection comes through a healed network
	// earlier than the retransmissions of an old one.
	LinkDeadMillis = 3_000

	// RaftMessageBytesMax bounds one frame of Raft messages: 64 MiB of entries, or one entry with the largest body. Larger messages are dropped and logged.
	RaftMessageBytesMax = 160 << 20

	// RaftFrameBytes is the size at which a batch of Raft messages goes on in another frame.
	RaftFrameBytes = 512 << 10

	// RaftPingMillis is the silence after which a Raft connection sends a sign of life.
	RaftPingMillis = 500

	// RaftDeadMillis is the silence, or the wait for one write, after which a Raft connection is closed and opened again.
	RaftDeadMillis = 2_000

	// RaftRedialMillis and RaftRedialMillisMax are the first and the longest wait between two attempts to reach a node. A connection from that node ends the wait.
	RaftRedialMillis    = 20
	RaftRedialMillisMax = 200

	// SnapshotBytesPerSecond is what a node sends of snapshots at most, over all streams.
	SnapshotBytesPerSecond = 64 << 20

	// SnapshotPieceBytes is the piece that a stream sends when its turn comes: streams share the rate evenly, piece by piece.
	SnapshotPieceBytes = 256 << 10

	// SnapshotFrameBytesMax bounds one chunk of a snapshot: 2 MiB of data and the membership of its group.
	SnapshotFrameBytesMax = 4 << 20

	// SnapshotWindowChunks is how many chunks of a stream may be on their way without having been accepted.
	SnapshotWindowChunks = 2

	// SnapshotProgressMillis is how long a stream may stand still, at either end, before it fails.
	SnapshotProgressMillis = 15_000

	// JoinBytesMax bounds the request and the answer of a join.
	JoinBytesMax = 1 << 20

	// JoinMillis is how long a join waits for its answer.
	JoinMillis = 30_000

	// PeerBufferBytes is what a connection between nodes keeps of its buffers while it is idle; larger ones are for one message.
	PeerBufferBytes = 2 << 20
)
