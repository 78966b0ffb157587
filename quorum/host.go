package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/vfs"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum/transport"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// Config tells Open what to run on.
type Config struct {
	// Dir is the opened and locked data directory.
	Dir *datadir.Dir
	// FS is where queues keep checkpoints and bodies; storage.OS if nil.
	FS storage.FS
	// RaftFS replaces the library's file system in tests.
	RaftFS vfs.FS
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
	Log                *slog.Logger
	// OnFatal is called once when the node must stop: its disk or its log failed. It must not block.
	OnFatal func(error)
}

// Host runs all machines of one node.
type Host struct {
	cfg        Config
	fs         storage.FS
	log        *slog.Logger
	clock      *clock
	nh         *dragonboat.NodeHost
	transport  *transport.Transport
	nodeHostID string
	cat        *catalogue

	node meta.NodeID
	boot meta.Boot

	sessions    atomic.Uint64
	slots       sync.Map // meta.QueueID -> *slot
	starter     starter
	checkpoints *checkpointer
	bodyBytes   atomic.Int64

	closed  chan struct{}
	closing sync.Once
	fatally sync.Once
	workers sync.WaitGroup
}

// slot is what this node has of one queue.
type slot struct {
	q    *meta.Queue
	pipe *pipeline

	mu      sync.Mutex
	run     runner // nil until the first touch
	touched bool
	gone    bool
}

// runner runs one queue's machine: *group or *local.
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
	logShards   = 2
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
	if cfg.ClusterName == "" {
		cfg.ClusterName = cfg.Name
	}
	if cfg.CheckpointLogBytes == 0 {
		cfg.CheckpointLogBytes = limits.CheckpointLogBytes
	}
	adoptLogger(cfg.Log)
	id := cfg.Dir.Identity()
	h := &Host{cfg: cfg, fs: cfg.FS, log: cfg.Log, clock: newClock(), transport: transport.New(), nodeHostID: nodeHostID(id.ClusterID, meta.NodeID(id.NodeID)), closed: make(chan struct{})}
	if err := adoptHostName(h.fs, raftDir(h)); err != nil {
		return nil, err
	}
	h.checkpoints = newCheckpointer(h)
	h.cat = newCatalogue(h)
	nh, err := dragonboat.NewNodeHost(h.nodeHostConfig())
	if err == nil && nh == nil {
		err = errors.New("the Raft library did not start and does not say why")
	}
	if err != nil {
		return nil, fmt.Errorf("raft: %w", err)
	}
	h.nh = nh
	if err := h.join(ctx, id); err != nil {
		h.Close()
		return nil, err
	}
	h.workers.Add(1)
	go h.ticker()
	h.restart()
	return h, nil
}

// nodeHostConfig is the library's configuration. Its defaults take gigabytes; see docs/adr on dragonboat.
func (h *Host) nodeHostConfig() config.NodeHostConfig {
	logdb := config.GetTinyMemLogDBConfig()
	logdb.Shards = logShards
	logdb.KVWriteBufferSize = 16 * limits.BatchBytesMax
	logdb.KVMaxWriteBufferNumber = 4
	return config.NodeHostConfig{
		DeploymentID:      deploymentID,
		NodeHostID:        h.nodeHostID,
		NodeHostDir:       raftDir(h),
		RTTMillisecond:    raftTickMillis,
		RaftAddress:       h.nodeHostID,
		RaftEventListener: leaderListener{h},
		Expert: config.ExpertConfig{
			FS:                  h.cfg.RaftFS,
			TransportFactory:    h.transport,
			NodeRegistryFactory: newRegistry(h.nodeHostID),
			LogDB:               logdb,
			Engine:              config.EngineConfig{ExecShards: execShards, CommitShards: 1, ApplyShards: applyShards, SnapshotShards: 4, CloseShards: 1},
		},
	}
}

