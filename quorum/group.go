package quorum

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"
	"github.com/lni/dragonboat/v4/config"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage/segment"
)

// Raft settings of a queue's group, in ticks of raftTickMillis. Elections by time-out are the fallback: kicks make leaders (PROTOCOL 8).
const (
	raftTickMillis     = 100
	raftElectionTicks  = 10
	raftHeartbeatTicks = 1
)

// errNotReady says that this replica cannot propose: it does not lead, or has not applied an entry of its term yet.
var errNotReady = errors.New("quorum: the queue has no ready leader here")

// errGap says that batches before the offered one are missing.
var errGap = errors.New("quorum: batches are missing before this one")

// group is one replica of a durable queue: the machine under Raft, its bodies, its checkpoints, and the leader's part (the proposer).
type group struct {
	replica
	host      *Host
	replicaID uint64
	disk      disk

	started  chan struct{} // closed when the queue serves for the first time
	closed   chan struct{} // closed by the library's Close: the end of the replica
	closing  sync.Once
	starting sync.Once

	lmu    sync.Mutex // the proposer
	term   uint64
	leader bool
	ready  bool // an entry of this term was applied here
	user   dragonboat.INodeUser
	noop   *client.Session
	next   map[queue.PipelineID]uint64

	ticking atomic.Bool
	asking  atomic.Uint64 // the seal token that the catalogue is being asked about
}

var _ target = (*group)(nil)
var _ runner = (*group)(nil)

func newGroup(h *Host, q *meta.Queue, log *slog.Logger) *group {
	g := &group{host: h, replicaID: firstReplicaID, started: make(chan struct{}), closed: make(chan struct{})}
	g.id, g.log = q.ID, log
	g.m = queue.New(queueConfig(q))
	g.disk.init(h, q.ID)
	g.onDisk = func() *segment.Store { return g.disk.store }
	return g
}

// raftConfig is the library's configuration of a queue's replica.
func (g *group) raftConfig() config.Config {
	return config.Config{
		ReplicaID:               g.replicaID,
		ShardID:                 uint64(g.id),
		CheckQuorum:             true,
		PreVote:                 true,
		ElectionRTT:             raftElectionTicks,
		HeartbeatRTT:            raftHeartbeatTicks,
		OrderedConfigChange:     true,
		DisableAutoCompactions:  true,
		EntryCompressionType:    config.NoCompression,
		SnapshotCompressionType: config.NoCompression,
	}
}

// start brings the replica up and makes it lead. It returns when the queue serves, the host closes or the replica ends.
func (g *group) start() error {
	members := map[uint64]dragonboat.Target{g.replicaID: g.host.nodeHostID}
	create := func(uint64, uint64) sm.IOnDiskStateMachine { return (*stateMachine)(g) }
	if err := g.host.nh.StartOnDiskReplica(members, false, create, g.raftConfig()); err != nil && !errors.Is(err, dragonboat.ErrShardAlreadyExist) {
		return err
	}
	g.lmu.Lock()
	user, err := g.host.nh.GetNodeUser(uint64(g.id))
	g.user, g.noop = user, g.host.nh.GetNoOPSession(uint64(g.id))
	g.lmu.Unlock()
	if err != nil {
		return err
	}
	g.host.kickUntil(uint64(g.id), g.replicaID, g.started, g.closed)
	return nil
}

// propose is the leader's gate for batches (PROTOCOL 1): per pipeline it remembers the next k of its term, so that a batch stands in the log once per term.
func (g *group) propose(p queue.PipelineID, k uint64, buf []byte) (ticket, bool, error) {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	if !g.ready {
		return nil, false, errNotReady
	}
	next, ok := g.next[p]
	if !ok {
		next = g.lastK(p) + 1
		g.next[p] = next
	}
	switch {
	case k < next:
		return nil, false, nil // under way already
	case k > next:
		return nil, false, errGap
	}
	rs, err := g.user.Propose(g.noop, buf, limits.ProposalTimeoutMillis*time.Millisecond)
	if err != nil {
		delete(g.next, p)
		return nil, false, err
	}
	g.next[p] = k + 1
	return (*proposal)(rs), false, nil
}

