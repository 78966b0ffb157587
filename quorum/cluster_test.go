package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// member is one node of a cluster in this process, over loopback TCP and real files.
type member struct {
	t    *testing.T
	path string
	name string
	addr string
	join []string
	// filter is as in Cluster.
	filter func(from, to uint64, batch pb.MessageBatch) []pb.MessageBatch

	h   *Host
	dir *datadir.Dir
}

func testLog() *slog.Logger {
	if os.Getenv("WARREN_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func (m *member) start() {
	m.t.Helper()
	l, err := net.Listen("tcp", m.addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.addr = l.Addr().String()
	if m.dir, err = datadir.Open(storage.OS, m.path); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	m.h, err = Open(ctx, Config{
		Dir: m.dir, Name: m.name, Address: m.addr, Log: testLog().With("at", m.name), Founding: []meta.Command{{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}}},
		Cluster: Cluster{Listener: l, Secret: []byte("secret"), Join: m.join, Filter: m.filter},
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) stop() {
	if m.h != nil {
		m.h.Close()
		_ = m.dir.Close()
		m.h = nil
	}
}

// newCluster starts n nodes, one after the other.
func newCluster(t *testing.T, n int) []*member {
	t.Helper()
	var list []*member
	for i := range n {
		m := &member{t: t, path: t.TempDir(), name: fmt.Sprintf("rabbit@n%d", i+1), addr: "127.0.0.1:0"}
		if i > 0 {
			m.join = []string{list[0].addr}
		}
		m.start()
		t.Cleanup(m.stop)
		list = append(list, m)
	}
	return list
}

func declareOn(t *testing.T, h *Host, name string, replicas ...meta.NodeID) meta.QueueID {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := h.Do(ctx, meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: name, Durable: true, Replicas: replicas}})
	if err != nil || r[0].Reason != meta.ReasonOK {
		t.Fatalf("declare: %v %v", r, err)
	}
	return meta.QueueID(r[0].ID)
}

// TestThreeNodes: a queue with three replicas is published to and consumed from every node; the death of its leader loses nothing and asks nothing of clients of the others.
func TestThreeNodes(t *testing.T) {
	nodes := newCluster(t, 3)
	q := declareOn(t, nodes[1].h, "q", 1, 2, 3)
	type user struct {
		c *recorder
		s *Session
	}
	var users []user
	for _, n := range nodes {
		until(t, "the queue is known", func() bool { return n.h.Catalogue().View.QueueByID(q) != nil })
		c := newRecorder()
		users = append(users, user{c, n.h.OpenSession(c)})
	}
	began := time.Now()
	publish(t, users[0].s, users[0].c, q, 1, 1)
	t.Logf("first publish confirmed after %v", time.Since(began))
	for i, u := range users {
		publish(t, u.s, u.c, q, 100*(i+1), 50)
	}
	leader := 0
	st, _ := nodes[0].h.QueueStatus(q)
	leader = int(st.Leader) - 1
	t.Logf("node %d leads", leader+1)
	other := (leader + 1) % 3
	if err := users[other].s.Submit(q, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, WindowBytes: 1 << 20, WindowCount: 1000}, 9000); err != nil {
		t.Fatal(err)
	}
	users[other].s.Flush()
	users[other].c.await(t, "all messages", func() bool { return len(users[other].c.deliveries) == 151 })
	nodes[leader].stop()
	began = time.Now()
	publish(t, users[other].s, users[other].c, q, 5000, 10)
	t.Logf("confirmed %v after the leader's death", time.Since(began))
	users[other].c.await(t, "the new messages", func() bool { return len(users[other].c.deliveries) == 161 })
	third := 3 - leader - other
	publish(t, users[third].s, users[third].c, q, 6000, 10)
	users[other].c.await(t, "messages of the third node", func() bool { return len(users[other].c.deliveries) == 171 })
	nodes[leader].start()
	c := newRecorder()
	s := nodes[leader].h.OpenSession(c)
	publish(t, s, c, q, 7000, 10)
	users[other].c.await(t, "messages of the node that came back", func() bool { return len(users[other].c.deliveries) == 181 })
	for i, d := range users[other].c.deliveries {
		if d.D != uint64(i+1) || d.Redelivered {
			t.Fatalf("delivery %d: d=%d redelivered=%t %q", i, d.D, d.Redelivered, d.Envelope)
		}
	}
}

