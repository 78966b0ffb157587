package quorum

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/invariant"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage/segment"
)

// replica is one machine with the bodies of its messages and the nodes that it serves. It is what Raft groups and local runners share: they feed it entries one by one, in order,
// from one goroutine at a time, and call stream after each run of entries.
type replica struct {
	id  meta.QueueID
	log *slog.Logger

	mu      sync.Mutex
	m       *queue.Machine
	bodies  bodies
	applied uint64 // index of the last entry applied
	served  []*attachment
	opened  bool                 // its state is loaded
	failure *invariant.Violation // what stopped this replica for good
	damage  *damage              // its files are damaged: it serves nobody
	rotten  func(error)          // is told of damage that a read meets; nil for a local runner
	end     <-chan struct{}      // closed at the end of the replica; nil for a local runner

	effects []queue.Effect
	evs     []event
	entry   queue.Entry
	cmd     queue.Command
	unused  bool // an auto-delete queue lost its last consumer
	died    bool // a message went to the outbox
	lost    int  // messages that died and found it full
	// orphaned: a session left a transaction over several queues open.
	orphaned bool
	first    bool // the first batch of an incarnation was applied, which may be dead by now

	accounted int64                 // body bytes that the node counts for this replica
	onDisk    func() *segment.Store // the message store, nil for a local runner; may return nil
}

// errFailed says that the machine stopped at an entry that only a bug explains.
var errFailed = errors.New("quorum: the queue's state machine has stopped")

// apply applies one entry. Called with r.mu held. What it leads to is collected for stream. The entry is kept alive by the bodies in it.
func (r *replica) apply(index uint64, entry []byte) queue.Reply {
	if r.failure != nil {
		return queue.Reply{Code: queue.CodeUnavailable}
	}
	reply, err := r.step(index, entry)
	if err != nil {
		r.failure = err
		r.log.Error("queue stopped: its state machine met an impossible state", "queue", uint64(r.id), "index", index, "reason", err.Reason)
	}
	r.applied = index
	return reply
}

// step runs the machine and turns a broken invariant into a value (PROTOCOL 7, Failure).
func (r *replica) step(index uint64, entry []byte) (reply queue.Reply, failed *invariant.Violation) {
	defer func() {
		if v := recover(); v != nil {
			violation, ok := v.(*invariant.Violation)
			if !ok {
				panic(v)
			}
			failed = violation
		}
	}()
	r.effects = r.effects[:0]
	if err := queue.DecodeEntry(entry, &r.entry); err != nil {
		invariant.Failf("undecodable entry in the log: %v", err)
	}
	at := machine.Stamp{Index: index, NowMillis: r.entry.NowMillis}
	if r.entry.Kind == queue.EntryBatch {
		var result queue.Result
		result, r.effects = r.m.ApplyBatch(at, &r.entry.Batch, r.effects)
		r.first = r.first || r.entry.Batch.K == 1 && result.Verdict == queue.VerdictApplied
		r.keepBodies(r.entry.Batch.Commands, len(entry))
		r.collect(&result)
	} else {
		reply, r.effects = r.m.Apply(at, &r.entry.Command, r.effects)
		if r.entry.Command.Op == queue.OpRun {
			r.keepBodies(r.entry.Command.Envelope, len(entry))
		}
		r.collect(nil)
	}
	return reply, nil
}

// keepBodies stores the envelopes of the accepted messages among encoded commands, which are part of an entry of so many bytes.
func (r *replica) keepBodies(rest []byte, entryBytes int) {
	at := uint32(0)
	var kept *bodyEntry
	for i := range r.effects {
		e := &r.effects[i]
		if e.Kind != queue.KindStore {
			continue
		}
		for ; at <= e.Index; at++ {
			var err error
			if rest, err = queue.DecodeCommand(rest, &r.cmd); err != nil {
				invariant.Failf("command %d of an applied batch cannot be decoded: %v", at, err)
			}
		}
		if kept == nil {
			kept = r.bodies.newEntry(entryBytes)
		}
		r.bodies.put(e.Seq, r.cmd.Envelope, kept)
	}
}

