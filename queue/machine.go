package queue

import (
	"github.com/google/btree"

	"github.com/warrenmq/warren/internal/invariant"
	"github.com/warrenmq/warren/internal/machine"
)

// Machine is one queue. It is not safe for concurrent use: the runner that owns it applies one entry at a time.
type Machine struct {
	cfg        Config
	seenMillis int64
	nextSeq    Seq

	ready     ready
	returning returning // messages of ended sessions on their way back; they count as unacked
	away      seqSet    // all messages that are neither ready nor gone: outstanding, returning, staged or reserved
	unacked   sums      // those of away that users call unacked: all but the ones delivered without acknowledgement
	marks     []mark    // of queues whose outboxes came here, by source and epoch
	delayed   delayed   // messages that are to be ready later
	outbox    outbox    // messages that died and leave for other queues
	checks    checks    // of sessions whose deliveries have deadlines
	dedup     dedup     // ids that were accepted
	// stagedIDs are those of messages in transactions that are not committed, held by the messages' seqs; nil if there are none.
	stagedIDs *btree.BTreeG[known]
	// reservations wait for the decision of another queue, of decisions others have yet to hear; by id.
	reservations []*reservation
	decisions    []*decision
	dropped      seqSet // messages that are gone and whose release was not reported yet

	pipelines  []*pipeline // by id
	deadBoots  []deadBoot  // by node
	sessions   int
	roster     roster
	succession succession

	seals       uint64 // the number of the present or last seal
	sealed      bool
	hadConsumer bool
	unusedDue   bool  // KindUnused waits for the last returning message
	lastUse     int64 // the last time the queue was used, in milliseconds
	totals      totals

	// What follows is no state.
	bounds        bounds
	budget        budget
	orphaned      bool // KindTxOrphan waits for the end of the command
	effectsBefore int
	recent        *pipeline
	pool          pagePool
	cmd           Command
	exceptions    []Exception
}

// totals are what a queue has done since it was made.
type totals struct {
	enqueued, delivered, deliveredNoAck, got, gotNoAck, getEmpty, acked, redelivered, rejected, timedOut, duplicates uint64
	deaths                                                                                                           [reasonsEnd - 1]uint64 // by reason, from 1
}

// New makes an empty queue.
func New(cfg Config) *Machine { return newMachine(cfg, standardBounds) }

func newMachine(cfg Config, b bounds) *Machine {
	m := &Machine{cfg: cfg, nextSeq: 1, bounds: b, ready: ready{window: b.window}}
	m.activate()
	return m
}

// ApplyBatch applies one pipeline batch: exactly once and in order (PROTOCOL 1). It appends the effects to out. at.NowMillis is the time that counts; b.NowMillis is where
// the shell takes it from. The batch must have passed ValidateBatch: one that does not decode is an invariant violation. In steady state nothing is allocated.
func (m *Machine) ApplyBatch(at machine.Stamp, b *Batch, out []Effect) (Result, []Effect) {
	if counter, ok := m.fenced(b.Pipeline.Node, b.Pipeline.Boot); ok {
		return Result{Verdict: VerdictFenced, DeadBoot: counter}, out
	}
	p := m.pipeline(b.Pipeline)
	if (p == nil || p.evicted) && m.evicted(b.Pipeline) {
		return Result{Verdict: VerdictEvicted}, out
	}
	next := uint64(1)
	if p != nil {
		next = p.lastK + 1
	}
	switch {
	case b.K < next && !(mutant == mutantRepeatApplied && b.K == p.lastK):
		m.exceptions = p.exceptions(b.K, m.exceptions[:0])
		return Result{Verdict: VerdictRepeat, Next: next, Exceptions: m.exceptions}, out
	case b.K > next:
		return Result{Verdict: VerdictGap, Next: next}, out
	case m.sealed:
		return Result{Verdict: VerdictSealed, Next: next}, out
	}
	if p == nil && !m.hasRoom(b.Pipeline) {
		return Result{Verdict: VerdictLimit, Next: next}, out
	}
	m.begin(out)
	out = m.see(at, out)
	if p == nil {
		p, out = m.openPipeline(b.Pipeline, out)
		out = m.after(out)
	}
	out = m.applyCommands(p, b, out)
	return Result{Verdict: VerdictApplied, Next: b.K + 1, Exceptions: m.exceptions}, out
}

