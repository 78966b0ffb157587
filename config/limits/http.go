package limits

// Bounds of the HTTP API.
const (
	// HTTPHeaderBytesMax bounds a request's header. Beyond it: 431. Used by management.
	HTTPHeaderBytesMax = 16 << 10

	// HTTPBodyBytesMax bounds a request's body. Beyond it: 413. Used by management.
	HTTPBodyBytesMax = 20_000_000

	// HTTPReadTimeoutMillis is how long a request may take to arrive. Used by management.
	HTTPReadTimeoutMillis = 10_000

	// HTTPIdleTimeoutMillis is how long a kept connection may be silent. Used by management.
	HTTPIdleTimeoutMillis = 60_000

	// PeekMessagesMax and PeekBytesMax bound what one look at a queue shows: messages, and their bytes without what was cut off. Used by management.
	PeekMessagesMax = 1000
	PeekBytesMax    = 8 << 20

	// LoginSessionMinutes is how long a browser's login lasts unused, unless configured. Used by management, config.
	LoginSessionMinutes = 480

	// EndedSessionsMax is how many sessions that were ended before their time a node remembers; beyond it the oldest is taken again until it expires. Used by management.
	EndedSessionsMax = 1 << 16

	// PageItemsMax is the largest page_size of a list. Beyond it: 400. Used by management.
	PageItemsMax = 500
)
