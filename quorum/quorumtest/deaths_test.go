package quorumtest

import (
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
)

// PROTOCOL 3. Each test is named after what goes wrong without the rule.

// deathMillis is within what time a dead node's messages are back: the time until it is declared dead, and something for the way.
const deathMillis = 7_000

// TestDeadNodeKeepsMessages: a node that holds deliveries dies and does not come back; another consumer gets them, flagged.
func TestDeadNodeKeepsMessages(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{false: "killed", true: "without power"}[silent], func(t *testing.T) {
			Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
				q, _, far := c.threeOfFour()
				k := c.NewConsumer(far, q, ConsumerPlan{Hold: 100})
				p := c.NewPublisher(c.Node(1), q)
				p.Confirm(2*time.Second, 39)
				c.Until(2*time.Second, "40 are held", func() bool { return k.Held() == 40 })
				if silent {
					far.PowerOff()
				} else {
					far.Kill()
				}
				took := c.Until(deathMillis*time.Millisecond, "the dead node's messages are ready again", func() bool { n := c.Counts(q); return n.Ready == 40 && n.Consumers == 0 })
				c.T.Logf("back after %v", took)
				c.drained(q, c.Node(2))
				far.PowerOn()
			})
		})
	}
}

// TestFastRestartIsNoDeath: a node that is killed and back before anybody missed it has lost its sessions all the same.
func TestFastRestartIsNoDeath(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		for _, n := range []*Node{far, c.Others(leader, far)[0], leader} {
			k := c.NewConsumer(n, q, ConsumerPlan{Hold: 100})
			p := c.NewPublisher(c.Others(n, far)[0], q)
			p.Confirm(2*time.Second, 20)
			c.Until(2*time.Second, "they are held", func() bool { return k.Held() >= 20 })
			n.Kill()
			n.Start()
			c.Until(3*time.Second, n.Name+"'s messages are ready again", func() bool { n := c.Counts(q); return n.Ready >= 20 && n.Unacked == 0 && n.Consumers == 0 })
		}
		c.drained(q, far)
	})
}

// TestNewLeaderForgetsDeaths: the node that dies takes the queue's leader with it, so that whoever was told of the death cannot act on it.
func TestNewLeaderForgetsDeaths(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		k := c.NewConsumer(far, q, ConsumerPlan{Hold: 100})
		c.NewPublisher(far, q).Confirm(2*time.Second, 30)
		c.Until(2*time.Second, "they are held", func() bool { return k.Held() == 31 })
		far.Kill()
		c.Pass(4 * time.Second)
		leader.Kill() // as the death is about to be declared
		c.Until(2*deathMillis*time.Millisecond, "the dead node's messages are ready again", func() bool { n := c.Counts(q); return n.Ready == 31 })
		leader.Start()
		c.drained(q, c.Node(1))
	})
}

// TestRestartedClusterForgetsDeaths: all nodes lose power at once; whoever leads first has replayed nothing yet when it looks for the dead.
func TestRestartedClusterForgetsDeaths(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q")
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 30)
		var open []*Consumer
		for _, n := range c.Nodes {
			open = append(open, c.NewConsumer(n, q, ConsumerPlan{Hold: 100, Prefetch: 10}))
		}
		c.Until(2*time.Second, "30 are held", func() bool { return open[0].Held()+open[1].Held()+open[2].Held() == 30 })
		for _, n := range c.Nodes {
			n.Kill()
		}
		for _, n := range c.Nodes {
			n.Begin()
		}
		for _, n := range c.Nodes {
			n.await(10 * time.Second)
		}
		c.Until(5*time.Second, "all is ready again", func() bool { n := c.Counts(q); return n.Ready == 30 && n.Consumers == 0 })
		c.drained(q, c.Node(1))
	})
}

