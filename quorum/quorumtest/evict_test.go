package quorumtest

import (
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
)

// TestUnattachedNodeKeepsMessages: a node that the cluster hears, but that cannot reach the members of a queue, holds that queue's messages for a minute and not longer. Then it goes on: what was
// applied is answered, what was not is stored once, and its consumers there are told.
func TestUnattachedNodeKeepsMessages(t *testing.T) {
	Run(t, Options{Nodes: 7, Latency: time.Millisecond}, func(c *Cluster) {
		far := c.Node(7)
		q := c.Declare(far, "q", 1, 2, 3)
		c.NewPublisher(far, q).Confirm(3*time.Second, 1)
		k := c.NewConsumer(far, q, ConsumerPlan{Hold: 100, Window: 200})
		p := c.NewPublisher(far, q)
		p.Confirm(time.Second, 20)
		c.Until(time.Second, "it consumes", func() bool { return k.Got() == 21 })
		for _, m := range c.Nodes[:3] {
			c.cutBoth(far, m, 0)
		}
		p.Send(10, 10)
		other := c.NewConsumer(c.Node(6), q, ConsumerPlan{})
		c.Pass(50 * time.Second)
		if other.Got() > 0 {
			c.T.Fatalf("its messages went to others after less than a minute")
		}
		c.Until(20*time.Second, "another has its messages", func() bool { return other.Got() == 21 })
		if far.Fenced() > 0 {
			c.T.Error("the node was declared dead")
		}
		c.Heal()
		c.Until(10*time.Second, "its publishes are answered", func() bool { return p.Open() == 0 })
		c.Until(5*time.Second, "its consumer was told", k.Closed)
		again := c.NewConsumer(far, q, ConsumerPlan{})
		other.Close()
		c.NewPublisher(far, q).Confirm(3*time.Second, 5)
		c.Until(5*time.Second, "it consumes again", func() bool { return again.Got() > 0 })
		c.drained(q, far)
	})
}

// TestConsumerIsBoundToReplicaThatIsBehind: entries do not reach a member whose node only consumes, so that it misses nothing that it has sent. The leader tells it to be served elsewhere.
func TestConsumerIsBoundToReplicaThatIsBehind(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
		leader := c.AwaitLeader(q)
		behind := c.Others(leader)[0]
		k := c.NewConsumer(behind, q, ConsumerPlan{})
		c.Until(2*time.Second, "it consumes", func() bool { return k.Got() == 1 })
		c.Pass(time.Second)
		c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool { return to == behind.ID && carriesEntries(m, uint64(q)) }})
		c.NewPublisher(leader, q).Confirm(2*time.Second, 50)
		c.Until(4*time.Second, "it has all", func() bool { return k.Got() == 51 })
		c.SetRaftFaults(RaftFaults{})
		c.drained(q, behind)
	})
}
