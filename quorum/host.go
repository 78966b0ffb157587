package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/vfs"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum/link"
	"github.com/warrenmq/warren/quorum/transport"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
	"github.com/warrenmq/warren/storage/wal"
)

// Config tells Open what to run on.
type Config struct {
	// Dir is the opened and locked data directory.
	Dir *datadir.Dir
	// Damaged, unless it is nil, is what is wrong with Dir's identity: Dir is from datadir.OpenDamaged. The node can only take its place in its cluster anew.
	Damaged error
	// FS is where queues keep checkpoints and bodies; storage.OS if nil.
	FS storage.FS
	// RaftFS replaces the file system of the library's own files in tests: its flags and the directories of snapshots; LibraryFS makes it what it is elsewhere. Its log is on FS.
	RaftFS vfs.FS
	// LogFileBytes is the length of a file of the Raft log; 0 = limits.WALFileBytes.
	LogFileBytes int64
	// Name is the node's name, as rabbit@host. Address is its advertised cluster address.
	Name, Address string
	// ClusterName names a new cluster; Name if empty.
	ClusterName string
	// Founding is what the first start of a new cluster puts into the catalogue, in one entry with its founding: virtual host, user, permissions.
	Founding []meta.Command
	// BodiesInMemoryBytes is the budget for message bodies in memory; 0 = limits.BodiesInMemoryBytes.
	BodiesInMemoryBytes int64
	// CheckpointLogBytes is how much log a queue writes between two checkpoints; 0 = limits.CheckpointLogBytes.
	CheckpointLogBytes int64
	// DiskReserveBytes is what is kept for the log and for checkpoints when the disk is full; 0 = nothing.
	DiskReserveBytes int64
	// ParkMillis is how long nobody must use a queue before its replicas stop; 0 = limits.ParkMillis.
	ParkMillis int64
	// ParkDeadlineMillis is how far off the next thing must be then that the queue has to do by itself; 0 = limits.ParkDeadlineMillis.
	ParkDeadlineMillis int64
	// Ceilings bound what the cluster may have for this node to make another one.
	Ceilings Ceilings
	// Cluster tells how other nodes are reached; the zero value runs the node alone.
	Cluster Cluster
	// OnFenced is called when the cluster declared this incarnation of the node dead while it lived: its clients must go. The node has a new incarnation when it returns.
	OnFenced func()
	Log      *slog.Logger
	// OnFatal is called once when the node must stop: its disk or its log failed. It must not block.
	OnFatal func(error)
	// LeaseClock replaces the clock of leases in tests, in milliseconds, rising, and WallClock the wall clock, in milliseconds since the Unix epoch; nil = the system's.
	LeaseClock, WallClock func() int64

	expert func(*config.NodeHostConfig) // changes the library's configuration in benchmarks
}

// Host runs all machines of one node.
type Host struct {
	cfg        Config
	fs         storage.FS
	log        *slog.Logger
	clock      *clock
	nh         *dragonboat.NodeHost
	transport  *transport.Transport // of a node that runs alone
	net        *transport.Network   // of a node in a cluster
	mux        *link.Mux
	peers      *peers
	elections  *elections
	wal        *wal.Log
	store      raftio.ILogDB // over wal; the library closes it
	nodeHostID string
	cat        *catalogue

	node meta.NodeID
	bmu  sync.Mutex
	boot meta.Boot // this incarnation; changes when the node was declared dead while it lived

	sessions    atomic.Uint64
	slots       sync.Map // meta.QueueID -> *slot
	starter     starter
	configurer  crew // brings queues that this node leads their new configurations: a policy may change as many as there are
	parker      crew // has idle ones rest
	checkpoints crew // writes checkpoints; who asks has marked the group's disk busy
	shortener   shortener
	bodyBytes   atomic.Int64
	reserve     reserve
	relieving   atomic.Bool // bodies are being brought out of memory
	started     atomic.Bool
	welcome     welcome
	alarms      alarms
	facts       atomic.Pointer[func([]byte) ([]byte, error)]
	told        atomic.Pointer[func(meta.NodeID, []byte)]
	asked       atomic.Pointer[func([]byte) []byte]

	life        context.Context // ends with closed: what waits in the background gives up
	end         context.CancelFunc
	closed      chan struct{}
	closing     sync.Once
	fatally     sync.Once
	workers     sync.WaitGroup
	stuck       sync.Map // *mover: has dead letters that had nowhere to go
	damageFound atomic.Uint64
	// unrouted counts what left a relay and was bound nowhere.
	unrouted atomic.Uint64
	// lost counts dead letters that found an outbox full; lostTold is when that was last logged, in monotonic milliseconds.
	lost     atomic.Uint64
	lostTold atomic.Int64
	onLost   atomic.Pointer[func(q meta.QueueID, n int)]
}

