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

// PROTOCOL 5. Each test is named after what goes wrong without the rule.

// deaf has a node get no entries of the catalogue; everything else of it works, and it hears its leader.
func deaf(node *Node) RaftFaults {
	return RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool { return to == node.ID && carriesEntries(m, catalogueShard) }}
}

// unheard tells whether a node trusts a view that lacks a queue which somebody was told of.
func unheard(n *Node, q meta.QueueID) bool {
	leased := n.Host().Leased() // before the view is looked at, as a publisher does
	return n.Host().Catalogue().View.QueueByID(q) == nil && leased
}

// catalogueLeader is the node that leads the catalogue: the only one that answers a write while all others hear nothing of it. It is found by the term of its group's messages.
func (c *Cluster) catalogueLeader() *Node {
	c.T.Helper()
	var leader atomic.Uint64
	c.SetRaftFaults(RaftFaults{Lose: func(from, _ meta.NodeID, m *pb.Message) bool {
		if m.ShardID == catalogueShard && (m.Type == pb.Heartbeat || m.Type == pb.Replicate) {
			leader.Store(uint64(from))
		}
		return false
	}})
	c.Until(10*time.Second, "a leader of the catalogue is heard", func() bool {
		c.Pass(300 * time.Millisecond)
		return leader.Load() != 0
	})
	c.SetRaftFaults(RaftFaults{})
	return c.Node(meta.NodeID(leader.Load()))
}

// TestDeclaredQueueIsUnknownElsewhere: a publisher on another node must not route past a queue that somebody was told of. A node that is deaf for the catalogue holds a declare up as long as it
// trusts its view; when it gets its view's trust back it has the queue.
func TestDeclaredQueueIsUnknownElsewhere(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		leader := c.catalogueLeader()
		far := c.Others(leader)[0]
		for i := range 5 {
			at := c.Others(far)[i%2]
			q := c.Declare(at, fmt.Sprint("heard by all ", i), at.ID)
			if unheard(far, q) {
				c.T.Errorf("%s trusts a view without queue %d", far.Name, q)
			}
			c.NewPublisher(far, q).Confirm(2*time.Second, 1)
		}
		c.SetRaftFaults(deaf(far))
		began := time.Now()
		q := c.Declare(leader, "not heard", leader.ID)
		c.T.Logf("declared after %v", time.Since(began))
		if took := time.Since(began); took > 5*time.Second {
			c.T.Errorf("the declare took %v", took)
		}
		for range 100 { // it asks for its lease again and again
			if unheard(far, q) {
				c.T.Fatalf("%v after the declare was answered %s trusts a view without the queue", time.Since(began), far.Name)
			}
			c.Pass(50 * time.Millisecond)
		}
		c.SetRaftFaults(RaftFaults{})
		c.Until(5*time.Second, "it knows and trusts again", func() bool {
			return far.Host().Leased() && far.Host().Catalogue().View.QueueByID(q) != nil
		})
	})
}

// TestNewCatalogueLeaderForgetsLeases: a lease that the former leader granted counts for the new one, too.
func TestNewCatalogueLeaderForgetsLeases(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		for range 3 {
			leader := c.catalogueLeader()
			others := c.Others(leader)
			far, at := others[0], others[1]
			c.Until(2*time.Second, "it has a lease", func() bool { return far.Host().Leased() })
			c.SetRaftFaults(deaf(far))
			leader.Kill()
			began := time.Now()
			q := c.Declare(at, fmt.Sprintf("declared in the term after %v", c.Elapsed()), at.ID)
			c.T.Logf("declared %v after the leader's death", time.Since(began))
			for range 60 {
				if unheard(far, q) {
					c.T.Fatalf("%v after the leader's death %s trusts a view without the queue", time.Since(began), far.Name)
				}
				c.Pass(50 * time.Millisecond)
			}
			c.SetRaftFaults(RaftFaults{})
			leader.Start()
			c.Until(5*time.Second, "all trust their views", func() bool {
				for _, n := range c.Nodes {
					if !n.Host().Leased() || n.Host().Catalogue().View.QueueByID(q) == nil {
						return false
					}
				}
				return true
			})
		}
	})
}

// TestMinorityHangs: a node that hears no majority declares with an error within its time-out, and does not trust its view after its lease.
func TestMinorityHangs(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		for _, n := range []*Node{c.catalogueLeader(), c.Others(c.catalogueLeader())[0]} {
			c.Pause(n)
			began := time.Now()
			_, err := n.Host().Do(context.Background(), meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "q", Durable: true, Replicas: []meta.NodeID{n.ID}}})
			if !errors.Is(err, quorum.ErrNoCatalogue) || time.Since(began) > 11*time.Second {
				c.T.Errorf("a declare of a minority: %v after %v", err, time.Since(began))
			}
			if n.Host().Leased() {
				c.T.Error("a minority trusts its view")
			}
			c.Heal()
			c.Until(5*time.Second, "it trusts its view again", func() bool { return n.Host().Leased() })
			c.Declare(n, fmt.Sprint("q of ", n.Name), n.ID)
		}
	})
}

