package queue

// Seq is the position of a message in its queue, given by the machine: dense from 1, never reused. It is also the key of the body in the message store.
type Seq uint64

// NodeID names a node of the cluster. A wiped node gets a new one, so an id is never reused.
type NodeID uint64

// Boot is one incarnation of a node. Counter rises strictly with every start (or with every death that the node survived); Nonce tells apart two
// incarnations that claim the same counter. See PROTOCOL 1.
type Boot struct {
	Counter uint64
	Nonce   uint64
}

// PipelineID names the ordered stream of batches from one node incarnation to one queue. Gen starts at 1 and rises when a node starts over
// with this one queue after an Evict.
type PipelineID struct {
	Node NodeID
	Boot Boot
	Gen  uint64
}

// SessionID is a channel of a node incarnation: a counter of the boot, never reused, never 0. Inside a batch the pipeline gives node and boot.
type SessionID uint64

// TxNumber names a transaction of a session, which with its pipeline and session is known everywhere: a counter of the session, from 1.
type TxNumber uint64

// ConsumerID names a consumer within its session: a counter of the session, from 1. 0 stands for "no consumer" (an answer to a Get).
type ConsumerID uint32

// Op tells the kind of a Command. The numbers stand in logs: only add at the end.
type Op uint8

// Commands that travel in pipeline batches.
const (
	// OpEnqueue adds one message. Fields: Session, Flags, Priority, Expiration, ID, BodyBytes, Envelope. Reply: CodeRejected if the queue is full; CodeNoConsumers if FlagImmediate asks for a consumer
	// that gets it at once, and there is none; CodeDuplicate if the queue knows its ID: it is not stored then.
	OpEnqueue Op = 1
	// OpSubscribe adds a consumer, whose number must be above all of the session's before (else CodeStale). Reply: CodeExclusive, CodeLimit. With FlagLimited a session without a limit gets the limit 0. Fields: Session, Consumer, Prefetch, WindowBytes, WindowCount, ConsumerPriority, Timeout, Flags (NoAck, Exclusive, Limited).
	OpSubscribe Op = 2
	// OpCancel removes a consumer; its unsettled deliveries stay outstanding. Fields: Session, Consumer. Reply.A = the session's last d.
	OpCancel Op = 3
	// OpDrained reports how far a session has written its deliveries to the socket: every d <= To. It opens windows again and settles no-ack deliveries. Fields: Session, To.
	OpDrained Op = 4
	// OpGet takes one message at once. Fields: Session, Flags (NoAck). Reply: CodeEmpty (which makes no session), CodeLimit, CodeSingleActive, or A = its d, B = ready messages left. The delivery has Consumer 0.
	OpGet Op = 5
	// OpSettle ends deliveries From..To (both included, at most limits.SettleRangeMax numbers) of the session that are still outstanding, by Outcome. With Consumer
	// not 0 only those of that consumer. Numbers that are not outstanding change nothing. A delivery without acknowledgement is ended by OutcomeAck and OutcomeReturnFresh only.
	// Reply.A = how many were settled. Fields: Session, Consumer, From, To, Outcome.
	OpSettle Op = 6
	// OpPurge drops all ready messages. Reply.A = how many.
	OpPurge Op = 7
	// OpQuery asks for counts. Reply.A = ready messages, B = consumers, C = unacked messages (see Counts).
	OpQuery Op = 8
	// OpSessionClose ends a session: To is the last d that was written to the socket. No-ack deliveries <= To count as done, manual ones <= To return counted, all above To
	// return uncounted (their acquired count stays). A To below what OpDrained reported counts as that. Consumers go. An unknown session is fine. Reply.A = the session's last d.
	// Fields: Session, To.
	OpSessionClose Op = 9
	// OpTxEnqueue and OpTxSettle stage an Enqueue and a Settle under a transaction of the session: they take effect with its OpTxCommit, all in that entry, and not before. A staged message keeps the
	// position and the age that it was staged with. A session has one open transaction: the first command of a higher Tx drops what was staged under a lower one, one of a lower Tx is CodeStale. The end of the
	// session drops it, too, whatever ends it. Replies: CodeLimit. Fields: as OpEnqueue and OpSettle, and Session, Tx.
	OpTxEnqueue Op = 10
	OpTxSettle  Op = 11
	// OpTxCommit carries out what the session has staged under Tx, in order, if that is To commands, the queue has room for all its messages, and the session still has what is acknowledged or rejected. Otherwise it carries out
	// nothing and drops it: CodeStale, CodeRejected, CodeNotOutstanding. Fields: Session, Tx, To.
	OpTxCommit Op = 12
	// OpCredit sets how many deliveries of this queue to consumers of the session may be unsettled at once, those to consumers that have ended included: the queue's part of a channel-wide prefetch. Deliveries
	// without acknowledgement and answers to a Get neither count nor wait. More than the limit may be outstanding when it is lowered. It takes back the mark that the session wants more (KindReady). Reply.A =
	// how many are unsettled, B = how many messages are ready, if but for the limit one would go to the session (then the mark is set again), else 0. An unknown session is fine. Fields: Session, Limit.
	OpCredit Op = 13
	// OpUnschedule drops delayed messages, OpExpedite makes them ready now: those of Envelope, a list of AppendDelayed, or the first To by time, either as far as one entry's work goes. Those that are not
	// delayed (any more) are passed over. Reply.A = how many there were. Fields: To, Envelope.
	OpUnschedule Op = 14
	OpExpedite   Op = 15
	// OpMove moves ready messages to queue Peer: those that Envelope names (AppendSeqs), without any the first To of the queue. Who is not ready is passed over, and it ends when the entry's work is used
	// up; named ones are at most MoveMax. Reply.A = how many were moved; CodeLimit if there are too many targets. Fields: Peer, Reason (Moved, Redriven), To, Envelope.
	OpMove Op = 19
	// OpTxPrepare reserves what the session has staged under Tx, if that is To commands and the queue has room for all its messages, for a decision of queue Peer: deliveries leave the session, and
	// whatever ends it, everything stays reserved until OpTxFinish or OpTxEnd. Otherwise it drops it: as OpTxCommit, and CodeLimit. Fields: Session, Tx, To, Peer.
	OpTxPrepare Op = 16
	// OpTxDecide is OpTxCommit that also records, in the same entry, that the transaction is committed, until OpTxFinish or until all queues of Envelope, a list of AppendQueue, are reported by OpTxDone.
	// Replies: as OpTxCommit, and CodeLimit. Fields: Session, Tx, To, Envelope.
	OpTxDecide Op = 17
	// OpTxFinish says that a transaction of the session, which may have ended, is committed and, where that was decided, that all others know it. What is reserved is carried out whatever the limits are by
	// now. Without such a transaction it does nothing. Fields: Session, Tx.
	OpTxFinish Op = 18
	// OpTouch is OpQuery that counts as a use of the queue: it was declared again.
	OpTouch Op = 20
)

