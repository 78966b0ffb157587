package harness

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// ClusterSecret is what the nodes of a test's cluster prove to each other.
	ClusterSecret = "the nodes of a test"
	// clusterPatience is how long a test with a cluster may take before its nodes are killed.
	clusterPatience = 5 * time.Minute
)

// ClusterOptions say how a cluster is started. The zero value is nodes that reach each other directly.
type ClusterOptions struct {
	// Proxied puts a Net between the nodes.
	Proxied bool
	// Args and Env are further arguments and variables of every node.
	Args, Env []string
	// Patience is how long the test may take before the nodes are killed; 5 minutes if 0.
	Patience time.Duration
	// DiskBytes gives each node a disk of that size, whose power can be lost (NewDisk).
	DiskBytes int64
}

// Node is one node of a cluster.
type Node struct {
	*Broker
	// Name is its name, rabbit@n1 and so on.
	Name string
	// Advertised is the address that other nodes are told: its cluster port, or the proxy in front of it.
	Advertised string
	// Started is when its latest process was started.
	Started time.Time
	// Disk is what its data is on, nil unless ClusterOptions ask for it.
	Disk *Disk
}

// Cluster is several nodes of one cluster on this machine. Its methods are called by one goroutine unless they say otherwise.
type Cluster struct {
	// Nodes are all that were made, in order, running or not.
	Nodes []*Node
	// Net is what lies between them, nil if they reach each other directly.
	Net *Net

	dir  string
	opts ClusterOptions
}

// NewCluster makes a cluster without nodes. Nothing runs yet.
func NewCluster(t testing.TB, opts ClusterOptions) *Cluster {
	t.Helper()
	NeedProcess(t)
	if opts.Patience == 0 {
		opts.Patience = clusterPatience
	}
	c := &Cluster{dir: t.TempDir(), opts: opts}
	if opts.Proxied {
		c.Net = newNet()
		t.Cleanup(c.Net.Close)
	}
	overdue := time.AfterFunc(opts.Patience, func() {
		for _, n := range c.Nodes {
			n.giveUp()
		}
	})
	t.Cleanup(func() {
		if !overdue.Stop() {
			t.Errorf("the nodes were killed because the test took more than %v", opts.Patience)
		}
		c.cleanup(t)
	})
	return c
}

// StartCluster starts as many nodes and waits until each of them serves clients and sees all others.
func StartCluster(t testing.TB, count int, opts ClusterOptions) *Cluster {
	t.Helper()
	c := NewCluster(t, opts)
	for range count {
		c.Prepare(t)
	}
	c.Nodes[0].Launch(t)
	c.Launch(t, c.Nodes[1:]...)
	c.AwaitWhole(t)
	return c
}

// Prepare makes one more node, which joins through the nodes before it. Nothing runs yet.
func (c *Cluster) Prepare(t testing.TB) *Node {
	t.Helper()
	var seeds []string
	for _, n := range c.Nodes {
		seeds = append(seeds, n.Advertised)
	}
	return c.PrepareWith(t, fmt.Sprintf("rabbit@n%d", len(c.Nodes)+1), seeds)
}

// PrepareWith makes one more node with a name and the addresses that it is told to join.
func (c *Cluster) PrepareWith(t testing.TB, name string, join []string, args ...string) *Node {
	t.Helper()
	number := len(c.Nodes) + 1
	dir := filepath.Join(c.dir, fmt.Sprint("n", number))
	if err := makeDir(dir); err != nil {
		t.Fatal(err)
	}
	opts, disk := Options{Env: c.opts.Env}, (*Disk)(nil)
	if c.opts.DiskBytes > 0 {
		disk = NewDisk(t, c.opts.DiskBytes)
		opts.Dir = filepath.Join(disk.Dir, "data")
	}
	b, err := Prepare(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if disk != nil {
		t.Cleanup(b.Close) // before its disk goes
	}
	n := &Node{Broker: b, Name: name, Advertised: b.Cluster, Disk: disk}
	if c.Net != nil {
		if n.Advertised, err = c.Net.add(name, b.Cluster); err != nil {
			t.Fatal(err)
		}
	}
	n.opts.Args = append(append(ClusterArgs(name, n.Advertised, join), c.opts.Args...), args...)
	c.Nodes = append(c.Nodes, n)
	return n
}

// ClusterArgs are the arguments that make a broker a node; the last of two of one name counts.
func ClusterArgs(name, advertised string, join []string) []string {
	args := []string{"--name", name, "--cluster-advertise", advertised, "--cluster-secret", ClusterSecret}
	if len(join) > 0 {
		args = append(args, "--join", strings.Join(join, ","))
	}
	return args
}

// Rename gives a node that is not running other arguments at its next start.
func (c *Cluster) Rename(n *Node, name string, join []string, args ...string) {
	n.opts.Args = append(append(ClusterArgs(name, n.Advertised, join), c.opts.Args...), args...)
}

// Move gives a node that is not running other ports, and with them another advertised address.
func (c *Cluster) Move(t testing.TB, n *Node) {
	t.Helper()
	for _, address := range []*string{&n.AMQP, &n.HTTP, &n.Metrics, &n.Broker.Cluster} {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	n.Advertised = n.Broker.Cluster
	c.Rename(n, n.Name, nil)
}

// Launch starts nodes at the same time and waits until each of them serves clients.
func (c *Cluster) Launch(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		n.Start(t)
	}
	for _, n := range nodes {
		n.Await(t)
	}
}

// Start starts the node's process and returns at once.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	n.Started = time.Now()
	if err := n.Exec(); err != nil {
		t.Fatal(err)
	}
}

