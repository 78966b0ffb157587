package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	mu      sync.Mutex // held while the machine is stepped or cut
	m       *meta.Machine
	effects []meta.Effect
	applied uint64
	cut     uint64 // applied index of the last snapshot

	leads   chan struct{} // closed when the local replica first leads
	leading sync.Once

	wmu      sync.Mutex
	watchers []func([]meta.Effect)
	changes  chan struct{}
	pending  []meta.Effect
}

func newCatalogue(h *Host) *catalogue {
	c := &catalogue{host: h, leads: make(chan struct{}), changes: make(chan struct{}, 1)}
	c.install(meta.New())
	return c
}

func (c *catalogue) install(m *meta.Machine) {
	c.m = m
	v := m.View()
	c.state.Store(&Catalogue{View: v, Router: exchange.Compile(v)})
}

// Catalogue returns the present view and router. Both are immutable.
func (h *Host) Catalogue() *Catalogue { return h.cat.state.Load() }

// Do writes to the catalogue: all commands stand in one log entry, and the replies come when they were applied here, so that Catalogue() has them. A refusal is in the reply's Reason. The
// error is ErrNoCatalogue (wrapped): then it is not known whether they took effect.
func (h *Host) Do(ctx context.Context, cmds ...meta.Command) ([]meta.Reply, error) {
	return h.cat.do(ctx, cmds)
}

// OnChange has f called with the changes of the catalogue, in order, from one goroutine, after Catalogue() has them.
func (h *Host) OnChange(f func([]meta.Effect)) {
	h.cat.wmu.Lock()
	h.cat.watchers = append(h.cat.watchers, f)
	h.cat.wmu.Unlock()
}

func (c *catalogue) start(ctx context.Context) error {
	h := c.host
	create := func(uint64, uint64) sm.IConcurrentStateMachine { return (*catalogueMachine)(c) }
	members := map[uint64]dragonboat.Target{firstReplicaID: h.nodeHostID}
	cfg := config.Config{
		ReplicaID: firstReplicaID, ShardID: catalogueShard, CheckQuorum: true, PreVote: true, ElectionRTT: raftElectionTicks, HeartbeatRTT: raftHeartbeatTicks,
		OrderedConfigChange: true, CompactionOverhead: limits.CatalogueSnapshotEntries / 4,
	}
	if err := h.nh.StartConcurrentReplica(members, false, create, cfg); err != nil {
		return fmt.Errorf("raft: %w", err)
	}
	h.workers.Add(1)
	go c.tell()
	h.kickUntil(catalogueShard, firstReplicaID, c.leads, ctx.Done())
	// An entry of our own behind everything that was logged: when it is applied, the catalogue is loaded.
	_, err := c.do(ctx, []meta.Command{{Op: meta.OpSweep}})
	return err
}

func (c *catalogue) onLeader(here bool) {
	if here {
		c.leading.Do(func() { close(c.leads) })
	}
}

func (c *catalogue) do(ctx context.Context, cmds []meta.Command) ([]meta.Reply, error) {
	entry := meta.AppendBatch(codec.AppendUint64(nil, uint64(c.host.clock.nowMillis())), cmds)
	ctx, cancel := context.WithTimeout(ctx, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	session := c.host.nh.GetNoOPSession(catalogueShard)
	for {
		result, err := c.host.nh.SyncPropose(ctx, session, entry)
		if err == nil {
			return meta.DecodeReplies(result.Data, nil)
		}
		// Not appended, certainly: try again until the time is up. Everything else may have taken effect.
		notAppended := errors.Is(err, dragonboat.ErrShardNotReady) || errors.Is(err, dragonboat.ErrSystemBusy)
		if !notAppended || c.host.wait(limits.GapRetryMillis*time.Millisecond, ctx.Done()) != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoCatalogue, err)
		}
	}
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
		entries[i].Result = sm.Result{Value: 1, Data: data}
	}
	c.publish()
	if c.applied-c.cut >= limits.CatalogueSnapshotEntries {
		c.cut = c.applied
		go func() {
			_, _ = c.host.nh.RequestSnapshot(catalogueShard, dragonboat.SnapshotOption{}, limits.ProposalTimeoutMillis*time.Millisecond)
		}()
	}
	return entries, nil
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
	return c.m.AppendSnapshot(nil), nil
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
	m, err := meta.Restore(src)
	if err != nil {
		return c.host.fatal(fmt.Errorf("the catalogue's snapshot cannot be read: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.install(m)
	return nil
}

// Close has nothing to close.
func (s *catalogueMachine) Close() error { return nil }
