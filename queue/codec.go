package queue

import (
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
)

// Flags that a command of an Op may carry; every other one is malformed.
const (
	enqueueFlags   = FlagPersistent | FlagHasPriority | FlagRedelivered | FlagHasExpiration | FlagImmediate | FlagDedup | FlagDelay
	subscribeFlags = FlagNoAck | FlagExclusive | FlagLimited
	getFlags       = FlagNoAck
	conditionsAll  = IfUnused | IfEmpty | IfAutoDelete | IfExpired
)

// IsBatched tells whether commands of this Op travel in pipeline batches (the others travel alone).
func (op Op) IsBatched() bool {
	return op >= OpEnqueue && op <= OpExpedite || op >= OpTxPrepare && op <= OpTxFinish || op == OpMove || op == OpTouch
}

// IsKnown tells whether this machine understands the Op.
func (op Op) IsKnown() bool { return op.IsBatched() || op >= OpTick && op <= OpForget }

// AppendCommand appends the encoded command. Only the fields that count for its Op are encoded; equal ones give equal bytes.
func AppendCommand(dst []byte, c *Command) []byte {
	dst = append(dst, byte(c.Op))
	switch c.Op {
	case OpEnqueue, OpTxEnqueue:
		dst = appendEnqueue(dst, c)
	case OpSubscribe:
		dst = codec.AppendUvarint(dst, uint64(c.Flags))
		dst = codec.AppendUvarint(dst, uint64(c.Session))
		dst = codec.AppendUvarint(dst, uint64(c.Consumer))
		dst = codec.AppendUvarint(dst, uint64(c.Prefetch))
		dst = codec.AppendUvarint(dst, uint64(c.WindowBytes))
		dst = codec.AppendUvarint(dst, uint64(c.WindowCount))
		dst = codec.AppendUint32(dst, uint32(c.ConsumerPriority))
		dst = codec.AppendUvarint(dst, uint64(c.Timeout))
	case OpCancel:
		dst = codec.AppendUvarint(dst, uint64(c.Session))
		dst = codec.AppendUvarint(dst, uint64(c.Consumer))
	case OpDrained, OpSessionClose:
		dst = codec.AppendUvarint(dst, uint64(c.Session))
		dst = codec.AppendUvarint(dst, c.To)
	case OpUnschedule, OpExpedite:
		dst = codec.AppendUvarint(dst, c.To)
		dst = codec.AppendBytes(dst, c.Envelope)
	case OpCredit:
		dst = codec.AppendUvarint(dst, uint64(c.Session))
		dst = codec.AppendUvarint(dst, uint64(c.Limit))
	case OpGet:
		dst = codec.AppendUvarint(dst, uint64(c.Flags))
		dst = codec.AppendUvarint(dst, uint64(c.Session))
	case OpSettle, OpTxSettle:
		dst = append(dst, byte(c.Outcome))
		dst = codec.AppendUvarint(dst, uint64(c.Session))
		if c.Op == OpTxSettle {
			dst = codec.AppendUvarint(dst, uint64(c.Tx))
		}
		dst = codec.AppendUvarint(dst, uint64(c.Consumer))
		dst = codec.AppendUvarint(dst, c.From)
		dst = codec.AppendUvarint(dst, c.To-c.From)
	case OpTxCommit, OpTxPrepare, OpTxDecide, OpTxFinish, OpTxAsk, OpTxEnd, OpTxDone:
		dst = appendTxCommand(dst, c)
	case OpConfigure:
		dst = appendConfig(dst, &c.Config)
	case OpSeal:
		dst = append(dst, byte(c.Condition))
	case OpUnseal:
		dst = codec.AppendUvarint(dst, c.To)
	case OpNodeGone:
		dst = codec.AppendUvarint(dst, uint64(c.Node))
		dst = codec.AppendUvarint(dst, c.Boot.Counter)
		dst = codec.AppendUint64(dst, c.Boot.Nonce)
	case OpEvict:
		dst = codec.AppendUvarint(dst, uint64(c.Node))
		dst = codec.AppendUvarint(dst, c.Boot.Counter)
		dst = codec.AppendUint64(dst, c.Boot.Nonce)
		dst = codec.AppendUvarint(dst, c.Gen)
	case OpMove, OpResolve, OpDone, OpRun, OpForget:
		dst = appendOutboxCommand(dst, c)
	}
	return dst
}