// collect turns effects into events of the nodes' streams, in order, the batch's outcome last.
func (r *replica) collect(result *queue.Result) {
	for i := range r.effects {
		switch e := &r.effects[i]; e.Kind {
		case queue.KindDeliver:
			r.evs = append(r.evs, r.delivery(e))
		case queue.KindCancel:
			r.evs = append(r.evs, event{kind: eventCancel, node: e.Node, boot: e.BootCounter, session: e.Session, consumer: e.Consumer})
		case queue.KindTimedOut:
			r.evs = append(r.evs, event{kind: eventTimedOut, node: e.Node, boot: e.BootCounter, session: e.Session, d: e.D})
		case queue.KindEvicted:
			r.evs = append(r.evs, event{kind: eventEvicted, node: e.Node, boot: e.BootCounter})
		case queue.KindReady:
			r.evs = append(r.evs, event{kind: eventReady, node: e.Node, boot: e.BootCounter, session: e.Session, k: uint64(e.Ready)})
		case queue.KindUnused:
			r.unused = true
		case queue.KindDead, queue.KindRelayed:
			r.died = true
		case queue.KindLost:
			r.lost++
		case queue.KindTxOrphan:
			r.orphaned = true
		}
	}
	if result != nil {
		r.evs = append(r.evs, r.outcome(result))
	}
	for i := range r.effects {
		if e := &r.effects[i]; e.Kind == queue.KindRelease {
			r.release(e.Seq, e.To)
		}
	}
}

func (r *replica) delivery(e *queue.Effect) event {
	return event{kind: eventDeliver, redelivered: e.Redelivered, node: e.Node, boot: e.BootCounter, session: e.Session, consumer: e.Consumer, d: e.D, seq: e.Seq,
		deliveryCount: e.DeliveryCount, acquiredCount: e.AcquiredCount, epoch: e.Epoch, envelope: r.bodies.get(e.Seq)}
}

func (r *replica) outcome(result *queue.Result) event {
	id := r.entry.Batch.Pipeline
	ev := event{kind: eventOutcome, node: id.Node, boot: id.Boot.Counter, k: r.entry.Batch.K}
	switch result.Verdict {
	case queue.VerdictApplied, queue.VerdictRepeat:
		// The machine's memory changes with its next step, the stream runs behind it.
		ev.exceptions = append([]queue.Exception(nil), result.Exceptions...)
	case queue.VerdictFenced:
		ev.kind = eventFenced
	case queue.VerdictEvicted:
		ev.kind = eventEvicted
	default: // a gap, a seal, no room: the sender offers it again
		ev.kind = eventRetry
	}
	return ev
}

// stream hands what was collected to the nodes served. Called without r.mu, by the goroutine that applies.
func (r *replica) stream() {
	r.mu.Lock()
	evs, served, index := r.evs, r.served, r.applied
	r.mu.Unlock()
	if len(evs) == 0 {
		return
	}
	for _, a := range served {
		a.push(evs, index)
	}
	clear(evs)
	r.mu.Lock()
	r.evs = evs[:0]
	r.mu.Unlock()
}

// release forgets bodies in memory and in the message store.
func (r *replica) release(from, to queue.Seq) {
	r.bodies.release(from, to)
	if r.onDisk == nil {
		return
	}
	if store := r.onDisk(); store != nil {
		store.Release(uint64(from), uint64(to))
	}
}

// read returns the envelope of a message wherever it is, nil without an error if the message left the queue. After an error the replica has been told; a later try may do, here or elsewhere. Called without
// r.mu, never by apply.
func (r *replica) read(seq queue.Seq) ([]byte, error) {
	r.mu.Lock()
	env := r.bodies.get(seq)
	var store *segment.Store
	if env == nil && r.onDisk != nil {
		store = r.onDisk()
	}
	r.mu.Unlock()
	if env != nil || store == nil {
		return env, nil
	}
	if mutant == mutantNeighboursBody && store.Has(uint64(seq+1)) {
		seq++
	}
	env, err := store.Read(uint64(seq))
	if errors.Is(err, segment.ErrNotFound) {
		r.mu.Lock()
		left := !r.m.Has(seq)
		r.mu.Unlock()
		if left { // since we looked for it in memory
			return nil, nil
		}
	}
	if err != nil {
		r.log.Error("a message cannot be read from disk", "queue", uint64(r.id), "seq", uint64(seq), "error", err)
		if r.rotten != nil {
			r.rotten(err)
		}
		return nil, err
	}
	return env, nil
}

