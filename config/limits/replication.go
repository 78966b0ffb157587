package limits

// Bounds of the way from a node to a queue's Raft group and back.
const (
	// BatchBytesMax closes a batch: the next command starts another one. One command may be larger and then has a batch of its own.
	// Used by quorum.
	BatchBytesMax = 1 << 20

	// BatchCommandsMax closes a batch by count. Used by quorum.
	BatchCommandsMax = 512

	// PipelineFlightBytes is how much of one pipeline may be unanswered when another batch of messages is sent: so much keeps the disk busy, and what consumers say has few megabytes ahead of it.
	// Used by quorum.
	PipelineFlightBytes = 2 << 20

	// GapRetryMillis is the wait before a sender repeats a batch that was refused for a gap. Used by quorum.
	GapRetryMillis = 10

	// ResendMillis is the back-off after which a sender repeats its first unanswered batch though nothing told it to. Used by quorum.
	ResendMillis = 2_000

	// ProposalTimeoutMillis is after how long a proposal counts as lost; its batch is proposed again under the same number. Used by quorum.
	ProposalTimeoutMillis = 30_000

	// PublishTimeoutMillis is the default of key publish_timeout: a publish not answered by all its targets by then is nacked. Used by config.
	PublishTimeoutMillis = 10_000

	// QueueStartWaitMillis is how long an operation waits for a queue that is still starting before it fails. Used by broker and management.
	QueueStartWaitMillis = 10_000

	// TxAgreeMillis is how long a commit over several queues waits until they have agreed, TxHiddenMillis how long it then waits until all of them show it, before its channel is closed. Used by broker.
	TxAgreeMillis  = 30_000
	TxHiddenMillis = 60_000

	// DrainedIdleMillis is how long after the last delivery an idle session reports what it has drained. Used by broker.
	DrainedIdleMillis = 20

	// CreditSilentMillis is how long a queue may leave a change of its part of a channel-wide prefetch unanswered before the part is lent to other queues. Used by broker.
	CreditSilentMillis = 1000
)
