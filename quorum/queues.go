package quorum

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// pipeline returns this node's pipeline to a queue of the catalogue.
func (h *Host) pipeline(q meta.QueueID) (*pipeline, error) {
	if v, ok := h.slots.Load(q); ok {
		return v.(*slot).pipe, nil
	}
	s, err := h.slot(q)
	if err != nil {
		return nil, err
	}
	return s.pipe, nil
}

// slot returns what this node has of a queue, making it if the catalogue has the queue.
func (h *Host) slot(id meta.QueueID) (*slot, error) {
	if v, ok := h.slots.Load(id); ok {
		return v.(*slot), nil
	}
	q := h.Catalogue().View.QueueByID(id)
	if q == nil {
		return nil, ErrNoQueue
	}
	s := &slot{host: h, q: q, pipe: newPipeline(h, id)}
	s.pipe.all.follow(q)
	if v, raced := h.slots.LoadOrStore(id, s); raced {
		return v.(*slot), nil
	}
	if h.Catalogue().View.QueueByID(id) == nil { // deleted meanwhile, and nobody else will notice
		h.remove(q)
		return nil, ErrNoQueue
	}
	return s, nil
}

// local tells whether this node serves a queue: it is its home, or leads its group. Of a group that has no leader here, one that sleeps, every node with a replica is taken for it.
func (h *Host) local(id meta.QueueID) bool {
	q := h.Catalogue().View.QueueByID(id)
	if q == nil {
		return false
	}
	if !q.Durable {
		return q.Home == h.node
	}
	if v, ok := h.slots.Load(id); ok {
		if _, leader := v.(*slot).leader(); leader != 0 {
			return leader == h.node
		}
	}
	_, ok := q.MemberOn(h.node)
	return ok
}

// touch starts a queue that is wanted. It returns at once.
func (h *Host) touch(id meta.QueueID) {
	s, err := h.slot(id)
	if err != nil {
		return
	}
	s.mu.Lock()
	if s.touched || s.gone {
		s.mu.Unlock()
		return
	}
	s.touched = true
	_, member := s.q.MemberOn(h.node)
	switch {
	case s.run != nil: // it started already and serves by itself
		s.mu.Unlock()
	case !s.q.Durable && s.q.Home == h.node:
		l := newLocal(h, id, queueConfig(s.q), h.log)
		s.run = l
		s.mu.Unlock()
		l.tick() // its time of being unused begins
		s.pipe.start(l)
	case member:
		s.mu.Unlock()
		h.starter.add(h, s, true)
	default:
		r := newRemote(h, s.q)
		s.run = r
		s.mu.Unlock()
		r.find()
	}
}

// startGroup brings one replica up. It waits until its queue serves, but not for long: that may take until other nodes are back.
func (h *Host) startGroup(s *slot) {
	s.mu.Lock()
	if _, started := s.run.(*group); started || s.gone {
		s.mu.Unlock()
		return
	}
	m, ok := s.q.MemberOn(h.node)
	if !ok {
		s.mu.Unlock()
		h.sweepDamaged(s)
		return
	}
	g := newGroup(h, s.q, m.Replica, h.log)
	if g.rested = s.rested; g.rested != nil {
		g.since = g.rested.since
	}
	ended := s.ended
	s.run, s.rested, s.wakeAt, s.ended = g, nil, 0, nil
	s.mu.Unlock()
	if !h.wakeAgain(g.id, ended) {
		return
	}
	d, err := h.makeRoom(g.id, g.replicaID)
	known := d != nil
	if err == nil && d == nil {
		if err = g.load(); isDamage(err) {
			d, err = h.newDamage(g.replicaID, err), nil
		}
	}
	switch {
	case d != nil:
		h.damagedAtStart(s, g, d, known)
		return
	case err != nil:
		g.disk.close()
		if !errors.Is(err, dragonboat.ErrClosed) {
			h.report(err)
		}
		return
	}
	if err := g.start(); err != nil {
		select {
		case <-h.closed:
		default:
			h.log.Error("a queue cannot start", "queue", g.q.Name, "vhost", g.q.VHost, "id", uint64(g.id), "error", err)
		}
		return
	}
	go g.campaign()
	_ = h.wait(limits.StartPatienceMillis*time.Millisecond, g.started)
}