// runner runs one queue's machine, or knows who does: *group, *local or *remote.
type runner interface {
	target
	// command applies one command outside pipelines and waits for its reply.
	command(*queue.Command) (queue.Reply, error)
	// close ends its streams.
	close()
	status() QueueStatus
	core() *replica
}

// The catalogue is the Raft group of this shard; every group's first replicas are numbered from firstReplicaID in the order of the bootstrap set.
const (
	catalogueShard uint64 = 1
	firstReplicaID uint64 = 1
	deploymentID   uint64 = 1
)

// Shard counts are frozen in a data directory by the library. See docs/adr on dragonboat for the measurement.
const (
	execShards  = 2
	applyShards = 4
)

// Open starts the node's machines: the catalogue is loaded and this incarnation registered when it returns; queues that have data start in the background.
func Open(ctx context.Context, cfg Config) (*Host, error) {
	if cfg.FS == nil {
		cfg.FS = storage.OS
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.BodiesInMemoryBytes == 0 {
		cfg.BodiesInMemoryBytes = limits.BodiesInMemoryBytes
	}
	if cfg.ParkDeadlineMillis == 0 {
		cfg.ParkDeadlineMillis = limits.ParkDeadlineMillis
	}
	if cfg.ParkMillis == 0 {
		cfg.ParkMillis = limits.ParkMillis
	}
	if cfg.ClusterName == "" {
		cfg.ClusterName = cfg.Name
	}
	if cfg.CheckpointLogBytes == 0 {
		cfg.CheckpointLogBytes = limits.CheckpointLogBytes
	}
	h := &Host{cfg: cfg, fs: cfg.FS, log: cfg.Log, clock: newClock(cfg.LeaseClock, cfg.WallClock), closed: make(chan struct{})}
	adoptLogger(h)
	h.life, h.end = context.WithCancel(context.Background())
	h.shortener.host, h.reserve.host = h, h
	h.checkpoints = crew{work: h.checkpoint, size: limits.CheckpointsAtOnce}
	h.configurer = crew{work: (*group).configure, size: limits.StartsAtOnce}
	h.parker = crew{work: h.park, size: limits.ParksAtOnce}
	h.elections = newElections(h)
	h.cat = newCatalogue(h)
	err := cfg.Damaged
	if err == nil {
		err = h.find(ctx)
	}
	if isDamage(err) {
		if err = h.rejoin(ctx, err); err == nil {
			err = h.find(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	id := cfg.Dir.Identity() // a node that joined has another cluster's
	h.nodeHostID = nodeHostID(id.ClusterID, link.Node(id.NodeID))
	boot, err := cfg.Dir.NextBoot()
	if err == nil && !h.peers.founder() && boot.Counter <= joinBoot(0).Counter {
		boot, err = cfg.Dir.NextBoot()
	}
	if err != nil {
		return nil, err
	}
	h.boot = meta.Boot{Counter: boot.Counter, Nonce: boot.Nonce}
	if err := h.startRaft(); err != nil {
		h.Close()
		return nil, err
	}
	if err := h.register(ctx); err != nil {
		h.Close()
		return nil, err
	}
	h.started.Store(true)
	h.workers.Add(2)
	go h.ticker()
	go h.reconciler()
	h.restart()
	return h, nil
}

// find opens what the node knows of itself. Damage is a *storage.CorruptError.
func (h *Host) find(ctx context.Context) error {
	if err := adoptHostName(h.fs, raftDir(h)); err != nil {
		return err
	}
	if err := h.enter(ctx); err != nil {
		return err
	}
	return h.openLog()
}

// enter finds out which cluster this node is part of: the one it was in before, one that takes it in, or a new one of its own.
func (h *Host) enter(ctx context.Context) error {
	var err error
	if h.peers, err = openPeers(h.fs, h.cfg.Dir.Path()); err != nil {
		return err
	}
	id := h.cfg.Dir.Identity()
	switch {
	case h.peers.joined():
	case h.cfg.Dir.Used(): // an incarnation is started when it is known where
		return &storage.CorruptError{File: h.peers.file, OffsetBytes: -1, Reason: "the file is missing from a directory that was used; restore it or use an empty directory"}
	case len(h.cfg.Cluster.Join) > 0:
		if err := h.joinCluster(ctx); err != nil {
			return err
		}
	default:
		const founderID = 1
		list := peerList{Self: founderID, Founder: true, Nodes: []peerNode{{ID: founderID, Token: link.Node(id.NodeID), Address: h.cfg.Address}}}
		if err := h.peers.save(list); err != nil {
			return err
		}
	}
	h.node = h.peers.self()
	return nil
}

// startRaft starts the library over the cluster port, if there is one.
func (h *Host) startRaft() error {
	var factory config.TransportFactory
	if h.cfg.Cluster.Listener == nil {
		h.transport = transport.New()
		factory = h.transport
	} else {
		if err := h.openNetwork(); err != nil {
			return err
		}
		factory = h.net
	}
	names, _ := h.fs.List(raftDir(h)) // none in a new directory
	nh, err := newNodeHost(h.nodeHostConfig(factory))
	switch {
	case err == nil:
		h.nh = nh
		return nil
	case len(names) > 0 && !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.ENOSPC):
		return &storage.CorruptError{File: raftDir(h), OffsetBytes: -1, Reason: "what the Raft library keeps does not open: " + err.Error()}
	}
	return fmt.Errorf("raft: %w", err)
}

// newNodeHost is dragonboat.NewNodeHost, whose panics and silences become errors.
func newNodeHost(cfg config.NodeHostConfig) (nh *dragonboat.NodeHost, err error) {
	defer func() {
		if r := recover(); r != nil {
			nh, err = nil, fmt.Errorf("%v", r)
		}
	}()
	nh, err = dragonboat.NewNodeHost(cfg)
	if err == nil && nh == nil {
		err = errors.New("it cannot be opened") // the library swallows some of its panics
	}
	return nh, err
}

// nodeHostConfig is the library's configuration. Its defaults take gigabytes; see docs/adr on dragonboat.
func (h *Host) nodeHostConfig(factory config.TransportFactory) config.NodeHostConfig {
	cfg := config.NodeHostConfig{
		DeploymentID:      deploymentID,
		NodeHostID:        h.nodeHostID,
		NodeHostDir:       raftDir(h),
		RTTMillisecond:    raftTickMillis,
		RaftAddress:       h.nodeHostID,
		RaftEventListener: leaderListener{h},
		Expert: config.ExpertConfig{
			FS:                  cmp.Or(h.cfg.RaftFS, LibraryFS(vfs.Default)),
			TransportFactory:    factory,
			NodeRegistryFactory: newRegistry(h.nodeHostID),
			LogDBFactory:        logFactory{h.store},
			LogDB:               config.GetTinyMemLogDBConfig(), // of a store that is not used
			Engine:              config.EngineConfig{ExecShards: execShards, CommitShards: 1, ApplyShards: applyShards, SnapshotShards: 4, CloseShards: 1},
		},
	}
	if h.cfg.expert != nil {
		h.cfg.expert(&cfg)
	}
	return cfg
}

// register starts the catalogue, founds the cluster if it is new, and registers this node and its incarnation.
func (h *Host) register(ctx context.Context) error {
	if h.net != nil {
		h.workers.Add(3)
		go h.elections.run()
		go h.cat.renew()
		go h.reporter()
		h.converse()
	}
	if err := h.cat.start(ctx); err != nil {
		return err
	}
	id := h.cfg.Dir.Identity()
	if h.Catalogue().View.ClusterID() == "" {
		founding := append([]meta.Command{{Op: meta.OpFound, Text: fmt.Sprintf("%016x", id.ClusterID), Name: h.cfg.ClusterName}}, h.cfg.Founding...)
		if _, err := h.insist(ctx, founding); err != nil {
			return err
		}
	}
	node := meta.Node{Name: h.cfg.Name, Address: h.cfg.Address, Token: id.NodeID, MachineVersion: machineVersion}
	replies, err := h.insist(ctx, []meta.Command{{Op: meta.OpRegisterNode, Node: node}})
	if err != nil {
		return err
	}
	switch id := meta.NodeID(replies[0].ID); {
	case replies[0].Reason == meta.ReasonNameInUse:
		return &JoinError{Err: nameInUse(h.cfg.Name)}
	case replies[0].Reason != meta.ReasonOK || id != h.node:
		return fmt.Errorf("the catalogue refuses node %s: %v, id %d, this directory has id %d", h.cfg.Name, replies[0].Reason, replies[0].ID, h.node)
	}
	return h.registerBoot(ctx)
}

// insist writes to the catalogue and waits for a majority as long as ctx allows.
func (h *Host) insist(ctx context.Context, cmds []meta.Command) ([]meta.Reply, error) {
	for {
		replies, err := h.cat.do(ctx, cmds)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrNoCatalogue) {
			return replies, err
		}
		select {
		case <-h.closed:
			return nil, ErrClosed
		default:
		}
		h.log.Warn("the catalogue does not take this node's registration yet", "error", err)
	}
}

// registerBoot makes this incarnation known before it is used. One that was declared dead before the answer came has a successor, which is registered instead.
func (h *Host) registerBoot(ctx context.Context) error {
	for {
		boot := h.Boot()
		replies, err := h.insist(ctx, []meta.Command{{Op: meta.OpRegisterBoot, Node: meta.Node{ID: h.node, Boot: boot}}})
		if err != nil || replies[0].Reason == meta.ReasonOK {
			return err
		}
		if n := h.Catalogue().View.Node(h.node); h.Boot() == boot && (n == nil || n.DeadBoot != boot) {
			return fmt.Errorf("the catalogue refuses start %d of node %s (%v): the data directory is older than the catalogue's memory of this node", boot.Counter, h.cfg.Name, replies[0].Reason)
		}
		if err := h.wait(limits.GapRetryMillis*time.Millisecond, ctx.Done()); err != nil {
			return err
		}
	}
}

// machineVersion is the highest behaviour version of machines that this binary supports.
const machineVersion = 1

// Node is this node's id, Boot its incarnation.
func (h *Host) Node() meta.NodeID { return h.node }

// Boot is this incarnation of the node.
func (h *Host) Boot() meta.Boot {
	h.bmu.Lock()
	defer h.bmu.Unlock()
	return h.boot
}

// Close stops the node's machines. What was confirmed is durable already.
func (h *Host) Close() {
	h.closing.Do(func() {
		close(h.closed)
		h.end()
		if h.mux != nil {
			h.mux.Close()
		}
		if h.net != nil {
			_ = h.net.Close()
		}
		if h.nh != nil {
			h.nh.Close()
		}
		if h.store != nil {
			_ = h.store.Close() // if the library has not
		}
		h.workers.Wait()
	})
}

// fatal reports what must stop the node. It does not return where the library calls: it would answer an error with a panic before the node has said what is wrong.
func (h *Host) fatal(err error) error {
	h.report(err)
	if h.cfg.OnFatal != nil {
		select {}
	}
	return err
}

// report tells the node once what must stop it.
func (h *Host) report(err error) {
	h.fatally.Do(func() {
		h.log.Error("the node must stop", "error", err)
		if h.cfg.OnFatal != nil {
			h.cfg.OnFatal(err)
		}
	})
}

// ticker drives what no event drives: lost proposals and the clock.
func (h *Host) ticker() {
	defer h.workers.Done()
	tick := time.NewTicker(limits.ResendCheckMillis * time.Millisecond)
	slew := time.NewTicker(limits.ClockSlewMillis * time.Millisecond)
	defer tick.Stop()
	defer slew.Stop()
	for {
		select {
		case <-h.closed:
			return
		case <-slew.C:
			h.clock.slew()
		case <-tick.C:
			now := h.clock.monotonicMillis()
			h.slots.Range(func(_, v any) bool {
				v.(*slot).check(now)
				return true
			})
		}
	}
}

// later runs f after d unless the host is closed, or the timer stopped, by then.
func (h *Host) later(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		select {
		case <-h.closed:
		default:
			f()
		}
	})
}

