package queue

import (
	"cmp"
	"slices"
	"sort"

	"github.com/warrenmq/warren/internal/codec"
)

// The oracle is the queue as one would explain it: one list of messages, one list of consumers, and a loop over them for every question. It knows nothing of pages, heaps, chunks or
// sums. The model test holds the machine against it.

type oPlace int

const (
	oReady oPlace = iota
	oOut
	oReturning
	oDead
	oDelayed
	oStaged
	oReserved
)

type oMessage struct {
	seq                          Seq
	bytes                        uint32
	priority                     uint8
	persistent, marked           bool
	acquired, failures           uint32
	place                        oPlace
	session                      *oSession // the rest counts while it is out
	d                            uint64
	consumer                     ConsumerID
	noAck                        bool
	deliveryCount, acquiredCount uint32
	born, due                    int64
	at                           Seq    // its place among the others
	later                        bool   // it was to be ready later, and was not yet
	until                        int64  // while it is delayed
	deadline                     int64  // while it is out
	failed                       bool   // while it is returning
	reason                       Reason // the rest counts while it is dead
	n                            uint64
	left                         int
	id                           DedupID
	identified, holds            bool // whether it has an id, and holds it
}

type oConsumer struct {
	session               *oSession
	id                    ConsumerID
	priority              int32
	prefetch              uint32
	windowBytes, windowOf uint64
	noAck, exclusive      bool
	passive               bool
	epoch                 uint64
	timeout               Limit
}

type oSession struct {
	pipeline       *oPipeline
	id             SessionID
	lastD, drained uint64
	lastConsumer   ConsumerID
	tx             TxNumber
	staged         []*Command  // of the open transaction, in order
	stagedAs       []*oMessage // what the enqueues of them made
	limit          uint32
	wants          bool
	check          int64
	lostSome       bool
}

type oPipeline struct {
	id       PipelineID
	outcomes [][]Exception // all, from k = 1
	evicted  bool
}

type oracle struct {
	b                                  bounds
	cfg                                Config
	next                               Seq
	messages                           []*oMessage // by seq
	dropped                            map[Seq]bool
	pipelines                          []*oPipeline
	dead                               map[NodeID]uint64
	sessions                           []*oSession
	consumers                          []*oConsumer // all, in the order in which they came
	turn                               []*oConsumer // those with credit, in the order in which they are served
	seals                              uint64
	sealed                             bool
	hadConsumer, due                   bool
	counts                             Counts // totals only
	returns, gathers, releases, assign int
	gathering                          int // returning messages that are not put in order
	deaths                             int
	seen, lastUse                      int64
	parcels                            uint64
	active                             *oConsumer
	epoch                              uint64
	together                           bool // sessions end together: nobody takes over in between
	lanes                              map[QueueID]*oLane
	marks                              map[oMark]uint64
	reserved                           map[TxID]*oReservation
	decided                            map[TxID]*oDecision
	orphaned                           bool
	window                             []oID
	out                                []Effect
	lists                              []*oMessage // where the lists of this step stand (in)
}

func newOracle(b bounds) *oracle {
	return &oracle{b: b, next: 1, dropped: map[Seq]bool{}, dead: map[NodeID]uint64{}, lanes: map[QueueID]*oLane{}, marks: map[oMark]uint64{}, reserved: map[TxID]*oReservation{}, decided: map[TxID]*oDecision{}}
}

