package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/raftio"
	sm "github.com/lni/dragonboat/v4/statemachine"
	"github.com/lni/vfs"
)

func init() {
	for _, name := range []string{"dragonboat", "raft", "rsm", "transport", "grpc", "util", "logdb", "config", "settings", "order", "pebblekv", "raftdb", "server", "raftpb", "registry"} {
		logger.GetLogger(name).SetLevel(logger.CRITICAL)
	}
}

// cluster is NodeHosts over Networks, with the machines that count what they applied.
type cluster struct {
	t *testing.T

	mu      sync.Mutex
	changed *sync.Cond
	hosts   map[uint64]*raftHost
	applied map[uint64]uint64 // by node
	bytes   map[uint64]uint64 // of commands, by node
	leader  uint64            // replica id
}

// raftHost is one node. Replica ids are node ids.
type raftHost struct {
	nh       *dragonboat.NodeHost
	net      *Network
	fs       vfs.FS
	registry *testRegistry
}

const testShard = 5

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, hosts: make(map[uint64]*raftHost), applied: make(map[uint64]uint64), bytes: make(map[uint64]uint64)}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// await waits until ok, which is called with the lock held.
func (c *cluster) await(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	late := time.AfterFunc(time.Minute, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer late.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() {
		if !time.Now().Before(deadline) {
			c.t.Fatalf("waited in vain for %s: leader %d, applied %v", what, c.leader, c.applied)
		}
		c.changed.Wait()
	}
}

// awaitApplied waits until every node has applied as much as the leader's was asked to.
func (c *cluster) awaitApplied(count uint64) {
	c.t.Helper()
	c.await(fmt.Sprint(count, " commands on all"), func() bool {
		for node := range c.hosts {
			if c.applied[node] < count {
				return false
			}
		}
		return true
	})
}

// LeaderUpdated implements raftio.IRaftEventListener.
func (c *cluster) LeaderUpdated(info raftio.LeaderInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if info.LeaderID == info.ReplicaID {
		c.leader = info.LeaderID
	} else if info.LeaderID == 0 && c.leader == info.ReplicaID {
		c.leader = 0
	}
	c.changed.Broadcast()
}

// start starts a node on a network; fs keeps its disk over restarts.
func (c *cluster) start(node uint64, n *Network, fs vfs.FS) *raftHost {
	c.t.Helper()
	h := &raftHost{net: n, fs: fs, registry: &testRegistry{targets: make(map[[2]uint64]string)}}
	logdb := config.GetTinyMemLogDBConfig()
	logdb.Shards, logdb.KVWriteBufferSize = 2, 16<<20
	nh, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		DeploymentID: 1, NodeHostID: Target(testCluster, node), NodeHostDir: "/raft", RTTMillisecond: 100, RaftAddress: Target(testCluster, node), RaftEventListener: c,
		Expert: config.ExpertConfig{
			FS: fs, TransportFactory: n, NodeRegistryFactory: h.registry, LogDB: logdb,
			Engine: config.EngineConfig{ExecShards: 2, CommitShards: 1, ApplyShards: 2, SnapshotShards: 2, CloseShards: 1},
		},
	})
	if err == nil && nh == nil {
		err = io.ErrUnexpectedEOF // the library swallowed a panic
	}
	must(c.t, err)
	h.nh = nh
	c.mu.Lock()
	c.hosts[node] = h
	c.mu.Unlock()
	return h
}

func (c *cluster) stop(node uint64) {
	c.hosts[node].nh.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.hosts, node)
	if c.leader == node {
		c.leader = 0
	}
}

// replica starts the group's replica on a node; members is empty for one that joins.
func (c *cluster) replica(node uint64, members []uint64, onDisk bool) {
	c.t.Helper()
	initial := make(map[uint64]string)
	for _, m := range members {
		initial[m] = Target(testCluster, m)
	}
	cfg := config.Config{ReplicaID: node, ShardID: testShard, ElectionRTT: 10, HeartbeatRTT: 1, CheckQuorum: true, PreVote: true, OrderedConfigChange: true}
	nh := c.hosts[node].nh
	var err error
	if onDisk {
		err = nh.StartOnDiskReplica(initial, len(members) == 0, func(_, replica uint64) sm.IOnDiskStateMachine { return &diskMachine{machine{c: c, node: replica}} }, cfg)
	} else {
		err = nh.StartReplica(initial, len(members) == 0, func(_, replica uint64) sm.IStateMachine { return &memMachine{machine{c: c, node: replica}} }, cfg)
	}
	must(c.t, err)
}

// propose proposes count commands of size bytes on a node.
func (c *cluster) propose(node uint64, count, size int) {
	c.t.Helper()
	nh := c.hosts[node].nh
	session := nh.GetNoOPSession(testShard)
	for range count {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := nh.SyncPropose(ctx, session, make([]byte, size))
		cancel()
		must(c.t, err)
	}
}

