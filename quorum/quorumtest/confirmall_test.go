package quorumtest

import (
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// declareForAll declares a queue on every node whose confirms wait for every replica.
func (c *Cluster) declareForAll(at *Node) meta.QueueID {
	var replicas []meta.NodeID
	for _, n := range c.Nodes {
		replicas = append(replicas, n.ID)
	}
	return c.declare(at, meta.Queue{
		VHost: "/", Name: "q", Durable: true, Replicas: replicas, Arguments: meta.NewArguments(amqp.Table{{Key: "x-confirm-replicas", Value: amqp.Longstr("all")}}),
	})
}

// TestConfirmOfAllComesFromAMajority: entries reach one member late, or never. What is confirmed stands on every replica; one that does not come along holds confirms up for two seconds, and not again
// until it has caught up.
func TestConfirmOfAllComesFromAMajority(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.declareForAll(c.Node(1))
		c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 1)
		leader := c.AwaitLeader(q)
		slow := c.Others(leader)[0]
		p := c.NewPublisher(c.Others(leader)[1], q) // served by a replica that does not lead
		lost := 0
		c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool {
			if to != slow.ID || !carriesEntries(m, uint64(q)) {
				return false
			}
			lost++
			return lost%3 != 0
		}})
		for n := uint64(2); n <= 20; n++ {
			p.Confirm(3*time.Second, 1)
			for _, node := range c.Nodes {
				if st, _ := node.Host().QueueStatus(q); st.Counts.Enqueued < n {
					c.T.Fatalf("node %d has not what is confirmed: %d of %d", node.ID, st.Counts.Enqueued, n)
				}
			}
		}
		c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool { return to == slow.ID && carriesEntries(m, uint64(q)) }})
		if took := p.Confirm(4*time.Second, 1); took < 1500*time.Millisecond {
			c.T.Errorf("a confirm came after %v though a replica in sync has not the message", took)
		}
		if took := p.Confirm(time.Second, 5); took > 500*time.Millisecond {
			c.T.Errorf("confirms took %v for a replica that is known to be out of sync", took)
		}
		c.SetRaftFaults(RaftFaults{})
		c.Until(5*time.Second, "it has caught up", func() bool { return c.equalReplicas(q) })
		p.Confirm(time.Second, 1)
		slow.Kill()
		if took := p.Confirm(3*time.Second, 1); took > 2500*time.Millisecond {
			c.T.Errorf("a confirm took %v when a node had died", took)
		}
		slow.Start()
		c.drained(q, c.Node(1))
	})
}
