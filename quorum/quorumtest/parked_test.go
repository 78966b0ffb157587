package quorumtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// parkTime is how long a queue is idle in these tests before it is parked, far off how far what it has to do must be.
const (
	parkTime = 2 * time.Second
	farOff   = 60 * time.Second
)

func parking(o Options) Options {
	o.ParkMillis, o.ParkDeadlineMillis = parkTime.Milliseconds(), farOff.Milliseconds()
	if o.Latency == 0 {
		o.Latency = time.Millisecond
	}
	return o
}

// stateAt is how a queue is on a node.
func stateAt(n *Node, q meta.QueueID) quorum.State {
	st, _ := n.Host().QueueStatus(q)
	return st.State
}

// parked waits until all live members of a queue have stopped.
func (c *Cluster) parked(q meta.QueueID) {
	c.T.Helper()
	c.Until(20*time.Second, fmt.Sprintf("queue %d is parked", q), func() bool { return c.isParked(q) })
}

func (c *Cluster) isParked(q meta.QueueID) bool {
	for _, n := range c.Live() {
		if stateAt(n, q) != quorum.StateParked {
			return false
		}
	}
	return true
}

// runs waits until all live members of a queue run.
func (c *Cluster) runs(q meta.QueueID) {
	c.T.Helper()
	c.Until(10*time.Second, fmt.Sprintf("all members of queue %d run", q), func() bool {
		for _, n := range c.Live() {
			if _, member := n.Host().Catalogue().View.QueueByID(q).MemberOn(n.ID); member && stateAt(n, q) != quorum.StateRunning {
				return false
			}
		}
		return true
	})
}

// staysParked holds a queue that is parked to staying so.
func (c *Cluster) staysParked(q meta.QueueID, d time.Duration) {
	c.T.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); c.Pass(50 * time.Millisecond) {
		if !c.isParked(q) {
			c.T.Fatalf("after %v: queue %d is not parked any more\n%s", c.Elapsed(), q, c.Describe())
		}
	}
}

// TestIdleQueueIsStartedAgainAndAgain: nobody wants anything of a queue on four nodes, one of which has no replica and was attached. It stays parked, with its counts, and is there for the next that wants it.
func TestIdleQueueIsStartedAgainAndAgain(t *testing.T) {
	Run(t, parking(Options{Nodes: 4}), func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3)
		n := uint64(0)
		for round := range 2 {
			for _, at := range c.Nodes {
				p := c.NewPublisher(at, q)
				took := p.Confirm(time.Second, 5)
				if n += 5; took > 300*time.Millisecond { // in the first round there are elections
					t.Errorf("round %d: %s has its first confirm after %v", round, at.Name, took)
				}
			}
			c.parked(q)
			c.staysParked(q, 30*time.Second)
			for _, at := range c.Nodes[:3] {
				if st, _ := at.Host().QueueStatus(q); st.Counts.Ready != n || st.Leader == 0 || st.Applied == 0 {
					t.Errorf("%s shows %+v", at.Name, st)
				}
			}
		}
		for _, at := range c.Nodes {
			took := c.NewPublisher(at, q).Confirm(time.Second, 1)
			t.Logf("%s: %v until the first confirm", at.Name, took)
			c.parked(q)
		}
		if !c.equalReplicas(q) {
			t.Error("the replicas differ")
		}
		c.drained(q, c.Node(4))
	})
}

// TestParkedUnderItsUsers: a queue with a consumer, or with what somebody has not settled, is not parked, and what comes for the consumer comes at once.
func TestParkedUnderItsUsers(t *testing.T) {
	Run(t, parking(Options{Nodes: 4}), func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3)
		k := c.NewConsumer(c.Node(4), q, ConsumerPlan{Hold: 3})
		c.Until(3*time.Second, "the consumer is there", k.Subscribed)
		for range 20 {
			c.Pass(parkTime / 4)
			if c.isParked(q) || stateAt(c.Node(1), q) == quorum.StateParked {
				t.Fatal("a queue in use is parked")
			}
		}
		c.NewPublisher(c.Node(2), q).Confirm(time.Second, 10)
		c.Until(time.Second, "the consumer has it", func() bool { return k.Got() == 10 })
		k.Release()
		c.drained(q, c.Node(1))
	})
}

