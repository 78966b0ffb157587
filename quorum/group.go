package quorum

import (
	"errors"
	"fmt"
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
	"github.com/warrenmq/warren/internal/codec"
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
	q         *meta.Queue // as it was when the replica started
	replicaID uint64
	disk      disk
	kicks     kicks

	started  chan struct{} // closed when the queue serves for the first time
	closed   chan struct{} // closed by the library's Close: the end of the replica
	closing  sync.Once
	starting sync.Once

	lmu      sync.Mutex // the proposer
	term     uint64
	leader   meta.NodeID   // 0: not known
	reign    chan struct{} // closed when the library tells of another leader or term
	ready    bool          // this node leads, and an entry of this term was applied here
	user     dragonboat.INodeUser
	noop     *client.Session
	next     map[queue.PipelineID]uint64
	waits    []awaited
	peers    map[meta.NodeID]bool // members whose replica is known to run
	ledAt    time.Time            // when another member last said that it has a leader
	progress *progress            // while this node leads
	sources  sources

	held  chan struct{} // not nil while the queue is being parked: nothing is proposed; closed when somebody wanted to
	since int64         // from when on the queue counts as unused if this replica is its first leader since it was parked; 0: from when that takes office

	rested   *rested      // how the queue was parked before this start; nil if it was not
	active   atomic.Int64 // when something was applied last, in monotonic milliseconds
	parkNext atomic.Int64 // not before the queue is looked at again
	parks    atomic.Bool  // it is being parked, or about to be
	alone    int64        // since when no leader is heard of; of the host's ticker

	mover  *mover
	txs    *arbiter
	ticks  timer         // the next Tick
	expiry timer         // when the queue may have been unused for too long
	office time.Time     // when this node became ready to lead
	ending atomic.Bool   // the catalogue is being told that the queue has drained
	asking atomic.Uint64 // the seal token that the catalogue is being asked about
}

var _ target = (*group)(nil)
var _ runner = (*group)(nil)

func newGroup(h *Host, q *meta.Queue, replicaID uint64, log *slog.Logger) *group {
	g := &group{host: h, q: q, replicaID: replicaID, started: make(chan struct{}), closed: make(chan struct{}), reign: make(chan struct{}), peers: make(map[meta.NodeID]bool)}
	g.id, g.log = q.ID, log
	g.m = queue.New(firstConfig(q))
	g.active.Store(h.clock.monotonicMillis())
	g.disk.init(h, q.ID)
	g.onDisk = func() *segment.Store { return g.disk.store }
	g.rotten, g.end = g.cannotRead, g.closed
	g.mover = newMover(h, g, q.ID, g.leads)
	g.txs = newArbiter(h, g, g.leads)
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

// load brings the replica to its last durable state and holds that against the log. Damage is a *storage.CorruptError.
func (g *group) load() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.disk.load(&g.replica); err != nil {
		return err
	}
	return g.host.compareLog(g.id, g.replicaID, g.applied, g.rested)
}

// start brings the loaded replica up. Its group may have no leader yet: campaign is next.
func (g *group) start() error {
	// The bootstrap set is the only one ever given to a start of the group; a replica that was added later learns the members from the log.
	members, join := make(map[uint64]dragonboat.Target), g.replicaID > uint64(len(g.q.Replicas))
	if !join {
		for i, node := range g.q.Replicas {
			target, ok := g.host.target(node)
			if !ok {
				return fmt.Errorf("node %d of the bootstrap set is not known", node)
			}
			members[uint64(i)+1] = target
		}
	}
	create := func(uint64, uint64) sm.IOnDiskStateMachine { return (*stateMachine)(g) }
	if err := g.host.nh.StartOnDiskReplica(members, join, create, g.raftConfig()); err != nil && !errors.Is(err, dragonboat.ErrShardAlreadyExist) {
		return err
	}
	g.lmu.Lock()
	user, err := g.host.nh.GetNodeUser(uint64(g.id))
	g.user, g.noop = user, g.host.nh.GetNoOPSession(uint64(g.id))
	g.lmu.Unlock()
	if err != nil {
		return err
	}
	g.announce(true)
	return nil
}