// serve begins to serve a pipeline: at one applied index it takes what the node lacks and everything later follows in log order (PROTOCOL 2, Attach). An older attachment of the same node
// ends without a word: its stream is not listened to any more. A replica that has not applied what the node has seen already waits for it, and gives up after limits.AttachMillis: the
// result is nil then.
func (r *replica) serve(req attachRequest, to sink) *attachment {
	a := &attachment{to: to, node: req.pipeline.Node, boot: req.pipeline.Boot.Counter, n: req.n, replica: r}
	a.mu.Lock()
	defer a.mu.Unlock()
	if mutant != mutantSeenIgnored && !r.reach(req.seen) {
		return nil
	}
	r.mu.Lock()
	if r.damage != nil {
		r.mu.Unlock()
		return nil
	}
	for _, old := range r.served {
		if old.node == a.node && (old.boot > a.boot || old.boot == a.boot && old.n > a.n) {
			r.mu.Unlock()
			return nil // the node has attached again meanwhile
		}
	}
	index := r.applied
	st := r.m.Sync(req.pipeline, req.answeredK, req.marks)
	var deliveries []event
	for _, ss := range st.Sessions {
		for i := range ss.Deliveries {
			deliveries = append(deliveries, r.delivery(&ss.Deliveries[i]))
		}
		if ss.Ready > 0 {
			deliveries = append(deliveries, event{kind: eventReady, node: a.node, boot: a.boot, session: ss.Session, k: ss.Ready})
		}
	}
	kept := make([]*attachment, 0, len(r.served)+1)
	for _, old := range r.served {
		if old.node != a.node {
			kept = append(kept, old)
		}
	}
	r.served = append(kept, a)
	r.mu.Unlock()
	if !a.warm(deliveries) {
		r.detach(a)
		return nil
	}
	to.synced(st, deliveries, index)
	return a
}

// attach begins to serve a pipeline of this node; false: the replica is too far behind.
func (r *replica) attach(req attachRequest, to sink) bool { return r.serve(req, to) != nil }

// reach waits until the replica has applied index, a bounded time.
func (r *replica) reach(index uint64) bool {
	deadline := time.Now().Add(limits.AttachMillis * time.Millisecond)
	for pause := time.Millisecond; ; pause = min(2*pause, limits.GapRetryMillis*time.Millisecond) {
		r.mu.Lock()
		reached, failed := r.applied >= index, r.failure != nil || r.damage != nil
		r.mu.Unlock()
		if reached || failed || time.Now().After(deadline) {
			return reached
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-r.end:
			t.Stop()
			return false
		}
	}
}

// detach ends one stream.
func (r *replica) detach(a *attachment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := make([]*attachment, 0, len(r.served))
	for _, old := range r.served {
		if old != a {
			kept = append(kept, old)
		}
	}
	r.served = kept
}

// endStreams ends every stream, with sink.stop or sink.rested.
func (r *replica) endStreams(end func(sink)) {
	r.mu.Lock()
	served := r.served
	r.served = nil
	r.mu.Unlock()
	for _, a := range served {
		end(a.to)
	}
}

// isOwed tells whether other queues wait for something from this one.
func (r *replica) isOwed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m.Counts().Dead > 0 || r.m.MayDecide()
}

// serves tells whether nodes can attach.
func (r *replica) serves() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened && r.failure == nil && r.damage == nil
}

// counts returns the queue's numbers.
func (r *replica) counts() queue.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		return queue.Counts{}
	}
	return r.m.Counts()
}

// nextDelayed is when the first delayed message is due, 0 without any.
func (r *replica) nextDelayed() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		return 0
	}
	millis, _ := r.m.NextDelayed()
	return millis
}
