package quorumtest

import (
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// TestCreditIsLostWithTheLeader: a session's limit is raised while the leader dies, again and again. Each raise takes effect, no delivery comes beyond it, and that more is waiting is told after it.
func TestCreditIsLostWithTheLeader(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		c.NewPublisher(far, q).Confirm(2*time.Second, 19)
		ch := c.openChannel(far, q)
		ch.do(2*time.Second, queue.Command{Op: queue.OpSubscribe, Consumer: 1, WindowCount: 1000, WindowBytes: 1 << 20, Flags: queue.FlagLimited}, nil)
		c.Until(2*time.Second, "the session is told that messages are ready", func() bool { return ch.told() > 0 })
		for limit := 1; limit <= 8; limit++ {
			reply := ch.do(5*time.Second, queue.Command{Op: queue.OpCredit, Limit: uint32(limit)}, func() {
				if limit%2 == 0 {
					leader.Kill()
				}
			})
			if got := len(ch.deliveries()); got != limit || reply.A != uint64(limit) || reply.B != uint64(20-limit) {
				c.T.Fatalf("limit %d: %+v, %d deliveries", limit, reply, got)
			}
			if limit%2 == 0 {
				leader.Start()
				leader = c.AwaitLeader(q)
			}
			c.Pass(300 * time.Millisecond)
			if got := len(ch.deliveries()); got != limit {
				c.T.Fatalf("limit %d: %d deliveries", limit, got)
			}
		}
		// A node that attaches anew hears again what its session is marked for.
		before := ch.told()
		leader.Kill()
		c.Until(5*time.Second, "the session is told again", func() bool { return ch.told() > before })
		leader.Start()
		ch.do(5*time.Second, queue.Command{Op: queue.OpCredit, Limit: queue.NoLimit}, nil)
		c.Until(2*time.Second, "all messages", func() bool { return len(ch.deliveries()) == 20 })
		ch.session.Close(func(meta.QueueID) uint64 { return 20 }, 0)
		c.drained(q, far)
	})
}
