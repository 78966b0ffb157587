package limits

// Bounds of routing. Those of the catalogue's machine stand with it, in package meta.
const (
	// TargetsPerPublishMax bounds the queues that one publish may reach. Beyond it: 506. Used by exchange.
	TargetsPerPublishMax = 100_000

	// BindingsPerDestinationMax bounds the bindings of one queue, and those to one exchange. Beyond it: 406. Used by quorum.
	BindingsPerDestinationMax = 100_000
	// TopicWordsMax bounds the words of a topic exchange's binding key. Beyond it: 406. Used by quorum.
	TopicWordsMax = 128
)