// TestPublishMeetsThePark: messages come from every node at all moments of the park. None is lost or late.
func TestPublishMeetsThePark(t *testing.T) {
	Run(t, parking(Options{Nodes: 4}), func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3)
		var ps []*Publisher
		for _, at := range c.Nodes {
			ps = append(ps, c.NewPublisher(at, q))
		}
		ps[0].Confirm(time.Second, 1)
		met, worst := 0, time.Duration(0)
		for round := range 120 {
			// The host looks every 200 ms.
			c.Pass(parkTime - 20*time.Millisecond)
			for end := time.Now().Add(time.Second); time.Now().Before(end) && !c.someParked(q); {
				c.Pass(time.Duration(round%11) * 200 * time.Microsecond)
				c.Pass(time.Millisecond)
			}
			if c.someParked(q) && !c.isParked(q) {
				met++
			}
			took := ps[round%4].Confirm(3*time.Second, 1+round%3)
			worst = max(worst, took)
		}
		t.Logf("%d of 120 rounds met it half done; the slowest confirm took %v", met, worst)
		if met == 0 {
			t.Error("no publish met a park")
		}
		if worst > 1500*time.Millisecond {
			t.Errorf("a confirm took %v", worst)
		}
		c.drained(q, c.Node(2))
	})
}

// someParked tells whether some live member has stopped.
func (c *Cluster) someParked(q meta.QueueID) bool {
	for _, n := range c.Nodes[:3] {
		if n.Host() != nil && stateAt(n, q) == quorum.StateParked {
			return true
		}
	}
	return false
}

// TestDeathWhileParking: the leader or another member dies at some moment of the park, and comes back. Whoever wants the queue has it, and nobody stays behind.
func TestDeathWhileParking(t *testing.T) {
	for _, leads := range []bool{true, false} {
		Run(t, parking(Options{}), func(c *Cluster) {
			q := c.Declare(c.Node(1), "q")
			for round := range 8 {
				p := c.NewPublisher(c.Node(1), q)
				p.Confirm(5*time.Second, 3)
				c.runs(q)
				victim := c.AwaitLeader(q)
				if !leads {
					victim = c.Others(victim)[0]
				}
				c.Pass(parkTime - 50*time.Millisecond)
				for end := time.Now().Add(time.Second); time.Now().Before(end) && !c.someParked(q) && (round%2 == 0 || time.Until(end) > 800*time.Millisecond); {
					c.Pass(time.Millisecond)
				}
				victim.Kill()
				if round%4 < 2 {
					c.parked(q)
				}
				c.NewPublisher(c.Live()[0], q).Confirm(5*time.Second, 2)
				victim.Start()
				c.runs(q)
				c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
			}
			c.parked(q)
			c.drained(q, c.Node(3))
		})
	}
}

// TestCutOffMemberRunsAlone: a member is cut off while the others park the queue, and finds no leader when it is back.
func TestCutOffMemberRunsAlone(t *testing.T) {
	Run(t, parking(Options{}), func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 3)
		c.runs(q)
		away := c.Others(c.AwaitLeader(q))[1]
		c.Partition(c.Others(away), []*Node{away})
		c.Until(30*time.Second, "the others have parked it", func() bool {
			for _, n := range c.Others(away) {
				if stateAt(n, q) != quorum.StateParked {
					return false
				}
			}
			return true
		})
		c.Heal()
		c.Until(30*time.Second, "all have parked it", func() bool { return c.isParked(q) })
		c.staysParked(q, 20*time.Second)
		c.NewPublisher(away, q).Confirm(3*time.Second, 3)
		c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
		c.drained(q, away)
	})
}

// TestRestartStartsParkedQueues: a member, and then the whole cluster, starts again while the queue is parked, and it stays so. A member that was down while the queue was used has its replica run with the others.
func TestRestartStartsParkedQueues(t *testing.T) {
	Run(t, parking(Options{}), func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 7)
		c.parked(q)
		n := c.Node(3)
		n.Kill()
		c.Pass(time.Second)
		n.Start()
		c.staysParked(q, 20*time.Second)
		for _, n := range c.Nodes {
			n.PowerOff()
		}
		c.Pass(3 * time.Second)
		for _, n := range c.Nodes {
			n.PowerOn()
			n.Begin()
		}
		c.Until(10*time.Second, "all are there", func() bool { return len(c.Live()) == 3 })
		c.staysParked(q, 20*time.Second)
		if got := c.Counts(q).Ready; got != 7 {
			t.Errorf("a parked queue counts %d messages", got)
		}
		n.Kill()
		p := c.NewPublisher(c.Node(1), q)
		p.Confirm(8*time.Second, 3)
		n.Start()
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end) && stateAt(n, q) != quorum.StateRunning; c.Pass(300 * time.Millisecond) {
			p.Confirm(time.Second, 1) // it does not go to sleep
		}
		if stateAt(n, q) != quorum.StateRunning {
			t.Errorf("waited in vain for the replica that was down: %s", c.Describe())
		}
		c.drained(q, n)
	})
}