// TestDeadIncarnationGoesOnAfterTheHeal: a node is cut off until it is declared dead, and healed. Its old incarnation's batches change nothing, its clients are told, it works again.
func TestDeadIncarnationGoesOnAfterTheHeal(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		for _, cut := range []*Node{far, c.Others(leader, far)[0], leader} {
			rest := c.Others(cut)
			k := c.NewConsumer(cut, q, ConsumerPlan{Hold: 100})
			old := c.NewPublisher(cut, q)
			old.Confirm(2*time.Second, 10)
			c.Until(2*time.Second, "they are held", func() bool { return k.Held() >= 10 })
			boot := cut.Host().Boot()
			c.Pause(cut)
			old.Send(25, 0) // batch after batch that nobody gets
			c.Until(deathMillis*time.Millisecond, "it is declared dead", func() bool { n := rest[0].Host().Catalogue().View.Node(cut.ID); return !n.Alive() })
			if cut.Fenced() != 0 {
				c.T.Fatal("fenced before it could know")
			}
			p := c.NewPublisher(rest[0], q)
			p.Confirm(4*time.Second, 5)
			c.Until(2*time.Second, "its messages are ready again", func() bool { return c.Counts(q).Unacked == 0 })
			before := c.Counts(q).Enqueued
			c.Heal()
			c.Until(5*time.Second, "it learns its death", func() bool { return cut.Fenced() > 0 })
			c.Until(5*time.Second, "what its clients sent is answered", func() bool { return old.Open() == 0 })
			if n := c.Counts(q).Enqueued; n != before {
				c.T.Errorf("%d messages of a dead incarnation of %s were taken", n-before, cut.Name)
			}
			if now := cut.Host().Boot(); now.Counter <= boot.Counter {
				c.T.Errorf("%s lives on as boot %d", cut.Name, now.Counter)
			}
			c.NewPublisher(cut, q).Confirm(4*time.Second, 5)
			again := c.NewConsumer(cut, q, ConsumerPlan{})
			c.Until(5*time.Second, "the queue is empty", func() bool { n := c.Counts(q); return n.NextSeq > 1 && n.Ready+n.Unacked == 0 })
			again.Close()
			c.Until(5*time.Second, "the consumer is gone", func() bool { return again.Closed() && c.Counts(q).Consumers == 0 })
			cut.resetFenced()
		}
		c.drained(q, far)
	})
}

// TestMinorityDeclaresDeaths: a node that hears nobody declares nobody dead.
func TestMinorityDeclaresDeaths(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, _, far := c.threeOfFour()
		c.Partition([]*Node{c.Node(1), c.Node(2)}, []*Node{c.Node(3), far}) // two halves: neither is a majority of four
		c.Pass(15 * time.Second)
		for _, n := range c.Nodes {
			for other := range n.Host().Catalogue().View.Nodes() {
				if !other.Alive() {
					c.T.Errorf("%s has %s for dead", n.Name, other.Name)
				}
			}
		}
		c.Heal()
		c.NewPublisher(far, q).Confirm(5*time.Second, 1)
		c.drained(q, far)
	})
}

// TestTransientQueueOutlivesItsNode: a queue that lives on one node goes with the node's incarnation, and a publisher elsewhere is told.
func TestTransientQueueOutlivesItsNode(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		home := c.Node(2)
		q := c.declare(home, meta.Queue{VHost: "/", Name: "t", Home: home.ID, HomeBoot: home.Host().Boot()})
		p := c.NewPublisher(c.Node(3), q)
		p.Confirm(2*time.Second, 10)
		home.Kill()
		p.Send(10, 0)
		c.Until(deathMillis*time.Millisecond, "the publishes are answered", func() bool { return p.Open() == 0 })
		if v := c.Node(3).Host().Catalogue().View.QueueByID(q); v != nil {
			c.T.Error("the queue outlives its node")
		}
		home.Start()
	})
}

