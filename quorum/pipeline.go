package quorum

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// pipeline is this node's ordered stream of numbered batches to one queue (PROTOCOL 1). Sessions append commands to the open batch; at most limits.PipelineWindowBatches
// batches are under way, and what comes meanwhile forms the next one. Unanswered batches are kept in order and sent again from the first one when the serving replica, the leader
// or the link changes; the machine's numbering makes that harmless.
//
// What consumers say overtakes what others publish: behind megabytes of messages it would come so late that their windows stay shut. A session's own commands keep their order.
//
// Lock order: pipeline.mu is a leaf towards replicas (nothing of a replica is called under it but propose's enqueueing).
type pipeline struct {
	host *Host
	q    meta.QueueID
	id   queue.PipelineID

	// oldest is when the first unanswered batch was last sent (monotonic milliseconds), 0 when none is: the host's ticker looks at it without the lock.
	oldest atomic.Int64
	// One resend and one retry at a time are about to come: each may be refused for every batch of the window, and must not call for as many more.
	resending, retrying atomic.Bool

	mu      sync.Mutex
	open    *batch   // collects commands; nil when empty
	full    []*batch // closed, not sent yet
	swift   *batch   // collects commands that overtake those; nil when empty
	flight  []*batch // sent, not answered, in order of k
	flying  int      // bytes in flight
	sent    uint64   // how many batches of open and full were sent: the next one of them has the serial sent+1
	before  uint64   // the first serial with which a command may go that must stay behind one of swift
	swiftly bool     // the batch that was sent last was swift
	lastK   uint64   // last k given to a batch
	target  target   // where to propose; nil while the queue is starting
	sending bool     // one goroutine proposes at a time, so that batches keep their order
	again   bool     // the window or the target changed while sending
	gone    bool     // nothing goes through any more
	fenced  bool     // because this incarnation was declared dead; else the queue was deleted

	stream     sync.Mutex // held while the stream of the serving replica is taken; taken before mu
	seen       uint64     // highest log index that a stream has reached
	held       []event    // what came while the node had no lease: it may have been declared dead
	holding    bool
	muted      bool   // the incarnation is dead: nothing is handed out any more
	streamN    uint64 // number of the present attachment: what comes from an older one is not listened to
	done       []Completion
	deliveries []Delivery
	lastD      map[queue.SessionID]uint64

	serials map[queue.SessionID]uint64 // of sessions with a record: the serial that their last command went with which did not overtake; guarded by mu

	all allReplicas // what waits for more than a majority

	smu      sync.Mutex
	sessions map[queue.SessionID]*Session // those that a delivery may be for
}

// batch is one batch on its way, with who waits for each of its commands.
type batch struct {
	k         uint64
	count     int
	buf       []byte // header, then commands
	waiters   []waiter
	ticket    ticket
	proposing bool // a target is reading buf
	retained  bool // a target keeps buf
}

type waiter struct {
	session *Session
	token   uint64
	closes  bool // the command is the session's SessionClose
	stores  bool // it stores messages
}

// target is the leader's side of a queue as a pipeline sees it.
type target interface {
	// propose starts replication of an encoded batch and does not block. retained tells that the target keeps buf. A nil ticket without an
	// error means that this batch is under way already, under the ticket it got before. An error means: not appended, try again later.
	propose(p queue.PipelineID, k uint64, buf []byte) (t ticket, retained bool, err error)
	// reset makes the target forget what it has of p under way: it was lost or refused.
	reset(p queue.PipelineID)
	// attach streams to the sink from now on: synced is called once, then events for all that follows in log order. False: it cannot serve now.
	attach(req attachRequest, to sink) bool
}

// ticket follows one proposal. The zero value never says lost.
type ticket interface {
	// lost tells that the proposal will not be applied, or that nobody knows: it must be proposed again.
	lost() bool
}