// serve is called when a queue can be served to this node's sessions: by its own replica, or by another node's. A replica of its own that is behind what the node has seen is left for the
// leader's until it has caught up.
func (h *Host) serve(id meta.QueueID, t target) {
	s, err := h.slot(id)
	if err != nil {
		return
	}
	if run := s.runner(); run != t {
		return // replaced meanwhile
	}
	g, own := t.(*group)
	if own && g.isDamaged() != nil {
		s.pipe.sendTo(g)
		s.goAway(g)
		s.pipe.resend()
		return
	}
	s.goAway(nil)
	if s.pipe.start(t) {
		return
	}
	if own {
		s.goAway(g)
		h.later(limits.AttachMillis*time.Millisecond, func() { h.serve(id, g) })
	}
}

// restart starts every queue that has a log on this node which goes on behind its checkpoint, as far as is known: those that were parked stay so.
func (h *Host) restart() {
	names, _ := h.fs.List(queuesDir(h)) // none if nothing was ever kept
	var found sync.WaitGroup
	free := make(chan struct{}, limits.RestReadsAtOnce)
	for _, name := range names {
		n, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			continue
		}
		free <- struct{}{}
		found.Go(func() {
			h.restartQueue(meta.QueueID(n))
			<-free
		})
	}
	found.Wait()
	for q := range h.Catalogue().View.QueuesByID() {
		h.catchUp(q)
	}
}

// restartQueue takes up a queue of which this node has something.
func (h *Host) restartQueue(id meta.QueueID) {
	s, err := h.slot(id)
	if err != nil {
		h.sweepUnknown(id)
		return
	}
	r, err := loadRested(h.fs, queueDir(h, id))
	if err != nil {
		h.log.Warn("a parked queue starts because its file cannot be read", "queue", uint64(id), "error", err)
	}
	if r == nil {
		h.starter.add(h, s, false)
		return
	}
	r.since = h.clock.nowMillis() // clients must be able to come back after an outage
	cfg := queueConfig(s.q)
	s.mu.Lock()
	if s.run == nil {
		s.rested, s.wakeAt = r, r.wakesAt(&cfg)
	}
	s.mu.Unlock()
}

// wake starts a queue that may not be unused for ever: its time runs even if nobody ever wants it. That of a parked one is looked at by the host's ticker.
func (h *Host) wake(q *meta.Queue) {
	cfg := queueConfig(q)
	if v, ok := h.slots.Load(q.ID); ok && v.(*slot).followRested(&cfg) {
		return
	}
	if _, expires := cfg.Expires.Get(); expires && h.local(q.ID) {
		h.touch(q.ID)
	}
}

// sweepUnknown deals with data of a queue that the catalogue does not have. An id below the next one was given by this catalogue and taken back, so the delete was cut short; anything
// else is set aside, never deleted by inference (PROTOCOL 11).
func (h *Host) sweepUnknown(id meta.QueueID) {
	if id < h.Catalogue().View.NextQueueID() {
		if err := removeReplicas(h, id); err != nil {
			h.log.Warn("the log of a deleted queue cannot be removed", "id", uint64(id), "error", err)
		}
		if err := removeQueueDir(h, id); err != nil {
			h.log.Warn("data of a deleted queue cannot be removed", "id", uint64(id), "error", err)
		}
		return
	}
	if _, err := quarantineQueueDir(h, id); err != nil {
		h.log.Error("data of an unknown queue cannot be set aside", "id", uint64(id), "error", err)
		return
	}
	h.log.Warn("data of a queue that the catalogue does not know was set aside", "id", uint64(id), "directory", quarantineDir(h))
}

