package quorumtest

import (
	"testing"
	"time"
)

func TestReproRestartPublish(t *testing.T) {
	Run(t, Options{Latency: 2 * time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 10)
		leader := c.AwaitLeader(q)
		f := c.Others(leader)[0]
		c.NewPublisher(f, q).Confirm(2*time.Second, 10)
		f.Kill()
		c.Pass(200 * time.Millisecond)
		f.Start()
		c.NewPublisher(f, q).Confirm(5*time.Second, 1)
	})
}
