package limits

// Bounds of the catalogue and of routing.
const (
	// QueuesMax bounds the queues of the whole cluster. Beyond it a declare is refused with 406. Used by meta.
	QueuesMax = 100_000

	// BindingsPerQueueMax bounds the bindings that point at one queue. Beyond it a bind is refused with 406. Used by meta.
	BindingsPerQueueMax = 100_000

	// TargetsPerPublishMax bounds the queues that one publish may reach. Beyond it: 506. Used by exchange.
	TargetsPerPublishMax = 100_000

	// TopicWordsMax bounds the words of a topic pattern. Beyond it a bind is refused with 406. Used by exchange and meta.
	TopicWordsMax = 128
)