// proposeAnywhere proposes in real time, where a busy machine may cost a leader its office: a command whose fate is unknown is proposed again, to who leads then.
func (c *cluster) proposeAnywhere(count, size int) {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for range count {
		for {
			var leader uint64
			c.await("a leader", func() bool { leader = c.leader; return leader != 0 })
			nh := c.hosts[leader].nh
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err := nh.SyncPropose(ctx, nh.GetNoOPSession(testShard), make([]byte, size))
			cancel()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				c.t.Fatal(err)
			}
			c.t.Logf("node %d: %v", leader, err)
		}
	}
}

// kick makes a node leader and says how long that took. A kick that comes while the replica applies is ignored, hence the repetition.
func (c *cluster) kick(node uint64) time.Duration {
	c.t.Helper()
	began := time.Now()
	done := make(chan struct{})
	var kicking sync.WaitGroup
	kicking.Go(func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			c.hosts[node].net.Kick(testShard, node)
			select {
			case <-again.C:
			case <-done:
				return
			}
		}
	})
	c.await("a leader", func() bool { return c.leader == node })
	close(done)
	kicking.Wait()
	return time.Since(began)
}

// machine counts commands and their bytes. A snapshot of it has as many bytes as the commands had.
type machine struct {
	c        *cluster
	node     uint64
	applied  uint64
	bytes    uint64
	lastTerm uint64
}

func (m *machine) apply(e sm.Entry) {
	m.applied++
	m.bytes += uint64(len(e.Cmd))
	m.tell()
}

func (m *machine) tell() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.applied[m.node], m.c.bytes[m.node] = m.applied, m.bytes
	m.c.changed.Broadcast()
}

func (m *machine) save(w io.Writer) error {
	b := binary.BigEndian.AppendUint64(nil, m.applied)
	b = binary.BigEndian.AppendUint64(b, m.bytes)
	if _, err := w.Write(b); err != nil {
		return err
	}
	_, err := io.CopyN(w, zeros{}, int64(m.bytes))
	return err
}

func (m *machine) recover(r io.Reader) error {
	b := make([]byte, 16)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	m.applied, m.bytes = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if n, err := io.Copy(io.Discard, r); err != nil || uint64(n) != m.bytes {
		return fmt.Errorf("%d bytes of %d in the snapshot: %w", n, m.bytes, err)
	}
	m.tell()
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// memMachine is the machine as the library's plain kind: it saves snapshots to files, which are sent as they are.
type memMachine struct{ machine }

func (m *memMachine) Update(e sm.Entry) (sm.Result, error) { m.apply(e); return sm.Result{}, nil }
func (m *memMachine) Lookup(any) (any, error)              { return m.applied, nil }
func (m *memMachine) SaveSnapshot(w io.Writer, _ sm.ISnapshotFileCollection, _ <-chan struct{}) error {
	return m.save(w)
}
func (m *memMachine) RecoverFromSnapshot(r io.Reader, _ []sm.SnapshotFile, _ <-chan struct{}) error {
	return m.recover(r)
}
func (m *memMachine) Close() error { return nil }

// diskMachine is the machine as the kind that queues are: its snapshots are streamed.
type diskMachine struct{ machine }

func (m *diskMachine) Open(<-chan struct{}) (uint64, error) { return 0, nil }
func (m *diskMachine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	for _, e := range entries {
		m.apply(e)
	}
	return entries, nil
}
func (m *diskMachine) Lookup(any) (any, error)       { return m.applied, nil }
func (m *diskMachine) Sync() error                   { return nil }
func (m *diskMachine) PrepareSnapshot() (any, error) { return m.machine, nil }
func (m *diskMachine) Close() error                  { return nil }
func (m *diskMachine) SaveSnapshot(ctx any, w io.Writer, _ <-chan struct{}) error {
	saved := ctx.(machine)
	return saved.save(w)
}
func (m *diskMachine) RecoverFromSnapshot(r io.Reader, _ <-chan struct{}) error { return m.recover(r) }

// testRegistry is a registry as quorum's: targets are what was added, and may not change.
type testRegistry struct {
	mu      sync.Mutex
	targets map[[2]uint64]string
	added   uint64
	wrong   string
}

func (r *testRegistry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}
func (r *testRegistry) Close() error { return nil }
func (r *testRegistry) Add(shard, replica uint64, target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added++
	if target != Target(testCluster, replica) {
		r.wrong = fmt.Sprintf("replica %d at %q", replica, target)
	}
	r.targets[[2]uint64{shard, replica}] = target
}
func (r *testRegistry) Remove(shard, replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.targets, [2]uint64{shard, replica})
}
func (r *testRegistry) RemoveShard(shard uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.targets, func(k [2]uint64, _ string) bool { return k[0] == shard })
}
func (r *testRegistry) Resolve(shard, replica uint64) (string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	target, ok := r.targets[[2]uint64{shard, replica}]
	if !ok {
		return "", "", fmt.Errorf("replica %d is not known", replica)
	}
	return target, target, nil
}
