package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage/datadir"
	"github.com/warrenmq/warren/storage/storagetest"
)

// clusterPort is every node's.
const clusterPort = 7000

// Node is one machine: its disk, and the process that runs on it or does not.
type Node struct {
	ID   meta.NodeID
	Name string

	c      *Cluster
	disk   *storagetest.Mem
	founds bool // it begins the cluster

	mu   sync.Mutex
	run  *process
	last *process // may still be ending
}

// process is one run of a node.
type process struct {
	node   *Node
	cancel context.CancelFunc
	opened chan struct{} // closed when Open has returned
	ended  chan struct{} // closed when everything of it has ended
	disk   *storagetest.Mem
	host   *quorum.Host // after opened; nil if it failed
	dir    *datadir.Dir
	err    error

	mu     sync.Mutex
	dead   bool // killed: it speaks to nobody any more
	fenced int  // how often the cluster declared it dead while it lived
}

func newNode(c *Cluster, i int) *Node {
	return &Node{ID: meta.NodeID(i), Name: fmt.Sprintf("n%d", i), c: c, disk: storagetest.New(), founds: i == 1}
}

func (n *Node) addr() string { return fmt.Sprintf("%s:%d", n.Name, clusterPort) }

// Host returns the running quorum.Host, nil while the node is down or starting.
func (n *Node) Host() *quorum.Host {
	if p := n.process(); p != nil {
		return p.running()
	}
	return nil
}

func (n *Node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.run
}

