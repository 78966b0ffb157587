package quorumtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// PROTOCOL 2. Each test is named after what goes wrong without the rule.

// threeOfFour declares a queue on the first three of four nodes and has it led by some node.
func (c *Cluster) threeOfFour() (q meta.QueueID, leader, far *Node) {
	c.T.Helper()
	q = c.Declare(c.Node(4), "q", 1, 2, 3)
	c.NewPublisher(c.Node(4), q).Confirm(3*time.Second, 1)
	return q, c.AwaitLeader(q), c.Node(4)
}

// TestDeathOfServingReplicaLosesOrDoublesDeliveries: a node without a replica consumes, gets and publishes; the replica that serves it dies again and again. Its session goes on, number by number.
func TestDeathOfServingReplicaLosesOrDoublesDeliveries(t *testing.T) {
	for _, noAck := range []bool{false, true} {
		name := map[bool]string{false: "acks", true: "no acks"}[noAck]
		t.Run(name, func(t *testing.T) {
			Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
				q, leader, far := c.threeOfFour()
				k := c.NewConsumer(far, q, ConsumerPlan{Hold: 20, Window: 30, NoAck: noAck})
				p := c.NewPublisher(far, q)
				near := c.NewPublisher(far, q)
				for range 4 {
					for range 30 {
						p.Send(5, 50)
						near.Send(5, 50)
						c.Pass(time.Millisecond)
					}
					leader.Kill()
					p.Confirm(5*time.Second, 1)
					leader.Start()
					c.Until(5*time.Second, "every publish is answered", func() bool { return p.Open()+near.Open() == 0 })
					leader = c.AwaitLeader(q)
				}
				k.Release()
				c.Until(5*time.Second, "the consumer has all", func() bool {
					n := c.Counts(q)
					return n.NextSeq > 1 && n.Ready+n.Unacked == 0 && k.Got() >= int(n.NextSeq)-1
				})
				if k.WasCancelled() {
					c.T.Error("the consumer was cancelled")
				}
				c.drained(q, far)
			})
		})
	}
}

// TestLateStreamIsListenedTo: the stream of a serving replica that is held up by the network arrives after the node was served by another one.
func TestLateStreamIsListenedTo(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		k := c.NewConsumer(far, q, ConsumerPlan{Hold: 10, Window: 50})
		for range 3 {
			p := c.NewPublisher(far, q)
			p.Confirm(3*time.Second, 20)
			// What the leader says to the far node is held, what it says to the members is not: batches are applied and their stream is stuck.
			c.CutOneWay(leader, far)
			p.Send(20, 0)
			c.Pass(100 * time.Millisecond)
			c.Pause(leader)
			c.Until(4*time.Second, "another leader", func() bool { n := c.Leader(q); return n != nil && n != leader })
			c.Until(5*time.Second, "every publish is answered", func() bool { return p.Open() == 0 })
			c.Heal()
			c.Pass(500 * time.Millisecond)
			leader = c.AwaitLeader(q)
		}
		k.Release()
		c.drained(q, c.Node(1))
	})
}

// TestAddedReplicaDeliversAckedMessagesAgain: a node with live sessions gets a replica of its own, which begins with an empty machine.
func TestAddedReplicaDeliversAckedMessagesAgain(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 8 << 10}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		k := c.NewConsumer(far, q, ConsumerPlan{Hold: 15, Window: 40})
		p := c.NewPublisher(far, q)
		for range 100 {
			p.Send(3, 100)
			c.Pass(2 * time.Millisecond)
		}
		added := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			added <- leader.Host().AddReplica(ctx, q, far.ID)
		}()
		for range 300 {
			p.Send(3, 100)
			c.Pass(2 * time.Millisecond)
		}
		if err := <-added; err != nil {
			c.T.Fatal(err)
		}
		c.Until(5*time.Second, "the far node has a replica that is equal", func() bool {
			_, member := far.Host().Catalogue().View.QueueByID(q).MemberOn(far.ID)
			return member && c.equalReplicas(q)
		})
		p.Confirm(3*time.Second, 10)
		leader.Kill()
		p.Confirm(4*time.Second, 10)
		leader.Start()
		k.Release()
		c.drained(q, far)
	})
}

// TestSnapshotStrandsSessions: a member with live sessions falls so far behind that it is fed by a snapshot.
func TestSnapshotStrandsSessions(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond, CheckpointLogBytes: 8 << 10}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
		leader := c.AwaitLeader(q)
		behind := c.Others(leader)[0]
		k := c.NewConsumer(behind, q, ConsumerPlan{Hold: 10, Window: 40})
		p, feed := c.NewPublisher(behind, q), c.NewPublisher(leader, q)
		p.Confirm(2*time.Second, 30)
		c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool { return to == behind.ID && m.ShardID == uint64(q) }})
		for range 20 {
			feed.Confirm(3*time.Second, 40)
		}
		p.Send(5, 0)
		c.SetRaftFaults(RaftFaults{})
		c.Until(10*time.Second, "the member has caught up", func() bool { return c.equalReplicas(q) })
		p.Confirm(4*time.Second, 5)
		k.Release()
		c.drained(q, behind)
	})
}

