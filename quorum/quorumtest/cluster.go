package quorumtest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
	"github.com/warrenmq/warren/storage/storagetest"
)

// Options are what a Cluster is made of. The zero value is three nodes without latency.
type Options struct {
	// Nodes is how many nodes start; 3 if 0.
	Nodes int
	// Seed seeds what is random: torn writes, lost Raft messages.
	Seed uint64
	// CheckpointLogBytes and BodiesInMemoryBytes are the nodes' (quorum.Config).
	CheckpointLogBytes, BodiesInMemoryBytes int64
	// ParkMillis and ParkDeadlineMillis are the nodes', too.
	ParkMillis, ParkDeadlineMillis int64
	// Ahead is how far the wall clocks of nodes 1, 2... are ahead of the right one; those of further nodes are right.
	Ahead []time.Duration
	// Latency is how long bytes travel between two nodes.
	Latency time.Duration
	// Disks are those of a cluster that was there before, which goes on; nil begins one.
	Disks []*storagetest.Mem
}

// Cluster is some nodes and the network between them. Its methods are for the one goroutine that runs the test.
type Cluster struct {
	T     testing.TB
	Net   *memnet.Net
	Nodes []*Node
	Books *Books

	opts   Options
	rng    *rand.Rand
	began  time.Time
	faults raftFaults

	libraryMayFail atomic.Bool
	libraryFailed  atomic.Pointer[string]

	mu      sync.Mutex
	clients []client
}

// client is a Publisher or Consumer.
type client interface{ stop() }

// secret is what the nodes prove to each other.
var secret = []byte("a secret of the virtual cluster")

// Run runs f on a new cluster in a bubble. When f returns the cluster is stopped and the bubble must be empty. One process runs one bubble at a time: no test that uses it is parallel.
func Run(t *testing.T, o Options, f func(c *Cluster)) {
	t.Helper()
	emptyPools()
	done := make(chan struct{})
	defer close(done)
	go watch(done, t.Name())
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, o)
		defer c.close()
		f(c)
	})
}

// Limits of a bubble: how long it may take in real time, and how much memory the process may use meanwhile. A seed takes less than a second and less than 200 MiB.
const (
	stuckSeconds  = 120
	heapBytesMax  = 2 << 30
	watchInterval = 100 * time.Millisecond
)

// watch ends the process when a bubble goes beyond its limits. It runs outside of the bubble, on real time.
func watch(done <-chan struct{}, name string) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for began := time.Now(); ; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		metrics.Read(heap)
		switch {
		case time.Since(began) > stuckSeconds*time.Second:
			debug.SetTraceback("all")
			panic(name + ": something runs on and on without letting virtual time pass, or waits for what is outside of the bubble")
		case heap[0].Value.Uint64() > heapBytesMax:
			debug.SetTraceback("all")
			panic(fmt.Sprintf("%s: the heap has %d MiB: something takes more and more memory", name, heap[0].Value.Uint64()>>20))
		}
	}
}

// emptyPools drops what the log store's library keeps in pools of the process: channels of one bubble may not be used in another one. A pool forgets in two collections.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

func newCluster(t testing.TB, o Options) *Cluster {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	c := &Cluster{T: t, Net: memnet.New(), opts: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), began: time.Now()}
	c.Books = newBooks()
	c.faults.init(o.Seed)
	c.Net.SetLatency("", "", o.Latency)
	for i := range o.Nodes {
		c.Nodes = append(c.Nodes, newNode(c, i+1))
	}
	if o.Disks != nil {
		c.resume()
		return c
	}
	for _, n := range c.Nodes {
		n.Start() // one after the other: ids are given in that order
		if c.T.Failed() {
			break
		}
	}
	return c
}

// resume starts a cluster that was there before.
func (c *Cluster) resume() {
	for i, n := range c.Nodes {
		n.disk = c.opts.Disks[i].Clone()
		n.Begin()
	}
	for _, n := range c.Nodes {
		n.await(2 * startMillis * time.Millisecond)
	}
}

// close stops everything.
func (c *Cluster) close() {
	c.Net.HealAll()
	c.faults.set(RaftFaults{})
	c.mu.Lock()
	clients := c.clients
	c.clients = nil
	c.mu.Unlock()
	for _, k := range clients {
		k.stop()
	}
	for _, n := range c.Nodes {
		n.Stop()
	}
	for _, v := range c.Books.Violations() {
		c.T.Error(v)
	}
}

func (c *Cluster) add(k client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, k)
}

// Elapsed is the virtual time since the cluster was made.
func (c *Cluster) Elapsed() time.Duration { return time.Since(c.began) }

// logger is where a node's log goes: nowhere, or to the standard error when WARREN_TEST_LOG is set.
func (c *Cluster) logger(name string) *slog.Logger {
	var h slog.Handler = slog.DiscardHandler
	if os.Getenv("WARREN_TEST_LOG") != "" {
		h = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	return slog.New(libraryPanics{h, c}).With("at", name)
}

// libraryPanics notices panics of the Raft library. They end a real process; in this one they are caught, and it only stops working, for the disks that it is given are of the kind that injects
// errors.
type libraryPanics struct {
	slog.Handler
	c *Cluster
}

// Enabled implements slog.Handler.
func (l libraryPanics) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || l.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l libraryPanics) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "panic" {
			l.c.libraryFails(r.Message)
		}
		return true
	})
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l libraryPanics) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryPanics{l.Handler.WithAttrs(attrs), l.c}
}

