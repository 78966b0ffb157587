package quorumtest

import (
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// PROTOCOL 1. Each test is named after what goes wrong without the rule.

// drained takes everything out of a queue and closes the books.
func (c *Cluster) drained(q meta.QueueID, at *Node) {
	c.T.Helper()
	k := c.NewConsumer(at, q, ConsumerPlan{})
	c.Until(20*time.Second, "the queue is drained", func() bool {
		n := c.Counts(q)
		return n.NextSeq > 1 && n.Ready+n.Unacked == 0 && k.Held() == 0
	})
	c.Until(10*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
	c.Books.CheckDrained(q)
	c.sound()
}

// carriesEntries tells a Raft message that brings log entries of a group.
func carriesEntries(m *pb.Message, shard uint64) bool {
	return m.Type == pb.Replicate && m.ShardID == shard && len(m.Entries) > 0
}

// catalogueShard is the Raft group of the catalogue.
const catalogueShard = 1

// TestResentBatchStandsInTheLogTwice: while the followers get no entries, senders repeat their batches again and again; the leader's memory keeps repeats out of the log.
func TestResentBatchStandsInTheLogTwice(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
		leader := c.AwaitLeader(q)
		follower := c.Others(leader)[0]
		c.NewPublisher(follower, q).Confirm(2*time.Second, 1)
		before, _ := leader.Host().QueueStatus(q)
		c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool { return carriesEntries(m, uint64(q)) }})
		a, b := c.NewPublisher(leader, q), c.NewPublisher(follower, q)
		for range 4 { // the window of both
			a.Send(5, 0)
			b.Send(5, 0)
			c.Pass(10 * time.Millisecond)
		}
		c.Pass(15 * time.Second)
		if a.Confirmed()+b.Confirmed() != 0 {
			c.T.Fatal("confirmed without a majority")
		}
		c.SetRaftFaults(RaftFaults{})
		c.Until(5*time.Second, "confirms", func() bool { return a.Open()+b.Open() == 0 })
		c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
		after, _ := leader.Host().QueueStatus(q)
		if grown := after.Applied - before.Applied; grown > 8+4 {
			c.T.Errorf("8 batches made %d log entries", grown)
		}
		c.drained(q, follower)
	})
}

// TestLostProposalStopsThePipeline: proposals that time out are proposed again under their numbers, in order.
func TestLostProposalStopsThePipeline(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
		leader := c.AwaitLeader(q)
		var open []*Publisher
		for _, n := range c.Nodes {
			open = append(open, c.NewPublisher(n, q))
		}
		c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool { return carriesEntries(m, uint64(q)) }})
		for range 6 {
			for _, p := range open {
				p.Send(3, 0)
			}
			c.Pass(7 * time.Second) // beyond the 30 s of a proposal
		}
		c.SetRaftFaults(RaftFaults{})
		c.Until(10*time.Second, "every publish is answered", func() bool { return open[0].Open()+open[1].Open()+open[2].Open() == 0 })
		if n := c.Counts(q).Enqueued; n != 1+3*6*3 {
			c.T.Errorf("%d messages stand in the queue", n)
		}
		c.drained(q, leader)
	})
}

// TestNewTermLosesOrDoublesBatches: the leader changes again and again while the windows of all nodes are full.
func TestNewTermLosesOrDoublesBatches(t *testing.T) {
	Run(t, Options{Latency: 500 * time.Microsecond, CheckpointLogBytes: 16 << 10}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
		for range 6 {
			leader := c.AwaitLeader(q)
			var open []*Publisher
			for _, n := range c.Nodes {
				p := c.NewPublisher(n, q)
				for range 10 {
					p.Send(3, 100)
					c.Pass(200 * time.Microsecond)
				}
				open = append(open, p)
			}
			c.Pause(leader)
			c.Until(4*time.Second, "another leader", func() bool { n := c.Leader(q); return n != nil && n != leader })
			c.Heal()
			c.Until(10*time.Second, "every publish is answered", func() bool { return open[0].Open()+open[1].Open()+open[2].Open() == 0 })
		}
		c.drained(q, c.Node(1))
	})
}