// applyCommands carries out the commands of the next batch of p and keeps its outcome.
func (m *Machine) applyCommands(p *pipeline, b *Batch, out []Effect) []Effect {
	m.exceptions = m.exceptions[:0]
	outcome := p.outcomes[b.K%pipelineWindow][:0]
	rest := b.Commands
	for i := uint32(0); i < uint32(b.Count); i++ {
		var err error
		if rest, err = DecodeCommand(rest, &m.cmd); err != nil {
			invariant.Failf("command %d of batch %d: %v", i, b.K, err)
		}
		var reply Reply
		reply, out = m.execute(p, &m.cmd, i, out)
		out = m.after(out)
		if !reply.IsPlain() {
			m.exceptions = append(m.exceptions, Exception{Index: i, Reply: reply})
			outcome = appendException(outcome, i, &reply)
		}
	}
	if len(rest) != 0 { // not invariant.Check, whose arguments would be allocated
		invariant.Failf("batch %d has %d bytes behind its last command", b.K, len(rest))
	}
	p.outcomes[b.K%pipelineWindow] = outcome
	p.lastK = b.K
	m.cmd.Envelope = nil // the batch must not live on by it
	return out
}

// execute carries out one command of a batch.
func (m *Machine) execute(p *pipeline, cmd *Command, index uint32, out []Effect) (Reply, []Effect) {
	switch cmd.Op {
	case OpEnqueue:
		return m.enqueue(cmd, index, false, out)
	case OpSubscribe:
		return m.subscribe(p, cmd), out
	case OpCancel:
		return m.cancel(p, cmd), out
	case OpDrained:
		return Reply{}, m.drain(p, cmd, out)
	case OpGet:
		return m.get(p, cmd, out)
	case OpSettle:
		return m.settle(p, cmd, out)
	case OpPurge:
		return m.purge(out)
	case OpQuery, OpTouch:
		if cmd.Op == OpTouch {
			m.lastUse = m.seenMillis
		}
		return Reply{A: m.ready.sums.n, B: uint64(m.roster.size), C: m.unacked.n}, out
	case OpSessionClose:
		return m.closeSession(p, cmd, out)
	case OpTxEnqueue:
		return m.stageEnqueue(p, cmd, index, out)
	case OpTxSettle:
		return m.stageSettle(p, cmd, out)
	case OpTxCommit:
		return m.commitTx(p, cmd, out)
	case OpTxPrepare:
		return m.prepareTx(p, cmd, out)
	case OpTxDecide:
		return m.decideTx(p, cmd, out)
	case OpTxFinish:
		return m.finishTx(p, cmd, out)
	case OpCredit:
		return m.credit(p, cmd, out)
	case OpUnschedule, OpExpedite:
		return m.pick(cmd, out)
	case OpMove:
		return m.move(cmd, out)
	}
	invariant.Failf("op %d in a batch", cmd.Op)
	return Reply{}, out
}

// Apply applies one command that travels outside pipelines: OpTick, OpConfigure, OpSeal, OpUnseal, OpNodeGone, OpEvict, OpResolve, OpDone, OpRun, OpForget, OpTxAsk, OpTxEnd,
// OpTxDone. It appends the effects to out. Another Op is an invariant
// violation.
func (m *Machine) Apply(at machine.Stamp, cmd *Command, out []Effect) (Reply, []Effect) {
	m.begin(out)
	out = m.see(at, out)
	var reply Reply
	switch cmd.Op {
	case OpTick:
		out = m.timeOut(m.work(out))
	case OpConfigure:
		reply, out = m.configure(&cmd.Config, out)
	case OpSeal:
		reply = m.seal(cmd.Condition)
	case OpUnseal:
		reply = m.unseal(cmd.To)
	case OpNodeGone:
		reply, out = m.nodeGone(cmd.Node, cmd.Boot.Counter, out)
	case OpResolve:
		reply, out = m.resolve(cmd.Envelope, out)
	case OpDone:
		reply, out = m.done(cmd.Peer, cmd.To, cmd.To == DoneGone, out)
	case OpRun:
		reply, out = m.run(cmd, out)
	case OpForget:
		reply = m.forget(cmd.Peer, cmd.PeerEpoch)
	case OpTxAsk:
		reply, out = m.askTx(cmd, out)
	case OpTxEnd:
		reply, out = m.endTx(cmd, out)
	case OpTxDone:
		reply, out = m.txDone(cmd, out)
	case OpEvict:
		reply, out = m.evict(PipelineID{Node: cmd.Node, Boot: cmd.Boot, Gen: cmd.Gen}, out)
	default:
		invariant.Failf("op %d outside a batch", cmd.Op)
	}
	return reply, m.after(out)
}