// wait waits for d. It returns early with ErrClosed when the host or stop closes.
func (h *Host) wait(d time.Duration, stop <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stop:
	case <-h.closed:
	}
	return ErrClosed
}

// kickNow makes a local replica campaign. It is ignored by one that is no follower, or that has committed entries that it has not applied.
func (h *Host) kickNow(shard, replica uint64) {
	if h.net != nil {
		h.net.Kick(shard, replica)
		return
	}
	h.transport.Kick(shard, replica)
}

// leaderListener takes the library's news of leaders. It is called from one goroutine for all groups and only notes.
type leaderListener struct{ h *Host }

// LeaderUpdated implements raftio.IRaftEventListener.
func (l leaderListener) LeaderUpdated(info raftio.LeaderInfo) {
	if info.ShardID == catalogueShard {
		l.h.cat.term.Store(info.Term)
		l.h.cat.onLeader(info.LeaderID)
		return
	}
	if v, ok := l.h.slots.Load(meta.QueueID(info.ShardID)); ok {
		if g, ok := v.(*slot).runner().(*group); ok {
			g.onLeader(info.Term, info.LeaderID)
		}
	}
}

// deadBoot tells whether the catalogue declares a pipeline's incarnation dead, and up to which boot its node is fenced.
func (h *Host) deadBoot(id queue.PipelineID) (queue.Boot, bool) {
	n := h.Catalogue().View.Node(meta.NodeID(id.Node))
	if n == nil || !n.Fences(meta.Boot{Counter: id.Boot.Counter, Nonce: id.Boot.Nonce}) {
		return queue.Boot{}, false
	}
	return queue.Boot{Counter: n.DeadBoot.Counter, Nonce: n.DeadBoot.Nonce}, true
}