// reset forgets what the proposer remembers of p; it is filled from the machine again.
func (g *group) reset(p queue.PipelineID) {
	g.lmu.Lock()
	delete(g.next, p)
	g.lmu.Unlock()
}

func (g *group) lastK(p queue.PipelineID) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m.LastK(p)
}

// proposal is the ticket of a Raft proposal.
type proposal dragonboat.RequestState

func (p *proposal) lost() bool {
	select {
	case r := <-(*dragonboat.RequestState)(p).ResultC():
		return !r.Completed()
	default:
		return false
	}
}

// command proposes one command outside pipelines and waits until it is applied here.
func (g *group) command(cmd *queue.Command) (queue.Reply, error) {
	g.lmu.Lock()
	user, session := g.user, g.noop
	g.lmu.Unlock()
	if user == nil {
		return queue.Reply{}, errNotReady
	}
	rs, err := user.Propose(session, queue.AppendCommandEntry(nil, g.host.clock.nowMillis(), cmd), limits.ProposalTimeoutMillis*time.Millisecond)
	if err != nil {
		return queue.Reply{}, err
	}
	select {
	case r := <-rs.ResultC():
		if !r.Completed() {
			return queue.Reply{}, errNotReady
		}
		return decodeReply(r.GetResult().Data)
	case <-g.closed:
		return queue.Reply{}, ErrClosed
	}
}

// onLeader is told who leads. A new leader first has an entry of its own term applied, which carries the deaths that the machine has not heard of, and then serves.
func (g *group) onLeader(term uint64, here bool) {
	g.lmu.Lock()
	if term < g.term {
		g.lmu.Unlock()
		return
	}
	g.term, g.leader = term, here
	g.ready = false
	g.lmu.Unlock()
	if here {
		go g.takeOffice(term)
	}
}

// takeOffice makes the leader of a term ready.
func (g *group) takeOffice(term uint64) {
	for {
		if g.announceDeaths() == nil {
			if _, err := g.command(&queue.Command{Op: queue.OpTick}); err == nil {
				break
			}
		}
		g.lmu.Lock()
		still := g.leader && g.term == term
		g.lmu.Unlock()
		if !still || g.host.wait(limits.GapRetryMillis*time.Millisecond, g.closed) != nil {
			return
		}
	}
	g.lmu.Lock()
	if !g.leader || g.term != term {
		g.lmu.Unlock()
		return
	}
	g.ready = true
	g.next = make(map[queue.PipelineID]uint64)
	g.lmu.Unlock()
	g.starting.Do(func() { close(g.started) })
	g.host.serve(g.id, g)
	g.afterApply()
}

// announceDeaths proposes NodeGone for every pipeline whose boot the catalogue declares dead (level-triggered, PROTOCOL 3).
func (g *group) announceDeaths() error {
	g.mu.Lock()
	ids := g.m.Pipelines(nil)
	g.mu.Unlock()
	for _, id := range ids {
		if dead, ok := g.host.deadBoot(id); ok {
			if _, err := g.command(&queue.Command{Op: queue.OpNodeGone, Node: id.Node, Boot: dead}); err != nil {
				return err
			}
		}
	}
	return nil
}

// afterApply looks what the machine wants from its leader: a Tick when a deadline is due, a retirement, a checkpoint.
func (g *group) afterApply() {
	g.mu.Lock()
	due, ok := g.m.NextDeadline()
	unused := g.unused
	g.unused = false
	failed := g.failure != nil
	token, sealed := g.m.Sealed()
	checkpoint := g.disk.due(&g.bodies)
	g.mu.Unlock()
	if failed {
		return
	}
	if ok {
		g.tickAt(due)
	}
	if unused && g.leads() {
		g.host.retire(g.id)
	}
	if checkpoint {
		g.host.checkpoints.ask(g)
	}
	if sealed && g.leads() && g.asking.CompareAndSwap(0, token) {
		g.host.later(limits.UnsealAskMillis*time.Millisecond, func() {
			g.asking.Store(0)
			g.host.unseal(g, token)
			g.afterApply()
		})
	}
}