// appendOutboxCommand appends what follows the Op of a command about outboxes.
func appendOutboxCommand(dst []byte, c *Command) []byte {
	switch c.Op {
	case OpMove:
		dst = codec.AppendUvarint(dst, uint64(c.Peer))
		dst = append(dst, byte(c.Reason))
		dst = codec.AppendUvarint(dst, c.To)
		dst = codec.AppendBytes(dst, c.Envelope)
	case OpResolve:
		dst = codec.AppendBytes(dst, c.Envelope)
	case OpDone:
		dst = codec.AppendUvarint(dst, uint64(c.Peer))
		dst = codec.AppendUvarint(dst, c.To)
	case OpForget:
		dst = codec.AppendUvarint(dst, uint64(c.Peer))
		dst = codec.AppendUvarint(dst, c.PeerEpoch)
	case OpRun:
		dst = codec.AppendUvarint(dst, uint64(c.Peer))
		dst = codec.AppendUvarint(dst, c.PeerEpoch)
		dst = codec.AppendUvarint(dst, c.From)
		dst = codec.AppendBytes(dst, c.Envelope)
	}
	return dst
}

func appendEnqueue(dst []byte, c *Command) []byte {
	dst = codec.AppendUvarint(dst, uint64(c.Flags))
	if c.Flags&FlagHasPriority != 0 {
		dst = append(dst, c.Priority)
	}
	if c.Flags&FlagHasExpiration != 0 {
		dst = codec.AppendUvarint(dst, c.Expiration)
	}
	if c.Flags&FlagDelay != 0 {
		dst = codec.AppendBool(dst, c.DelayUntil)
		dst = codec.AppendUvarint(dst, c.Delay)
	}
	if c.Flags&FlagDedup != 0 {
		dst = appendID(dst, c.ID)
	}
	dst = codec.AppendUvarint(dst, uint64(c.Session))
	if c.Op == OpTxEnqueue {
		dst = codec.AppendUvarint(dst, uint64(c.Tx))
	}
	dst = codec.AppendUvarint(dst, uint64(c.BodyBytes))
	return codec.AppendBytes(dst, c.Envelope)
}

