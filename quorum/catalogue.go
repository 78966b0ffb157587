package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum/link"
)

// ErrNoCatalogue says that the catalogue cannot be written now: it has no leader, or did not answer in time.
var ErrNoCatalogue = errors.New("quorum: the catalogue does not answer")

// Catalogue is what the node knows of the cluster at one moment: an immutable view and the routing compiled from it.
type Catalogue struct {
	View   *meta.View
	Router *exchange.Router
}

// catalogue runs meta.Machine in the Raft group catalogueShard.
type catalogue struct {
	host  *Host
	state atomic.Pointer[Catalogue]

	leases *leases
	kicks  kicks
	leader atomic.Uint64 // node that leads, 0 if it is not known
	term   atomic.Uint64
	news   chan struct{} // the leader changed
	held   atomic.Bool   // pipelines hold something back until there is a lease

	mu      sync.Mutex // held while the machine is stepped or cut
	reached sync.Cond  // applied has grown
	m       *meta.Machine
	effects []meta.Effect
	applied uint64
	cut     uint64 // applied index of the last snapshot

	wmu      sync.Mutex
	watchers []func([]meta.Effect)
	changes  chan struct{}
	pending  []meta.Effect
}

func newCatalogue(h *Host) *catalogue {
	c := &catalogue{host: h, leases: newLeases(h), news: make(chan struct{}, 1), changes: make(chan struct{}, 1)}
	c.reached.L = &c.mu
	c.install(meta.New())
	return c
}

func (c *catalogue) install(m *meta.Machine) {
	c.m = m
	v := m.View()
	c.state.Store(&Catalogue{View: v, Router: exchange.Compile(v, exchange.Node{Random: rand.Uint64, Local: c.host.local})})
}

// Catalogue returns the present view and router. Both are immutable.
func (h *Host) Catalogue() *Catalogue { return h.cat.state.Load() }

// Do writes to the catalogue: all commands stand in one log entry, and the replies come when they were applied here, so that Catalogue() has them. A refusal is in the reply's Reason. The
// error is ErrNoCatalogue (wrapped): then it is not known whether they took effect.
func (h *Host) Do(ctx context.Context, cmds ...meta.Command) ([]meta.Reply, error) {
	for i := range cmds {
		if r, refused := h.cfg.Ceilings.refuses(h.Catalogue().View, &cmds[i]); refused {
			return slices.Repeat([]meta.Reply{r}, len(cmds)), nil
		}
	}
	defer h.rest(ctx, cmds)()
	return h.cat.do(ctx, cmds)
}

// OnChange has f called with the changes of the catalogue, in order, from one goroutine, after Catalogue() has them.
func (h *Host) OnChange(f func([]meta.Effect)) {
	h.cat.wmu.Lock()
	h.cat.watchers = append(h.cat.watchers, f)
	h.cat.wmu.Unlock()
}

// start starts the node's replica of the catalogue; it returns when everything that was written before is applied here.
func (c *catalogue) start(ctx context.Context) error {
	h := c.host
	create := func(uint64, uint64) sm.IConcurrentStateMachine { return (*catalogueMachine)(c) }
	cfg := config.Config{
		ReplicaID: uint64(h.node), ShardID: catalogueShard, CheckQuorum: true, PreVote: true, ElectionRTT: raftElectionTicks, HeartbeatRTT: raftHeartbeatTicks,
		OrderedConfigChange: true, CompactionOverhead: limits.CatalogueSnapshotEntries / 4, IsNonVoting: h.node > catalogueVotersMax,
	}
	members, join := map[uint64]dragonboat.Target{uint64(h.node): h.nodeHostID}, false
	if !h.peers.founder() {
		members, join = nil, true
	}
	if err := h.nh.StartConcurrentReplica(members, join, create, cfg); err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	h.workers.Add(1)
	go c.tell()
	h.workers.Add(1)
	go c.campaign()
	for {
		// An entry of our own behind everything that was logged: when it is applied, the catalogue is loaded.
		_, err := c.do(ctx, []meta.Command{{Op: meta.OpSweep}})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, ErrNoCatalogue) {
			return err
		}
		h.log.Warn("the catalogue has no majority yet", "error", err)
	}
}

// catalogueVotersMax is how many nodes vote on the catalogue: the first ones. Later ones follow.
const catalogueVotersMax = 5