// TestLeaderlessQueueStallsOthers: a session that publishes to a queue without a majority goes on with its other queues.
func TestLeaderlessQueueStallsOthers(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		dead, alive := c.Declare(c.Node(1), "dead", 3), c.Declare(c.Node(1), "alive", 1)
		a, b := c.NewPublisher(c.Node(1), dead), c.NewPublisher(c.Node(1), alive)
		a.Confirm(2*time.Second, 1)
		b.Confirm(2*time.Second, 1)
		c.Node(3).Kill()
		a.Send(3000, 0)
		b.Confirm(2*time.Second, 100)
		c.Pass(10 * time.Second)
		b.Confirm(time.Second, 100)
		c.Node(3).Start()
		c.Until(5*time.Second, "the other queue's confirms", func() bool { return a.Open() == 0 })
		c.drained(dead, c.Node(2))
		c.drained(alive, c.Node(2))
	})
}

// TestMinorityConfirms: a leader that a majority does not hear confirms nothing, and what it took is not lost for its sender: it is answered after the heal.
func TestMinorityConfirms(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
		leader := c.AwaitLeader(q)
		c.Partition([]*Node{leader}, c.Others(leader))
		alone := c.NewPublisher(leader, q)
		alone.Send(10, 0)
		others := c.NewPublisher(c.Others(leader)[0], q)
		others.Confirm(3*time.Second, 10)
		if alone.Confirmed() != 0 {
			c.T.Error("a minority confirms")
		}
		c.Heal()
		c.Until(5*time.Second, "the publishes of the minority are answered", func() bool { return alone.Open() == 0 })
		c.drained(q, leader)
	})
}

// TestUnreadyLeaderIsStormed: a leader is known but cannot take office for a while; whoever has full windows offers them again and again, and no more often than that.
func TestUnreadyLeaderIsStormed(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			Run(t, Options{Nodes: 4, Latency: latency}, func(c *Cluster) {
				q, leader, far := c.threeOfFour()
				var open []*Publisher
				for _, n := range c.Others(leader) {
					p := c.NewPublisher(n, q)
					p.Confirm(2*time.Second, 1)
					open = append(open, p)
				}
				c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool { return carriesEntries(m, uint64(q)) }})
				leader.Kill()
				for range 8 {
					for _, p := range open {
						p.Send(2, 0)
					}
					c.Pass(5 * time.Millisecond)
				}
				c.Pass(time.Second)
				before := c.Net.Sent(far.Name)
				c.Pass(4 * time.Second)
				if sent := c.Net.Sent(far.Name) - before; sent > 5_000 {
					c.T.Errorf("%s sent %d messages in 4 s", far.Name, sent)
				}
				c.SetRaftFaults(RaftFaults{})
				c.Until(5*time.Second, "every publish is answered", func() bool { return open[0].Open()+open[1].Open()+open[2].Open() == 0 })
				leader.Start()
				c.drained(q, far)
			})
		})
	}
}

// TestSealedQueueIsStormed: windows full of batches wait at a sealed queue. Each is refused and offered again, which must not multiply them.
func TestSealedQueueIsStormed(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		q, at, _, leader, failed := c.sealedApart(queue.IfEmpty)
		before, _ := leader.Host().QueueStatus(q)
		var open []*Publisher
		for _, n := range c.Others(at) {
			open = append(open, c.NewPublisher(n, q))
		}
		for range 6 {
			for _, p := range open {
				p.Send(1, 0)
			}
			c.Pass(3 * time.Millisecond)
		}
		c.Pass(1500 * time.Millisecond) // the leader asks after two seconds whether the delete was given up
		after, _ := leader.Host().QueueStatus(q)
		if grown := after.Applied - before.Applied; grown > 1000 {
			c.T.Errorf("16 batches made %d log entries", grown)
		}
		c.Until(10*time.Second, "all is confirmed", func() bool {
			for _, p := range open {
				if p.Confirmed() != 6 {
					return false
				}
			}
			return true
		})
		if err := <-failed; err == nil {
			c.T.Error("the delete took effect")
		}
		c.Heal()
		c.drained(q, at)
	})
}
