package queue

// Config is everything about a queue that Apply reads and that does not come from commands of clients. The catalogue puts it there.
type Config struct {
	// Version rises with each change; an older one is ignored.
	Version uint64
	// PriorityMax is the highest priority; higher ones are capped. PriorityDefault is that of a message without one.
	PriorityMax     uint8
	PriorityDefault uint8
	// AutoDelete: emit KindUnused when the last consumer goes.
	AutoDelete bool
}