// voters returns the nodes that vote, as far as this node's catalogue knows.
func (c *catalogue) voters() []meta.NodeID {
	v := c.state.Load().View
	list := make([]meta.NodeID, 0, catalogueVotersMax)
	for n := range v.Nodes() {
		if n.ID <= catalogueVotersMax && !n.Replaced {
			list = append(list, n.ID)
		}
	}
	if len(list) == 0 {
		list = append(list, c.host.node)
	}
	return list
}

// campaign makes a leader when none is known: on one node at once, else where a majority is heard.
func (c *catalogue) campaign() {
	defer c.host.workers.Done()
	var own candidacy
	if len(c.voters()) > 1 || !c.host.peers.founder() {
		own.seen(0) // a leader has the time to be heard: a kick would depose it
	}
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, limits.KickStartMillis*time.Millisecond) {
		if c.leaderNode() == 0 {
			voters := c.voters()
			heard := 0
			for _, v := range voters {
				if c.host.up(v) {
					heard++
				}
			}
			if heard > len(voters)/2 && own.due(c.term.Load(), c.host.elections.rank(catalogueShard, voters)) {
				c.host.kickNow(catalogueShard, uint64(c.host.node))
			}
		} else {
			own.seen(c.term.Load())
			pause = limits.KickRankMillis * time.Millisecond
		}
		if c.host.wait(pause, nil) != nil {
			return
		}
	}
}

// onLeader is told by the library who leads.
func (c *catalogue) onLeader(leader uint64) {
	was := c.leader.Swap(leader)
	if leader != 0 {
		c.kicks.calm()
	}
	if here := leader == uint64(c.host.node) && leader != 0; here != (was == uint64(c.host.node) && was != 0) {
		var all []meta.NodeID
		for n := range c.state.Load().View.Nodes() {
			if !n.Replaced {
				all = append(all, n.ID)
			}
		}
		c.leases.lead(here, c.term.Load(), all)
		if here {
			go c.inaugurate()
		}
		if here && c.host.mux != nil {
			for _, n := range all {
				if token, ok := c.host.peers.token(n); ok {
					c.host.mux.Retry(token) // whose address refuses has no lease any more
				}
			}
		}
	}
	c.wake()
}

// wake has renew look at once.
func (c *catalogue) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// inaugurate has an entry of this leadership applied: what former leaders answered is then known here.
func (c *catalogue) inaugurate() {
	entry := meta.AppendBatch(codec.AppendUint64(nil, uint64(c.host.clock.nowMillis())), []meta.Command{{Op: meta.OpSweep}})
	for c.leadsHere() {
		ctx, cancel := context.WithTimeout(context.Background(), limits.StatusMillis*time.Millisecond)
		result, err := c.host.nh.SyncPropose(ctx, c.host.nh.GetNoOPSession(catalogueShard), entry)
		cancel()
		if err == nil {
			c.leases.inaugurated(result.Value)
			return
		}
		if c.host.wait(limits.GapRetryMillis*time.Millisecond, nil) != nil {
			return
		}
	}
}

// leaderNode is the node that leads the catalogue, 0 if it is not known. A replica of the catalogue is numbered as its node.
func (c *catalogue) leaderNode() meta.NodeID { return meta.NodeID(c.leader.Load()) }

// LeadsCatalogue tells whether this node leads the catalogue, as far as it knows.
func (h *Host) LeadsCatalogue() bool { return h.cat.leadsHere() }

func (c *catalogue) leadsHere() bool {
	leader := c.leaderNode()
	return leader != 0 && leader == c.host.node
}

func (c *catalogue) appliedIndex() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied
}

// do writes to the catalogue through its leader, and waits until it is applied here.
func (c *catalogue) do(ctx context.Context, cmds []meta.Command) ([]meta.Reply, error) {
	entry := meta.AppendBatch(codec.AppendUint64(nil, uint64(c.host.clock.nowMillis())), cmds)
	ctx, cancel := context.WithTimeout(ctx, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	defer context.AfterFunc(c.host.life, cancel)()
	for {
		var answer []byte
		err := errElsewhere
		switch leader := c.leaderNode(); {
		case leader == 0:
		case leader == c.host.node:
			answer, err = c.lead(ctx, entry)
		default:
			answer, err = c.host.call(ctx, leader, callDo, entry)
		}
		if err == nil {
			r := codec.NewReader(answer)
			index := r.Uvarint()
			if err := c.await(ctx, index); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNoCatalogue, err)
			}
			return meta.DecodeReplies(r.Rest(), nil)
		}
		var told *link.RemoteError
		if errors.As(err, &told) && told.Text == ErrReplaced.Error() {
			return nil, ErrReplaced
		}
		// Commands are idempotent: what may have taken effect is written again.
		if c.host.wait(limits.GapRetryMillis*time.Millisecond, ctx.Done()) != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoCatalogue, err)
		}
	}
}