// removeReplicas removes the logs of whatever replicas of a group this node had.
func removeReplicas(h *Host, id meta.QueueID) error {
	info := h.nh.GetNodeHostInfo(dragonboat.NodeHostInfoOption{})
	if info == nil {
		return dragonboat.ErrClosed
	}
	for _, r := range info.LogInfo {
		if r.ShardID == uint64(id) {
			if err := h.nh.RemoveData(r.ShardID, r.ReplicaID); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed follows the catalogue: deleted queues end here.
func (h *Host) changed(effects []meta.Effect) {
	started := h.started.Load() // else restart finds all as it is by then: what once was must start, stop and remove nothing
	for i := range effects {
		switch e := &effects[i]; e.Kind {
		case meta.QueueDeleted, meta.QueueCreated, meta.QueueChanged:
			switch q := h.Catalogue().View.QueueByID(e.Queue.ID); { // as it is by now: word may come late
			case q == nil && e.Kind == meta.QueueDeleted:
				h.remove(e.Queue)
			case q != nil && started:
				h.catchUp(q)
			}
		case meta.NodeChanged, meta.NodeDead:
			h.nodeChanged(e.Node)
		}
	}
	h.retryStuck()
}

// catchUp has a queue be here as the catalogue has it.
func (h *Host) catchUp(q *meta.Queue) {
	if q.IsDraining() {
		h.drain(q)
		return
	}
	h.reshape(q)
	h.wake(q)
}

// remove ends a queue that the catalogue deleted: clients are told, the replica stops, its data goes.
func (h *Host) remove(q *meta.Queue) {
	v, ok := h.slots.LoadAndDelete(q.ID)
	if !ok {
		return // nothing of it is here
	}
	s := v.(*slot)
	s.mu.Lock()
	s.gone = true
	run, parked, ended, d := s.run, s.rested != nil, s.ended, s.damage
	s.mu.Unlock()
	if run != nil {
		run.close()
	}
	s.pipe.end(q)
	replicaID := uint64(0)
	if g, ok := run.(*group); ok {
		replicaID, ended = g.replicaID, g.closed
	} else if d != nil {
		replicaID = d.replica
	} else if m, member := q.MemberOn(h.node); member && parked {
		replicaID = m.Replica
	}
	if replicaID != 0 {
		h.dropReplica(q.ID, replicaID, ended, make(chan struct{}))
	}
}

// dropReplica stops a replica that is of no use any more and removes what it kept; done is closed then.
func (h *Host) dropReplica(id meta.QueueID, replicaID uint64, ended <-chan struct{}, done chan<- struct{}) {
	h.workers.Add(1)
	go func() {
		defer h.workers.Done()
		if h.removeData(id, replicaID, ended) {
			close(done)
		}
	}()
}

// drain ends a deleted queue for its clients. Its replicas go on: messages leave it still.
func (h *Host) drain(q *meta.Queue) {
	s, err := h.slot(q.ID)
	if err != nil {
		return
	}
	s.pipe.end(q)
	if _, member := q.MemberOn(h.node); member {
		h.touch(q.ID) // it may have nothing to do any more, which its leader alone knows
	}
	h.reshape(q)
}

// drained has the catalogue remove a draining queue whose last message has left.
func (h *Host) drained(run runner, leads func() bool) {
	r := run.core()
	r.mu.Lock()
	over := r.m != nil && r.m.Drained()
	r.mu.Unlock()
	if !over || !leads() || mutant == mutantDrainingForEver {
		return
	}
	if _, err := h.Do(h.life, meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: r.id}}); err != nil {
		h.later(limits.UnsealAskMillis*time.Millisecond, func() { h.drained(run, leads) })
	}
}

// mustDrain tells whether messages may be on their way out of a queue that is about to be deleted, or others may have to hear from it what became of a transaction. Only its leader knows.
func (h *Host) mustDrain(id meta.QueueID) bool {
	q := h.Catalogue().View.QueueByID(id)
	if q == nil {
		return false
	}
	var run runner
	if v, ok := h.slots.Load(id); ok {
		run = v.(*slot).runner()
	}
	switch run := run.(type) {
	case *local:
		return run.isOwed()
	case *group:
		if run.leads() {
			return run.isOwed()
		}
	case nil:
		if h.neverUsed(q) || h.isParkedAlone(q) {
			return false
		}
	}
	return q.Durable
}

// isParkedAlone tells whether this node has the only replica of a queue, and the queue is parked: nothing is on its way out of it. Of several replicas this one may have stopped and others go on.
func (h *Host) isParkedAlone(q *meta.Queue) bool {
	v, ok := h.slots.Load(q.ID)
	return ok && len(q.Members) == 1 && v.(*slot).parked() != nil
}

// neverUsed tells whether this node knows that nobody has used a queue yet, so that it has nothing.
func (h *Host) neverUsed(q *meta.Queue) bool {
	if v, ok := h.slots.Load(q.ID); ok && v.(*slot).runner() != nil {
		return false
	}
	_, member := q.MemberOn(h.node)
	return member && !hasQueueDir(h, q.ID)
}

// removeData stops a replica of a deleted queue and removes what it kept; ended is closed at the end of the replica, and nil if that was not started. If the node stops before the end, which is reported
// with false, the next start goes on (sweepUnknown).
func (h *Host) removeData(id meta.QueueID, replicaID uint64, ended <-chan struct{}) bool {
	if !h.removeLog(id, replicaID, ended) {
		return false
	}
	if err := removeQueueDir(h, id); err != nil {
		h.log.Warn("data of a deleted queue cannot be removed", "id", uint64(id), "error", err)
	}
	return true
}

// removeLog stops a replica and removes its log; ended is as for removeData. False: the node stops.
func (h *Host) removeLog(id meta.QueueID, replicaID uint64, ended <-chan struct{}) bool {
	if err := h.nh.StopReplica(uint64(id), replicaID); err == nil && ended != nil {
		select {
		case <-ended:
		case <-h.closed:
			return false
		}
	}
	for {
		err := h.nh.RemoveData(uint64(id), replicaID)
		if err == nil {
			return true
		}
		if errors.Is(err, dragonboat.ErrClosed) || h.wait(limits.GapRetryMillis*time.Millisecond, nil) != nil {
			return false
		}
	}
}

// DeleteResult answers DeleteQueue.
type DeleteResult struct {
	// Code is queue.CodeOK, CodeInUse or CodeNotEmpty.
	Code queue.Code
	// Messages is how many ready messages went with the queue.
	Messages uint64
}

// DeleteQueue deletes a queue, under a condition through a seal (PROTOCOL 5): the machine decides it in its log, the catalogue orders the delete. From a queue whose messages are on their way to others these still arrive, and one that others may ask about
// a transaction answers them still (PROTOCOL 4, draining). ErrNoQueue: there is no such queue any more;
// ErrNoLeader: the condition could not be decided, and nothing happened.
func (h *Host) DeleteQueue(ctx context.Context, id meta.QueueID, cond queue.Condition) (DeleteResult, error) {
	var res DeleteResult
	var token uint64
	var drain bool
	var run runner
	if cond != 0 {
		var reply queue.Reply
		var err error
		if run, reply, err = h.seal(ctx, id, cond); err != nil {
			return res, err
		}
		if reply.Code != queue.CodeOK {
			res.Code = reply.Code
			return res, nil
		}
		token, res.Messages, drain = reply.A, reply.B, reply.C > 0
	} else if st, ok := h.QueueStatus(id); ok {
		res.Messages, drain = st.Counts.Ready, h.mustDrain(id)
	}
	replies, err := h.Do(ctx, meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: id}, Token: token, Drain: drain && mutant != mutantNothingDrains})
	switch {
	case err != nil:
		if l, ok := run.(*local); ok {
			h.later(limits.UnsealAskMillis*time.Millisecond, func() { h.unseal(l, token) })
		}
		return res, err // the leader of a sealed group asks by itself
	case replies[0].Reason == meta.ReasonNoQueue:
		return res, ErrNoQueue
	case replies[0].Reason != meta.ReasonOK:
		return res, fmt.Errorf("quorum: the catalogue refuses the delete: %v", replies[0].Reason)
	}
	return res, nil
}