func newPipeline(h *Host, q meta.QueueID) *pipeline {
	boot := h.Boot()
	p := &pipeline{
		host: h, q: q, id: queue.PipelineID{Node: queue.NodeID(h.node), Boot: queue.Boot{Counter: boot.Counter, Nonce: boot.Nonce}, Gen: 1},
		lastD: make(map[queue.SessionID]uint64), sessions: make(map[queue.SessionID]*Session), serials: make(map[queue.SessionID]uint64),
	}
	p.all.p = p
	return p
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

func newBatch() *batch {
	b := batchPool.Get().(*batch)
	if cap(b.buf) < queue.BatchHeaderBytes {
		b.buf = make([]byte, queue.BatchHeaderBytes, batchBytesFirst)
	}
	b.buf = b.buf[:queue.BatchHeaderBytes]
	return b
}

// batchBytesFirst is the first capacity of a batch buffer; batchBytesPooled the largest that is kept for reuse.
const (
	batchBytesFirst  = 1024
	batchBytesPooled = 2 * limits.BatchBytesMax
)

// recycle gives b back for reuse, unless somebody still reads it.
func (b *batch) recycle() {
	if b.proposing {
		return
	}
	if b.retained || cap(b.buf) > batchBytesPooled {
		b.buf = nil
	}
	clear(b.waiters)
	*b = batch{buf: b.buf, waiters: b.waiters[:0]}
	batchPool.Put(b)
}

// submit appends one command to the open batch, or to the swift one.
func (p *pipeline) submit(s *Session, cmd *queue.Command, token uint64) error {
	records := makesRecord(cmd.Op)
	if records {
		p.smu.Lock()
		p.sessions[s.id] = s
		p.smu.Unlock()
		s.recorded.Store(true)
	}
	p.mu.Lock()
	if p.gone {
		fenced := p.fenced
		p.mu.Unlock()
		if fenced {
			return ErrClosed // not ErrNoQueue: nothing may be taken for done
		}
		return ErrNoQueue
	}
	b := p.lane(s, cmd.Op, records)
	b.buf = queue.AppendCommand(b.buf, cmd)
	b.count++
	b.waiters = append(b.waiters, waiter{s, token, cmd.Op == queue.OpSessionClose, cmd.Op == queue.OpEnqueue || cmd.Op == queue.OpTxCommit})
	if b == p.open && (b.count >= limits.BatchCommandsMax || len(b.buf) >= limits.BatchBytesMax) {
		p.full = append(p.full, b)
		p.open = nil
		p.send()
		return nil
	}
	p.mu.Unlock()
	return nil
}

// makesRecord tells whether a command makes the machine keep a record of its session.
func makesRecord(op queue.Op) bool {
	switch op {
	case queue.OpSubscribe, queue.OpGet, queue.OpTxEnqueue, queue.OpTxSettle:
		return true
	}
	return false
}

// flush sends what is collected as far as the window allows.
func (p *pipeline) flush() {
	p.mu.Lock()
	p.send()
}

// send is called with p.mu held and releases it.
func (p *pipeline) send() {
	if p.sending {
		p.again = true
		p.mu.Unlock()
		return
	}
	if p.target == nil {
		p.mu.Unlock()
		p.host.touch(p.q)
		return
	}
	p.sending = true
	for {
		b := p.next()
		if b == nil {
			if p.again {
				p.again = false
				continue
			}
			break
		}
		if !p.propose(b) {
			break
		}
	}
	p.sending, p.again = false, false
	p.mu.Unlock()
}

// propose hands b to the target without holding p.mu meanwhile. It reports whether to go on. Called with p.mu held and p.sending set.
func (p *pipeline) propose(b *batch) bool {
	t := p.target
	if t == nil {
		return false
	}
	if !b.retained {
		queue.PutBatchHeader(b.buf, p.id, b.k, p.host.clock.nowMillis(), b.count)
	}
	if mutant == mutantConfirmEarly {
		p.plant(b, false)
		return true
	}
	b.proposing = true
	id := p.id
	p.mu.Unlock()
	tk, retained, err := t.propose(id, b.k, b.buf)
	p.mu.Lock()
	b.proposing = false
	b.retained = b.retained || retained
	if tk != nil {
		b.ticket = tk
	}
	if err != nil {
		p.resendSoon()
		return false
	}
	if mutant == mutantConfirmUncommitted {
		p.plant(b, true)
	}
	return true
}

// resend proposes every unanswered batch again, in order.
func (p *pipeline) resend() {
	p.mu.Lock()
	if p.sending || p.target == nil || mutant == mutantNothingSentAgain {
		parked := p.target == nil && len(p.flight) > 0
		p.mu.Unlock()
		if parked { // it may have been sent to a replica that was about to stop
			p.host.touch(p.q)
		}
		return
	}
	p.sending = true
	if len(p.flight) > 0 {
		p.oldest.Store(p.host.clock.monotonicMillis())
	}
	for k := uint64(0); ; {
		b := p.firstAfter(k)
		if b == nil || !p.propose(b) {
			break
		}
		k = b.k
	}
	p.sending, p.again = false, false
	p.send()
}

// resendSoon has resend run after a pause: the target did not take a batch.
func (p *pipeline) resendSoon() { p.soon(&p.resending, limits.GapRetryMillis, p.resend) }

// soon runs f after a pause, once for all calls meanwhile.
func (p *pipeline) soon(pending *atomic.Bool, pauseMillis int64, f func()) {
	if pending.CompareAndSwap(false, true) {
		p.host.later(time.Duration(pauseMillis)*time.Millisecond, func() {
			pending.Store(false)
			f()
		})
	}
}

// retry offers everything again after the machine or the library refused it.
func (p *pipeline) retry() {
	p.mu.Lock()
	t, id := p.target, p.id
	p.mu.Unlock()
	if t != nil {
		t.reset(id)
	}
	p.resend()
}

// firstAfter returns the first batch in flight behind k. Called with p.mu held.
func (p *pipeline) firstAfter(k uint64) *batch {
	for _, b := range p.flight {
		if b.k > k {
			return b
		}
	}
	return nil
}

// check looks after the first unanswered batch: it is proposed again if its proposal was lost, and offered again if nothing was heard of it for a long time.
func (p *pipeline) check(nowMillis int64) {
	p.all.check(nowMillis)
	old := p.oldest.Load()
	if old == 0 || nowMillis-old < limits.ResendCheckMillis {
		return
	}
	p.mu.Lock()
	lost := len(p.flight) > 0 && p.flight[0].ticket != nil && p.flight[0].ticket.lost()
	p.mu.Unlock()
	switch {
	case lost:
		p.retry()
	case nowMillis-old >= limits.ResendMillis:
		p.resend()
	}
}

// start is called when the queue serves: the pipeline attaches and sends what waits. It reports whether t serves.
func (p *pipeline) start(t target) bool {
	p.sendTo(t)
	if !p.attachTo(t) {
		return false
	}
	p.resend()
	return true
}

// sendTo has batches go to t from now on.
func (p *pipeline) sendTo(t target) {
	p.mu.Lock()
	p.target = t
	p.mu.Unlock()
}

// attachTo has t serve this node from now on.
func (p *pipeline) attachTo(t target) bool {
	req, in := p.attachment()
	return t.attach(req, in)
}

// stop is called when the queue stops serving on this replica: batches wait for the next start.
func (p *pipeline) stop() {
	p.mu.Lock()
	p.target = nil
	for _, b := range p.flight {
		b.ticket = nil
	}
	p.mu.Unlock()
}

// answered completes batch k and everything before it that the stream cannot answer any more (there is nothing such in one incarnation).
func (p *pipeline) answered(k uint64, exceptions []queue.Exception) {
	p.mu.Lock()
	if len(p.flight) == 0 || p.flight[0].k != k {
		p.mu.Unlock()
		return // a repeat of what was answered already
	}
	b := p.flight[0]
	copy(p.flight, p.flight[1:])
	p.flight[len(p.flight)-1] = nil
	p.flight = p.flight[:len(p.flight)-1]
	p.flying -= len(b.buf)
	if len(p.flight) == 0 {
		p.oldest.Store(0)
	} else {
		p.oldest.Store(p.host.clock.monotonicMillis())
	}
	p.mu.Unlock()
	p.complete(b, exceptions, queue.CodeOK)
	p.flush()
}

// complete answers who waits for b, in runs of one session. A code other than OK answers all.
func (p *pipeline) complete(b *batch, exceptions []queue.Exception, code queue.Code) {
	var session *Session
	done := p.done[:0]
	var held []confirm
	e := 0
	for i, w := range b.waiters {
		reply := queue.Reply{Code: code}
		if e < len(exceptions) && int(exceptions[e].Index) == i {
			reply = exceptions[e].Reply
			e++
		}
		if w.closes {
			p.forget(w.session.id)
		}
		switch {
		case w.token == 0:
			continue
		case w.stores && p.all.on.Load():
			held = append(held, confirm{w.session, Completion{Token: w.token, Reply: reply}})
			continue
		}
		if w.session != session {
			if len(done) > 0 {
				session.recv.Completed(p.q, done)
				done = done[:0]
			}
			session = w.session
		}
		done = append(done, Completion{Token: w.token, Reply: reply})
	}
	if len(done) > 0 {
		session.recv.Completed(p.q, done)
	}
	clear(done)
	p.done = done[:0]
	b.recycle()
	p.all.hold(held, p.seen)
}

// inlet is where the stream of one attachment arrives.
type inlet struct {
	p *pipeline
	n uint64
}

var _ sink = inlet{}

// events takes one run of the serving replica's stream.
func (in inlet) events(evs []event, index uint64) {
	in.p.stream.Lock()
	defer in.p.stream.Unlock()
	if (in.n == in.p.streamN || mutant == mutantOldStreamTaken) && !in.p.muted {
		in.p.seen = max(in.p.seen, index)
		in.p.pass(evs)
	}
}

// pass works through events at once, or holds them back while the node has no lease: a node that slept, or was cut off, may have been declared dead, and what it was sent belongs to
// others by now. The next lease lets them through; the word of its death drops them. Called with p.stream held.
func (p *pipeline) pass(evs []event) {
	if !p.holding && p.host.Leased() {
		p.take(evs)
		return
	}
	p.holding = true
	p.held = append(p.held, evs...)
	p.host.cat.held.Store(true)
}

// mute ends what is handed out to sessions of an incarnation that was declared dead, before a lease of the next one could let it through.
func (p *pipeline) mute() {
	p.stream.Lock()
	defer p.stream.Unlock()
	p.muted, p.held = true, nil
}

// release lets through what was held back.
func (p *pipeline) release() {
	p.stream.Lock()
	defer p.stream.Unlock()
	held := p.held
	p.held, p.holding = nil, false
	p.take(held)
}

// outcomesBehind appends the outcomes of a sync to its deliveries: the message of a get comes before its outcome, as in any stream.
func outcomesBehind(deliveries []event, outcomes []queue.BatchOutcome) []event {
	for _, o := range outcomes {
		deliveries = append(deliveries, event{kind: eventOutcome, k: o.K, exceptions: o.Exceptions})
	}
	return deliveries
}

// synced takes the full sync that begins a stream (PROTOCOL 2): the deliveries and the outcomes that were missed. Who was evicted has no deliveries any more.
func (in inlet) synced(st queue.SyncState, deliveries []event, index uint64) {
	p := in.p
	p.stream.Lock()
	defer p.stream.Unlock()
	if in.n != p.streamN || p.muted {
		return
	}
	p.seen = max(p.seen, index)
	if st.Evicted {
		for _, o := range st.Outcomes {
			p.answered(o.K, o.Exceptions)
		}
		p.startOver()
		return
	}
	evs := outcomesBehind(deliveries, st.Outcomes)
	for i := range st.Sessions {
		evs = append(evs, event{kind: eventSynced, session: st.Sessions[i].Session, sync: &st.Sessions[i]})
	}
	p.pass(evs)
	p.closeUnknownSessions(st)
}

// stop is called when the serving replica ends the stream.
func (in inlet) stop() {
	in.p.stream.Lock()
	current := in.n == in.p.streamN
	in.p.stream.Unlock()
	if current {
		in.p.stop()
	}
}

func (in inlet) rested() { in.stop() }

// take works through events. Called with p.stream held.
func (p *pipeline) take(evs []event) {
	for i := 0; i < len(evs); i++ {
		switch ev := &evs[i]; ev.kind {
		case eventOutcome:
			p.answered(ev.k, ev.exceptions)
		case eventDeliver:
			i = p.deliver(evs, i)
		case eventCancel:
			if s := p.session(ev.session); s != nil {
				s.recv.Cancelled(p.q, ev.consumer)
			}
		case eventTimedOut:
			i = p.timedOut(evs, i)
		case eventSynced:
			if s := p.session(ev.session); s != nil {
				s.recv.Synced(p.q, ev.sync)
			}
		case eventReady:
			if s := p.session(ev.session); s != nil {
				s.recv.Ready(p.q, ev.k)
			}
		case eventRetry:
			p.soon(&p.retrying, limits.SealRetryMillis, p.retry)
		case eventFenced:
			p.fail()
		case eventEvicted:
			p.attachAgain()
		}
	}
}

// deliver hands over the run of deliveries to one session that begins at i and returns the index of its last event.
func (p *pipeline) deliver(evs []event, i int) int {
	id := evs[i].session
	out := p.deliveries[:0]
	for ; i < len(evs) && evs[i].kind == eventDeliver && evs[i].session == id; i++ {
		out = append(out, evs[i].delivery())
	}
	if s := p.session(id); s != nil {
		p.lastD[id] = out[len(out)-1].D
		s.recv.Deliver(p.q, out)
	}
	clear(out)
	p.deliveries = out[:0]
	return i - 1
}

// timedOut hands over the run of deliveries of one session that were taken back, which begins at i, and returns the index of its last event.
func (p *pipeline) timedOut(evs []event, i int) int {
	id := evs[i].session
	var ds []uint64
	for ; i < len(evs) && evs[i].kind == eventTimedOut && evs[i].session == id; i++ {
		ds = append(ds, evs[i].d)
	}
	if s := p.session(id); s != nil {
		s.recv.TimedOut(p.q, ds)
	}
	return i - 1
}

func (p *pipeline) session(id queue.SessionID) *Session {
	p.smu.Lock()
	defer p.smu.Unlock()
	return p.sessions[id]
}

// forget drops a session after its SessionClose was answered.
func (p *pipeline) forget(id queue.SessionID) {
	delete(p.lastD, id)
	p.mu.Lock()
	delete(p.serials, id)
	p.mu.Unlock()
	p.smu.Lock()
	delete(p.sessions, id)
	p.smu.Unlock()
}

// marks tells how far each session's deliveries have come, for an attach.
func (p *pipeline) marks() []queue.SessionMark {
	marks := make([]queue.SessionMark, 0, len(p.lastD))
	for id, d := range p.lastD {
		marks = append(marks, queue.SessionMark{Session: id, LastD: d})
	}
	return marks
}

// attachment begins a new stream: what this node says when it attaches, and where the stream goes. From here on only that one is listened to, so that every outcome that was not taken yet
// comes with its sync.
func (p *pipeline) attachment() (attachRequest, sink) {
	p.stream.Lock()
	defer p.stream.Unlock()
	p.streamN++
	if mutant != mutantHeldTwice {
		p.held = nil // the sync brings what was held back, whenever the next lease comes
	}
	return attachRequest{pipeline: p.id, n: p.streamN, answeredK: p.answeredK(), marks: p.marks(), seen: p.seen}, inlet{p, p.streamN}
}

// inUse tells whether somebody on this node waits for something from the queue.
func (p *pipeline) inUse() bool {
	p.smu.Lock()
	defer p.smu.Unlock()
	return len(p.sessions) > 0 || p.oldest.Load() != 0
}

// answeredK is the last batch whose outcome was taken.
func (p *pipeline) answeredK() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.flight) > 0 {
		return p.flight[0].k - 1
	}
	return p.lastK
}

