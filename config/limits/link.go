package limits

// Bounds of the conversation between nodes.
const (
	// LinkSuspectMillis is how long nothing may be heard of a node before it is suspected to be down. Used by quorum/link.
	LinkSuspectMillis = 600

	// LinkDialMillis bounds one attempt to reach a node. Used by quorum/link.
	LinkDialMillis = 2_000

	// LinkRedialMillis is the longest pause between two attempts. Used by quorum/link.
	LinkRedialMillis = 1_000
)