// serveDo writes to the catalogue for another node.
func (c *catalogue) serveDo(entry []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(c.host.life, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	return c.lead(ctx, entry)
}

// lead has an entry applied by the group that this node leads, and waits until every node with a lease has it. The answer is the entry's index and the replies.
func (c *catalogue) lead(ctx context.Context, entry []byte) ([]byte, error) {
	if !c.leadsHere() {
		return nil, errElsewhere
	}
	result, err := c.propose(ctx, entry)
	if err != nil {
		return nil, err
	}
	if err := c.leases.wait(ctx, result.Value); err != nil {
		return nil, err
	}
	return append(codec.AppendUvarint(nil, result.Value), result.Data...), nil
}

// propose has an entry applied in the present term. It returns early when this node leads no more: what it proposed may never be decided.
func (c *catalogue) propose(ctx context.Context, entry []byte) (sm.Result, error) {
	term := c.term.Load()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for c.leadsHere() && c.term.Load() == term {
			if c.host.wait(limits.ElectionCheckMillis*time.Millisecond, ctx.Done()) != nil {
				return
			}
		}
		cancel()
	}()
	return c.host.nh.SyncPropose(ctx, c.host.nh.GetNoOPSession(catalogueShard), entry)
}

// await returns when the entry at index is applied here.
func (c *catalogue) await(ctx context.Context, index uint64) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reached.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.applied < index {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.reached.Wait()
	}
	return nil
}

// tell calls the watchers, in order, from one goroutine.
func (c *catalogue) tell() {
	defer c.host.workers.Done()
	for {
		select {
		case <-c.host.closed:
			return
		case <-c.changes:
		}
		c.wmu.Lock()
		effects, watchers := c.pending, c.watchers
		c.pending = nil
		c.wmu.Unlock()
		c.host.changed(effects)
		for _, f := range watchers {
			f(effects)
		}
	}
}

// restored tells what shells must react to when a snapshot replaces a view: queues that are gone or changed, and every node.
func restored(old, now *meta.View) []meta.Effect {
	var effects []meta.Effect
	for q := range old.QueuesByID() {
		if now.QueueByID(q.ID) == nil {
			effects = append(effects, meta.Effect{Kind: meta.QueueDeleted, Queue: q})
		}
	}
	for q := range now.QueuesByID() {
		if was := old.QueueByID(q.ID); was != nil && was != q {
			effects = append(effects, meta.Effect{Kind: meta.QueueChanged, Queue: q})
		}
	}
	for n := range now.Nodes() {
		effects = append(effects, meta.Effect{Kind: meta.NodeChanged, Node: n})
	}
	return restoredAccess(effects, old, now)
}

// restoredAccess adds users and virtual hosts that are gone, and every permission, which may be another one now.
func restoredAccess(effects []meta.Effect, old, now *meta.View) []meta.Effect {
	for h := range old.VHosts() {
		if now.VHost(h.Name) == nil {
			effects = append(effects, meta.Effect{Kind: meta.VHostDeleted, VHost: h.Name})
		}
		for p := range old.Permissions(h.Name) {
			effects = append(effects, meta.Effect{Kind: meta.PermissionChanged, VHost: h.Name, User: p.User})
		}
	}
	for u := range old.Users() {
		if now.User(u.Name) == nil {
			effects = append(effects, meta.Effect{Kind: meta.UserDeleted, User: u.Name})
		}
	}
	return effects
}

// publish makes the machine's state visible and wakes tell. Called with c.mu held.
func (c *catalogue) publish() {
	v := c.m.View()
	c.state.Store(&Catalogue{View: v, Router: c.state.Load().Router.Update(v)})
	if len(c.effects) == 0 {
		return
	}
	c.wmu.Lock()
	c.pending = append(c.pending, c.effects...)
	c.wmu.Unlock()
	clear(c.effects)
	c.effects = c.effects[:0]
	select {
	case c.changes <- struct{}{}:
	default:
	}
}

