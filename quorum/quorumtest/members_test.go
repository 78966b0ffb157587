package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// TestRemovedLeaderStrandsItsNode: the leader's own replica is removed while its node publishes and consumes. The others have a leader at once, and the node goes on without a replica.
func TestRemovedLeaderStrandsItsNode(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(4), "q", 1, 2, 3, 4)
		c.NewPublisher(c.Node(4), q).Confirm(3*time.Second, 1)
		leader := c.AwaitLeader(q)
		k := c.NewConsumer(leader, q, ConsumerPlan{Hold: 10, Window: 30})
		p, other := c.NewPublisher(leader, q), c.NewPublisher(c.Others(leader)[0], q)
		p.Confirm(time.Second, 20)
		removed := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			removed <- leader.Host().RemoveReplica(ctx, q, leader.ID)
		}()
		for range 100 {
			p.Send(2, 20)
			other.Send(2, 20)
			c.Pass(2 * time.Millisecond)
		}
		if err := <-removed; err != nil {
			c.T.Fatal(err)
		}
		if took := other.Confirm(time.Second, 1); took > 500*time.Millisecond {
			c.T.Errorf("the next confirm after %v", took)
		}
		p.Confirm(time.Second, 5)
		if _, member := leader.Host().Catalogue().View.QueueByID(q).MemberOn(leader.ID); member {
			c.T.Error("its replica was not removed")
		}
		k.Release()
		c.drained(q, leader)
	})
}

// TestChangeOfMembersIsForgotten: the leader dies between the change of its group and the note of it in the catalogue. A later leader makes up for it.
func TestChangeOfMembersIsForgotten(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		leader := c.catalogueLeader()
		far, others := c.Others(leader)[0], c.Others(leader)
		var q meta.QueueID
		for i := 0; ; i++ { // until one is led by the catalogue's leader, whose last words are lost
			q = c.Declare(leader, fmt.Sprint("q", i), leader.ID, others[1].ID, others[2].ID, others[3].ID)
			c.NewPublisher(far, q).Confirm(3*time.Second, 1)
			if c.AwaitLeader(q) == leader {
				break
			}
		}
		var changed atomic.Bool
		c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool {
			for i := range m.Entries {
				changed.CompareAndSwap(false, m.ShardID == uint64(q) && m.Type == pb.Replicate && m.Entries[i].Type == pb.ConfigChangeEntry)
			}
			return changed.Load() && carriesEntries(m, catalogueShard)
		}})
		gone := others[1]
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = leader.Host().RemoveReplica(ctx, q, gone.ID)
		}()
		c.Pass(300 * time.Millisecond)
		if _, member := far.Host().Catalogue().View.QueueByID(q).MemberOn(gone.ID); !changed.Load() || !member {
			c.T.Error("it was not the note that was lost")
		}
		leader.Kill()
		c.SetRaftFaults(RaftFaults{})
		c.Until(8*time.Second, "the catalogue has the members that the group has", func() bool {
			_, member := far.Host().Catalogue().View.QueueByID(q).MemberOn(gone.ID)
			return !member
		})
		c.NewPublisher(gone, q).Confirm(3*time.Second, 5)
		leader.Start()
		c.drained(q, gone)
	})
}