// closeUnknownSessions ends those that only the machine has.
func (p *pipeline) closeUnknownSessions(st queue.SyncState) {
	for _, ss := range st.Sessions {
		if p.session(ss.Session) == nil {
			// The session ended here while the replica was away and its SessionClose was answered by a former one, or never existed.
			p.closeUnknown(ss.Session)
		}
	}
}

func (p *pipeline) closeUnknown(id queue.SessionID) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return
	}
	if p.open == nil {
		p.open = newBatch()
	}
	p.open.buf = queue.AppendCommand(p.open.buf, &queue.Command{Op: queue.OpSessionClose, Session: id})
	p.open.count++
	p.open.waiters = append(p.open.waiters, waiter{})
	p.mu.Unlock()
}

// end is called when the catalogue says that the queue is gone: everything unanswered is completed with CodeGone. From a relay it is not: what it has not taken by then would have gone on to queues that
// are there, and may not be confirmed.
func (p *pipeline) end(q *meta.Queue) {
	code := queue.CodeGone
	if _, isRelay := q.RelayOf(); isRelay && mutant != mutantGoneRelayHas {
		code = queue.CodeUnavailable
	}
	p.finish(code, true)
}

// takeDown is called when this node's replica, the only one, is damaged: nothing that waits is known to be stored, and consumers are cancelled.
func (p *pipeline) takeDown() { p.finish(queue.CodeUnavailable, true) }

