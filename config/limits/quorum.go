package limits

// Bounds of the shell that runs machines.
const (
	// ResendCheckMillis is how old the first unanswered batch of a pipeline gets before the host looks whether its proposal was lost. Used by quorum.
	ResendCheckMillis = 200

	// SealRetryMillis is how long a sender waits before it offers a batch again to a sealed queue. Used by quorum.
	SealRetryMillis = 50

	// UnsealAskMillis is how often the leader of a sealed queue asks the catalogue whether the delete was given up. Used by quorum.
	UnsealAskMillis = 2_000

	// RelayRestMillis is how long the delete of an exchange waits at most until its relay has found targets for all that it took, RelayLookMillis how often it looks. Used by quorum.
	RelayRestMillis = 1_000
	RelayLookMillis = 5

	// CheckpointLogBytes is how much log a queue writes before its next checkpoint. Used by quorum.
	CheckpointLogBytes = 64 << 20

	// LogKeptBytes is how much log of a queue with several replicas stays behind a checkpoint, so that a member that was away for a moment needs no full copy; LogMilestoneBytes
	// how exactly that is kept. Used by quorum.
	LogKeptBytes      = 32 << 20
	LogMilestoneBytes = 1 << 20

	// RaftLogScratchBytes is how much memory for encoding is kept from one write of the Raft log to the next, for each of the library's step workers. Used by quorum/raftlog.
	RaftLogScratchBytes = 4 << 20

	// CheckpointStepBytes is how much of a checkpoint's bodies is written before it is synced, CheckpointPauseMillis how long the disk is left to others then, at most. Used by quorum.
	CheckpointStepBytes   = 4 << 20
	CheckpointPauseMillis = 50

	// CheckpointTailBytes is how much of the log behind a checkpoint's cut may be left for the synchronous end of it. Used by quorum.
	CheckpointTailBytes = 256 << 10

	// CheckpointTailRounds bounds how often a checkpoint tries to get below CheckpointTailBytes while the queue runs on. Used by quorum.
	CheckpointTailRounds = 8

	// CheckpointsAtOnce bounds the checkpoints that one node writes at the same time. Used by quorum.
	CheckpointsAtOnce = 2

	// BodiesInMemoryBytes is the node's budget for message bodies in memory: beyond it queues are checkpointed and written bodies dropped. Used by quorum.
	BodiesInMemoryBytes = 96 << 20

	// ColdRunEvents and ColdRunBytes bound what is read from the message store before it goes out: less would wake the connection for every small message, more would keep it waiting. Used by quorum.
	ColdRunEvents = 64
	ColdRunBytes  = 64 << 10

	// BodiesCheckpointBytes is how many bytes of bodies a queue must have in memory for the node's budget to make it checkpoint, unless the node is beyond that by BodiesExcessBytes. BodiesLookMillis and
	// BodiesLookMillisMax are the shortest and the longest pause between two looks for such queues. Used by quorum.
	BodiesCheckpointBytes = 1 << 20
	BodiesExcessBytes     = 16 << 20
	BodiesLookMillis      = 50
	BodiesLookMillisMax   = 1_000

	// StoreDeadBytes is how much of a queue's message store may be left of messages that are gone, beside as much as is alive, until the queue is checkpointed, StoreDeadBytesShort the same while the node is short
	// of disk space. Used by quorum.
	StoreDeadBytes      = 32 << 20
	StoreDeadBytesShort = 1 << 20

	// DiskReserveBytes is what a node keeps for when the disk is full, a file of the log and some checkpoints: with those files of messages that are gone can go. DiskReserveMillis is the pause between two attempts to take it. Used by internal/node and quorum.
	DiskReserveBytes  = 24 << 20
	DiskReserveMillis = 60_000

	// CatalogueSnapshotEntries is how many entries the catalogue applies between two snapshots. Used by quorum.
	CatalogueSnapshotEntries = 4_096

	// StartsAtOnce bounds the replicas that a node starts, and those that it brings a new configuration, at the same time. Used by quorum.
	StartsAtOnce = 32
	// StartsUnasked bounds those of them that nobody waits for, and StartPatienceMillis how long a start counts as one whose queue does not serve yet. Used by quorum.
	StartsUnasked       = 8
	StartPatienceMillis = 250

	// ParkMillis is how long nobody must use a queue before its replicas stop, ParkLookMillis the pause until a queue that could not stop is looked at again, ParkDeadlineMillis how far off the next
	// thing must be that it has to do by itself. Used by config and quorum.
	ParkMillis         = 30_000
	ParkLookMillis     = 5_000
	ParkDeadlineMillis = 3_600_000
	// ParksAtOnce bounds the queues that a node stops, and RestReadsAtOnce the files of such that it reads as it starts, at the same time. Used by quorum.
	ParksAtOnce     = 4
	RestReadsAtOnce = 8
	// ParkLogEntries is how many entries the log of a queue may have when it stops without being cut. Used by quorum.
	ParkLogEntries = 64
	// LeaderlessMillis is how long a replica hears of no leader before it starts those of the other members again. Used by quorum.
	LeaderlessMillis = 1_000

	// ShutdownMillis is how long a stopping node waits for its clients to answer the close of their connections. Used by internal/node.
	ShutdownMillis = 5_000

	// ClockSlewMillis is how often a node leads its clock towards the wall clock, by a tenth of it at most. Used by quorum.
	ClockSlewMillis = 1_000

	// TxAskMillis is how long a transaction over several queues may be open in one of them before its leader asks or tells the others, though the channel has not ended. Used by quorum.
	TxAskMillis = 10_000

	// LostTellMillis is the pause between two words in the log about dead letters that found an outbox full, and between two events about those of one queue. Used by quorum and broker.
	LostTellMillis = 60_000

	// ForgetMillis is how long a queue must be gone before those that took its dead letters forget its outbox, ForgetLookMillis the pause between two looks for such. Used by quorum.
	ForgetMillis     = 3_600_000
	ForgetLookMillis = 60_000

	// MoverRetryMillis is how long a mover of dead letters waits at most before it tries again what did not go. Used by quorum.
	MoverRetryMillis = 1_000

	// MoverResolveAtOnce is how many dead letters get their targets in one log entry. Used by quorum.
	MoverResolveAtOnce = 256

	// MoverRunMessages and MoverRunBytes bound what one queue sends another in one log entry; one message may be larger. Used by quorum.
	MoverRunMessages = 256
	MoverRunBytes    = 1 << 20

	// TimerMillis is the longest time that a queue's timer is set to at once. Used by quorum.
	TimerMillis = 3_600_000

	// DeliveryLimit is how often a message of a quorum queue may fail, unless the queue says otherwise. Used by quorum.
	DeliveryLimit = 20

	// ConsumerTimeoutMillis is how long a consumer of a quorum queue may keep a delivery, unless the queue or the consumer says otherwise. Used by quorum.
	ConsumerTimeoutMillis = 30 * 60 * 1000
)