// Commands outside pipelines, proposed by the leader. They are idempotent: each carries what the machine compares.
const (
	// OpTick drives on what is due: parts of bounded work that is left, and every timer. Deliveries that a consumer kept for too long come back with it. Fields: none.
	OpTick Op = 32
	// OpConfigure replaces the Config if its Version is higher than the machine's (else CodeStale). Messages keep the priority that they got. Fields: Config.
	OpConfigure Op = 33
	// OpSeal asks whether the queue may be deleted under Condition. If so the queue is sealed: batches change nothing until Unseal. Fields: Condition. Reply: CodeOK with A = token,
	// B = ready messages, in a relay those that are due and have no targets yet, C = messages in the outbox; CodeInUse; CodeNotEmpty. A sealed queue answers its present token. While it
	// is sealed no message is assigned. A condition on what is still returning (IfEmpty, IfAutoDelete) is answered CodeNotEmpty.
	OpSeal Op = 34
	// OpUnseal takes back the seal with token To; another token changes nothing (CodeStale). Fields: To.
	OpUnseal Op = 35
	// OpNodeGone ends all sessions and pipelines of Node with a boot counter <= Boot.Counter: the catalogue declared them dead. Their messages return, and nothing counts as a failure.
	// After it every batch of a boot counter <= Boot.Counter of that node is answered Fenced, whatever its nonce. Reply: CodeStale if that is so already. Fields: Node, Boot.
	OpNodeGone Op = 36
	// OpEvict ends the sessions of one pipeline whose node was not attached to the queue for long, though it lives (PROTOCOL 3). Their messages return, and nothing counts as a failure. The pipeline's
	// last batch and outcomes stay until a batch of a higher gen; batches of this or a lower gen are answered Evicted. Reply: CodeStale if that is so already or there is no such
	// pipeline. Fields: Node, Boot, Gen.
	OpEvict Op = 37
	// OpResolve gives parcels of the outbox their targets: Envelope is a list of AppendTargets. A parcel that has targets keeps them; one without any is dropped. Reply.A = how many it
	// resolved; CodeLimit if there are too many targets.
	OpResolve Op = 38
	// OpDone says that target Peer has every parcel of its lane up to To; with To = DoneGone that it is gone for ever. Reply.A = the last t that is done with, which may be lower: the rest
	// takes another one. CodeStale if there is no such lane. Fields: Peer, To.
	OpDone Op = 39
	// OpRun brings messages From, From+1, ... of queue Peer's outbox: Envelope is encoded OpEnqueue commands. Reply.A = the last one that this queue has; CodeGap if messages before
	// From are missing, CodeSealed, CodeLimit, CodeRejected if it is full behind that. Fields: Peer, PeerEpoch, From, Envelope.
	OpRun Op = 40
	// OpTxAsk asks the home of a transaction what was decided. Reply.A = TxCommitted; else it is TxAborted from now on: what the session has staged under it is dropped, so that a late OpTxDecide is
	// refused. Fields: Node, Boot, Session, Tx.
	OpTxAsk Op = 41
	// OpTxEnd ends a reservation as the home said, To. Reply: CodeStale if there is none. Fields: Node, Boot, Session, Tx, To.
	OpTxEnd Op = 42
	// OpTxDone says that queue Peer has heard of a decision, or is gone. The last one removes it. Reply: CodeStale if that is so already. Fields: Node, Boot, Session, Tx, Peer.
	OpTxDone Op = 43
	// OpForget drops what is remembered of the outbox of queue Peer under PeerEpoch, which is gone for so long that nothing of it can still come. Reply: CodeStale if there is nothing. Fields: Peer, PeerEpoch.
	OpForget Op = 44
)