func (o *oracle) pipeline(id PipelineID) *oPipeline {
	for _, p := range o.pipelines {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (o *oracle) lastK(id PipelineID) uint64 {
	if p := o.pipeline(id); p != nil {
		return uint64(len(p.outcomes))
	}
	return 0
}

func (o *oracle) command(p *oPipeline, c *Command, index uint32) Reply {
	s := o.session(p, c.Session)
	switch c.Op {
	case OpEnqueue:
		return o.enqueue(c, index, false)
	case OpTxEnqueue, OpTxSettle:
		return o.stage(p, s, c, index)
	case OpTxCommit, OpTxPrepare, OpTxDecide:
		return o.commit(p, s, c)
	case OpTxFinish:
		o.finishTx(TxID{p.id.Node, p.id.Boot, c.Session, c.Tx})
	case OpSubscribe:
		return o.subscribe(p, s, c)
	case OpCancel:
		if s == nil {
			return Reply{}
		}
		o.removeConsumers(func(k *oConsumer) bool { return k.session == s && k.id == c.Consumer })
		return Reply{A: s.lastD}
	case OpDrained:
		if s != nil {
			o.drained(s, min(c.To, s.lastD))
		}
	case OpGet:
		return o.get(p, s, c.Flags&FlagNoAck != 0, c.Session)
	case OpSettle:
		if s != nil {
			return Reply{A: o.settle(s, c)}
		}
	case OpPurge:
		return Reply{A: o.purge()}
	case OpQuery, OpTouch:
		if c.Op == OpTouch {
			o.lastUse = o.seen
		}
		n := o.sum()
		return Reply{A: n.Ready, B: uint64(len(o.consumers)), C: n.Unacked}
	case OpMove, OpUnschedule, OpExpedite:
		return o.pick(c)
	case OpSessionClose:
		o.orphan(p.id, func(id SessionID) bool { return id == c.Session })
		if s != nil {
			o.end(s, max(min(c.To, s.lastD), s.drained))
			o.work()
			return Reply{A: s.lastD}
		}
	case OpCredit:
		if s != nil {
			s.limit, s.wants = c.Limit, false
			o.takeTurns()
			o.wake()
			o.assignAll()
			reply := Reply{A: uint64(o.unsettled(s))}
			if n := o.count(oReady); n > 0 && o.hungry(s) {
				s.wants, reply.B = true, uint64(n)
			}
			return reply
		}
	}
	return Reply{}
}

func (o *oracle) message(c *Command) *oMessage {
	x := &oMessage{seq: o.next, at: o.next, bytes: c.BodyBytes, priority: o.cfg.PriorityDefault, persistent: c.Flags&FlagPersistent != 0, marked: c.Flags&FlagRedelivered != 0, born: o.seen}
	if c.Flags&FlagHasPriority != 0 {
		x.priority = c.Priority
	}
	x.priority = min(x.priority, o.cfg.PriorityMax)
	if c.Flags&FlagHasExpiration != 0 {
		x.due = o.seen + int64(c.Expiration)
	}
	x.id, x.identified = c.ID, c.Flags&FlagDedup != 0
	if c.Flags&FlagDelay != 0 {
		if x.until = int64(c.Delay); !c.DelayUntil {
			x.until += o.seen
		}
		x.later = x.until > o.seen
	}
	return x
}

func (o *oracle) enqueue(c *Command, index uint32, patient bool) Reply {
	if c.Flags&FlagDedup != 0 && o.isDuplicate(c.ID) {
		o.counts.Duplicates++
		return Reply{Code: CodeDuplicate}
	}
	x := o.message(c)
	k := o.taker(x)
	if k == nil && c.Flags&FlagImmediate != 0 {
		return Reply{Code: CodeNoConsumers}
	}
	full := k == nil && !x.later && !o.cfg.Relay && o.cfg.Overflow != DropHead && o.over(1, uint64(x.bytes))
	var reply Reply
	if full {
		reply.Code = CodeRejected
		if patient {
			return reply
		}
		o.counts.Rejected++
		if o.cfg.Overflow == RejectPublish || !o.cfg.DeadLetter {
			return reply
		}
	}
	o.next++
	o.counts.Enqueued++
	o.messages = append(o.messages, x)
	o.emit(Effect{Kind: KindStore, Index: index, Seq: x.seq})
	if c.Flags&FlagDedup != 0 && !full {
		o.accept(x)
	}
	if full {
		o.die(x, ReasonMaxLength)
	} else if k != nil {
		o.give(x, k)
	} else if x.later {
		x.place = oDelayed
	} else if o.cfg.Relay {
		o.relay(x)
	}
	return reply
}

func (o *oracle) relay(x *oMessage) {
	o.parcels++
	x.place, x.reason, x.n = oDead, ReasonRelayed, o.parcels
	o.emit(Effect{Kind: KindRelayed, Seq: x.seq})
}

// taker is who gets a message without waiting.
func (o *oracle) taker(x *oMessage) *oConsumer {
	if o.count(oReady) > 0 || o.sealed || x.later || o.cfg.Relay || o.assign == 0 {
		return nil
	}
	return o.chosen(x)
}

func (o *oracle) over(count, bytes uint64) bool {
	n := o.sum()
	if count > 0 && o.cfg.Overflow == RejectPublish && o.cfg.DeadLetter && o.outboxIsFull() {
		return true
	}
	length, lengthOK := o.cfg.MaxLength.Get()
	size, sizeOK := o.cfg.MaxLengthBytes.Get()
	return lengthOK && n.Ready+count > length || sizeOK && n.ReadyBytes+bytes > size
}

func (o *oracle) die(x *oMessage, reason Reason) {
	o.counts.Deaths[reason-1]++
	if o.cfg.Draining || !o.cfg.DeadLetter && !(reason == ReasonDeliveryLimit && o.cfg.ParkPoison) {
		o.remove(x)
		o.release(x.seq)
		return
	}
	if o.outboxIsFull() {
		o.emit(Effect{Kind: KindLost, Seq: x.seq, Reason: reason})
		o.remove(x)
		o.release(x.seq)
		return
	}
	o.parcels++
	x.place, x.reason, x.n = oDead, reason, o.parcels
	o.emit(Effect{Kind: KindDead, Seq: x.seq, Reason: reason})
}

func (o *oracle) outboxIsFull() bool { return uint64(o.count(oDead)) >= o.b.letters }

// due lists the ready messages whose time is over: those of their own by that time, then those that the queue does not keep longer.
func (o *oracle) dueNow() []*oMessage {
	var own, late []*oMessage
	ttl, ok := o.cfg.MessageTTL.Get()
	for _, x := range o.in(oReady) {
		switch {
		case x.due != 0 && x.due <= o.seen:
			own = append(own, x)
		case ok && x.born+int64(ttl) <= o.seen:
			late = append(late, x)
		}
	}
	slices.SortFunc(own, func(a, b *oMessage) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.at, b.at)) })
	return append(own, late...)
}