// DecodeCommand reads one command off the front of src into c, which it overwrites whole, and returns what follows. c.Envelope aliases src. It allocates nothing.
// The error is codec.ErrTruncated or codec.ErrMalformed: an unknown Op or flag, a number out of its limits.
func DecodeCommand(src []byte, c *Command) (rest []byte, err error) {
	*c = Command{}
	r := codec.NewReader(src)
	c.Op = Op(r.Uint8())
	switch c.Op {
	case OpEnqueue, OpTxEnqueue:
		decodeEnqueue(&r, c)
	case OpSubscribe:
		decodeSubscribe(&r, c)
	case OpCancel:
		c.Session = readSession(&r)
		c.Consumer = readConsumer(&r)
		if c.Consumer == 0 {
			r.Fail(codec.ErrMalformed)
		}
	case OpDrained, OpSessionClose:
		c.Session = readSession(&r)
		c.To = r.Uvarint()
	case OpUnschedule, OpExpedite:
		if c.To, c.Envelope = r.Uvarint(), r.Bytes(); r.Err() == nil && !validPick(c) {
			r.Fail(codec.ErrMalformed)
		}
	case OpCredit:
		c.Session = readSession(&r)
		c.Limit = readUint32(&r)
	case OpGet:
		c.Flags = readFlags(&r, getFlags)
		c.Session = readSession(&r)
	case OpSettle, OpTxSettle:
		decodeSettle(&r, c)
	case OpTxCommit, OpTxPrepare, OpTxDecide, OpTxFinish, OpTxAsk, OpTxEnd, OpTxDone:
		decodeTxCommand(&r, c)
	case OpPurge, OpQuery, OpTouch, OpTick:
	case OpConfigure:
		readConfig(&r, &c.Config)
	case OpSeal:
		c.Condition = Condition(r.Uint8())
		if c.Condition&^conditionsAll != 0 {
			r.Fail(codec.ErrMalformed)
		}
	case OpUnseal:
		c.To = r.Uvarint()
	case OpNodeGone:
		c.Node = NodeID(r.Uvarint())
		c.Boot.Counter = r.Uvarint()
		c.Boot.Nonce = r.Uint64()
	case OpEvict:
		c.Node = NodeID(r.Uvarint())
		c.Boot.Counter = r.Uvarint()
		c.Boot.Nonce = r.Uint64()
		c.Gen = r.Uvarint()
	case OpMove, OpResolve, OpDone, OpRun, OpForget:
		decodeOutboxCommand(&r, c)
	default:
		r.Fail(codec.ErrMalformed)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return r.Rest(), nil
}

func decodeEnqueue(r *codec.Reader, c *Command) {
	c.Flags = readFlags(r, enqueueFlags)
	if c.Flags&FlagHasPriority != 0 {
		c.Priority = r.Uint8()
	}
	if c.Flags&FlagHasExpiration != 0 {
		if c.Expiration = r.Uvarint(); c.Expiration > numberMax {
			r.Fail(codec.ErrMalformed)
		}
	}
	if c.Flags&FlagDelay != 0 {
		c.DelayUntil = r.Bool()
		if c.Delay = r.Uvarint(); c.Delay > numberMax {
			r.Fail(codec.ErrMalformed)
		}
	}
	if c.Flags&FlagDedup != 0 {
		c.ID = readID(r)
	}
	if c.Op == OpTxEnqueue {
		c.Session = readSession(r)
		c.Tx = readTx(r)
	} else {
		c.Session = SessionID(r.Uvarint())
	}
	c.BodyBytes = readUint32(r)
	c.Envelope = r.Bytes()
}

// appendTxCommand appends a command about a transaction as a whole. Those outside pipelines name the incarnation.
func appendTxCommand(dst []byte, c *Command) []byte {
	if !c.Op.IsBatched() {
		dst = codec.AppendUvarint(dst, uint64(c.Node))
		dst = codec.AppendUvarint(dst, c.Boot.Counter)
		dst = codec.AppendUint64(dst, c.Boot.Nonce)
	}
	dst = codec.AppendUvarint(dst, uint64(c.Session))
	dst = codec.AppendUvarint(dst, uint64(c.Tx))
	switch c.Op {
	case OpTxCommit, OpTxEnd:
		dst = codec.AppendUvarint(dst, c.To)
	case OpTxPrepare:
		dst = codec.AppendUvarint(dst, c.To)
		dst = codec.AppendUvarint(dst, uint64(c.Peer))
	case OpTxDecide:
		dst = codec.AppendUvarint(dst, c.To)
		dst = codec.AppendBytes(dst, c.Envelope)
	case OpTxDone:
		dst = codec.AppendUvarint(dst, uint64(c.Peer))
	}
	return dst
}

func decodeTxCommand(r *codec.Reader, c *Command) {
	if !c.Op.IsBatched() {
		c.Node = NodeID(r.Uvarint())
		c.Boot.Counter = r.Uvarint()
		c.Boot.Nonce = r.Uint64()
	}
	c.Session = readSession(r)
	c.Tx = readTx(r)
	switch c.Op {
	case OpTxCommit:
		c.To = r.Uvarint()
	case OpTxPrepare:
		c.To = r.Uvarint()
		c.Peer = QueueID(r.Uvarint())
	case OpTxDecide:
		c.To = r.Uvarint()
		if c.Envelope = r.Bytes(); !validQueues(c.Envelope) {
			r.Fail(codec.ErrMalformed)
		}
	case OpTxEnd:
		if c.To = r.Uvarint(); c.To > TxCommitted {
			r.Fail(codec.ErrMalformed)
		}
	case OpTxDone:
		c.Peer = QueueID(r.Uvarint())
	}
}

func appendID(dst []byte, id DedupID) []byte {
	return codec.AppendUint64(codec.AppendUint64(dst, id.High), id.Low)
}

func readID(r *codec.Reader) DedupID { return DedupID{High: r.Uint64(), Low: r.Uint64()} }

func decodeSubscribe(r *codec.Reader, c *Command) {
	c.Flags = readFlags(r, subscribeFlags)
	c.Session = readSession(r)
	c.Consumer = readConsumer(r)
	c.Prefetch = readUint32(r)
	c.WindowBytes = readUint32(r)
	c.WindowCount = readUint32(r)
	c.ConsumerPriority = int32(r.Uint32())
	c.Timeout = readLimit(r)
	if c.Consumer == 0 {
		r.Fail(codec.ErrMalformed)
	}
}

func decodeSettle(r *codec.Reader, c *Command) {
	c.Outcome = Outcome(r.Uint8())
	c.Session = readSession(r)
	if c.Op == OpTxSettle {
		c.Tx = readTx(r)
	}
	c.Consumer = readConsumer(r)
	readRange(r, c)
}

func decodeOutboxCommand(r *codec.Reader, c *Command) {
	ok := true
	switch c.Op {
	case OpMove:
		c.Peer = QueueID(r.Uvarint())
		c.Reason = Reason(r.Uint8())
		c.To = r.Uvarint()
		c.Envelope = r.Bytes()
		ok = c.Reason.isMove() && validSeqs(c.Envelope) && (c.To == 0) != (len(c.Envelope) == 0)
	case OpResolve:
		c.Envelope = r.Bytes()
		ok = validTargets(c.Envelope)
	case OpDone:
		c.Peer = QueueID(r.Uvarint())
		c.To = r.Uvarint()
	case OpForget:
		c.Peer = QueueID(r.Uvarint())
		c.PeerEpoch = r.Uvarint()
	case OpRun:
		c.Peer = QueueID(r.Uvarint())
		c.PeerEpoch = r.Uvarint()
		c.From, c.Envelope = r.Uvarint(), r.Bytes()
		ok = c.From > 0 && c.From <= numberMax && validRun(c.Envelope)
	}
	if !ok {
		r.Fail(codec.ErrMalformed)
	}
}

// readRange reads the deliveries that a settlement is for; its outcome has been read.
func readRange(r *codec.Reader, c *Command) {
	c.From = r.Uvarint()
	span := r.Uvarint()
	c.To = c.From + span
	if c.Outcome < OutcomeAck || c.Outcome > OutcomeReturnFresh || c.From == 0 || span >= limits.SettleRangeMax || c.To < c.From {
		r.Fail(codec.ErrMalformed)
	}
}

func readFlags(r *codec.Reader, allowed Flags) Flags {
	f := Flags(r.Uvarint())
	if f&^allowed != 0 {
		r.Fail(codec.ErrMalformed)
	}
	return f
}

func readSession(r *codec.Reader) SessionID {
	id := SessionID(r.Uvarint())
	if id == 0 {
		r.Fail(codec.ErrMalformed)
	}
	return id
}

func readTx(r *codec.Reader) TxNumber {
	n := TxNumber(r.Uvarint())
	if n == 0 {
		r.Fail(codec.ErrMalformed)
	}
	return n
}

func readLimit(r *codec.Reader) Limit {
	l := Limit(r.Uvarint())
	if l > LimitOf(numberMax) {
		r.Fail(codec.ErrMalformed)
	}
	return l
}

func readConsumer(r *codec.Reader) ConsumerID { return ConsumerID(readUint32(r)) }

func readUint32(r *codec.Reader) uint32 {
	v := r.Uvarint()
	if v > 1<<32-1 {
		r.Fail(codec.ErrMalformed)
		return 0
	}
	return uint32(v)
}

func appendConfig(dst []byte, c *Config) []byte {
	dst = codec.AppendUvarint(dst, c.Version)
	dst = append(dst, c.PriorityMax, c.PriorityDefault)
	bare := Config{Version: c.Version, PriorityMax: c.PriorityMax, PriorityDefault: c.PriorityDefault, AutoDelete: c.AutoDelete}
	form := byte(0)
	if c.AutoDelete {
		form |= configAutoDelete
	}
	if *c == bare {
		return append(dst, form)
	}
	dst = append(dst, form|configLimits)
	for _, l := range c.limits() {
		dst = codec.AppendUvarint(dst, uint64(*l))
	}
	dst = append(dst, byte(c.Overflow), byte(c.Retry))
	for _, b := range c.switches() {
		dst = codec.AppendBool(dst, *b)
	}
	return codec.AppendBytes(dst, []byte(c.RetrySchedule))
}

// The octet behind the priorities of an encoded Config. configLimits says that limits follow; without any they are left out.
const (
	configAutoDelete = 1
	configLimits     = 2
)

// limits and switches list what follows, in the order in which it is encoded.
func (c *Config) limits() [13]*Limit {
	return [...]*Limit{&c.MessageTTL, &c.MaxLength, &c.MaxLengthBytes, &c.DeliveryLimit, &c.Expires, &c.RetryMin, &c.RetryMax, &c.ConsumerTimeout, &c.DedupTTL, &c.DedupSize, &c.RetryMultiplier, &c.RetryJitter, &c.PriorityAging}
}

func (c *Config) switches() [8]*bool {
	return [...]*bool{&c.CountReturns, &c.DeadLetter, &c.ParkPoison, &c.ExpiresIfEmpty, &c.SingleActive, &c.Relay, &c.Deduplicate, &c.Draining}
}

func readConfig(r *codec.Reader, c *Config) {
	c.Version = r.Uvarint()
	c.PriorityMax = r.Uint8()
	c.PriorityDefault = r.Uint8()
	form := r.Uint8()
	c.AutoDelete = form&configAutoDelete != 0
	if form&^(configAutoDelete|configLimits) != 0 {
		r.Fail(codec.ErrMalformed)
	}
	if form&configLimits == 0 {
		return
	}
	for _, l := range c.limits() {
		*l = readLimit(r)
	}
	c.Overflow, c.Retry = Overflow(r.Uint8()), RetryType(r.Uint8())
	if c.Overflow > RejectPublishDLX || c.Retry > RetryReturned {
		r.Fail(codec.ErrMalformed)
	}
	for _, b := range c.switches() {
		*b = r.Bool()
	}
	c.RetrySchedule = readSchedule(r)
	if *c == (Config{Version: c.Version, PriorityMax: c.PriorityMax, PriorityDefault: c.PriorityDefault, AutoDelete: c.AutoDelete}) {
		r.Fail(codec.ErrMalformed) // equal ones have one form
	}
}