func (g *group) leads() bool {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	return g.ready
}

// tickAt proposes one Tick at a time, at or after due.
func (g *group) tickAt(dueMillis int64) {
	if !g.leads() || !g.ticking.CompareAndSwap(false, true) {
		return
	}
	delay := max(0, time.Duration(dueMillis-g.host.clock.nowMillis())*time.Millisecond)
	g.host.later(delay, func() {
		g.ticking.Store(false)
		if _, err := g.command(&queue.Command{Op: queue.OpTick}); err != nil {
			return // a new leader looks by itself
		}
		g.afterApply()
	})
}

// close ends the streams of this replica. The library ends the rest.
func (g *group) close() { g.detachAll() }

func (g *group) core() *replica { return &g.replica }

// status tells how the replica is.
func (g *group) status() QueueStatus {
	st := QueueStatus{Members: []meta.NodeID{g.host.node}, Online: []meta.NodeID{g.host.node}, Counts: g.counts(), State: StateStarting}
	g.lmu.Lock()
	st.Term = g.term
	if g.ready {
		st.State, st.Leader = StateRunning, g.host.node
	}
	g.lmu.Unlock()
	g.mu.Lock()
	st.Applied, st.BodyBytesInMemory = g.applied, g.bodies.bytes
	if g.failure != nil {
		st.State, st.Reason = StateDown, g.failure.Reason
	}
	g.mu.Unlock()
	st.Checkpoint, st.DiskBytes = g.disk.sizes()
	return st
}

// stateMachine is the group as the library sees it. Update is called by one goroutine at a time.
type stateMachine group

var _ sm.IOnDiskStateMachine = (*stateMachine)(nil)

// Open loads the last checkpoint and tells the index up to which the log need not be replayed.
func (s *stateMachine) Open(<-chan struct{}) (uint64, error) {
	g := (*group)(s)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.disk.load(&g.replica); err != nil {
		return 0, g.host.fatal(err)
	}
	return g.applied, nil
}

// Update applies committed entries. Business errors are replies; only what must stop the node is an error.
func (s *stateMachine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	g := (*group)(s)
	g.mu.Lock()
	for i := range entries {
		e := &entries[i]
		reply := g.apply(e.Index, e.Cmd)
		if queue.EntryKind(e.Cmd[0]) == queue.EntryCommand {
			e.Result = sm.Result{Value: 1, Data: appendReply(nil, reply)}
		}
		g.disk.note(e.Index, e.Cmd)
	}
	g.disk.account(&g.replica)
	g.mu.Unlock()
	g.stream()
	g.afterApply()
	return entries, nil
}

// Lookup is not used: readers take the group's lock.
func (s *stateMachine) Lookup(any) (any, error) { return nil, nil }

// Sync makes everything applied durable; the library is about to forget the log before it.
func (s *stateMachine) Sync() error {
	g := (*group)(s)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.disk.sync(&g.replica); err != nil {
		return g.host.fatal(err)
	}
	return nil
}

// PrepareSnapshot cuts the state for a member that lags too far behind the log.
func (s *stateMachine) PrepareSnapshot() (any, error) {
	g := (*group)(s)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cut(), nil
}

// SaveSnapshot streams a cut.
func (s *stateMachine) SaveSnapshot(cut any, w io.Writer, _ <-chan struct{}) error {
	return cut.(*stateCut).write(w, &s.replica)
}

// RecoverFromSnapshot replaces the state by a streamed cut. Nodes attach again.
func (s *stateMachine) RecoverFromSnapshot(r io.Reader, _ <-chan struct{}) error {
	g := (*group)(s)
	g.detachAll()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := readCut(r, &g.replica); err != nil {
		return err
	}
	return g.disk.rewrite(&g.replica)
}

// Close is the end of the replica in the library.
func (s *stateMachine) Close() error {
	g := (*group)(s)
	g.closing.Do(func() {
		g.disk.close()
		close(g.closed)
	})
	return nil
}
