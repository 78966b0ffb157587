package limits

// Bounds that replicated machines read. Replicas on different releases must agree on them, so a value here is never edited: a machine that
// needs another one gets it as a new constant behind a new machine version.
const (
	// ApplyWorkMax bounds what one log entry may do: expiries, drops, dead letters, returns. The rest waits for the next Tick. Used by queue.
	ApplyWorkMax = 4096

	// SettleRangeMax is the longest range of delivery numbers in one Settle command; senders split longer ones. Used by queue and broker.
	SettleRangeMax = 4096

	// PipelineWindowBatches is how many batches of one pipeline may be unanswered, and how many outcomes a machine remembers per pipeline.
	// Used by queue and quorum.
	PipelineWindowBatches = 4

	// PipelinesPerQueueMax bounds the pipelines (one per node incarnation and gen) that a queue remembers; beyond it a first batch is refused.
	// Used by queue.
	PipelinesPerQueueMax = 4096

	// SessionsPerQueueMax bounds the session records of one queue; beyond it a Subscribe or Get of a new session is refused. Used by queue.
	SessionsPerQueueMax = 65536

	// TxCommandsMax bounds the commands that a session may have staged in one queue; the transaction is refused whole beyond it. Used by queue and broker.
	TxCommandsMax = 32768

	// TxQueuesMax bounds the queues that take part in one transaction beside the one that decides it; it is refused whole beyond it. Used by queue and broker.
	TxQueuesMax = 1024

	// TxOpenPerQueueMax bounds the transactions over several queues that one queue has reserved, and those that it has decided and not all others know of; one more is refused whole. Used by queue.
	TxOpenPerQueueMax = 4096

	// ConsumersPerQueueMax bounds the consumers of one queue; beyond it a Subscribe is refused. Used by queue.
	ConsumersPerQueueMax = 65536

	// OutboxLettersMax bounds the dead letters that wait in the outbox of one queue, some 100 bytes of memory each; beyond it a queue that refuses publishes when it is full refuses them, and any other
	// loses what dies, which is counted and logged. Used by queue.
	OutboxLettersMax = 1 << 20

	// LanesPerQueueMax bounds the queues that the outbox of one queue sends to; beyond it a dead letter stays where it is. Used by queue.
	LanesPerQueueMax = 4096

	// MarksPerQueueMax bounds the queues whose outboxes one queue remembers; beyond it a run of another one is refused. Used by queue.
	MarksPerQueueMax = 65536

	// DedupIDsMax bounds the ids that a queue remembers for a window of deduplication, some 80 bytes each; the oldest go first. Used by queue.
	DedupIDsMax = 1 << 20

	// DedupGarbage is how many ids of messages that have left a queue may keep before it looks for them; beyond it they are no more than those of messages that are there. Used by queue.
	DedupGarbage = 64

	// DedupSweepMax is how many ids one log entry looks at for that; removing one costs more than other work does. Used by queue.
	DedupSweepMax = 1024
)
