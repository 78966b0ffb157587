package limits

// Bounds of the HTTP API.
const (
	// HTTPHeaderBytesMax bounds a request's header. Beyond it: 431. Used by management.
	HTTPHeaderBytesMax = 16 << 10

	// HTTPBodyBytesMax bounds a request's body. Beyond it: 413. Used by management.
	HTTPBodyBytesMax = 20_000_000

	// HTTPHeavyMax bounds the requests for lists and messages that are answered at the same time. Beyond it: 503. Used by management.
	HTTPHeavyMax = 64

	// HTTPLeaseWaitMillis is how long a change waits while the node may not trust its view of the catalogue; beyond it: 503. Used by management.
	HTTPLeaseWaitMillis = 5_000

	// HTTPReadTimeoutMillis is how long a request may take to arrive. Used by management.
	HTTPReadTimeoutMillis = 10_000

	// HTTPIdleTimeoutMillis is how long a kept connection may be silent. Used by management.
	HTTPIdleTimeoutMillis = 60_000

	// PeekMessagesMax and PeekBytesMax bound what one look at a queue shows: messages, and their bytes without what was cut off. Used by management.
	PeekMessagesMax = 1000
	PeekBytesMax    = 8 << 20

	// RedrivePageMessages is how many messages a redrive looks at and moves at a time, RedriveMovingMax how many may be on their way out of a queue before it waits. Used by management.
	RedrivePageMessages = 500
	RedriveMovingMax    = 10_000

	// RedrivesMax bounds the redrives that run on a node; beyond it: 503. RedrivesKept is how many of those that ended are still shown. Used by management.
	RedrivesMax  = 32
	RedrivesKept = 100

	// RedriveNamesMax bounds the queues that a redrive, or the list of dead letters, tells apart; the rest are counted together. Used by management.
	RedriveNamesMax = 500

	// DeadLettersSampled is how many messages of a queue are looked at to tell where its dead letters come from, DeadQueuesSampled of how many queues in one list. Used by management.
	DeadLettersSampled = 1000
	DeadQueuesSampled  = 64

	// HistoryBytesMax bounds what the samples over time take, of queues and of each kind of things of the node's clients. Beyond it those of things that begin to move begin anew. Used by management.
	HistoryBytesMax = 48 << 20

	// SampledMax is how many connections, channels or exchanges are sampled though nobody looks at them. Used by management.
	SampledMax = 10_000

	// SamplesMax is how many samples of a number one request may ask for. Beyond it: 400. Used by management.
	SamplesMax = 1000

	// LoginSessionMinutes is how long a browser's login lasts unused, unless configured. Used by management, config.
	LoginSessionMinutes = 480

	// EndedSessionsMax is how many sessions that were ended before their time a node remembers; beyond it the oldest is taken again until it expires. Used by management.
	EndedSessionsMax = 1 << 16

	// PageItemsMax is the largest page_size of a list. Beyond it: 400. Used by management.
	PageItemsMax = 500
)
