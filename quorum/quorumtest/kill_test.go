package quorumtest

import (
	"testing"
	"time"
)

// TestKilledLeader kills the node that leads a queue: clients of the others go on by themselves, and what was confirmed is there.
func TestKilledLeader(t *testing.T) {
	Run(t, Options{Latency: 200 * time.Microsecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 10)
		leader := c.AwaitLeader(q)
		others := c.Others(leader)
		k := c.NewConsumer(others[0], q, ConsumerPlan{})
		p := c.NewPublisher(others[1], q)
		p.Confirm(time.Second, 100)
		p.Send(100, 0)
		leader.Kill()
		c.T.Logf("confirmed %v after the leader's death", p.Confirm(3*time.Second, 101))
		c.Until(time.Second, "the consumer has all", func() bool { return k.Got() == 10+100+201-1 || p.Open() == 0 && c.Counts(q).Ready == 0 })
		leader.Start()
		c.NewPublisher(leader, q).Confirm(3*time.Second, 10)
		c.Until(time.Second, "the queue is empty", func() bool { n := c.Counts(q); return n.Ready+n.Unacked == 0 })
		c.Books.CheckDrained(q)
	})
}