// TestPublishIsConfirmedIntoDeletedQueue: a queue is deleted if it is empty while all nodes publish to it: either the delete is refused or nothing was confirmed.
func TestPublishIsConfirmedIntoDeletedQueue(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		deleted := 0
		for i := range 40 {
			q := c.Declare(c.Node(1), fmt.Sprint("q", i))
			c.AwaitRunning(q)
			var open []*Publisher
			for _, n := range c.Nodes {
				open = append(open, c.NewPublisher(n, q))
			}
			result := make(chan quorum.DeleteResult, 1)
			go func() {
				var res quorum.DeleteResult
				err := errors.New("not tried")
				for err != nil { // while the queue's leader is new
					res, err = c.Nodes[i%3].Host().DeleteQueue(context.Background(), q, queue.IfEmpty)
				}
				result <- res
			}()
			c.Pass(time.Duration(i) * 200 * time.Microsecond)
			for _, p := range open {
				p.Send(2, 0)
			}
			c.Until(5*time.Second, "every publish is answered", func() bool { return open[0].Open()+open[1].Open()+open[2].Open() == 0 })
			res := <-result
			confirmed := open[0].Confirmed() + open[1].Confirmed() + open[2].Confirmed()
			switch {
			case res.Code == queue.CodeOK && confirmed > 0:
				c.T.Errorf("%d messages were confirmed into queue %d, which was deleted as empty", confirmed, q)
			case res.Code == queue.CodeOK:
				deleted++
			case confirmed == 0:
				c.T.Errorf("queue %d is not empty, but nothing was confirmed", q)
			}
		}
		c.T.Logf("%d of 40 were deleted", deleted)
		if deleted == 0 || deleted == 40 {
			c.T.Error("the race was not run")
		}
	})
}

// sealedApart declares a queue on three of five nodes and has a fourth delete it, which cannot reach the catalogue after it has sealed the queue: failed tells when it gives up.
func (c *Cluster) sealedApart(cond queue.Condition) (q meta.QueueID, at, catalogue, leader *Node, failed chan error) {
	c.T.Helper()
	catalogue = c.catalogueLeader()
	at = c.Others(catalogue)[0]
	members := c.Others(at, catalogue)
	q = c.Declare(at, "q", members[0].ID, members[1].ID, members[2].ID)
	c.AwaitRunning(q)
	leader = c.AwaitLeader(q)
	c.cutBoth(at, catalogue, 1)
	failed = make(chan error, 1)
	go func() {
		_, err := at.Host().DeleteQueue(context.Background(), q, cond)
		failed <- err
	}()
	c.Pass(200 * time.Millisecond)
	return q, at, catalogue, leader, failed
}

// TestSealLastsForEver: who sealed a queue for its delete cannot reach the catalogue, and the queue's leader dies; the next one takes the seal back and what waited is confirmed.
func TestSealLastsForEver(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		q, at, catalogue, leader, failed := c.sealedApart(queue.IfEmpty | queue.IfUnused)
		p := c.NewPublisher(catalogue, q) // neither has a replica
		p.Send(10, 0)
		c.Pass(300 * time.Millisecond)
		if p.Confirmed() > 0 {
			c.T.Fatal("the queue is not sealed")
		}
		leader.Kill()
		took := c.Until(8*time.Second, "what waited is confirmed", func() bool { return p.Confirmed() == 10 })
		c.T.Logf("confirmed %v after the leader's death", took)
		if took < time.Second {
			c.T.Error("the seal ended before the catalogue was asked")
		}
		if err := <-failed; err == nil {
			c.T.Error("the delete took effect")
		}
		leader.Start()
		c.Heal()
		c.Pass(2 * time.Second) // the delete that was given up must not come late
		c.drained(q, at)
	})
}

// TestDeadReplicasMeanGone: a queue whose replicas are all away is not gone; who publishes to it waits.
func TestDeadReplicasMeanGone(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(5), "q", 4)
		p := c.NewPublisher(c.Node(5), q)
		p.Confirm(2*time.Second, 5)
		c.Node(4).Kill()
		p.Send(10, 0)
		c.Pass(8 * time.Second) // until its node is declared dead
		if open := p.Open(); open != 10 {
			c.T.Fatalf("%d of 10 publishes wait", open)
		}
		c.Node(4).Start()
		c.Until(5*time.Second, "they are confirmed", func() bool { return p.Confirmed() == 15 })
		c.drained(q, c.Node(5))
	})
}