// startedMessage is the content of messageStarted.
func startedMessage(id meta.QueueID, want, led bool) []byte {
	return codec.AppendBool(codec.AppendBool(codec.AppendUvarint(nil, uint64(id)), want), led)
}

// isLed tells whether another member said lately that it has a leader: this one will hear from it.
func (g *group) isLed() bool {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	return !g.ledAt.IsZero() && time.Since(g.ledAt) < time.Second
}

// announce tells the other members that this replica runs; with want they start theirs and tell, too.
func (g *group) announce(want bool) {
	payload := startedMessage(g.id, want, g.leaderNode() != 0)
	for _, node := range g.memberNodes() {
		if node != g.host.node {
			g.host.send(node, messageStarted, payload)
		}
	}
}

// campaign makes a leader for a group that has none: when a majority of the members runs, the first of them kicks itself, the next one a little later (PROTOCOL 8). It returns when the
// queue serves here.
func (g *group) campaign() {
	told := time.Now()
	var c candidacy
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, raftTickMillis*time.Millisecond/2) {
		if id, term, ok, _ := g.host.nh.GetLeaderID(uint64(g.id)); !ok || id == 0 {
			members := g.memberNodes()
			running := g.running(members)
			rank := g.host.elections.rank(uint64(g.id), running)
			if time.Since(told) > limits.KickHearMillis*time.Millisecond { // one that was told before may have been about to stop, because the queue was parked
				told = time.Now()
				g.announce(true)
			}
			switch {
			case g.isLed():
				c.seen(g.presentTerm())
			case len(running) <= len(members)/2:
			case c.due(g.presentTerm(), rank):
				g.host.kickNow(uint64(g.id), g.replicaID)
			}
		} else {
			c.seen(term)
		}
		t := time.NewTimer(pause)
		select {
		case <-g.started:
		case <-g.closed:
		case <-g.host.closed:
		case <-t.C:
			continue
		}
		t.Stop()
		return
	}
}

func (g *group) presentTerm() uint64 {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	return g.term
}

// running returns those of the members whose replica is known to run.
func (g *group) running(members []meta.NodeID) []meta.NodeID {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	list := make([]meta.NodeID, 0, len(members))
	for _, m := range members {
		if m == g.host.node || g.peers[m] && g.host.up(m) {
			list = append(list, m)
		}
	}
	return list
}

// memberNodes returns the nodes of the members, as the catalogue knows them.
func (g *group) memberNodes() []meta.NodeID {
	if q := g.host.Catalogue().View.QueueByID(g.id); q != nil {
		return memberNodes(q)
	}
	return memberNodes(g.q)
}

func (g *group) leaderNode() meta.NodeID {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	return g.leader
}

// propose takes a batch of this node to the leader, here or elsewhere.
func (g *group) propose(p queue.PipelineID, k uint64, buf []byte) (ticket, bool, error) {
	g.lmu.Lock()
	if !g.ready {
		leader := g.leader
		g.lmu.Unlock()
		if leader == 0 || leader == g.host.node {
			return nil, false, errNotReady
		}
		return forward(g.host, leader, g.id, buf, func(meta.NodeID) {}), false, nil
	}
	defer g.lmu.Unlock()
	t, err := g.admit(p, k, buf)
	if t == nil {
		return nil, false, err
	}
	return t, false, err
}

// admit is the leader's gate for batches (PROTOCOL 1): per pipeline it remembers the next k of its term, so that a batch stands in the log once per term. A nil proposal without an error: it
// stands there already. Called with g.lmu held.
func (g *group) admit(p queue.PipelineID, k uint64, buf []byte) (*proposal, error) {
	if g.isHeld() {
		return nil, errNotReady
	}
	next, ok := g.next[p]
	if !ok {
		if g.fence(p) {
			return nil, errNotReady // it is answered when the machine has heard of the death, too
		}
		next = g.lastK(p) + 1
		g.next[p] = next
	}
	switch {
	case k < next && mutant != mutantProposerForgets:
		return nil, nil
	case k > next:
		return nil, errGap
	}
	if err := queue.StampEntry(buf, g.host.clock.nowMillis()); err != nil {
		return nil, err
	}
	rs, err := g.user.Propose(g.noop, buf, limits.ProposalTimeoutMillis*time.Millisecond)
	if err != nil {
		delete(g.next, p)
		return nil, err
	}
	g.next[p] = k + 1
	return (*proposal)(rs), nil
}