// TestStaleWordOfParking: a queue goes on after a park and gets a message that sleeps; then all nodes lose their power. None of them may take the queue for parked still.
func TestStaleWordOfParking(t *testing.T) {
	Run(t, parking(Options{}), func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 1)
		c.parked(q)
		c.sleeper(q, 8*time.Second)
		for _, n := range c.Nodes {
			n.PowerOff()
		}
		c.Pass(time.Second)
		for _, n := range c.Nodes {
			n.PowerOn()
			n.Begin()
		}
		c.Until(10*time.Second, "all are there", func() bool { return len(c.Live()) == 3 })
		c.Until(20*time.Second, "the message is ready", func() bool { return c.Counts(q).Ready == 2 })
	})
}

// sleeper publishes a message that is to be ready later.
func (c *Cluster) sleeper(q meta.QueueID, wait time.Duration) {
	c.T.Helper()
	p := c.newPost(c.Node(1))
	env := message.Append(nil, &message.Envelope{RoutingKey: []byte("k"), Properties: []byte{0, 0}, Body: []byte("0")})
	cmd := queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent | queue.FlagDelay, Delay: uint64(wait.Milliseconds()), BodyBytes: 1, Envelope: env}
	if err := p.session.Submit(q, &cmd, 1); err != nil {
		c.T.Fatal(err)
	}
	p.session.Flush()
	c.Until(5*time.Second, "it is confirmed", func() bool { return p.count(&p.okay) == 1 })
}

// TestParkedQueueForgetsTheTime: what is due later than the park is worth comes about on parked queues, not before and not late, also when all nodes start again meanwhile.
func TestParkedQueueForgetsTheTime(t *testing.T) {
	const late = 100 * time.Second
	for _, restart := range []bool{false, true} {
		Run(t, parking(Options{}), func(c *Cluster) {
			millis := func(d time.Duration) amqp.Value { return amqp.Int64(d.Milliseconds()) }
			expires := c.declareWith("expires", amqp.Table{{Key: "x-expires", Value: millis(late)}})
			mortal := c.declareWith("mortal", amqp.Table{{Key: "x-message-ttl", Value: millis(late)}})
			sleepy := c.declareWith("sleepy", nil)
			p := c.newPost(c.Node(1))
			p.send(expires, 1)
			c.newPost(c.Node(1)).send(mortal, 1)
			began := time.Now()
			c.sleeper(sleepy, late)
			for _, q := range []meta.QueueID{expires, mortal, sleepy} {
				c.parked(q)
			}
			if restart {
				c.Pass(10 * time.Second)
				for _, n := range c.Nodes {
					n.Kill()
				}
				for _, n := range c.Nodes {
					n.Begin()
				}
				c.Until(10*time.Second, "all are there", func() bool { return len(c.Live()) == 3 })
			}
			there := func(q meta.QueueID) bool { _, ok := c.Live()[0].Host().QueueStatus(q); return ok }
			for time.Since(began) < late-time.Second {
				c.Pass(time.Second)
				if !there(expires) || c.Counts(mortal).Ready != 1 || c.Counts(sleepy).Ready != 0 || !c.isParked(mortal) {
					t.Fatalf("after %v: %t %+v %+v", time.Since(began), there(expires), c.Counts(mortal), c.Counts(sleepy))
				}
			}
			c.Until(5*time.Second, "the message is ready", func() bool { return c.Counts(sleepy).Ready == 1 })
			c.Until(5*time.Second, "the message is gone", func() bool { st, ok := c.Live()[0].Host().QueueStatus(mortal); return ok && st.Counts.Ready == 0 })
			within := 5 * time.Second
			if restart {
				within = 40 * time.Second // the time counts anew
			}
			c.Until(within, "the queue is gone", func() bool { return !there(expires) })
			c.parked(sleepy)
		})
	}
}