// Await waits until the node serves clients.
func (n *Node) Await(t testing.TB) {
	t.Helper()
	if err := n.AwaitAMQP(startTimeout); err != nil {
		t.Fatalf("%s: %v", n.Name, err)
	}
}

// AwaitPort waits until the node listens on its cluster port.
func (n *Node) AwaitPort(t testing.TB) {
	t.Helper()
	Eventually(t, startTimeout, func() error {
		conn, err := net.Dial("tcp", n.Cluster)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// Alive returns the nodes whose process runs.
func (c *Cluster) Alive() []*Node {
	var alive []*Node
	for _, n := range c.Nodes {
		if p := n.Process(); p != nil && p.Running() {
			alive = append(alive, n)
		}
	}
	return alive
}

// Node returns the node with a name, nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// AwaitWhole waits until every running node sees every running node.
func (c *Cluster) AwaitWhole(t testing.TB) {
	t.Helper()
	alive := c.Alive()
	Eventually(t, startTimeout, func() error {
		for _, n := range alive {
			var list []struct {
				Name    string `json:"name"`
				Running bool   `json:"running"`
			}
			if err := n.TryGet(Path("nodes"), &list); err != nil {
				return fmt.Errorf("%s: %w", n.Name, err)
			}
			running := map[string]bool{}
			for _, seen := range list {
				running[seen.Name] = seen.Running
			}
			for _, other := range alive {
				if !running[other.Name] {
					return fmt.Errorf("%s does not see %s, but %v", n.Name, other.Name, slices.Sorted(maps.Keys(running)))
				}
			}
		}
		return nil
	})
}

// TryGet is Get with an error.
func (b *Broker) TryGet(path string, v any) error {
	a, err := b.TryAPI(http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, a.Status, a.Body)
	}
	return unmarshal(a.Body, v)
}

// QueueState is what the management API tells of a durable queue.
type QueueState struct {
	Leader  string   `json:"leader"`
	Members []string `json:"members"`
	Online  []string `json:"online"`
	Ready   int      `json:"messages_ready"`
	Unacked int      `json:"messages_unacknowledged"`
	Users   int      `json:"consumers"`
	Raft    struct {
		State   string `json:"state"`
		Term    uint64 `json:"term"`
		Applied uint64 `json:"applied_index"`
	} `json:"raft"`
}

// Queue asks this node for a queue of the virtual host "/".
func (b *Broker) Queue(name string) (QueueState, error) {
	var st QueueState
	err := b.TryGet(Path("queues", "/", name), &st)
	return st, err
}

// Leader waits until the running nodes agree which of them leads a queue.
func (c *Cluster) Leader(t testing.TB, queue string) *Node {
	t.Helper()
	var leader *Node
	Eventually(t, startTimeout, func() error {
		var err error
		leader, err = c.TryLeader(queue)
		return err
	})
	return leader
}

// TryLeader returns the node that leads a queue as far as its running nodes agree.
func (c *Cluster) TryLeader(queue string) (*Node, error) {
	var leader *Node
	for _, n := range c.Alive() {
		st, err := n.Queue(queue)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		named := c.Node(st.Leader)
		if st.Raft.State != "running" || named == nil || !named.Running() {
			return nil, fmt.Errorf("%s says that %s, which is %s, is led by %q", n.Name, queue, st.Raft.State, st.Leader)
		}
		if leader != nil && leader != named {
			return nil, fmt.Errorf("%s is led by %s or %s", queue, leader.Name, named.Name)
		}
		leader = named
	}
	if leader == nil {
		return nil, fmt.Errorf("no node runs")
	}
	return leader, nil
}

func (c *Cluster) cleanup(t testing.TB) {
	for _, n := range c.Nodes {
		if n.Process() != nil {
			n.Close()
		}
	}
	if !t.Failed() {
		return
	}
	for _, n := range c.Nodes {
		t.Logf("log of %s (%s):\n%s", n.Name, n.Advertised, n.LogTail())
	}
}
