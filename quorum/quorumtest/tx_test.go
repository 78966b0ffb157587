package quorumtest

import (
	"testing"
	"time"
)

// TestCommitIsLostWithTheLeader: the leader dies between the parts of transactions, and with their commits on the way. Each is there as a whole.
func TestCommitIsLostWithTheLeader(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		k := c.NewConsumer(far, q, ConsumerPlan{Hold: 5})
		p := c.NewPublisher(far, q)
		for round := range 8 {
			p.Stage(5, 50)
			if round%2 == 0 {
				c.Pass(5 * time.Millisecond)
			}
			if round%4 < 2 {
				leader.Kill()
				p.StageMore(5, 50)
				p.Commit()
			} else {
				p.StageMore(5, 50)
				p.Commit()
				leader.Kill()
			}
			c.Until(5*time.Second, "the commit is answered", func() bool { return p.Open() == 0 })
			if got := p.Confirmed(); got != 10*(round+1) {
				c.T.Fatalf("round %d: %d messages are committed", round, got)
			}
			leader.Start()
			leader = c.AwaitLeader(q)
		}
		k.Release()
		c.drained(q, far)
	})
}

// TestDeadNodesTransactionIsCommitted: a node dies with a transaction that is not committed. Its messages are gone, and they are not counted.
func TestDeadNodesTransactionIsCommitted(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, _, far := c.threeOfFour()
		k := c.NewConsumer(c.Node(1), q, ConsumerPlan{})
		p := c.NewPublisher(far, q)
		p.Stage(10, 50)
		c.Until(2*time.Second, "it is staged", func() bool { return c.Counts(q).NextSeq == 12 })
		far.Kill()
		c.Pass(2 * deathMillis * time.Millisecond)
		if n := c.Counts(q); k.Got() != 1 || n.Enqueued != 1 || n.Ready+n.Unacked != 0 {
			c.T.Errorf("the other got %d messages, %+v", k.Got(), n)
		}
		far.Start()
		c.drained(q, far)
	})
}

// TestEvictedNodeCommitsAPart: a node is evicted between the parts of a transaction; the second one comes before the node knows, or after. It is no transaction of its own.
func TestEvictedNodeCommitsAPart(t *testing.T) {
	for _, knows := range []bool{false, true} {
		Run(t, Options{Nodes: 7, Latency: time.Millisecond}, func(c *Cluster) {
			far := c.Node(7)
			q := c.Declare(far, "q", 1, 2, 3)
			p := c.NewPublisher(far, q)
			p.Confirm(3*time.Second, 1)
			p.Stage(3, 0)
			c.Until(2*time.Second, "it is staged", func() bool { return c.Counts(q).NextSeq == 5 })
			for _, m := range c.Nodes[:3] {
				c.cutBoth(far, m, 0)
			}
			c.Pass(80 * time.Second)
			c.Heal()
			if knows {
				near := c.NewPublisher(far, q)
				near.Confirm(10*time.Second, 1)
			}
			p.StageMore(3, 0)
			p.Commit()
			c.Until(10*time.Second, "the commit is answered", func() bool { return p.Open() == 0 })
			if got := p.Confirmed(); got != 1 {
				c.T.Errorf("%d messages are confirmed", got)
			}
			p.Stage(3, 0)
			p.Commit()
			c.Until(2*time.Second, "the next one is committed", func() bool { return p.Confirmed() == 4 })
			c.drained(q, far)
		})
	}
}