// TestFirstBatchOfDeadIncarnationMakesASession: a node that was declared dead, and has not heard of it, begins with a queue that never knew it: nothing in the queue's machine is there to be fenced. What
// it is given would be stuck until it learns its death.
func TestFirstBatchOfDeadIncarnationMakesASession(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		_, _, far := c.threeOfFour()
		fresh := c.Declare(c.Node(1), "fresh", 1, 2, 3)
		c.NewPublisher(c.Node(1), fresh).Confirm(2*time.Second, 10)
		c.Until(2*time.Second, "all know the queue", func() bool { return far.Host().Catalogue().View.QueueByID(fresh) != nil })
		c.Pause(far)
		c.Until(deathMillis*time.Millisecond, "it is declared dead", func() bool { return !c.Node(1).Host().Catalogue().View.Node(far.ID).Alive() })
		c.SetRaftFaults(deaf(far))
		k := c.NewConsumer(far, fresh, ConsumerPlan{Hold: 100})
		p := c.NewPublisher(far, fresh)
		p.Send(10, 0)
		c.Heal()
		c.Pass(3 * time.Second)
		if far.Fenced() > 0 {
			c.T.Fatal("it has heard of its death")
		}
		if n := c.Counts(fresh); n.Consumers+n.Unacked > 0 || n.Enqueued != 10 {
			c.T.Errorf("a dead incarnation consumes and publishes: %+v", n)
		}
		c.SetRaftFaults(RaftFaults{})
		c.Until(10*time.Second, "it learns its death", func() bool { return far.Fenced() > 0 && k.ended() && p.ended() })
		c.Until(5*time.Second, "its session is gone", func() bool { n := c.Counts(fresh); return n.Consumers+n.Unacked == 0 && p.Open() == 0 })
		c.drained(fresh, far)
	})
}

// TestDeadIncarnationDeliversWhatOthersHad: what was assigned to a node while it was cut off reaches it after the heal, when others have had it. Its clients must not see it: it comes without the flag.
func TestDeadIncarnationDeliversWhatOthersHad(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, _, far := c.threeOfFour()
		for range 4 {
			leader, catalogue := c.AwaitLeader(q), c.catalogueLeader()
			cut := c.Others(leader, far, catalogue)[0]
			k := c.NewConsumer(cut, q, ConsumerPlan{Hold: 100, Window: 200})
			c.Until(3*time.Second, "it consumes", k.Subscribed)
			c.Pause(cut)
			p := c.NewPublisher(far, q)
			p.Confirm(3*time.Second, 20)
			c.Until(2*deathMillis*time.Millisecond, "its messages are ready again", func() bool { n := c.Counts(q); return n.Ready >= 20 })
			y := c.NewConsumer(far, q, ConsumerPlan{})
			c.Until(3*time.Second, "another has them", func() bool { n := c.Counts(q); return n.Ready+n.Unacked == 0 && y.Got() >= 20 })
			slow := c.Others(catalogue, cut)[0] // a write waits for its lease, so that the new incarnation's registration takes its time
			c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool {
				return (to == cut.ID || to == slow.ID) && carriesEntries(m, catalogueShard)
			}})
			c.Heal()
			c.Pass(700 * time.Millisecond) // the queue's log arrives, the word of the death does not
			c.SetRaftFaults(deaf(slow))
			c.Until(10*time.Second, "it learns its death", func() bool { return cut.Fenced() > 0 })
			c.SetRaftFaults(RaftFaults{})
			y.Close()
			c.Pass(5 * time.Second)
			cut.resetFenced()
		}
		c.drained(q, far)
	})
}