func (o *oracle) expire() bool {
	for _, x := range o.dueNow() {
		if o.deaths == 0 {
			return false
		}
		o.deaths--
		o.die(x, ReasonExpired)
	}
	return true
}

// mustGo returns the message that gives way: the oldest of the lowest priority; nil if the queue is short enough.
func (o *oracle) mustGo() (least *oMessage) {
	if o.cfg.Overflow != DropHead || !o.over(0, 0) {
		return nil
	}
	for _, x := range o.in(oReady) {
		if least == nil || x.priority < least.priority {
			least = x
		}
	}
	return least
}

func (o *oracle) putBack(x *oMessage, how comeback) {
	x.place = oReady
	if limit, ok := o.cfg.DeliveryLimit.Get(); ok && uint64(x.failures) > limit {
		o.die(x, ReasonDeliveryLimit)
		return
	}
	kinds := map[RetryType][]comeback{RetryAll: {returned, failure}, RetryFailed: {failure}, RetryReturned: {returned}}
	if !slices.Contains(kinds[o.cfg.Retry], how) {
		return
	}
	if delay := o.retryDelay(x); delay > 0 {
		x.place, x.until = oDelayed, o.seen+int64(delay)
	}
}

// wake makes delayed messages ready, those that were due first first.
func (o *oracle) wake() {
	for _, x := range o.asleep() {
		if x.until <= o.seen && o.returns > 0 {
			o.returns--
			o.rouse(x)
		}
	}
}

// asleep lists the delayed messages in the order in which they are to be ready.
func (o *oracle) asleep() []*oMessage {
	xs := o.in(oDelayed)
	slices.SortFunc(xs, func(a, b *oMessage) int { return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.seq, b.seq)) })
	return xs
}