// errDeciding says that a queue cannot be deleted yet.
var errDeciding = errors.New("quorum: other queues have yet to hear that a transaction is committed")

// seal seals a queue for its delete, at its next leader if the present one is lost: a queue that is sealed answers its token again.
func (h *Host) seal(ctx context.Context, id meta.QueueID, cond queue.Condition) (runner, queue.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	for {
		run, err := h.running(ctx, id)
		if err != nil {
			return nil, queue.Reply{}, err
		}
		reply, err := run.command(&queue.Command{Op: queue.OpSeal, Condition: cond})
		if err == nil && reply.Code == queue.CodeDeciding {
			err = errDeciding
		}
		if err == nil || errors.Is(err, ErrClosed) {
			return run, reply, err
		}
		if h.wait(limits.FindLeaderMillis*time.Millisecond, ctx.Done()) != nil {
			return run, reply, fmt.Errorf("%w: %w", ErrNoLeader, err)
		}
	}
}

// unseal ends a seal whose delete did not come: the catalogue is asked to call it off, which it refuses when the delete was applied. Nothing ends by time alone (PROTOCOL 5, Seal).
func (h *Host) unseal(run runner, token uint64) {
	r := run.core()
	r.mu.Lock()
	now, sealed := r.m.Sealed()
	r.mu.Unlock()
	if !sealed || now != token {
		return
	}
	replies, err := h.Do(h.life, meta.Command{Op: meta.OpDeleteAborted, Queue: meta.Queue{ID: r.id}, Token: token})
	if err == nil && replies[0].Reason == meta.ReasonOK {
		_, err = run.command(&queue.Command{Op: queue.OpUnseal, To: token})
	}
	if _, ok := run.(*local); ok && errors.Is(err, ErrNoCatalogue) {
		h.later(limits.UnsealAskMillis*time.Millisecond, func() { h.unseal(run, token) })
	}
}

