package limits

// Bounds of the conversation between nodes.
const (
	// LinkSuspectMillis is how long nothing may be heard of a node before it is suspected to be down. Used by quorum/link.
	LinkSuspectMillis = 600

	// LinkDialMillis bounds one attempt to reach a node. Used by quorum/link.
	LinkDialMillis = 2_000

	// LinkRedialMillis is the longest pause between two attempts. Used by quorum/link.
	LinkRedialMillis = 1_000

	// LinkEventBytes is about how much of a queue's stream goes into one message to another node. Used by quorum.
	LinkEventBytes = 512 << 10

	// AttachMillis is how long a replica that is behind what a node has seen keeps it waiting. Used by quorum.
	AttachMillis = 1_000

	// ProgressMillis is the pause between a node's reports to the leaders of the queues that serve it (PROTOCOL 2, Progress). Used by quorum.
	ProgressMillis = 1_000
	// EvictMillis is how long a queue holds the messages of a node that lives and is not attached to it (x-consumer-disconnected-timeout, PROTOCOL 3). Used by quorum.
	EvictMillis = 60_000
	// ClockCorrectMillis is from which difference on a new leader's clock jumps to the median of the nodes' clocks instead of being led there. Used by quorum.
	ClockCorrectMillis = 10_000
	// AwayMillis is how long a node is served by the leader's replica after its own fell behind. Used by quorum.
	AwayMillis = 30_000

	// FindLeaderMillis is the pause between two attempts to find the node that leads a queue. Used by quorum.
	FindLeaderMillis = 50

	// ConfirmAllMillis is how long confirms of a queue that wants them from every replica (x-confirm-replicas) wait for one that does not come along; then it counts as out of sync. Used by quorum.
	ConfirmAllMillis = 2_000

	// StatusMillis bounds a question about a queue's state to another node. Used by quorum.
	StatusMillis = 1_000

	// LeaseMillis is how long a node may trust its view of the catalogue after it asked (PROTOCOL 5); the granter counts LeaseGrantMillis. LeaseRenewMillis is the pause between
	// two requests. Used by quorum.
	LeaseMillis      = 2_700
	LeaseGrantMillis = 3_000
	LeaseRenewMillis = 500

	// SecretMillis is how long a node that starts looks for one that takes its secret when others refuse it. Used by quorum.
	SecretMillis = 10_000

	// DeadMillis is how long a node must have been silent to be declared dead, if a majority does not hear it. Used by quorum.
	DeadMillis = 5_000

	// RebornMillis is how long the clients of a node that was declared dead while it lived wait until its new incarnation is registered, before they are closed anyway. Used by quorum.
	RebornMillis = 2_000

	// KickRankMillis is the pause between the kicks of the members that could lead, KickStartMillis the same for a group that starts, KickAgainMillis the first pause before a
	// member kicks itself again. Used by quorum.
	KickRankMillis  = 200
	KickStartMillis = 50
	KickAgainMillis = 5_000

	// KickHearMillis is how long a member without a leader waits after a start, or after an election that it heard of, to hear from a leader before it kicks itself: three heartbeats. Used by quorum.
	KickHearMillis = 300

	// ElectionCheckMillis is how often a node looks for silent peers. Used by quorum.
	ElectionCheckMillis = 100

	// ReplicasDefault is how many replicas a durable queue gets if nothing else is asked for and there are as many nodes. Used by quorum.
	ReplicasDefault = 3

	// ReconcileMillis is how often a node looks whether the queues that it leads have the replicas that they should; GrowAtOnce bounds how many it grows in one turn. Used by quorum.
	ReconcileMillis = 1_000
	GrowAtOnce      = 16
	// RejoinMillis is how long a node whose files are damaged as a whole asks the others to take it in anew before it ends. Used by quorum.
	RejoinMillis = 60_000
	// HandOverMillis is how long a member that is given the leadership of a queue may take until another one is tried. Used by quorum.
	HandOverMillis = 1_000
)