// rouse makes a delayed message ready: one that was to be ready later is as if it had just come.
func (o *oracle) rouse(x *oMessage) {
	if x.later {
		x.at, x.later = o.next, false
		o.next++
		if x.due != 0 {
			x.due += o.seen - x.born
		}
		x.born = o.seen
	}
	x.place = oReady
	switch {
	case o.cfg.Relay && o.cfg.Draining:
		o.remove(x)
		o.release(x.seq)
	case o.cfg.Relay:
		o.relay(x)
	}
}

// pick carries out what is about single messages: it moves ready ones, drops delayed ones or makes them ready.
func (o *oracle) pick(c *Command) Reply {
	if c.Op == OpMove {
		return o.move(c)
	}
	var named []*oMessage
	for r := codec.NewReader(c.Envelope); r.Len() > 0; {
		until, seq := int64(r.Uvarint()), Seq(r.Uvarint())
		for _, x := range o.in(oDelayed) {
			if x.until == until && x.seq == seq {
				named = append(named, x)
			}
		}
	}
	if all := o.asleep(); c.To > 0 {
		named = all[:min(int(c.To), len(all))]
	}
	picked := uint64(0)
	for _, x := range named {
		if o.returns == 0 || x.place != oDelayed {
			continue // or named twice
		}
		o.returns--
		picked++
		if c.Op == OpExpedite {
			o.rouse(x)
		} else {
			o.remove(x)
			x.place = oReady
			o.release(x.seq)
		}
	}
	return Reply{A: picked}
}

func (o *oracle) session(p *oPipeline, id SessionID) *oSession {
	for _, s := range o.sessions {
		if s.pipeline == p && s.id == id {
			return s
		}
	}
	return nil
}

func (o *oracle) open(p *oPipeline, id SessionID) *oSession {
	s := &oSession{pipeline: p, id: id, limit: NoLimit}
	o.sessions = append(o.sessions, s)
	return s
}

func (o *oracle) subscribe(p *oPipeline, s *oSession, c *Command) Reply {
	if s != nil && c.Consumer <= s.lastConsumer {
		return Reply{Code: CodeStale}
	}
	exclusive := c.Flags&FlagExclusive != 0
	if exclusive && o.cfg.SingleActive {
		return Reply{Code: CodeExclusive}
	}
	for _, k := range o.consumers {
		if exclusive || k.exclusive {
			return Reply{Code: CodeExclusive}
		}
	}
	if len(o.consumers) == o.b.consumers || s == nil && len(o.sessions) == o.b.sessions {
		return Reply{Code: CodeLimit}
	}
	if s == nil {
		s = o.open(p, c.Session)
	}
	s.lastConsumer = c.Consumer
	k := &oConsumer{session: s, id: c.Consumer, priority: c.ConsumerPriority, prefetch: c.Prefetch, windowBytes: uint64(c.WindowBytes), windowOf: uint64(c.WindowCount),
		noAck: c.Flags&FlagNoAck != 0, exclusive: exclusive, timeout: c.Timeout}
	if k.windowBytes == 0 {
		k.windowBytes = WindowBytesDefault
	}
	if k.windowOf == 0 {
		k.windowOf = WindowCountDefault
	}
	o.consumers = append(o.consumers, k)
	if c.Flags&FlagLimited != 0 && s.limit == NoLimit {
		s.limit = 0
	}
	o.hadConsumer, o.due, o.lastUse = true, false, o.seen
	o.takeTurns()
	return Reply{}
}

func (o *oracle) removeConsumers(goes func(*oConsumer) bool) {
	var kept []*oConsumer
	for _, k := range o.consumers {
		if !goes(k) {
			kept = append(kept, k)
		}
	}
	if len(kept) < len(o.consumers) && len(kept) == 0 && o.cfg.AutoDelete {
		o.due = true
	}
	if len(kept) < len(o.consumers) {
		o.lastUse = o.seen
	}
	o.consumers = kept
	o.takeTurns()
}

// load is what a consumer has outstanding.
func (o *oracle) load(k *oConsumer) (unsettled uint32, undrained, bytes uint64) {
	for _, x := range o.messages {
		if x.place != oOut || x.session != k.session || x.consumer != k.id {
			continue
		}
		if !x.noAck {
			unsettled++
		}
		if x.d > k.session.drained {
			undrained++
			bytes += uint64(x.bytes)
		}
	}
	return unsettled, undrained, bytes
}

