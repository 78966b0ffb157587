package quorumtest

import (
	"testing"
	"time"
)

// TestCluster: in a cluster to which nothing happens every node publishes and consumes, and everything comes once.
func TestCluster(t *testing.T) {
	Run(t, Options{}, func(c *Cluster) {
		q := c.Declare(c.Node(2), "q")
		for _, n := range c.Nodes {
			p := c.NewPublisher(n, q)
			c.T.Logf("%s confirms its first message after %v", n.Name, p.Confirm(time.Second, 1))
			p.Confirm(time.Second, 99)
		}
		k := c.NewConsumer(c.Node(3), q, ConsumerPlan{Hold: 10})
		c.Until(time.Second, "all but what is held is settled", func() bool { return k.Got() == 300 && k.Held() == 10 })
		c.Until(time.Second, "the counts say so", func() bool { n := c.Counts(q); return n.Ready == 0 && n.Unacked == 10 })
		k.Release()
		c.Until(time.Second, "the queue is empty", func() bool { n := c.Counts(q); return n.Ready+n.Unacked == 0 })
		c.Books.CheckDrained(q)
	})
}