// TestReturnEndsAtItsBound: a dead node held far more than one log entry gives back, and the leader that gave back the first part dies, too. The rest follows without anybody's doing.
func TestReturnEndsAtItsBound(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		const many = 30_000
		q, leader, far := c.threeOfFour()
		p := c.NewPublisher(far, q)
		for range many / 500 {
			p.Confirm(5*time.Second, 500)
		}
		k := c.NewConsumer(far, q, ConsumerPlan{Hold: many + 1, Window: many})
		c.Until(5*time.Second, "all is held", func() bool { return k.Held() == many+1 })
		far.Kill()
		part := uint64(0)
		c.Until(deathMillis*time.Millisecond, "a part is ready again", func() bool { part = c.Counts(q).Ready; return part > 0 })
		if part == many+1 {
			c.T.Error("the return has no bound")
		}
		leader.Kill()
		c.Until(5*time.Second, "all is ready again", func() bool { n := c.Counts(q); return n.Ready == many+1 && n.Unacked == 0 })
		leader.Start()
		c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
	})
}

// TestBatchUnderWayOutlivesItsNode: a node's first batch to a queue is in the log and not committed when the node is killed and comes back; whoever looks for the dead then finds nothing in the machine. When
// it is applied it makes a session that nobody would ever end.
func TestBatchUnderWayOutlivesItsNode(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3)
		c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 10)
		far := c.Node(4)
		c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool { return carriesEntries(m, uint64(q)) }})
		c.NewConsumer(far, q, ConsumerPlan{Hold: 100})
		c.Pass(100 * time.Millisecond)
		far.Kill()
		far.Start()
		c.Pass(time.Second)
		c.SetRaftFaults(RaftFaults{})
		c.NewPublisher(c.Node(1), q).Confirm(5*time.Second, 1)
		c.Until(5*time.Second, "the dead incarnation's session is gone", func() bool { n := c.Counts(q); return n.Ready == 11 && n.Consumers+n.Unacked == 0 })
		c.drained(q, far)
	})
}

// TestAutoDeleteQueueOutlivesItsLastConsumer: the node of a queue's last consumer dies, and with it the leader that should act on it.
func TestAutoDeleteQueueOutlivesItsLastConsumer(t *testing.T) {
	for _, leaderDies := range []bool{false, true} {
		t.Run(map[bool]string{false: "the leader lives", true: "the leader dies"}[leaderDies], func(t *testing.T) {
			Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
				q := c.declare(c.Node(5), meta.Queue{VHost: "/", Name: "q", Durable: true, AutoDelete: true, Replicas: []meta.NodeID{1, 2, 3}})
				p := c.NewPublisher(c.Node(5), q)
				p.Confirm(3*time.Second, 10)
				k := c.NewConsumer(c.Node(4), q, ConsumerPlan{Hold: 5})
				c.Until(2*time.Second, "it consumes", func() bool { return k.Got() == 10 })
				c.Node(4).Kill()
				if leaderDies {
					c.Pass(4 * time.Second)
					c.AwaitLeader(q).Kill()
				}
				c.Until(2*deathMillis*time.Millisecond, "the queue is deleted", func() bool { return c.Node(5).Host().Catalogue().View.QueueByID(q) == nil })
			})
		})
	}
}

// TestNodeDiesWhileItStarts: an incarnation is registered, the answer does not reach it, and it is declared dead. The node comes up with the next one.
func TestNodeDiesWhileItStarts(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		leader := c.catalogueLeader()
		deafOne, late := c.Others(leader)[0], c.Others(leader)[1]
		late.Kill()
		c.Pass(time.Second)
		c.SetRaftFaults(deaf(deafOne)) // a write is answered late: when its lease has ended
		late.Begin()
		c.Until(5*time.Second, "it is registered", func() bool { return leader.Host().Catalogue().View.Node(late.ID).Boot.Counter == 2 })
		c.Pause(late)
		c.Until(15*time.Second, "it is declared dead", func() bool { return !leader.Host().Catalogue().View.Node(late.ID).Alive() })
		c.SetRaftFaults(RaftFaults{})
		c.Heal()
		late.await(15 * time.Second)
		c.Until(10*time.Second, "it serves", func() bool { return late.Host().Leased() })
	})
}