// fence tells the machine of the death of an incarnation that it does not know yet, and reports whether it did: announceDeaths looks at pipelines only.
func (g *group) fence(p queue.PipelineID) bool {
	dead, ok := g.host.deadBoot(p)
	if !ok || p.Boot.Counter > dead.Counter {
		return false
	}
	g.mu.Lock()
	known := g.m.Sync(p, 0, nil).DeadBoot >= p.Boot.Counter
	g.mu.Unlock()
	if known {
		return false
	}
	go func() { _, _ = g.commit(&queue.Command{Op: queue.OpNodeGone, Node: p.Node, Boot: dead}) }() // offered again, it is tried again
	return true
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

// command has the leader, here or elsewhere, apply one command outside pipelines.
func (g *group) command(cmd *queue.Command) (queue.Reply, error) {
	g.lmu.Lock()
	ready, leader := g.ready, g.leader
	g.lmu.Unlock()
	if ready {
		return g.commit(cmd)
	}
	if leader == g.host.node {
		return queue.Reply{}, errNotReady
	}
	return commandAt(g.host, leader, g.id, cmd)
}

// lead applies a command for another node, which took this one for the leader.
func (g *group) lead(cmd *queue.Command) (queue.Reply, error) {
	if !g.leads() {
		return queue.Reply{}, errElsewhere
	}
	return g.commit(cmd)
}

// commit proposes one command outside pipelines and waits until it is applied here.
func (g *group) commit(cmd *queue.Command) (queue.Reply, error) {
	g.lmu.Lock()
	held := g.isHeld()
	g.lmu.Unlock()
	if held {
		return queue.Reply{}, errNotReady
	}
	return g.append(cmd)
}

// append is commit for whoever parks the queue, too. It waits for no longer than the leadership lasts: the library says nothing of what a follower would have to forward, nor of entries that another leader overwrites.
// What was lost so may have been applied; commands outside pipelines may be proposed again.
func (g *group) append(cmd *queue.Command) (queue.Reply, error) {
	g.lmu.Lock()
	user, session, reign := g.user, g.noop, g.reign
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
	case <-reign:
		return queue.Reply{}, errNotReady
	case <-g.closed:
		return queue.Reply{}, ErrClosed
	}
}

// onLeader is told by the library who leads. A new leader first has an entry of its own term applied, which carries the deaths that the machine has not heard of, and then serves; a
// follower serves its node at once.
func (g *group) onLeader(term, replica uint64) {
	node := g.nodeOf(replica)
	g.lmu.Lock()
	if term < g.term {
		g.lmu.Unlock()
		return
	}
	here := node == g.host.node && node != 0
	changed := g.leader != node
	g.term, g.leader, g.ready, g.held = term, node, false, nil
	close(g.reign)
	g.reign = make(chan struct{})
	waits := g.waits
	g.waits = nil
	g.lmu.Unlock()
	for _, w := range waits {
		w.answer([]byte{proposeLost}, nil)
	}
	switch {
	case node == 0:
	case here:
		g.kicks.calm()
		go g.takeOffice(term)
	case changed:
		g.kicks.calm()
		go g.follow()
	}
}

// nodeOf returns the node of a replica, 0 if it is not known.
func (g *group) nodeOf(replica uint64) meta.NodeID {
	if replica == g.replicaID {
		return g.host.node
	}
	q := g.host.Catalogue().View.QueueByID(g.id)
	if q == nil || replica == 0 {
		return 0
	}
	for _, m := range q.Members {
		if m.Replica == replica {
			return m.Node
		}
	}
	return 0
}

// follow serves this node from a replica that follows.
func (g *group) follow() {
	for !g.serves() && g.isDamaged() == nil {
		if g.host.wait(limits.GapRetryMillis*time.Millisecond, g.closed) != nil {
			return
		}
	}
	g.starting.Do(func() { close(g.started) })
	g.host.serve(g.id, g)
}