func (o *oracle) credit(k *oConsumer) bool {
	return o.ownCredit(k) && (k.noAck || k.session.limit == NoLimit || o.unsettled(k.session) < k.session.limit)
}

// unsettled is what consumers of a session have, had they ended or not.
func (o *oracle) unsettled(s *oSession) (n uint32) {
	for _, x := range o.messages {
		if x.place == oOut && x.session == s && x.consumer != 0 && !x.noAck {
			n++
		}
	}
	return n
}

// hungry tells whether nothing but its limit keeps a session from a message, and it was not told.
func (o *oracle) hungry(s *oSession) bool {
	for _, k := range o.consumers {
		if k.session == s && o.ownCredit(k) && !o.credit(k) {
			return !s.wants
		}
	}
	return false
}

func (o *oracle) ownCredit(k *oConsumer) bool {
	unsettled, undrained, bytes := o.load(k)
	return !k.passive && (k.prefetch == 0 || unsettled < k.prefetch) && undrained < k.windowOf && (undrained == 0 || bytes < k.windowBytes)
}

// elect finds out which consumer of a queue with a single active one that is.
func (o *oracle) elect() {
	var best *oConsumer
	there := false
	for _, k := range o.consumers {
		there = there || k == o.active
		if best == nil || k.priority > best.priority {
			best = k
		}
	}
	if !there {
		o.active = nil
	}
	switch {
	case !o.cfg.SingleActive:
		o.active = nil
		for _, k := range o.consumers {
			k.passive, k.epoch = false, 0
		}
		return
	case o.together:
	case best == nil:
	case o.active == nil, best.priority > o.active.priority && o.holds(o.active) == 0:
		o.epoch++
		o.active, best.epoch = best, o.epoch
	}
	for _, k := range o.consumers {
		k.passive = k != o.active || best.priority > k.priority
	}
}

func (o *oracle) holds(k *oConsumer) uint32 {
	unsettled, _, _ := o.load(k)
	return unsettled
}

// takeTurns takes consumers that lost their credit, or are gone, out of the turn and puts those that got some behind the others.
func (o *oracle) takeTurns() {
	o.elect()
	var turn []*oConsumer
	for _, k := range o.turn {
		if slices.Contains(o.consumers, k) && o.credit(k) {
			turn = append(turn, k)
		}
	}
	for _, k := range o.consumers {
		if !slices.Contains(o.turn, k) && o.credit(k) {
			turn = append(turn, k)
		}
	}
	o.turn = turn
}

// chosen returns who gets x: the first in turn of the highest priority whose byte window takes it.
func (o *oracle) chosen(x *oMessage) *oConsumer {
	var best *oConsumer
	for _, k := range o.turn {
		_, undrained, bytes := o.load(k)
		if (undrained == 0 || bytes+uint64(x.bytes) <= k.windowBytes) && (best == nil || k.priority > best.priority) {
			best = k
		}
	}
	return best
}

// in returns the messages of a place in order of position. The list is good until the next step begins.
func (o *oracle) in(place oPlace) []*oMessage {
	from := len(o.lists)
	for _, x := range o.messages {
		if x.place == place {
			o.lists = append(o.lists, x)
		}
	}
	xs := o.lists[from:len(o.lists):len(o.lists)]
	slices.SortFunc(xs, func(a, b *oMessage) int {
		if a.priority != b.priority {
			return int(b.priority) - int(a.priority)
		}
		return cmp.Compare(a.at, b.at)
	})
	return xs
}

// count is how many messages there are in a place.
func (o *oracle) count(place oPlace) (n int) {
	for _, x := range o.messages {
		if x.place == place {
			n++
		}
	}
	return n
}

func (o *oracle) assignable() (*oMessage, *oConsumer) {
	ready := o.in(oReady)
	if o.sealed || len(ready) == 0 {
		return nil, nil
	}
	x := o.goesNext(ready)
	return x, o.chosen(x)
}