// TestGrowAndShrink: a queue grows by itself when nodes join, and replicas are added and removed under load without losing or doubling anything.
func TestGrowAndShrink(t *testing.T) {
	nodes := newCluster(t, 1)
	q := declareOn(t, nodes[0].h, "q", 1)
	c := newRecorder()
	s := nodes[0].h.OpenSession(c)
	publish(t, s, c, q, 1, 100)
	unused := declareOn(t, nodes[0].h, "unused", 1)
	for i := 2; i <= 4; i++ {
		m := &member{t: t, path: t.TempDir(), name: fmt.Sprintf("rabbit@n%d", i), addr: "127.0.0.1:0", join: []string{nodes[0].addr}}
		m.start()
		t.Cleanup(m.stop)
		nodes = append(nodes, m)
	}
	until(t, "the queue has three replicas", func() bool { return len(nodes[0].h.Catalogue().View.QueueByID(q).Members) == 3 })
	until(t, "a queue that nobody has used has three replicas", func() bool { return len(nodes[0].h.Catalogue().View.QueueByID(unused).Members) == 3 })
	members := memberNodes(nodes[0].h.Catalogue().View.QueueByID(q))
	t.Logf("members %v", members)
	outside := meta.NodeID(0)
	for _, n := range nodes {
		if _, ok := n.h.Catalogue().View.QueueByID(q).MemberOn(n.h.node); !ok {
			outside = n.h.node
		}
	}
	oc := newRecorder()
	o := nodes[outside-1].h
	os := o.OpenSession(oc)
	publish(t, os, oc, q, 1000, 100)
	do(t, os, oc, q, 5000, queue.Command{Op: queue.OpSubscribe, Consumer: 1, WindowBytes: 1 << 20, WindowCount: 4000})
	oc.await(t, "deliveries to a node without a replica", func() bool { return len(oc.deliveries) == 200 })
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := o.AddReplica(ctx, q, outside); err != nil {
		t.Fatalf("add: %v", err)
	}
	publish(t, os, oc, q, 2000, 100)
	oc.await(t, "deliveries after the replica came", func() bool { return len(oc.deliveries) == 300 })
	until(t, "the node serves itself", func() bool {
		v, ok := o.slots.Load(q)
		if !ok {
			return false
		}
		g, ok := v.(*slot).runner().(*group)
		return ok && g.serves()
	})
	if err := o.RemoveReplica(ctx, q, outside); err != nil {
		t.Fatalf("remove: %v", err)
	}
	publish(t, os, oc, q, 3000, 100)
	oc.await(t, "deliveries after the replica went", func() bool { return len(oc.deliveries) == 400 })
	for i, d := range oc.deliveries {
		if d.D != uint64(i+1) || d.Redelivered {
			t.Fatalf("delivery %d: d=%d redelivered=%t %q", i, d.D, d.Redelivered, d.Envelope)
		}
	}
	list, err := o.Replicas(ctx, q)
	if err != nil || len(list) != 3 {
		t.Fatalf("replicas: %+v %v", list, err)
	}
}

// TestMoveLeader: the leader of a queue is moved to each member in turn, asked on any node, while messages go through; a node without a replica cannot lead.
func TestMoveLeader(t *testing.T) {
	nodes := newCluster(t, 4)
	q := declareOn(t, nodes[0].h, "q", 1, 2, 3)
	until(t, "the queue is known", func() bool { return nodes[3].h.Catalogue().View.QueueByID(q) != nil })
	c := newRecorder()
	s := nodes[3].h.OpenSession(c)
	publish(t, s, c, q, 1, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for i, to := range []meta.NodeID{1, 2, 3, 1} {
		if err := nodes[i].h.MoveLeader(ctx, q, to); err != nil {
			t.Fatalf("to node %d: %v", to, err)
		}
		until(t, "the node leads", func() bool {
			st, ok := nodes[to-1].h.QueueStatus(q)
			return ok && st.Leader == to
		})
		publish(t, s, c, q, 100*(i+1), 10)
	}
	if err := nodes[0].h.MoveLeader(ctx, q, 4); !errors.Is(err, ErrNoMember) {
		t.Errorf("to a node without a replica: %v", err)
	}
	nodes[2].stop()
	until(t, "the death is noticed", func() bool { return !nodes[0].h.up(3) })
	if err := nodes[1].h.MoveLeader(ctx, q, 3); !errors.Is(err, ErrNoNode) {
		t.Errorf("to a dead node: %v", err)
	}
}

// TestTwoMovedApart: two nodes whose addresses changed, each while the other was away, find each other through the third one, whoever leads the catalogue.
func TestTwoMovedApart(t *testing.T) {
	nodes := newCluster(t, 3)
	last, stayed, first := nodes[0], nodes[1], nodes[2]
	// An election that the last one forces may, by chance, bring a leader that knows it.
	last.filter = func(_, _ uint64, batch pb.MessageBatch) []pb.MessageBatch {
		batch.Requests = slices.DeleteFunc(slices.Clone(batch.Requests), func(m pb.Message) bool { return m.Type == pb.RequestVote || m.Type == pb.RequestPreVote })
		return []pb.MessageBatch{batch}
	}
	for _, leader := range []*member{first, stayed} {
		for _, n := range nodes {
			n.stop()
		}
		first.addr, last.addr = "127.0.0.1:0", "127.0.0.1:0"
		started := make(chan struct{})
		go func() {
			defer close(started)
			stayed.start()
		}()
		first.start()
		<-started
		until(t, "the catalogue has the leader that it is to have", func() bool {
			if !leader.h.cat.leadsHere() {
				leader.h.kickNow(catalogueShard, uint64(leader.h.node))
			}
			return leader.h.cat.leadsHere()
		})
		last.start()
	}
}