// takeOffice makes the leader of a term ready.
func (g *group) takeOffice(term uint64) {
	g.host.clock.correct()
	for {
		if _, err := g.commit(&queue.Command{Op: queue.OpTick}); err == nil && g.announceDeaths() == nil && g.configureOnce() == nil {
			break
		}
		if !g.inOffice(term) || g.host.wait(limits.GapRetryMillis*time.Millisecond, g.closed) != nil {
			return
		}
	}
	g.lmu.Lock()
	if g.leader != g.host.node || g.term != term {
		g.lmu.Unlock()
		return
	}
	g.ready, g.progress = true, nil
	g.office = time.Now()
	if g.since != 0 { // nobody was kept from using it
		g.office, g.since = g.office.Add(time.Duration(g.since-g.host.clock.nowMillis())*time.Millisecond), 0
	}
	g.next = make(map[queue.PipelineID]uint64)
	g.lmu.Unlock()
	g.starting.Do(func() { close(g.started) })
	g.host.serve(g.id, g)
	g.mourn() // a death that became known while this node was not ready yet
	g.configure()
	g.mu.Lock()
	g.unused, g.died, g.orphaned = g.m.Unused(), true, true // what a former leader may not have acted on
	g.mu.Unlock()
	g.afterApply()
}

func (g *group) inOffice(term uint64) bool {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	return g.leader == g.host.node && g.term == term
}

// mourn announces deaths until they are in the log or this node leads no more.
func (g *group) mourn() {
	for g.leads() && g.announceDeaths() != nil {
		if g.host.wait(limits.GapRetryMillis*time.Millisecond, g.closed) != nil {
			return
		}
	}
}

// configure has the queue follow the catalogue's configuration of it, until it does or this node leads no more.
func (g *group) configure() {
	for g.leads() && g.configureOnce() != nil {
		if g.host.wait(limits.GapRetryMillis*time.Millisecond, g.closed) != nil {
			return
		}
	}
}

// configureOnce proposes the configuration that the catalogue has, if the machine does not have it.
func (g *group) configureOnce() error {
	q := g.host.Catalogue().View.QueueByID(g.id)
	g.mu.Lock()
	behind := q != nil && g.m.ConfigVersion() < q.ConfigVersion
	g.mu.Unlock()
	if !behind {
		return nil
	}
	_, err := g.commit(&queue.Command{Op: queue.OpConfigure, Config: queueConfig(q)})
	return err
}