// TestLeaderlessQueueAnswersLate: whoever wants something of a queue that has lost its majority is told so within seconds, on a node with a replica and on one without, and not that the node is closing.
func TestLeaderlessQueueAnswersLate(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3)
		c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 1)
		c.Node(2).Kill()
		c.Node(3).Kill()
		c.Pass(8 * time.Second) // the leader has stepped down, and the dead are declared dead
		for _, at := range []*Node{c.Node(1), c.Node(4)} {
			h := at.Host()
			for what, ask := range map[string]func(context.Context) error{
				"add":    func(ctx context.Context) error { return h.AddReplica(ctx, q, 5) },
				"remove": func(ctx context.Context) error { return h.RemoveReplica(ctx, q, 2) },
				"move":   func(ctx context.Context) error { return h.MoveLeader(ctx, q, 1) },
				"delete": func(ctx context.Context) error { _, err := h.DeleteQueue(ctx, q, queue.IfEmpty); return err },
			} {
				began := time.Now()
				err := ask(context.Background())
				took := time.Since(began)
				if limit := 11 * time.Second; !errors.Is(err, quorum.ErrNoLeader) || took > limit || what != "delete" && took > 4*time.Second {
					c.T.Errorf("%s at %s: %v after %v", what, at.Name, err, took)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
				began = time.Now()
				if err := ask(ctx); !errors.Is(err, quorum.ErrNoLeader) || time.Since(began) > 600*time.Millisecond {
					c.T.Errorf("%s at %s within half a second: %v after %v", what, at.Name, err, time.Since(began))
				}
				cancel()
			}
		}
		c.Node(2).Start()
		c.Node(3).Start()
		c.NewPublisher(c.Node(4), q).Confirm(5*time.Second, 1)
		c.drained(q, c.Node(4))
	})
}

// TestWipedNodeIsTakenForTheOld: a node that lost its disk joins again under its name. It is another one: it holds no vote and no replica of the old, and gets its replicas anew. Nobody looks for the old.
func TestWipedNodeIsTakenForTheOld(t *testing.T) {
	for i := range 6 {
		nodes := 3 + i/3
		i %= 3
		t.Run(fmt.Sprint("n", i+1, " of ", nodes), func(t *testing.T) {
			Run(t, Options{Nodes: nodes, Latency: time.Millisecond}, func(c *Cluster) {
				wiped, rest := c.Nodes[i], c.Others(c.Nodes[i])
				at := rest[len(rest)-1]
				q := c.Declare(at, "q", 1, 2, 3)
				p := c.NewPublisher(at, q)
				p.Confirm(3*time.Second, 100)
				c.NewPublisher(at, c.Declare(at, "without a majority", wiped.ID, at.ID)).Confirm(3*time.Second, 1)
				old := wiped.ID
				wiped.Kill()
				c.Until(deathMillis*time.Millisecond, "it is declared dead", func() bool { return !at.Host().Catalogue().View.Node(old).Alive() })
				wiped.Replace(nil)
				wiped.Start()
				if wiped.ID == old {
					c.T.Fatal("it has the old one's id")
				}
				c.Until(20*time.Second, "three replicas are equal, none of the old node", func() bool {
					v := at.Host().Catalogue().View.QueueByID(q)
					_, member := v.MemberOn(old)
					return !member && len(v.Members) == 3 && c.equalReplicas(q)
				})
				c.Pass(2 * time.Second)
				before := 0
				for _, n := range c.Nodes {
					before += c.Net.Dials(n.Name)
				}
				c.Pass(20 * time.Second)
				dials := -before
				for _, n := range c.Nodes {
					dials += c.Net.Dials(n.Name)
				}
				if dials > 0 {
					c.T.Errorf("%d connections were opened in a cluster at rest", dials)
				}
				rest[0].Kill()
				p.Confirm(5*time.Second, 10)
				rest[0].Start()
				c.drained(q, wiped)
			})
		})
	}
}

