package queue

// Code is the answer to a command. The numbers stand in snapshots: only add at the end.
type Code uint8

const (
	// CodeOK: done.
	CodeOK Code = 0
	// CodeRejected: an Enqueue was refused by a limit (the publisher gets a nack).
	CodeRejected Code = 1
	// CodeEmpty: a Get found nothing.
	CodeEmpty Code = 2
	// CodeExclusive: the queue has an exclusive consumer, or has consumers and an exclusive one was asked for.
	CodeExclusive Code = 3
	// CodeInUse: Seal: there are consumers.
	CodeInUse Code = 4
	// CodeNotEmpty: Seal: there are messages.
	CodeNotEmpty Code = 5
	// CodeLimit: a named limit of the machine (sessions, consumers) is reached.
	CodeLimit Code = 6
	// CodeStale: the command names something older than what the machine has; nothing changed.
	CodeStale Code = 7
	// CodeGone: the queue was deleted (said by the shell, never by the machine).
	CodeGone Code = 8
	// CodeUnavailable: not known to be stored (said by the shell when it gives up, never by the machine).
	CodeUnavailable Code = 9
	// CodeGap: messages before these are missing.
	CodeGap Code = 10
	// CodeSealed: the queue is about to be deleted.
	CodeSealed Code = 11
	// CodeSingleActive: a Get of a queue that a single consumer empties.
	CodeSingleActive Code = 13
	// CodeNoConsumers: an Enqueue with FlagImmediate found no consumer; nothing was stored.
	CodeNoConsumers Code = 12
	// CodeDeciding: Seal: other queues have yet to hear from this one that a transaction is committed; that is over soon.
	CodeDeciding Code = 14
	// CodeDuplicate: an Enqueue brought an ID that the queue knows. Nothing was stored, and the publisher gets an ack.
	CodeDuplicate Code = 15
	// CodeNotOutstanding: a transaction settles deliveries that its session does not have any more.
	CodeNotOutstanding Code = 16
)

// Reply answers one command. A, B and C are explained at the Op.
type Reply struct {
	Code    Code
	A, B, C uint64
}

// IsPlain tells whether the reply is the one that needs no record: OK and no numbers.
func (r Reply) IsPlain() bool { return r == Reply{} }

// Exception is a reply of a batch that is not plain. Index counts the batch's commands from 0.
type Exception struct {
	Index uint32
	Reply Reply
}

// Verdict is what a machine says to a whole batch.
type Verdict uint8

const (
	// VerdictApplied: the batch was the next one and took effect.
	VerdictApplied Verdict = 1
	// VerdictRepeat: the batch had been applied before; the Result has its old outcome.
	VerdictRepeat Verdict = 2
	// VerdictGap: batches before it are missing; Result.Next is the k that is wanted. Nothing changed.
	VerdictGap Verdict = 3
	// VerdictFenced: the boot was declared dead; Result.DeadBoot is the highest dead one. If another incarnation of the same counter holds the pipeline it is that counter, so DeadBoot
	// is never below the counter that was refused. Nothing changed.
	VerdictFenced Verdict = 4
	// VerdictSealed: the queue is sealed. Nothing changed and the batch did not take its k.
	VerdictSealed Verdict = 5
	// VerdictLimit: no room for another pipeline. Nothing changed.
	VerdictLimit Verdict = 6
	// VerdictEvicted: this gen of the pipeline was evicted, or a higher one holds its place. Nothing changed; Sync tells what had been applied.
	VerdictEvicted Verdict = 7
)

// Result answers a batch. Exceptions alias the machine's memory: valid until the next Apply.
type Result struct {
	Verdict    Verdict
	Next       uint64
	DeadBoot   uint64
	Exceptions []Exception
}

// Counts are the numbers of a queue that people look at.
type Counts struct {
	// Ready and unacked messages and the bytes of their bodies. Messages of an ended session count as unacked until they are back; deliveries without acknowledgement count as
	// neither, though the queue holds them until they are drained.
	Ready, Unacked           uint64
	ReadyBytes, UnackedBytes uint64
	// Persistent counts messages (ready and unacked) of delivery mode 2.
	Persistent, PersistentBytes uint64
	Consumers                   uint64
	// Delayed counts the messages that are to be ready later and the bytes of their bodies.
	Delayed, DelayedBytes uint64
	// Dead counts the messages in the outbox and the bytes of their bodies.
	Dead, DeadBytes uint64
	// Moving counts those of them that did not die but were moved.
	Moving uint64
	// Totals since the machine was made. Rejected counts enqueues that a limit refused, TimedOut deliveries that were kept for too long, Deaths messages that died, by Reason less one.
	Enqueued, Delivered, DeliveredNoAck, Got, GotNoAck, GetEmpty, Acked, Redelivered, Rejected, TimedOut uint64
	Deaths                                                                                               [reasonsEnd - 1]uint64
	// Duplicates counts the enqueues that brought an ID that was known.
	Duplicates uint64
	// NextSeq is the seq of the next message.
	NextSeq Seq
}

// Numbers lists all of them but NextSeq, in an order that is the same everywhere: for whoever carries them from node to node.
func (c *Counts) Numbers() []*uint64 {
	list := []*uint64{
		&c.Ready, &c.Unacked, &c.ReadyBytes, &c.UnackedBytes, &c.Persistent, &c.PersistentBytes, &c.Consumers, &c.Delayed, &c.DelayedBytes, &c.Dead, &c.DeadBytes, &c.Enqueued, &c.Delivered,
		&c.DeliveredNoAck, &c.Got, &c.GotNoAck, &c.GetEmpty, &c.Acked, &c.Redelivered, &c.Rejected, &c.Moving,
	}
	for i := range c.Deaths {
		list = append(list, &c.Deaths[i])
	}
	return append(list, &c.TimedOut, &c.Duplicates)
}

// SyncState is the answer to an Attach: what a node must know of its pipeline at one applied index (PROTOCOL 2).
type SyncState struct {
	// Known is false if the machine has no such pipeline; then nothing else counts but LastK = 0.
	Known bool
	// LastK is the last batch applied. Outcomes are those with K > the asked one that the window still has.
	LastK    uint64
	Outcomes []BatchOutcome
	Sessions []SessionSync
	// DeadBoot is the highest boot counter of the node that was declared dead, 0 if none.
	DeadBoot uint64
	// Evicted tells that nothing of the pipeline takes effect any more: its node goes on with the next gen.
	Evicted bool
}

// BatchOutcome is the remembered outcome of batch K.
type BatchOutcome struct {
	K          uint64
	Exceptions []Exception
}

// SessionSync is the part of a SyncState about one session.
type SessionSync struct {
	Session   SessionID
	LastD     uint64
	Consumers []ConsumerID
	// Ready is not 0 if the session is marked as wanting more than its limit (KindReady): how many messages are ready, or 1.
	Ready uint64
	// Deliveries are the outstanding ones with D above the asked one, as KindDeliver effects in order of D.
	Deliveries []Effect
	// LostSome tells that deliveries were taken back (KindTimedOut); then Kept are the outstanding ones with D up to Seen, the asked one.
	LostSome bool
	Seen     uint64
	Kept     []uint64
}

// SessionMark tells how far a node has got the deliveries of one session.
type SessionMark struct {
	Session SessionID
	LastD   uint64
}