// after does what any command may have made possible: messages that are due die, others go to consumers, what is too much gives way, and the last consumer of an auto-delete queue is
// reported.
func (m *Machine) after(out []Effect) []Effect {
	out = m.distribute(out)
	if m.cfg.Overflow == DropHead {
		out = m.overflow(out)
	}
	if m.roster.hungry > 0 && m.ready.sums.n > 0 && !m.sealed {
		out = m.tellHungry(out)
	}
	m.sweep()
	if m.unusedDue && m.returning.isEmpty() {
		m.unusedDue = false
		out = append(out, Effect{Kind: KindUnused})
	}
	if m.orphaned {
		m.orphaned = false
		switch {
		case mutant == mutantReservationReturns && len(m.reservations) > 0:
			out = m.endReservation(0, false, out)
		case mutant == mutantDecisionForgotten:
			m.decisions = nil
		}
		out = append(out, Effect{Kind: KindTxOrphan})
	}
	return out
}

// distribute lets messages die that are due and gives others to consumers.
func (m *Machine) distribute(out []Effect) []Effect {
	out = m.wake(out)
	ok, out := m.expire(out)
	if ok { // else the head may be dead
		out = m.assign(out)
	}
	return out
}

// see takes over the time of an entry, which never goes back, and lets messages die that are due by then.
func (m *Machine) see(at machine.Stamp, out []Effect) []Effect {
	if at.NowMillis <= m.seenMillis {
		return out
	}
	m.seenMillis = at.NowMillis
	if m.lastUse == 0 { // it was just made
		m.lastUse = m.seenMillis
	}
	_, out = m.expire(out)
	return out
}

// enqueue carries out OpEnqueue. patient says that a message that is refused is tried again later, and not lost.
func (m *Machine) enqueue(cmd *Command, index uint32, patient bool, out []Effect) (Reply, []Effect) {
	identified := cmd.Flags&FlagDedup != 0
	if identified && m.dropsDuplicate(cmd.ID) {
		return Reply{Code: CodeDuplicate}, out
	}
	x := m.newRecord(cmd)
	to := m.taker(&x)
	if to == nil && cmd.Flags&FlagImmediate != 0 && mutant != mutantImmediateWaits {
		return Reply{Code: CodeNoConsumers}, out
	}
	later := x.flags&FlagDelay != 0
	full := to == nil && !later && !m.cfg.Relay && m.cfg.Overflow != DropHead && m.isOver(1, uint64(x.bytes))
	if identified && (!full || mutant == mutantIDKnownThoughRefused) {
		m.accept(cmd.ID, x.seq)
	}
	if full && patient {
		return Reply{Code: CodeRejected}, out
	}
	if full {
		m.totals.rejected++
		if m.cfg.Overflow == RejectPublish || !m.cfg.DeadLetter {
			return Reply{Code: CodeRejected}, out
		}
	}
	m.nextSeq++
	m.totals.enqueued++
	out = append(out, Effect{Kind: KindStore, Index: index, Seq: x.seq})
	switch {
	case full:
		return Reply{Code: CodeRejected}, m.die(&x, ReasonMaxLength, out)
	case to != nil:
		m.budget.assignments--
		return Reply{}, m.deliver(to, &x, out)
	case later:
		m.delayed.add(x.born, &x)
		return Reply{}, out
	case m.cfg.Relay:
		return Reply{}, m.relay(&x, out)
	}
	m.ready.push(&x)
	return Reply{}, out
}

// relay sends a message on its way that is ready for it.
func (m *Machine) relay(x *record, out []Effect) []Effect {
	m.outbox.add(x, ReasonRelayed, m.seenMillis)
	return append(out, Effect{Kind: KindRelayed, Seq: x.seq})
}

// taker returns the consumer that gets a message as it comes, nil if it has to wait: what assign would do next, without the way through ready, where what has no time to live would die.
func (m *Machine) taker(x *record) *consumer {
	if m.ready.sums.n > 0 || x.flags&FlagDelay != 0 || m.sealed || m.cfg.Relay || m.budget.assignments == 0 {
		return nil
	}
	return m.roster.pick(x.bytes)
}

// newRecord describes the message of an Enqueue, for the next position.
func (m *Machine) newRecord(cmd *Command) record {
	x := record{seq: m.nextSeq, place: m.nextSeq, bytes: cmd.BodyBytes, priority: m.cfg.PriorityDefault, flags: cmd.Flags & (FlagPersistent | FlagRedelivered), born: m.schedule(cmd)}
	if x.born > m.seenMillis {
		x.flags |= FlagDelay
	}
	if cmd.Flags&FlagHasPriority != 0 {
		x.priority = cmd.Priority
	}
	x.priority = min(x.priority, m.cfg.PriorityMax)
	if cmd.Flags&FlagHasExpiration != 0 {
		x.due, _ = LimitOf(cmd.Expiration).after(x.born)
	}
	return x
}