func (o *oracle) after() {
	o.wake()
	o.assignAll()
	for x := o.mustGo(); x != nil && o.deaths > 0; x = o.mustGo() {
		o.deaths--
		o.die(x, ReasonMaxLength)
	}
	if ready := o.in(oReady); len(ready) > 0 && !o.sealed {
		o.tell(uint32(len(ready)))
	}
	if o.due && o.count(oReturning) == 0 {
		o.due = false
		o.emit(Effect{Kind: KindUnused})
	}
	if o.orphaned {
		o.orphaned = false
		o.emit(Effect{Kind: KindTxOrphan})
	}
}

func (o *oracle) assignAll() {
	for ok := o.expire(); ok && o.assign > 0; {
		x, k := o.assignable()
		if k == nil {
			break
		}
		o.give(x, k)
	}
}

// tell tells those sessions that want more how many messages are ready.
func (o *oracle) tell(ready uint32) {
	var told []*oSession
	for _, s := range o.sessions {
		if o.hungry(s) {
			s.wants = true
			told = append(told, s)
		}
	}
	sort.Slice(told, func(i, j int) bool {
		a, b := told[i].pipeline.id, told[j].pipeline.id
		return a.less(b) || a == b && told[i].id < told[j].id
	})
	for _, s := range told {
		o.emit(Effect{Kind: KindReady, Node: s.pipeline.id.Node, BootCounter: s.pipeline.id.Boot.Counter, Session: s.id, Ready: ready})
	}
}

func (o *oracle) give(x *oMessage, k *oConsumer) {
	o.assign--
	if k.noAck {
		o.counts.DeliveredNoAck++
	} else {
		o.counts.Delivered++
	}
	for i := range o.turn {
		if o.turn[i] == k {
			o.turn = append(append(o.turn[:i:i], o.turn[i+1:]...), k)
			break
		}
	}
	o.hand(x, k.session, k.id, k.noAck)
	o.start(x, k.timeout)
	o.takeTurns()
}

func (o *oracle) hand(x *oMessage, s *oSession, id ConsumerID, noAck bool) {
	s.lastD++
	x.place, x.session, x.d, x.consumer, x.noAck = oOut, s, s.lastD, id, noAck
	x.holds = x.holds && !noAck
	x.deliveryCount, x.acquiredCount = x.failures, x.acquired
	x.acquired++
	e := o.delivery(x)
	if e.Redelivered {
		o.counts.Redelivered++
	}
	o.emit(e)
}

func (o *oracle) delivery(x *oMessage) Effect {
	epoch := uint64(0)
	for _, k := range o.consumers {
		if k.session == x.session && k.id == x.consumer {
			epoch = k.epoch
		}
	}
	return Effect{Epoch: epoch, Kind: KindDeliver, Redelivered: x.acquiredCount > 0 || x.marked, Consumer: x.consumer, DeliveryCount: x.deliveryCount, AcquiredCount: x.acquiredCount,
		Node: x.session.pipeline.id.Node, BootCounter: x.session.pipeline.id.Boot.Counter, Session: x.session.id, D: x.d, Seq: x.seq}
}

func (o *oracle) get(p *oPipeline, s *oSession, noAck bool, id SessionID) Reply {
	ready := o.in(oReady)
	o.lastUse = o.seen
	if o.active != nil {
		return Reply{Code: CodeSingleActive}
	}
	dead := false
	for _, x := range o.dueNow() { // there was no budget left for it
		dead = dead || x == o.goesNext(ready)
	}
	if len(ready) == 0 || dead {
		o.counts.GetEmpty++
		return Reply{Code: CodeEmpty}
	}
	if s == nil {
		if len(o.sessions) == o.b.sessions {
			return Reply{Code: CodeLimit}
		}
		s = o.open(p, id)
	}
	if noAck {
		o.counts.GotNoAck++
	} else {
		o.counts.Got++
	}
	x := o.goesNext(ready)
	o.hand(x, s, 0, noAck)
	o.start(x, 0)
	return Reply{A: s.lastD, B: uint64(len(ready) - 1)}
}