// catalogueMachine is the catalogue as the library sees it.
type catalogueMachine catalogue

var _ sm.IConcurrentStateMachine = (*catalogueMachine)(nil)

// Update applies committed entries.
func (s *catalogueMachine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	c := (*catalogue)(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range entries {
		data, err := c.apply(&entries[i])
		if err != nil {
			return nil, c.host.fatal(err)
		}
		entries[i].Result = sm.Result{Value: entries[i].Index, Data: data}
	}
	c.publish()
	c.reached.Broadcast()
	if leader := c.leaderNode(); leader != 0 && leader != c.host.node {
		c.host.send(leader, messageApplied, codec.AppendUvarint(nil, c.applied))
	}
	if c.applied-c.cut >= limits.CatalogueSnapshotEntries {
		c.cut = c.applied
		go func() {
			_, _ = c.host.nh.RequestSnapshot(catalogueShard, dragonboat.SnapshotOption{}, limits.ProposalTimeoutMillis*time.Millisecond)
		}()
	}
	return entries, nil
}

// cutLog has the library take a snapshot and cut the log up to an entry. It cuts before the last entry only, and once per entry: another one comes first.
func (c *catalogue) cutLog(to uint64) {
	ctx, cancel := context.WithTimeout(c.host.life, limits.ProposalTimeoutMillis*time.Millisecond)
	defer cancel()
	if _, err := c.do(ctx, []meta.Command{{Op: meta.OpSweep}}); err != nil {
		return // the log asks again
	}
	opt := dragonboat.SnapshotOption{OverrideCompactionOverhead: true, CompactionIndex: to}
	if rs, err := c.host.nh.RequestSnapshot(catalogueShard, opt, limits.ProposalTimeoutMillis*time.Millisecond); err == nil {
		select {
		case <-rs.ResultC():
		case <-ctx.Done():
		}
	}
}

// apply applies one entry: the stamp and a batch of commands.
func (c *catalogue) apply(e *sm.Entry) ([]byte, error) {
	r := codec.NewReader(e.Cmd)
	at := machine.Stamp{Index: e.Index, NowMillis: int64(r.Uint64())}
	cmds, err := meta.DecodeBatch(r.Rest(), nil)
	if err != nil {
		return nil, fmt.Errorf("the catalogue's entry %d cannot be decoded: %w", e.Index, err)
	}
	replies := make([]meta.Reply, 0, len(cmds))
	for i := range cmds {
		var reply meta.Reply
		reply, c.effects = c.m.Apply(at, &cmds[i], c.effects)
		if op := cmds[i].Op; (op == meta.OpRegisterNode || op == meta.OpRegisterBoot) && reply.Reason == meta.ReasonOK {
			c.leases.heard(meta.NodeID(reply.ID))
		}
		replies = append(replies, reply)
	}
	c.applied = e.Index
	return meta.AppendReplies(nil, replies), nil
}

// Lookup is not used: readers load the view.
func (s *catalogueMachine) Lookup(any) (any, error) { return nil, nil }

// PrepareSnapshot cuts the state.
func (s *catalogueMachine) PrepareSnapshot() (any, error) {
	c := (*catalogue)(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.AppendSnapshot(codec.AppendUint64(nil, c.applied)), nil
}

// SaveSnapshot writes a cut.
func (s *catalogueMachine) SaveSnapshot(cut any, w io.Writer, _ sm.ISnapshotFileCollection, _ <-chan struct{}) error {
	_, err := w.Write(cut.([]byte))
	return err
}

// RecoverFromSnapshot replaces the state.
func (s *catalogueMachine) RecoverFromSnapshot(r io.Reader, _ []sm.SnapshotFile, _ <-chan struct{}) error {
	c := (*catalogue)(s)
	src, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	in := codec.NewReader(src)
	applied := in.Uint64()
	m, err := meta.Restore(in.Rest())
	if err != nil {
		return c.host.fatal(fmt.Errorf("the catalogue's snapshot cannot be read: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load().View
	c.install(m)
	c.applied, c.cut = applied, applied
	c.effects = append(c.effects, restored(old, m.View())...)
	c.publish()
	c.reached.Broadcast()
	return nil
}

// Close has nothing to close.
func (s *catalogueMachine) Close() error { return nil }