// running returns the process's host once it is open and while it lives.
func (p *process) running() *quorum.Host {
	select {
	case <-p.opened:
	default:
		return nil
	}
	if p.isDead() {
		return nil
	}
	return p.host
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Fenced is how often the running process was declared dead while it lived.
func (n *Node) Fenced() int {
	p := n.process()
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fenced
}

// resetFenced begins to count anew.
func (n *Node) resetFenced() {
	p := n.process()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fenced = 0
}

// logFileBytes is the length of a file of the Raft log: short, so that logs go on from file to file.
const logFileBytes = 256 << 10

// startMillis is how long a start may take when nothing is wrong.
const startMillis = 30_000

// Start starts the node and waits until it serves.
func (n *Node) Start() {
	n.c.T.Helper()
	n.Begin()
	n.await(startMillis * time.Millisecond)
}

// Begin starts the node and does not wait: alone among nodes that are down it waits for them.
func (n *Node) Begin() {
	n.c.T.Helper()
	n.mu.Lock()
	last := n.last
	n.mu.Unlock()
	if last != nil {
		<-last.ended
	}
	l, err := n.c.Net.Host(n.Name).Listen(clusterPort)
	if err != nil {
		n.c.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{node: n, disk: n.disk, cancel: cancel, opened: make(chan struct{}), ended: make(chan struct{})}
	n.mu.Lock()
	n.run = p
	n.mu.Unlock()
	go p.open(ctx, l)
}

// await waits until a node that was begun serves.
func (n *Node) await(within time.Duration) {
	n.c.T.Helper()
	p := n.process()
	n.c.Until(within, n.Name+" starts", func() bool {
		select {
		case <-p.opened:
			return true
		default:
			return false
		}
	})
	if p.err != nil {
		n.c.T.Fatalf("%s does not start: %v", n.Name, p.err)
	}
	n.ID = p.host.Node()
	n.c.faults.name(p.dir.Identity().NodeID, n.ID)
}

// Disk returns a copy of what is on the disk of a node that is down.
func (n *Node) Disk() *storagetest.Mem {
	n.c.T.Helper()
	if n.process() != nil {
		n.c.T.Fatalf("%s runs", n.Name)
	}
	<-n.last.ended
	return n.disk.Clone()
}

// Replace puts another disk into a node that is down; nil is an empty one, with which it joins anew and gets another id.
func (n *Node) Replace(disk *storagetest.Mem) {
	n.c.T.Helper()
	n.Disk()
	if disk == nil {
		disk, n.founds = storagetest.New(), false
	}
	n.disk = disk
}

func (p *process) open(ctx context.Context, l net.Listener) {
	defer close(p.opened)
	n := p.node
	var damaged error
	if p.dir, damaged = datadir.Open(p.disk, "/data"); damaged != nil {
		if p.dir, p.err = datadir.OpenDamaged(p.disk, "/data"); p.err != nil {
			_ = l.Close()
			return
		}
	}
	n.c.faults.name(p.dir.Identity().NodeID, n.ID)
	began := time.Now()
	cfg := quorum.Config{
		Dir: p.dir, Damaged: damaged, FS: forQuorum(p.disk), RaftFS: raftDisk{p.disk}.forLibrary(), LogFileBytes: logFileBytes, Name: "rabbit@" + n.Name, Address: n.addr(), Log: n.c.logger(n.Name),
		ParkMillis: n.c.opts.ParkMillis, ParkDeadlineMillis: n.c.opts.ParkDeadlineMillis,
		CheckpointLogBytes: n.c.opts.CheckpointLogBytes, BodiesInMemoryBytes: n.c.opts.BodiesInMemoryBytes,
		Founding:   []meta.Command{{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}}},
		LeaseClock: func() int64 { return time.Since(began).Milliseconds() + 1 },
		WallClock:  n.wallMillis,
		OnFenced:   p.onFenced,
		OnFatal:    func(err error) { p.onFatal(err) },
		Cluster:    quorum.Cluster{Listener: l, Dial: p.dial, Secret: secret, Filter: n.c.faults.filter},
	}
	if !n.founds {
		for _, other := range n.c.Others(n) {
			cfg.Cluster.Join = append(cfg.Cluster.Join, other.addr())
		}
	}
	p.host, p.err = quorum.Open(ctx, cfg)
	if p.err != nil {
		_ = l.Close()
	}
}

// wallMillis is the node's wall clock.
func (n *Node) wallMillis() int64 {
	now := time.Now()
	if i := slices.Index(n.c.Nodes, n); i >= 0 && i < len(n.c.opts.Ahead) {
		now = now.Add(n.c.opts.Ahead[i])
	}
	return now.UnixMilli()
}

// dial connects to another node, until the process dies.
func (p *process) dial(ctx context.Context, addr string) (net.Conn, error) {
	if p.isDead() {
		return nil, net.ErrClosed
	}
	conn, err := p.node.c.Net.Host(p.node.Name).Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if p.isDead() {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	return conn, nil
}

func (p *process) onFenced() {
	p.mu.Lock()
	p.fenced++
	p.mu.Unlock()
	p.node.c.Books.fenced(p)
}

// onFatal ends the whole process: what must stop a node stops its library for good, so that no bubble with it ever ends.
func (p *process) onFatal(err error) {
	if c := p.node.c; !p.isDead() {
		panic(fmt.Sprintf("%s after %v: %s had to stop: %v", c.T.Name(), c.Elapsed(), p.node.Name, err))
	}
}

// Stop stops the node in order.
func (n *Node) Stop() {
	p := n.take()
	if p == nil {
		return
	}
	p.cancel()
	<-p.opened
	n.c.Books.gone(p)
	p.end()
	<-p.ended
}

// take takes the running process away.
func (n *Node) take() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.run
	if p != nil {
		n.run, n.last = nil, p
	}
	return p
}

// end closes what the process has open.
func (p *process) end() {
	if p.host != nil {
		p.host.Close()
	}
	if p.dir != nil {
		_ = p.dir.Close()
	}
	close(p.ended)
}

// Kill ends the process so that what its disks had not synced is gone; its peers see resets.
func (n *Node) Kill() { n.kill(func() { n.c.Net.Host(n.Name).Kill() }) }

// PowerOff is Kill without a word to anybody: peers see silence until PowerOn.
func (n *Node) PowerOff() { n.kill(func() { n.c.Net.Host(n.Name).PowerOff() }) }

// PowerOn lets a node that was powered off be started again.
func (n *Node) PowerOn() { n.c.Net.Host(n.Name).PowerOn() }

func (n *Node) kill(network func()) {
	p := n.take()
	if p == nil {
		return
	}
	n.c.Books.gone(p) // what it says from here on does not count
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	network()
	gate := make(chan struct{})
	n.disk.SetFault(func(storagetest.Op) error { <-gate; return nil })
	after := n.disk.Clone()
	close(gate)
	n.disk = after
	p.cancel()
	torn := rand.New(rand.NewPCG(n.c.rng.Uint64(), 2))
	go func() {
		<-p.opened
		if p.host != nil {
			p.host.Close()
		}
		after.SetFault(nil)
		after.CrashTorn(torn)
		close(p.ended)
	}()
}
