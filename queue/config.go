package queue

// Config is everything about a queue that Apply reads and that does not come from commands of clients. The catalogue puts it there: what the queue was declared with and
// what policies add. The zero value limits nothing.
type Config struct {
	// Version rises with each change; an older one is ignored.
	Version uint64
	// PriorityMax is the highest priority; higher ones are capped. PriorityDefault is that of a message without one.
	PriorityMax     uint8
	PriorityDefault uint8
	// PriorityAging is after how many milliseconds a ready message counts as one priority higher; 0 is never.
	PriorityAging Limit
	// AutoDelete: emit KindUnused when the last consumer goes.
	AutoDelete bool
	// MessageTTL is how long a message may be ready, in milliseconds from its enqueue. At 0 it goes to a consumer at once or expires.
	MessageTTL Limit
	// MaxLength and MaxLengthBytes limit the ready messages and the bytes of their bodies. Overflow says what gives way.
	MaxLength, MaxLengthBytes Limit
	Overflow                  Overflow
	// DeliveryLimit is how often a message may come back as a failure; the next failure is its death. CountReturns counts every return, as RabbitMQ did before 4.3.
	DeliveryLimit Limit
	CountReturns  bool
	// Retry says which messages wait when they come back: RetryMin milliseconds for each failure, at least for one, at most RetryMax, or RetryMin if that is absent. With RetryMultiplier it is RetryMin times
	// that for each time but the first that somebody had the message, at most RetryMax if that is there. RetrySchedule goes before all that. RetryJitter is by how many percent the wait may be shorter.
	Retry                        RetryType
	RetryMin, RetryMax           Limit
	RetryMultiplier, RetryJitter Limit
	RetrySchedule                Schedule
	// DeadLetter: messages that die go to the outbox; else they are gone. ParkPoison does the same for those that die of DeliveryLimit.
	DeadLetter, ParkPoison bool
	// SingleActive: one consumer at a time gets messages, the one of the highest priority that has waited longest.
	SingleActive bool
	// Expires is how many milliseconds the queue may be unused: without consumer, get and touch. ExpiresIfEmpty: not while it holds messages.
	Expires        Limit
	ExpiresIfEmpty bool
	// Draining: the queue was deleted and is there for its outbox alone. It is sealed for good, its ready messages go, and what dies leaves nothing. What a relay still delays goes when it is due.
	Draining bool
	// Relay: a message that would be ready goes to the outbox, alive, to be carried on to where its shell routes it. Nobody gets it here.
	Relay bool
	// ConsumerTimeout is how many milliseconds a delivery may be unacknowledged before it comes back and its consumer is cancelled, unless the consumer has a timeout of its own; 0 is for ever.
	ConsumerTimeout Limit
	// Deduplicate: a message whose ID the queue knows is not stored again. It knows the IDs of the messages that it holds, or, if one of the others is there, for DedupTTL milliseconds from the first one
	// on, and those of the last DedupSize messages that it took.
	Deduplicate         bool
	DedupTTL, DedupSize Limit
}

// Limit is an upper bound that may be absent: 0 stands for none, n+1 for n.
type Limit uint64

// LimitOf returns the limit n, at most 2^62.
func LimitOf(n uint64) Limit { return Limit(min(n, numberMax)) + 1 }

// Get returns the bound; ok is false if there is none.
func (l Limit) Get() (n uint64, ok bool) { return uint64(l) - 1, l != 0 }

// exceeded tells whether n is above the bound.
func (l Limit) exceeded(n uint64) bool { return l != 0 && n > uint64(l)-1 }

// after returns the time that lies the bound behind millis; ok is false if there is none.
func (l Limit) after(millis int64) (due int64, ok bool) {
	n, ok := l.Get()
	return millis + int64(min(n, numberMax)), ok
}

// Overflow says what gives way when a queue is full. The numbers stand in logs: only add at the end.
type Overflow uint8

const (
	// DropHead: the oldest messages of the lowest priority die.
	DropHead Overflow = 0
	// RejectPublish: what comes is refused.
	RejectPublish Overflow = 1
	// RejectPublishDLX: what comes is refused and dies.
	RejectPublishDLX Overflow = 2
)