// What became of a transaction. The numbers stand in logs.
const (
	TxAborted   = 0
	TxCommitted = 1
)

// DoneGone stands in OpDone for a target that is gone.
const DoneGone = 1<<64 - 1

// Flags of commands; a bit set.
type Flags uint16

const (
	// FlagPersistent marks a message of delivery mode 2.
	FlagPersistent Flags = 1 << 0
	// FlagHasPriority says that Priority was set by the publisher (a message without one gets the queue's default).
	FlagHasPriority Flags = 1 << 1
	// FlagRedelivered marks an Enqueue whose first try may have been delivered already (PROTOCOL 5).
	FlagRedelivered Flags = 1 << 2
	// FlagNoAck marks a consumer or Get whose deliveries need no acknowledgement.
	FlagNoAck Flags = 1 << 3
	// FlagExclusive asks for being the only consumer of the queue.
	FlagExclusive Flags = 1 << 4
	// FlagLimited says that the consumer's channel has a prefetch of its own, of which this queue has nothing until an OpCredit brings it.
	FlagLimited Flags = 1 << 5
	// FlagHasExpiration says that Expiration was set by the publisher.
	FlagHasExpiration Flags = 1 << 6
	// FlagImmediate asks for the message to go to a consumer at once or not at all.
	FlagImmediate Flags = 1 << 7
	// FlagDelay says that the message is to become ready later: Delay milliseconds after it is applied, or with DelayUntil at the time Delay.
	FlagDelay Flags = 1 << 8
	// FlagDedup says that the message has an ID, by which a queue that deduplicates knows it again.
	FlagDedup Flags = 1 << 9
)