// announceDeaths proposes NodeGone for every pipeline whose boot the catalogue declares dead (level-triggered, PROTOCOL 3).
func (g *group) announceDeaths() error {
	g.mu.Lock()
	ids := g.m.Pipelines(nil)
	g.mu.Unlock()
	if mutant == mutantDeathsForgotten {
		return nil
	}
	for _, id := range ids {
		if dead, ok := g.host.deadBoot(id); ok {
			if _, err := g.commit(&queue.Command{Op: queue.OpNodeGone, Node: id.Node, Boot: dead}); err != nil {
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
	expires, mayExpire := g.m.Expiry()
	unused, first, died, orphaned, lost := g.unused, g.first, g.died, g.orphaned, g.lost
	g.unused, g.first, g.died, g.orphaned, g.lost = false, false, false, false, 0
	failed := g.failure != nil
	token, sealed := g.m.Sealed()
	drained, draining := g.m.Drained(), g.m.Config().Draining
	checkpoint := g.disk.due()
	g.mu.Unlock()
	if failed {
		return
	}
	g.settleAwaited()
	if ok && mutant != mutantTimersForgotten {
		g.tickAt(due)
	}
	if unused && g.leads() {
		g.host.retire(g.id, queue.IfAutoDelete)
	}
	if mayExpire {
		g.expireAt(expires)
	}
	if died && g.leads() {
		g.mover.kick()
	}
	if lost > 0 && g.leads() {
		g.host.lettersLost(g.id, lost)
	}
	if orphaned && g.leads() {
		g.txs.look()
	}
	if first && mutant != mutantLateDeathForgotten {
		go g.mourn() // it may have been under way when its death became known
	}
	if checkpoint {
		g.host.checkpoints.add(g)
	}
	if drained && g.leads() && g.ending.CompareAndSwap(false, true) {
		go func() {
			g.host.drained(g, g.leads)
			g.ending.Store(false)
		}()
	}
	if sealed && !draining && mutant != mutantSealForEver && g.leads() && g.asking.CompareAndSwap(0, token) {
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

// tickAt proposes a Tick at or after due.
func (g *group) tickAt(dueMillis int64) {
	if !g.leads() {
		return
	}
	g.ticks.set(g.host, dueMillis, func() {
		if _, err := g.commit(&queue.Command{Op: queue.OpTick}); err != nil {
			return // a new leader looks by itself
		}
		g.afterApply()
	})
}

// expireAt deletes the queue when it was unused for as long as it may be. The time counts anew for a new leader: clients must be able to come back after an outage, as in RabbitMQ.
func (g *group) expireAt(dueMillis int64) {
	g.lmu.Lock()
	ready, office := g.ready, g.office
	g.lmu.Unlock()
	if !ready {
		return
	}
	least := dueMillis
	g.mu.Lock()
	if n, ok := g.m.Config().Expires.Get(); ok {
		least = g.host.clock.nowMillis() + int64(min(n, 1<<40)) - time.Since(office).Milliseconds()
	}
	g.mu.Unlock()
	g.expiry.set(g.host, max(dueMillis, least), func() {
		g.mu.Lock()
		due, ok := g.m.Expiry()
		g.mu.Unlock()
		switch {
		case !ok || !g.leads():
		case due > g.host.clock.nowMillis():
			g.expireAt(due)
		default:
			g.host.retire(g.id, queue.IfExpired)
		}
	})
}

// close ends the streams of this replica. The library ends the rest.
func (g *group) close() { g.endStreams(sink.stop) }

func (g *group) core() *replica { return &g.replica }

// stateMachine is the group as the library sees it. Update is called by one goroutine at a time.
type stateMachine group

var _ sm.IOnDiskStateMachine = (*stateMachine)(nil)

// Open tells the index up to which the log need not be replayed: the replica was loaded before it started.
func (s *stateMachine) Open(<-chan struct{}) (uint64, error) {
	g := (*group)(s)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = true
	return g.applied, nil
}

// Update applies committed entries. Business errors are replies; only what must stop the node is an error.
func (s *stateMachine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	g := (*group)(s)
	var refused []queue.PipelineID
	g.mu.Lock()
	for i := range entries {
		e := &entries[i]
		reply := g.apply(e.Index, e.Cmd)
		if queue.EntryKind(e.Cmd[0]) == queue.EntryCommand {
			e.Result = sm.Result{Value: 1, Data: appendReply(nil, reply)}
		}
		g.disk.note(e.Index, e.Cmd)
		if n := len(g.evs); n > 0 && g.evs[n-1].kind == eventRetry {
			refused = append(refused, g.entry.Batch.Pipeline)
		}
	}
	g.disk.account(&g.replica)
	g.mu.Unlock()
	g.host.relieve()
	g.active.Store(g.host.clock.monotonicMillis())
	for _, id := range refused {
		g.reset(id) // the batch did not take its k: it may be offered again, from here or from another node
	}
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
	err := g.disk.sync(&g.replica)
	g.mu.Unlock()
	if err != nil {
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
	c := cut.(*stateCut)
	defer (*group)(s).unpin(c)
	return c.write(w, &s.replica)
}

// RecoverFromSnapshot replaces the state by a streamed cut. Nodes attach again.
func (s *stateMachine) RecoverFromSnapshot(r io.Reader, _ <-chan struct{}) error {
	g := (*group)(s)
	g.endStreams(sink.stop)
	m, index, err := readCut(r, g.disk.store)
	g.mu.Lock()
	if err == nil {
		err = g.disk.adopt(&g.replica, m, index)
	} else {
		g.disk.retain(&g.replica) // nothing refers to what came
	}
	g.mu.Unlock()
	if err != nil {
		return g.host.fatal(err)
	}
	if g.leaderNode() != 0 {
		go g.follow() // this node's pipeline attaches again
	}
	return nil
}

// Close is the end of the replica in the library.
func (s *stateMachine) Close() error {
	g := (*group)(s)
	g.closing.Do(func() {
		g.mu.Lock()
		g.bodies = bodies{}
		g.disk.account(&g.replica)
		g.mu.Unlock()
		g.disk.close()
		close(g.closed)
	})
	return nil
}