// configure carries out OpConfigure. Messages keep the priority that they got.
func (m *Machine) configure(cfg *Config, out []Effect) (Reply, []Effect) {
	if cfg.Version <= m.cfg.Version {
		return Reply{Code: CodeStale}, out
	}
	old := m.cfg
	m.cfg = *cfg
	m.followDedup(&old)
	m.unusedDue = m.unusedDue && cfg.AutoDelete
	m.activate()
	if cfg.Draining {
		out = m.retire(out)
	}
	return Reply{}, out
}

// ConfigVersion returns the version of the Config that the machine follows.
func (m *Machine) ConfigVersion() uint64 { return m.cfg.Version }

// NextDeadline returns the time at which the leader should propose an OpTick; ok is false if nothing is due ever. While bounded work is left it is the last time seen, so in the past.
func (m *Machine) NextDeadline() (millis int64, ok bool) {
	if !m.returning.isEmpty() || m.dropped.n > 0 || m.dedup.sweeping || m.canAssign() || m.cfg.Overflow == DropHead && m.ready.sums.n > 0 && m.isOver(0, 0) {
		return m.seenMillis, true
	}
	millis, ok = m.nextDeath()
	if x, some := m.delayed.next(); some && (!ok || x.until < millis) {
		millis, ok = x.until, true
	}
	if x, some := m.checks.next(); some && (!ok || x.at < millis) {
		millis, ok = x.at, true
	}
	return millis, ok
}

// Counts returns the numbers that people look at.
func (m *Machine) Counts() Counts {
	r, u, t := &m.ready.sums, &m.unacked, &m.totals
	return Counts{
		Ready: r.n, Unacked: u.n, ReadyBytes: r.bytes, UnackedBytes: u.bytes,
		Persistent: r.persistent + u.persistent, PersistentBytes: r.persistentBytes + u.persistentBytes,
		Consumers: uint64(m.roster.size),
		Enqueued:  t.enqueued, Delivered: t.delivered, DeliveredNoAck: t.deliveredNoAck, Got: t.got, GotNoAck: t.gotNoAck, GetEmpty: t.getEmpty,
		Acked: t.acked, Redelivered: t.redelivered, Rejected: t.rejected, TimedOut: t.timedOut, Deaths: t.deaths, Duplicates: t.duplicates,
		Delayed: m.delayed.sums.n, DelayedBytes: m.delayed.sums.bytes, Dead: m.outbox.sums.n, DeadBytes: m.outbox.sums.bytes, Moving: m.outbox.moving,
		NextSeq: m.nextSeq,
	}
}

// Config returns the present configuration.
func (m *Machine) Config() Config { return m.cfg }

// Has tells whether the queue still holds a message: ready, outstanding, returning, staged, reserved, delayed or in the outbox.
func (m *Machine) Has(seq Seq) bool {
	return m.ready.seqs.has(seq) || m.away.has(seq) || m.delayed.seqs.has(seq) || m.outbox.seqs.has(seq)
}

// Live yields every message that the queue still holds (see Has) in ascending order until yield returns false. The machine must not change meanwhile.
func (m *Machine) Live(yield func(Seq) bool) {
	union(yield, &m.ready.seqs, &m.away, &m.delayed.seqs, &m.outbox.seqs)
}

// LivePageSeqs is how many messages a page of LivePages covers.
const LivePageSeqs = setPageBits

// LivePages is Live by pages, those that have any: bit i%64 of word i/64 stands for the message page*LivePageSeqs+i.
func (m *Machine) LivePages(yield func(page uint64, live [LivePageSeqs / 64]uint64) bool) {
	unionPages(func(p *setPage) bool { return yield(p.no, p.bits) }, &m.ready.seqs, &m.away, &m.delayed.seqs, &m.outbox.seqs)
}

// LivePage returns one page of LivePages.
func (m *Machine) LivePage(page uint64) (live [LivePageSeqs / 64]uint64) {
	for _, s := range [...]*seqSet{&m.ready.seqs, &m.away, &m.delayed.seqs, &m.outbox.seqs} {
		if i, ok := s.find(page); ok {
			for w, word := range s.pages[i].bits {
				live[w] |= word
			}
		}
	}
	return live
}