// TestClosedSessionKeepsMessages: sessions come and go in the middle of deliveries, on all nodes; what they held comes back flagged.
func TestClosedSessionKeepsMessages(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: 2 * time.Millisecond}, func(c *Cluster) {
		q, _, far := c.threeOfFour()
		p := c.NewPublisher(far, q)
		for i := range 24 {
			k := c.NewConsumer(c.Nodes[i%4], q, ConsumerPlan{Hold: i, Window: uint32(1 + 3*i), NoAck: i%5 == 4})
			p.Send(15, 10)
			c.Pass(time.Duration(i) * time.Millisecond)
			k.Close()
			c.Until(2*time.Second, "the end is answered", k.Closed)
		}
		c.Until(2*time.Second, "nothing is unacked", func() bool { return p.Open() == 0 && c.Counts(q).Unacked == 0 })
		c.drained(q, far)
	})
}

// TestSnapshotOmitsUnacked: members restart from checkpoints, and one is fed by a snapshot, while consumers hold deliveries.
func TestSnapshotOmitsUnacked(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 2 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		k := c.NewConsumer(far, q, ConsumerPlan{Hold: 60, Window: 200})
		p := c.NewPublisher(far, q)
		for round := range 6 {
			for range 10 {
				p.Confirm(3*time.Second, 10)
			}
			n := c.Nodes[round%3]
			if round == 2 {
				n = leader
			}
			n.Kill()
			p.Confirm(4*time.Second, 30)
			n.Start()
			c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
		}
		c.Until(5*time.Second, "what is unacked is held", func() bool { n := c.Counts(q); return n.Unacked == 60 && k.Held() == 60 && n.Ready == 0 })
		k.Release()
		c.drained(q, far)
	})
}

// TestHeldBackDeliveriesComeTwice: a node without a lease holds back what it is sent. When it attaches elsewhere meanwhile, the new stream brings that again; the lease that comes in between must not let
// the old through.
func TestHeldBackDeliveriesComeTwice(t *testing.T) {
	for healMillis := 500; healMillis <= 3500; healMillis += 500 {
		t.Run(fmt.Sprint(healMillis), func(t *testing.T) {
			Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
				catalogue := c.catalogueLeader()
				far := c.Others(catalogue)[0]
				members := c.Others(catalogue, far)
				q := c.Declare(catalogue, "q", members[0].ID, members[1].ID, members[2].ID)
				p := c.NewPublisher(catalogue, q)
				p.Confirm(2*time.Second, 5)
				k := c.NewConsumer(far, q, ConsumerPlan{Hold: 100})
				c.Until(2*time.Second, "it consumes", func() bool { return k.Got() == 5 })
				c.cutBoth(far, catalogue, 1)
				c.Until(4*time.Second, "it has no lease", func() bool { return !far.Host().Leased() })
				p.Confirm(2*time.Second, 5) // sent to it, and held back there
				leader := c.AwaitLeader(q)
				leader.Kill()
				for _, m := range members {
					c.Net.SetLatency(m.Name, far.Name, 700*time.Millisecond) // an attach takes its time
				}
				c.Pass(time.Duration(healMillis) * time.Millisecond)
				c.Heal()
				c.Until(15*time.Second, "it has all", func() bool { return k.Got() == 10 })
				c.Pass(2 * time.Second)
				for _, m := range members {
					c.Net.SetLatency(m.Name, far.Name, time.Millisecond)
				}
				leader.Start()
				k.Release()
				c.drained(q, catalogue)
			})
		})
	}
}

// TestReplicaThatIsBehindDeliversAgain: a node's own replica gets no entries any more, so that the leader's serves the node. The way back must wait until it has all that the node has seen: what it
// applies later was delivered before.
func TestReplicaThatIsBehindDeliversAgain(t *testing.T) {
	aways := []time.Duration{0}
	for millis := limits.AwayMillis - 200; millis <= limits.AwayMillis+200; millis += 50 { // entries flow again about at the way back
		aways = append(aways, time.Duration(millis)*time.Millisecond)
	}
	for _, away := range aways {
		Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
			q := c.Declare(c.Node(1), "q")
			c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
			behind := c.Others(c.AwaitLeader(q))[0]
			k := c.NewConsumer(behind, q, ConsumerPlan{Hold: 100})
			p := c.NewPublisher(behind, q)
			c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool { return to == behind.ID && carriesEntries(m, uint64(q)) }})
			p.Confirm(4*time.Second, 10)
			c.Until(time.Second, "they are delivered", func() bool { return k.Got() == 11 })
			c.Pass(away)
			c.SetRaftFaults(RaftFaults{})
			c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
			p.Confirm(2*time.Second, 10)
			k.Release()
			c.drained(q, behind)
		})
	}
}

// TestBacklogOnDiskIsMixedUp: messages whose bodies are on disk only come whole, in order, and each its own.
func TestBacklogOnDiskIsMixedUp(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 4 << 10, BodiesInMemoryBytes: 1}, func(c *Cluster) {
		q, _, far := c.threeOfFour()
		p := c.NewPublisher(far, q)
		for range 30 {
			p.Send(20, 500)
			p.Confirm(3*time.Second, 1)
		}
		inMemory := func() (bytes int64) {
			for _, n := range c.Nodes[:3] {
				st, _ := n.Host().QueueStatus(q)
				bytes += st.BodyBytesInMemory
			}
			return bytes
		}
		c.Until(5*time.Second, "most bodies are on disk only", func() bool { return inMemory() < 3*30*20*500/2 })
		for _, n := range c.Nodes {
			k := c.NewConsumer(n, q, ConsumerPlan{Window: 20, Hold: 30, Return: 0.1})
			c.Until(5*time.Second, "some came", func() bool { return k.Got() >= 100 })
			k.Close()
		}
		c.drained(q, far)
	})
}
