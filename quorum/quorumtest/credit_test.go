package quorumtest

import (
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// limited is a consumer without a share so far.
func limited(id queue.ConsumerID) queue.Command {
	return queue.Command{Op: queue.OpSubscribe, Consumer: id, WindowCount: 1000, WindowBytes: 1 << 20, Flags: queue.FlagLimited}
}

// TestShareOfDeadNode: two sessions have a share of a queue each; the node of one dies while its share grows. What it had comes back, the share of the other neither grows nor ends, and its node starts
// over with nothing.
func TestShareOfDeadNode(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		near := c.Others(leader, far)[0]
		c.NewPublisher(near, q).Confirm(2*time.Second, 19)
		stays := c.openChannel(near, q)
		stays.do(2*time.Second, limited(1), nil)
		for round := 1; round <= 3; round++ {
			dies := c.openChannel(far, q)
			dies.do(2*time.Second, limited(1), nil)
			dies.do(2*time.Second, queue.Command{Op: queue.OpCredit, Limit: 4}, nil)
			if n := len(dies.deliveries()); n != 4 {
				c.T.Fatalf("round %d: a share of 4 brings %d", round, n)
			}
			if r := stays.do(2*time.Second, queue.Command{Op: queue.OpCredit, Limit: uint32(round)}, nil); r.A != uint64(round) {
				c.T.Fatalf("round %d: %+v", round, r)
			}
			dies.submit(queue.Command{Op: queue.OpCredit, Limit: 8})
			far.Kill()
			c.Until(deathMillis*time.Millisecond, "what it had is ready again", func() bool { n := c.Counts(q); return n.Unacked == uint64(round) && n.Consumers == 1 })
			c.Pass(time.Second)
			if n := len(stays.deliveries()); n != round {
				c.T.Fatalf("round %d: the other has %d", round, n)
			}
			far.Start()
		}
		before := stays.told()
		got := stays.deliveries()
		c.Books.settles(got)
		if r := stays.do(2*time.Second, queue.Command{Op: queue.OpSettle, Outcome: queue.OutcomeAck, From: 1, To: 3}, nil); r.A != 3 {
			c.T.Fatalf("%+v", r)
		}
		c.Books.settled(got)
		c.Until(2*time.Second, "three more", func() bool { return len(stays.deliveries()) == 6 })
		if stays.told() != before {
			c.T.Error("it is told again of what it knows")
		}
		stays.session.Close(func(meta.QueueID) uint64 { return 6 }, 0)
		c.drained(q, far)
	})
}

// TestShareOfEvictedNode: a node is cut off from a queue while its share grows, and evicted. Its session is told, and begins anew there with a share that holds.
func TestShareOfEvictedNode(t *testing.T) {
	Run(t, Options{Nodes: 7, Latency: time.Millisecond}, func(c *Cluster) {
		far := c.Node(7)
		q := c.Declare(far, "q", 1, 2, 3)
		c.NewPublisher(far, q).Confirm(3*time.Second, 20)
		ch := c.openChannel(far, q)
		ch.do(2*time.Second, limited(1), nil)
		if ch.do(2*time.Second, queue.Command{Op: queue.OpCredit, Limit: 5}, nil); len(ch.deliveries()) != 5 {
			c.T.Fatalf("a share of 5 brings %d", len(ch.deliveries()))
		}
		for _, m := range c.Nodes[:3] {
			c.cutBoth(far, m, 0)
		}
		grows := ch.submit(queue.Command{Op: queue.OpCredit, Limit: 9})
		other := c.NewConsumer(c.Node(6), q, ConsumerPlan{})
		c.Until(80*time.Second, "another has its messages and is done with them", func() bool { return other.Got() == 20 && other.Held() == 0 })
		other.Close()
		c.Heal()
		if r := ch.await(10*time.Second, grows); r.A != 0 {
			c.T.Errorf("the share of a session that is gone: %+v", r)
		}
		c.Until(5*time.Second, "it is told", func() bool { return ch.ends() == 1 })
		c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 10)
		ch.do(2*time.Second, limited(2), nil)
		c.Pass(time.Second)
		if n := len(ch.deliveries()); n != 0 {
			c.T.Fatalf("%d deliveries without a share", n)
		}
		if r := ch.do(2*time.Second, queue.Command{Op: queue.OpCredit, Limit: 4}, nil); r.A != 4 || r.B != 6 || len(ch.deliveries()) != 4 {
			c.T.Fatalf("a share of 4 of 10: %+v, %d deliveries", r, len(ch.deliveries()))
		}
		c.Pass(time.Second)
		if n := len(ch.deliveries()); n != 4 {
			c.T.Fatalf("a share of 4 brings %d", n)
		}
		ch.session.Close(func(meta.QueueID) uint64 { return 4 }, 0)
		c.drained(q, far)
	})
}

// TestCreditIsLostWithTheLeader: a session's limit is raised while the leader dies, again and again. Each raise takes effect, no delivery comes beyond it, and that more is waiting is told after it.
func TestCreditIsLostWithTheLeader(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		c.NewPublisher(far, q).Confirm(2*time.Second, 19)
		ch := c.openChannel(far, q)
		ch.do(2*time.Second, limited(1), nil)
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