// Outcome is what a Settle does with a delivery. The numbers stand in logs: only add at the end.
type Outcome uint8

const (
	// OutcomeAck: the message was processed and leaves the queue.
	OutcomeAck Outcome = 1
	// OutcomeReturn: back to the message's original position, not counted as a failure (basic.nack requeue, decision 1 of the cases: raises acquired only).
	OutcomeReturn Outcome = 2
	// OutcomeReturnCounted: back to the original position, delivery count + 1 (basic.reject requeue).
	OutcomeReturnCounted Outcome = 3
	// OutcomeDiscard: rejected without requeue; it dies.
	OutcomeDiscard Outcome = 4
	// OutcomeReturnFresh: was never shown to a client (returned uncounted, acquired count taken back).
	OutcomeReturnFresh Outcome = 5
)

// Condition of a Seal. A bit set.
type Condition uint8

const (
	// IfUnused: no consumers.
	IfUnused Condition = 1 << 0
	// IfEmpty: no ready messages and none outstanding.
	IfEmpty Condition = 1 << 1
	// IfAutoDelete: the queue is auto-delete, has had a consumer and has none now.
	IfAutoDelete Condition = 1 << 2
	// IfExpired: the queue was not used for as long as its Config allows.
	IfExpired Condition = 1 << 3
)

// Command is one command to a queue, a closed sum over Op. Which fields count is told at the Op. The zero value of the others is encoded in no byte.
type Command struct {
	Op               Op
	Flags            Flags
	Priority         uint8
	Outcome          Outcome
	Condition        Condition
	Session          SessionID
	Tx               TxNumber
	Consumer         ConsumerID
	ConsumerPriority int32
	// Prefetch limits the consumer's unsettled deliveries; 0 = no limit.
	Prefetch uint32
	// WindowBytes and WindowCount limit the consumer's undrained deliveries: bodies' bytes and number. One message may exceed an empty byte window. 0 stands for
	// WindowBytesDefault and WindowCountDefault; WindowCountMax caps the number.
	WindowBytes uint32
	WindowCount uint32
	// Timeout is how long the consumer may keep a delivery, in milliseconds: 0 for ever, absent as the queue's Config says.
	Timeout Limit
	// Limit is that of an OpCredit; NoLimit stands for none.
	Limit uint32
	// BodyBytes is the length of the message body alone; counts and limits are in it.
	BodyBytes uint32
	// Expiration is how long the message may be ready, in milliseconds, at most 2^62.
	Expiration uint64
	// Delay and DelayUntil count with FlagDelay. A wait is at most a thousand years.
	Delay      uint64
	DelayUntil bool
	// ID counts with FlagDedup.
	ID       DedupID
	From, To uint64
	Node     NodeID
	Boot     Boot
	Gen      uint64
	// Peer is the other queue, PeerEpoch its epoch.
	Peer      QueueID
	PeerEpoch uint64
	Config    Config
	// Reason says what an OpMove is for.
	Reason Reason
	// Envelope is the opaque message (exchange, key, header, body), which the machine never looks at. It aliases the encoded batch.
	Envelope []byte
}

// NoLimit is the limit of a session that has none.
const NoLimit = 1<<32 - 1

// Batch is what one node sends to one queue in one Raft proposal. K counts the batches of the pipeline: 1, 2, 3...
type Batch struct {
	Pipeline PipelineID
	K        uint64
	// NowMillis is stamped by the proposer.
	NowMillis int64
	// Count is the number of commands.
	Count int
	// Commands are the encoded commands (AppendCommand), one after the other.
	Commands []byte
}