// outstanding returns the deliveries of a session in from..to by d.
func (o *oracle) outstanding(s *oSession, from, to uint64) []*oMessage {
	var xs []*oMessage
	for _, x := range o.messages {
		if x.place == oOut && x.session == s && x.d >= from && x.d <= to {
			xs = append(xs, x)
		}
	}
	slices.SortFunc(xs, func(a, b *oMessage) int { return cmp.Compare(a.d, b.d) })
	return xs
}

func (o *oracle) drained(s *oSession, to uint64) {
	for d := s.drained + 1; d <= to; d++ {
		s.drained = d
		for _, x := range o.outstanding(s, d, d) {
			if x.noAck {
				o.remove(x)
				o.release(x.seq)
			}
		}
		o.takeTurns()
	}
}

func (o *oracle) settle(s *oSession, c *Command) (n uint64) {
	for _, x := range o.outstanding(s, c.From, c.To) {
		if c.Consumer != 0 && c.Consumer != x.consumer || x.noAck && c.Outcome != OutcomeAck && c.Outcome != OutcomeReturnFresh {
			continue
		}
		n++
		o.settleAs(x, c.Outcome)
		o.takeTurns()
	}
	return n
}

// settleAs ends one delivery.
func (o *oracle) settleAs(x *oMessage, outcome Outcome) {
	switch {
	case outcome == OutcomeAck:
		if !x.noAck {
			o.counts.Acked++
		}
		o.remove(x)
		o.release(x.seq)
	case outcome == OutcomeDiscard:
		o.die(x, ReasonRejected)
	case outcome == OutcomeReturnFresh:
		x.acquired--
		o.putBack(x, unseen)
	case outcome == OutcomeReturnCounted || o.cfg.CountReturns:
		x.failures++
		o.putBack(x, failure)
	default:
		o.putBack(x, returned)
	}
}

func (o *oracle) end(s *oSession, written uint64) {
	for _, x := range o.outstanding(s, 1, s.lastD) {
		if x.noAck && x.d <= written {
			o.remove(x)
			o.dropped[x.seq] = true
			continue
		}
		x.failed = x.d <= written && !x.noAck
		if x.d <= written {
			x.failures++
		}
		x.place = oReturning
		o.gathering++
	}
	o.dropTx(s)
	o.forget(s)
	o.removeConsumers(func(k *oConsumer) bool { return k.session == s })
}

func (o *oracle) work() {
	o.releaseDropped()
	n := min(o.gathers, o.gathering)
	o.gathers, o.gathering = o.gathers-n, o.gathering-n
	if o.gathering > 0 {
		return
	}
	for _, x := range o.in(oReturning) {
		if o.returns > 0 {
			o.returns--
			how := unseen
			if x.failed {
				how = failure
			}
			o.putBack(x, how)
		}
	}
}

// releaseDropped reports dropped messages: each range ends at the last one before a message that is still here.
func (o *oracle) releaseDropped() {
	var seqs []Seq
	for q := range o.dropped {
		seqs = append(seqs, q)
	}
	sort.Slice(seqs, func(i, j int) bool { return seqs[i] < seqs[j] })
	for i := 0; i < len(seqs) && o.releases > 0; o.releases-- {
		first, last := seqs[i], seqs[i]
		for ; i < len(seqs) && !o.heldBetween(first, seqs[i]); i++ {
			last = seqs[i]
			delete(o.dropped, last)
		}
		o.emit(Effect{Kind: KindRelease, Seq: first, To: last})
	}
}

func (o *oracle) heldBetween(a, b Seq) bool {
	for _, x := range o.messages {
		if x.seq > a && x.seq < b {
			return true
		}
	}
	return false
}

func (o *oracle) remove(gone *oMessage) {
	for i, x := range o.messages {
		if x == gone {
			o.messages = append(o.messages[:i:i], o.messages[i+1:]...)
			return
		}
	}
}

func (o *oracle) emit(e Effect) { o.out = append(o.out, e) }

// release reports one message that left, in one effect with its neighbour before.
func (o *oracle) release(q Seq) {
	if n := len(o.out); n > 0 && o.out[n-1].Kind == KindRelease && o.out[n-1].To+1 == q {
		o.out[n-1].To = q
		return
	}
	o.emit(Effect{Kind: KindRelease, Seq: q, To: q})
}