// join starts the catalogue, founds the cluster if it is new, and registers this node and its incarnation.
func (h *Host) join(ctx context.Context, id datadir.Identity) error {
	if err := h.cat.start(ctx); err != nil {
		return err
	}
	if h.Catalogue().View.ClusterID() == "" {
		founding := append([]meta.Command{{Op: meta.OpFound, Text: fmt.Sprintf("%016x", id.ClusterID), Name: h.cfg.ClusterName}}, h.cfg.Founding...)
		if _, err := h.cat.do(ctx, founding); err != nil {
			return err
		}
	}
	replies, err := h.cat.do(ctx, []meta.Command{{Op: meta.OpRegisterNode, Node: meta.Node{Name: h.cfg.Name, Address: h.cfg.Address, Token: id.NodeID, MachineVersion: machineVersion}}})
	if err != nil {
		return err
	}
	if replies[0].Reason != meta.ReasonOK {
		return fmt.Errorf("the catalogue refuses node %s: %v", h.cfg.Name, replies[0].Reason)
	}
	h.node = meta.NodeID(replies[0].ID)
	boot, err := h.cfg.Dir.NextBoot()
	if err != nil {
		return err
	}
	h.boot = meta.Boot{Counter: boot.Counter, Nonce: boot.Nonce}
	replies, err = h.cat.do(ctx, []meta.Command{{Op: meta.OpRegisterBoot, Node: meta.Node{ID: h.node, Boot: h.boot}}})
	if err != nil {
		return err
	}
	if replies[0].Reason != meta.ReasonOK {
		return fmt.Errorf("the catalogue refuses start %d of node %s (%v): the data directory is older than the catalogue's memory of this node", h.boot.Counter, h.cfg.Name, replies[0].Reason)
	}
	return nil
}

// machineVersion is the highest behaviour version of machines that this binary supports.
const machineVersion = 1

// Node is this node's id, Boot its incarnation.
func (h *Host) Node() meta.NodeID { return h.node }

// Boot is this incarnation of the node.
func (h *Host) Boot() meta.Boot { return h.boot }

// Close stops the node's machines. What was confirmed is durable already.
func (h *Host) Close() {
	h.closing.Do(func() {
		close(h.closed)
		if h.nh != nil {
			h.nh.Close()
		}
		h.workers.Wait()
	})
}

// fatal reports what must stop the node and returns it.
func (h *Host) fatal(err error) error {
	h.fatally.Do(func() {
		h.log.Error("the node must stop", "error", err)
		if h.cfg.OnFatal != nil {
			h.cfg.OnFatal(err)
		}
	})
	return err
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
				v.(*slot).pipe.check(now)
				return true
			})
		}
	}
}

// later runs f after d unless the host is closed by then.
func (h *Host) later(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
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

// kickUntil makes a local replica campaign until it serves (PROTOCOL 8): a kick is ignored while committed entries wait to be applied.
func (h *Host) kickUntil(shard, replica uint64, done, stop <-chan struct{}) {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, raftTickMillis*time.Millisecond) {
		if id, _, ok, _ := h.nh.GetLeaderID(shard); !ok || id == 0 {
			h.transport.Kick(shard, replica)
		}
		t := time.NewTimer(pause)
		select {
		case <-done:
		case <-stop:
		case <-h.closed:
		case <-t.C:
			continue
		}
		t.Stop()
		return
	}
}

// leaderListener takes the library's news of leaders. It is called from one goroutine for all groups and only notes.
type leaderListener struct{ h *Host }

// LeaderUpdated implements raftio.IRaftEventListener.
func (l leaderListener) LeaderUpdated(info raftio.LeaderInfo) {
	if info.ShardID == catalogueShard {
		l.h.cat.onLeader(info.LeaderID == info.ReplicaID)
		return
	}
	if v, ok := l.h.slots.Load(meta.QueueID(info.ShardID)); ok {
		s := v.(*slot)
		s.mu.Lock()
		g, ok := s.run.(*group)
		s.mu.Unlock()
		if ok {
			g.onLeader(info.Term, info.LeaderID == info.ReplicaID)
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