// fail is called when this node's boot was declared dead: nothing that waits is known to be stored.
func (p *pipeline) fail() { p.finish(queue.CodeUnavailable, false) }

func (p *pipeline) finish(code queue.Code, gone bool) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return
	}
	p.gone, p.fenced = true, code != queue.CodeGone
	rest := p.takeAll()
	p.target = nil
	p.mu.Unlock()
	if code == queue.CodeGone {
		p.all.end(queue.CodeOK)
	} else {
		p.all.end(code)
	}
	p.finishWaiters(rest, code)
	sessions := p.takeSessions()
	if gone {
		for _, s := range sessions {
			s.recv.Gone(p.q)
		}
	}
}

// takeSessions forgets all sessions and returns them.
func (p *pipeline) takeSessions() []*Session {
	p.smu.Lock()
	defer p.smu.Unlock()
	sessions := make([]*Session, 0, len(p.sessions))
	for _, s := range p.sessions {
		sessions = append(sessions, s)
	}
	clear(p.sessions)
	return sessions
}

func (p *pipeline) finishWaiters(rest []*batch, code queue.Code) {
	for _, b := range rest {
		for _, w := range b.waiters {
			if w.token != 0 {
				w.session.recv.Completed(p.q, []Completion{{Token: w.token, Reply: queue.Reply{Code: code}}})
			}
		}
	}
}