// TestPolicyMissesParkedQueue: a time to live that a policy brings ends messages of a parked queue; another change leaves it alone.
func TestPolicyMissesParkedQueue(t *testing.T) {
	Run(t, parking(Options{}), func(c *Cluster) {
		q := c.declareWith("q", nil)
		c.newPost(c.Node(1)).send(q, 5)
		c.parked(q)
		put := func(name string, priority int32, definition amqp.Table) {
			c.write(meta.Command{Op: meta.OpPutPolicy, Policy: meta.Policy{VHost: "/", Name: name, Pattern: "^q$", ApplyTo: meta.ApplyToQueues, Priority: int64(priority), Definition: meta.NewArguments(definition)}})
		}
		put("letters", 1, amqp.Table{{Key: "dead-letter-exchange", Value: amqp.Longstr("x")}})
		c.staysParked(q, 10*time.Second)
		put("ttl", 2, amqp.Table{{Key: "message-ttl", Value: amqp.Int32(15_000)}})
		c.Until(20*time.Second, "the messages are gone", func() bool {
			st, ok := c.Node(2).Host().QueueStatus(q)
			return ok && st.Applied != 0 && st.Counts.Ready == 0
		})
		c.parked(q)
	})
}

// TestParkedQueueLeavesItsData: a parked queue is deleted by a node with a replica and by one without, and after a restart of its members. Nothing of it stays on a disk.
func TestParkedQueueLeavesItsData(t *testing.T) {
	Run(t, parking(Options{Nodes: 4}), func(c *Cluster) {
		for round, at := range []meta.NodeID{1, 4, 2} {
			q := c.Declare(c.Node(1), "q", 1, 2, 3)
			c.NewPublisher(c.Node(3), q).Confirm(3*time.Second, 2)
			c.parked(q)
			if round == 2 {
				c.Node(2).Kill()
				c.Node(2).Start()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			res, err := c.Node(at).Host().DeleteQueue(ctx, q, queue.IfUnused)
			cancel()
			if err != nil || res.Code != queue.CodeOK || res.Messages != 2 {
				t.Fatalf("delete: %+v %v", res, err)
			}
			c.Until(5*time.Second, "nothing of it is left", func() bool {
				for _, n := range c.Live() {
					names, _ := n.disk.List(fmt.Sprintf("/data/queues/%d", q))
					if _, ok := n.Host().QueueStatus(q); ok || len(names) > 0 {
						return false
					}
				}
				return true
			})
			if strings.Contains(c.Describe(), fmt.Sprintf("queue %d ", q)) {
				t.Error(c.Describe())
			}
		}
	})
}

// TestTouchWaitsBehindStarts: a node starts with many queues whose other members are down, so that they find no leader. A parked queue that somebody wants something of is there all the same, and so is one that ran when
// the node was killed.
func TestTouchWaitsBehindStarts(t *testing.T) {
	const stuck = limits.StartsAtOnce + 8
	Run(t, parking(Options{Nodes: 5}), func(c *Cluster) {
		n := c.Node(1)
		parked := c.Declare(n, "parked", 1, 2, 3)
		c.NewPublisher(n, parked).Confirm(3*time.Second, 1)
		c.parked(parked)
		var last meta.QueueID
		for i := range stuck {
			last = c.Declare(n, fmt.Sprintf("stuck%d", i), 1, 4, 5)
			c.NewPublisher(n, last).Confirm(3*time.Second, 1)
		}
		running := c.Declare(n, "running", 1, 2, 3)
		c.NewPublisher(n, running).Confirm(3*time.Second, 1)
		for _, id := range []meta.NodeID{4, 5, 1} {
			c.Node(id).Kill()
		}
		n.Start()
		c.NewPublisher(n, parked).Confirm(time.Second, 1)
		c.Until(5*time.Second, "the queue that ran runs again", func() bool { return stateAt(n, running) == quorum.StateRunning })
		if st := stateAt(n, last); st == quorum.StateRunning {
			t.Errorf("a queue without a majority is %s", st)
		}
		for _, id := range []meta.NodeID{4, 5} {
			c.Node(id).Start()
		}
		c.Until(20*time.Second, "all run", func() bool { return stateAt(n, last) == quorum.StateRunning })
	})
}