// TestTwoViewsBootstrapTwoGroups: the members of a queue change, then all nodes lose power and start in any order: there is still one group.
func TestTwoViewsBootstrapTwoGroups(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 4 << 10}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		c.NewPublisher(far, q).Confirm(2*time.Second, 100)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := leader.Host().AddReplica(ctx, q, far.ID); err != nil {
			c.T.Fatal(err)
		}
		c.NewPublisher(far, q).Confirm(2*time.Second, 100)
		for round := range 3 {
			for _, n := range c.Nodes {
				n.Kill()
			}
			for i := range c.Nodes {
				c.Nodes[(i+round+1)%4].Begin()
				c.Pass(300 * time.Millisecond)
			}
			for _, n := range c.Nodes {
				n.await(10 * time.Second)
			}
			for _, n := range c.Nodes {
				c.NewPublisher(n, q).Confirm(6*time.Second, 10)
			}
			c.Until(5*time.Second, "the four replicas are equal", func() bool { return c.equalReplicas(q) })
		}
		if n := c.Counts(q).Enqueued; n != 1+200+3*40 {
			c.T.Errorf("%d messages stand in the queue", n)
		}
		c.drained(q, far)
	})
}

// TestDeleteFailsWhileLeaderChanges: a conditional delete waits for the queue's next leader, as a publish does.
func TestDeleteFailsWhileLeaderChanges(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		for i, at := range []*Node{c.Node(4), c.Node(1), c.Node(2), c.Node(3)} {
			q := c.Declare(at, fmt.Sprint("q", i), 1, 2, 3)
			c.NewPublisher(at, q).Confirm(3*time.Second, 1)
			leader := c.AwaitLeader(q)
			from := c.Node(4)
			if at != leader {
				from = at
			}
			leader.Kill()
			began := time.Now()
			res, err := from.Host().DeleteQueue(context.Background(), q, queue.IfEmpty)
			if err != nil || res.Code != queue.CodeNotEmpty || time.Since(began) > 4*time.Second {
				c.T.Errorf("a delete after the leader's death, from %s: %+v, %v after %v", from.Name, res, err, time.Since(began))
			}
			leader.Start()
			c.drained(q, from)
		}
	})
}

// TestDeposedCatalogueLeaderHangs: who leads the catalogue is cut off, deposed and healed; what it proposed in its last moments is not waited for until the time-out, but written again at the new leader.
func TestDeposedCatalogueLeaderHangs(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		former := c.catalogueLeader()
		c.Pause(former)
		done := make(chan error, 1)
		go func() {
			r, err := former.Host().Do(context.Background(), meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "q", Durable: true, Replicas: []meta.NodeID{former.ID}}})
			if err == nil && r[0].Reason != meta.ReasonOK {
				err = fmt.Errorf("refused: %v", r[0].Reason)
			}
			done <- err
		}()
		c.Pass(3 * time.Second)
		c.Heal()
		var err error
		took := c.Until(9*time.Second, "the declare is answered", func() bool {
			select {
			case err = <-done:
				return true
			default:
				return false
			}
		})
		if err != nil || took > 5*time.Second {
			c.T.Errorf("the declare: %v, %v after the heal", err, took)
		}
	})
}

// TestDeposedCatalogueLeaderAnswersUnheard: a leader that loses its office while a write waits for a node's lease forgets the leases, and must not take that for their end.
func TestDeposedCatalogueLeaderAnswersUnheard(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		for i := range 4 {
			leader := c.catalogueLeader()
			far := c.Others(leader)[i]
			c.Until(4*time.Second, "it has a lease", func() bool { return far.Host().Leased() })
			c.SetRaftFaults(deaf(far))
			done := make(chan error, 1)
			name := fmt.Sprint("q", i)
			go func() {
				_, err := leader.Host().Do(context.Background(), meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: name, Durable: true, Replicas: []meta.NodeID{leader.ID}}})
				done <- err
			}()
			c.Pass(20 * time.Millisecond) // it is committed
			c.Pause(leader)
			var err error
			c.Until(15*time.Second, "the declare is answered", func() bool {
				select {
				case err = <-done:
					return true
				default:
					return false
				}
			})
			if v := far.Host(); err == nil && v.Leased() && v.Catalogue().View.Queue("/", name) == nil {
				c.T.Errorf("the declare was answered while %s trusts a view without it", far.Name)
			}
			c.SetRaftFaults(RaftFaults{})
			c.Heal()
			c.Until(8*time.Second, "all trust their views", func() bool {
				for _, n := range c.Nodes {
					if !n.Host().Leased() {
						return false
					}
				}
				return true
			})
		}
	})
}