// TestRemovedReplicaComesBack: a replica is removed while its node is down. The node comes back with its data, and must not take part; added again, it is a new replica.
func TestRemovedReplicaComesBack(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 4 << 10}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3, 4)
		p := c.NewPublisher(c.Node(1), q)
		p.Confirm(3*time.Second, 50)
		leader := c.AwaitLeader(q)
		away := c.Others(leader, c.Node(1))[0]
		was, _ := leader.Host().Catalogue().View.QueueByID(q).MemberOn(away.ID)
		away.Kill()
		p.Confirm(3*time.Second, 50)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := leader.Host().RemoveReplica(ctx, q, away.ID); err != nil {
			c.T.Fatal(err)
		}
		away.Start()
		c.Pass(3 * time.Second)
		p.Confirm(time.Second, 10)
		far := c.NewPublisher(away, q)
		far.Confirm(2*time.Second, 10)
		if _, member := away.Host().Catalogue().View.QueueByID(q).MemberOn(away.ID); member {
			c.T.Error("it is a member again")
		}
		if st, err := away.Host().Replicas(ctx, q); err != nil || len(st) != 3 {
			c.T.Errorf("replicas: %+v, %v", st, err)
		}
		if err := leader.Host().AddReplica(ctx, q, away.ID); err != nil {
			c.T.Fatal(err)
		}
		c.Until(10*time.Second, "four replicas are equal", func() bool {
			m, member := away.Host().Catalogue().View.QueueByID(q).MemberOn(away.ID)
			if member && m.Replica == was.Replica {
				c.T.Fatal("its replica has the old id")
			}
			return member && c.equalReplicas(q)
		})
		far.Confirm(2*time.Second, 10)
		c.drained(q, away)
	})
}

// TestOldDiskIsTaken: a node is started on a copy of its disk that is older than what the cluster knows of it. It has forgotten votes and entries, so it must stop and not serve.
func TestOldDiskIsTaken(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		p := c.NewPublisher(c.Node(1), q)
		p.Confirm(3*time.Second, 50)
		n := c.Node(3)
		n.Stop()
		copied := n.Disk()
		n.Start()
		p.Confirm(3*time.Second, 50)
		n.Kill()
		present := n.Disk()
		n.Replace(copied)
		c.libraryMayFail.Store(true)
		n.Begin()
		c.Until(5*time.Second, "it stops", func() bool { return c.libraryFailed.Load() != nil })
		c.T.Logf("it stopped: %s", *c.libraryFailed.Load())
		if n.Host() != nil {
			c.T.Error("it serves")
		}
		n.Kill()
		n.Replace(present)
		n.Start()
		p.Confirm(3*time.Second, 1)
		c.drained(q, n)
	})
}

// TestGrowthUndoesAnOperatorsChange: the queue is kept at the number of replicas that an operator left it with, no matter what its arguments say.
func TestGrowthUndoesAnOperatorsChange(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		at := c.Node(5)
		q := c.Declare(at, "q", 1, 2, 3)
		c.NewPublisher(at, q).Confirm(3*time.Second, 10)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		members := func() int { return len(at.Host().Catalogue().View.QueueByID(q).Members) }
		stays := func(n int) {
			c.T.Helper()
			c.Pass(10 * time.Second)
			if members() != n {
				c.T.Errorf("%d replicas became %d", n, members())
			}
		}
		if err := at.Host().RemoveReplica(ctx, q, 4); !errors.Is(err, quorum.ErrNoMember) {
			c.T.Errorf("a removal of what is not there: %v", err)
		}
		for _, n := range []meta.NodeID{c.AwaitLeader(q).ID, 0} {
			if n == 0 {
				n = at.Host().Catalogue().View.QueueByID(q).Members[0].Node
			}
			before := members()
			if err := at.Host().RemoveReplica(ctx, q, n); err != nil {
				c.T.Fatal(err)
			}
			stays(before - 1)
		}
		for n := range c.Nodes[:4] {
			err := at.Host().AddReplica(ctx, q, meta.NodeID(n+1))
			if err != nil && !errors.Is(err, quorum.ErrMember) {
				c.T.Fatal(err)
			}
		}
		stays(4)
		c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
		wiped := c.Others(at, c.AwaitLeader(q))[0]
		id := wiped.ID
		wiped.Kill()
		c.Until(deathMillis*time.Millisecond, "it is declared dead", func() bool { return !at.Host().Catalogue().View.Node(id).Alive() })
		wiped.Replace(nil)
		wiped.Start()
		c.Until(20*time.Second, "four replicas are equal again", func() bool {
			_, old := at.Host().Catalogue().View.QueueByID(q).MemberOn(id)
			return !old && members() == 4 && c.equalReplicas(q)
		})
		c.drained(q, at)
	})
}