// libraryFails notes a panic of the library: a violation unless the test wants one.
func (c *Cluster) libraryFails(text string) {
	if c.libraryMayFail.Load() {
		c.libraryFailed.Store(&text)
		return
	}
	c.Books.violate("the Raft library: %s", text)
}

// Pass lets virtual time pass.
func (c *Cluster) Pass(d time.Duration) {
	time.Sleep(d)
	c.sound()
}

// sound ends the test if something was seen that must never be.
func (c *Cluster) sound() {
	c.T.Helper()
	if n := runtime.NumGoroutine(); n > goroutinesMax {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		c.T.Fatalf("after %v: %d goroutines run: something starts more and more of them\n%.4000s", c.Elapsed(), n, stacks.String())
	}
	if v := c.Books.Violations(); len(v) > 0 {
		c.T.FailNow() // close prints them
	}
}

// goroutinesMax is far more than a cluster of five nodes under load has.
const goroutinesMax = 5_000

// pollMillis is how often Until looks.
const pollMillis = 5

// Until waits until ok says so and returns how long that took; the test fails if it takes longer than within.
func (c *Cluster) Until(within time.Duration, what string, ok func() bool) time.Duration {
	c.T.Helper()
	began := time.Now()
	for !ok() {
		c.sound()
		if time.Since(began) > within {
			c.T.Fatalf("after %v: waited %v in vain: %s\n%s", c.Elapsed(), within, what, c.Describe())
		}
		time.Sleep(pollMillis * time.Millisecond)
	}
	return time.Since(began)
}

// Live returns the nodes that run.
func (c *Cluster) Live() []*Node {
	var live []*Node
	for _, n := range c.Nodes {
		if n.Host() != nil {
			live = append(live, n)
		}
	}
	return live
}

// Node returns the node that has an id in the catalogue; the first ones are counted from 1.
func (c *Cluster) Node(id meta.NodeID) *Node {
	for _, n := range c.Nodes {
		if n.ID == id {
			return n
		}
	}
	c.T.Fatalf("no node has the id %d", id)
	return nil
}

// Declare makes a durable queue with replicas on the given nodes, on all if none are given, through one node.
func (c *Cluster) Declare(at *Node, name string, replicas ...meta.NodeID) meta.QueueID {
	c.T.Helper()
	if len(replicas) == 0 {
		for _, n := range c.Nodes {
			replicas = append(replicas, n.ID)
		}
	}
	return c.declare(at, meta.Queue{VHost: "/", Name: name, Durable: true, Replicas: replicas})
}

func (c *Cluster) declare(at *Node, q meta.Queue) meta.QueueID {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := at.Host().Do(ctx, meta.Command{Op: meta.OpDeclareQueue, Queue: q})
	if err != nil || r[0].Reason != meta.ReasonOK {
		c.T.Fatalf("declare %s: %v %v", q.Name, r, err)
	}
	return meta.QueueID(r[0].ID)
}

// Leader returns the node that leads a queue as the live nodes have it, nil if they do not agree on a live one.
func (c *Cluster) Leader(q meta.QueueID) *Node {
	var leader meta.NodeID
	var term uint64
	for _, n := range c.Live() {
		if st, ok := n.Host().QueueStatus(q); ok && st.Leader != 0 && st.Term >= term {
			leader, term = st.Leader, st.Term
		}
	}
	for _, n := range c.Live() {
		if n.ID == leader {
			return n
		}
	}
	return nil
}

// AwaitLeader waits for a leader of a queue.
func (c *Cluster) AwaitLeader(q meta.QueueID) *Node {
	c.T.Helper()
	var leader *Node
	c.Until(10*time.Second, fmt.Sprintf("a leader of queue %d", q), func() bool {
		leader = c.Leader(q)
		return leader != nil
	})
	return leader
}

// Counts asks a queue's leader for its counts, in order behind everything that was sent to it.
func (c *Cluster) Counts(q meta.QueueID) queue.Counts {
	for _, n := range c.Live() {
		if st, ok := n.Host().QueueStatus(q); ok && st.Leader == n.ID {
			return st.Counts
		}
	}
	return queue.Counts{}
}

// Describe tells how the cluster is, for failures.
func (c *Cluster) Describe() string {
	text := ""
	for _, n := range c.Nodes {
		h := n.Host()
		if h == nil {
			text += fmt.Sprintf("%s: down\n", n.Name)
			continue
		}
		text += fmt.Sprintf("%s: boot %d, leased %t", n.Name, h.Boot().Counter, h.Leased())
		for q := range h.Catalogue().View.QueuesByID() {
			if st, ok := h.QueueStatus(q.ID); ok {
				text += fmt.Sprintf("; queue %d %s leader %d term %d applied %d ready %d unacked %d consumers %d", q.ID, st.State, st.Leader, st.Term, st.Applied, st.Counts.Ready, st.Counts.Unacked, st.Counts.Consumers)
			}
		}
		text += "\n"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.clients {
		if k, ok := k.(*Consumer); ok {
			text += k.describe()
		}
	}
	return text + c.Books.Describe()
}