// retire deletes a queue that nobody uses any more, if the condition holds.
func (h *Host) retire(id meta.QueueID, cond queue.Condition) {
	h.workers.Add(1)
	go func() {
		defer h.workers.Done()
		ctx, cancel := context.WithTimeout(h.life, limits.PublishTimeoutMillis*time.Millisecond)
		defer cancel()
		if _, err := h.DeleteQueue(ctx, id, cond); err != nil && !errors.Is(err, ErrNoQueue) {
			h.log.Warn("an unused queue could not be deleted", "id", uint64(id), "error", err)
		}
	}()
}

// running returns a queue's runner when it serves, starting it if need be. Beside ErrNoQueue and ErrClosed there is ErrNoLeader, with that of ctx, when ctx ends before the queue serves.
func (h *Host) running(ctx context.Context, id meta.QueueID) (runner, error) {
	s, err := h.slot(id)
	if err != nil {
		return nil, err
	}
	h.touch(id)
	for {
		s.mu.Lock()
		run, gone := s.run, s.gone
		s.mu.Unlock()
		if gone {
			return nil, ErrNoQueue
		}
		switch r := run.(type) {
		case *local:
			return r, nil
		case *remote:
			if r.known() != 0 {
				return r, nil
			}
		case *group:
			if d := r.isDamaged(); d != nil && !h.hasOthers(r.q) {
				return nil, fmt.Errorf("%w: its only replica is damaged: %s", ErrNoLeader, d.reason)
			}
			select {
			case <-r.started:
				return r, nil
			case <-r.closed:
				return nil, ErrNoQueue
			case <-ctx.Done():
			case <-h.closed:
				return nil, ErrClosed
			}
		}
		if err := h.wait(time.Millisecond, ctx.Done()); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
			}
			return nil, err
		}
	}
}
