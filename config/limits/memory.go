package limits

// How a node divides the memory that it may take before publishers are blocked (vm_memory_high_watermark), in percent of that, each with the least and the most that it is in bytes (docs/adr/0019). Used by
// internal/alarm.
const (
	// GarbagePercent is from where the collector works as hard as it must (GOMEMLIMIT, unless that is set): garbage alone raises no alarm.
	GarbagePercent  = 85
	GarbageBytesMin = 64 << 20

	// BodiesPercent is for message bodies in memory: beyond it queues are checkpointed and what is written is dropped.
	BodiesPercent  = 25
	BodiesBytesMin = 16 << 20
	BodiesBytesMax = 512 << 20

	// PublishPercent is for messages of all connections that begin to arrive or that their queues have not answered; each is there about three times. Beyond it connections are not read.
	PublishPercent  = 8
	PublishBytesMin = 4 << 20
	PublishBytesMax = 1 << 30

	// WindowPercent is for deliveries on their way to clients. Beyond it a consumer has the smallest window.
	WindowPercent  = 13
	WindowBytesMin = 4 << 20
	WindowBytesMax = 2 << 30
)

// How connections share it. Used by broker.
const (
	// PublishShare is how many connections may at least have messages on their way when each has as many as it may.
	PublishShare = 4

	// PublishReserveBytes is from which length on a body is let in only when there is memory for all of it.
	PublishReserveBytes = 32 << 10

	// PublishWakes is how many of those that wait are told when memory is given back.
	PublishWakes = 8

	// WindowShare is the part of what is left that a consumer gets.
	WindowShare = 16
)
