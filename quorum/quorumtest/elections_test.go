package quorumtest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
)

// PROTOCOL 8. Each test is named after what goes wrong without the rule.

// AwaitRunning waits until a queue has a leader and its replicas are equal; the first touch starts it.
func (c *Cluster) AwaitRunning(q meta.QueueID) {
	c.T.Helper()
	c.NewConsumer(c.Live()[0], q, ConsumerPlan{}).Close()
	c.Until(5*time.Second, "the queue runs", func() bool { return c.Leader(q) != nil && c.equalReplicas(q) && c.Counts(q).Consumers == 0 })
}

// TestNewGroupWaitsForAnElectionTimeout: a queue with three replicas confirms its first publish at once.
func TestNewGroupWaitsForAnElectionTimeout(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		var took []time.Duration
		for i := range 30 {
			at := c.Nodes[i%3]
			began := time.Now()
			q := c.Declare(at, fmt.Sprint("q", i))
			c.NewPublisher(at, q).Confirm(2*time.Second, 1)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		c.T.Logf("declare and first confirm: median %v, worst %v", took[len(took)/2], took[len(took)-1])
		if median, worst := took[len(took)/2], took[len(took)-1]; median > 50*time.Millisecond || worst > 600*time.Millisecond {
			c.T.Errorf("median %v, worst %v", median, worst)
		}
	})
}

// TestDeadLeaderIsMissedLate: from the death of a leader to the next confirm, whether its connections are reset or silent.
func TestDeadLeaderIsMissedLate(t *testing.T) {
	for _, how := range []string{"kill", "power", "pause"} {
		t.Run(how, func(t *testing.T) {
			Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
				q := c.Declare(c.Node(1), "q")
				c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 1)
				var took []time.Duration
				for i := range 20 {
					leader := c.AwaitLeader(q)
					p := c.NewPublisher(c.Others(leader)[i%2], q)
					p.Confirm(time.Second, 1)
					switch how {
					case "kill":
						leader.Kill()
					case "power":
						leader.PowerOff()
					default:
						c.Pause(leader)
					}
					took = append(took, p.Confirm(10*time.Second, 1))
					c.Heal()
					leader.PowerOn()
					if leader.process() == nil {
						leader.Start()
					}
					c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
				}
				slices.Sort(took)
				c.T.Logf("death to confirm: median %v, worst %v", took[10], took[19])
				if took[10] > time.Second || took[19] > 3*time.Second {
					c.T.Errorf("median %v, worst %v", took[10], took[19])
				}
				c.drained(q, c.Node(1))
			})
		})
	}
}

// TestReturningMemberDeposesGoodLeader: members that were cut off, paused or restarted come back, and the leader stays.
func TestReturningMemberDeposesGoodLeader(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3)
		p := c.NewPublisher(c.Node(4), q)
		p.Confirm(2*time.Second, 1)
		leader := c.AwaitLeader(q)
		c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
		before, _ := leader.Host().QueueStatus(q)
		same := func(after string) {
			c.T.Helper()
			p.Confirm(time.Second, 1)
			c.Pass(3 * time.Second)
			p.Confirm(time.Second, 1)
			if now, _ := leader.Host().QueueStatus(q); now.Term != before.Term || now.Leader != leader.ID {
				c.T.Errorf("after %s: term %d led by %d, before: term %d led by %d", after, now.Term, now.Leader, before.Term, before.Leader)
				before = now
			}
		}
		for _, n := range c.Nodes[:3] {
			if n == leader {
				continue
			}
			c.Pause(n)
			c.Pass(3 * time.Second)
			c.Heal()
			same("a short cut of " + n.Name)
			c.Pause(n)
			c.Pass(15 * time.Second)
			c.Heal()
			same("a long cut of " + n.Name)
			c.CutOneWay(leader, n)
			c.Pass(4 * time.Second)
			c.Heal()
			same("a one-way cut to " + n.Name)
			c.cutBoth(leader, n, 1)
			c.Pass(4 * time.Second)
			c.Heal()
			same("a cut between the leader and " + n.Name)
			n.Kill()
			n.Start()
			same("a restart of " + n.Name)
		}
		c.drained(q, c.Node(5))
	})
}

// TestStartOrderMatters: all nodes are killed and started in every order; from the moment two listen, confirms come within five seconds.
func TestStartOrderMatters(t *testing.T) {
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
				q := c.Declare(c.Node(1), "q")
				c.NewPublisher(c.Node(1), q).Confirm(2*time.Second, 50)
				for _, i := range order {
					c.Nodes[i].Kill()
				}
				c.Pass(time.Second)
				c.Nodes[order[0]].Begin()
				c.Pass(3 * time.Second)
				c.Nodes[order[1]].Begin()
				began := time.Now()
				for _, i := range order[:2] {
					c.Nodes[i].await(5 * time.Second)
				}
				for _, i := range order[:2] {
					c.NewPublisher(c.Nodes[i], q).Confirm(5*time.Second, 1)
				}
				took := time.Since(began)
				c.T.Logf("confirms %v after two listen", took)
				if took > 5*time.Second {
					c.T.Errorf("confirms %v after two listen", took)
				}
				c.Nodes[order[2]].Start()
				c.NewPublisher(c.Nodes[order[2]], q).Confirm(5*time.Second, 1)
				c.drained(q, c.Nodes[order[2]])
			})
		})
	}
}

// TestLaggingMemberKicksForEver: all nodes are killed and started while one member's log is behind: it cannot win and must not keep the others from it.
func TestLaggingMemberKicksForEver(t *testing.T) {
	for _, latency := range []time.Duration{0, 200 * time.Microsecond, 6 * time.Millisecond} {
		for lagging := range 3 {
			t.Run(fmt.Sprint(latency, " n", lagging+1), func(t *testing.T) {
				Run(t, Options{Latency: latency}, func(c *Cluster) {
					q := c.Declare(c.Node(1), "q")
					c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 10)
					lag := c.Nodes[lagging]
					for round := range 3 {
						c.Until(5*time.Second, "the replicas are equal", func() bool { return c.equalReplicas(q) })
						c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool { return to == lag.ID && carriesEntries(m, uint64(q)) }})
						c.NewPublisher(c.Others(lag)[round%2], q).Confirm(5*time.Second, 50)
						before, _ := c.Others(lag)[0].Host().QueueStatus(q)
						for _, n := range c.Nodes {
							n.Kill()
						}
						c.SetRaftFaults(RaftFaults{})
						for _, n := range c.Nodes {
							n.Begin()
						}
						for _, n := range c.Nodes {
							n.await(5 * time.Second)
						}
						p := c.NewPublisher(c.Nodes[round], q)
						p.Send(1, 0)
						took := c.Until(5*time.Second, "a confirm", func() bool { return p.Confirmed() == 1 })
						after, _ := c.Nodes[round].Host().QueueStatus(q)
						if after.Term-before.Term > 6 {
							c.T.Errorf("%d elections in %v", after.Term-before.Term, took)
						}
					}
					c.drained(q, lag)
				})
			})
		}
	}
}

// TestRestartedLeaderDeposesItsSuccessor: the leader is killed and started again, with a log that is behind by now. It must leave its successor alone: it cannot win, but its kicks bypass PreVote.
func TestRestartedLeaderDeposesItsSuccessor(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, _, far := c.threeOfFour()
		p := c.NewPublisher(far, q)
		for range 5 {
			former := c.AwaitLeader(q)
			p.Confirm(2*time.Second, 10)
			former.Kill()
			p.Confirm(3*time.Second, 50)
			successor := c.AwaitLeader(q)
			before, _ := successor.Host().QueueStatus(q)
			former.Start()
			for range 10 {
				if took := p.Confirm(5*time.Second, 1); took > 500*time.Millisecond {
					c.T.Errorf("no confirm for %v after the former leader's restart", took)
				}
				c.Pass(50 * time.Millisecond)
			}
			if after, _ := successor.Host().QueueStatus(q); after.Term != before.Term {
				c.T.Errorf("%d elections by the restart of %s", after.Term-before.Term, former.Name)
			}
		}
		c.drained(q, far)
	})
}

// TestRestartedNodeDeposesCatalogueLeader: the same for the catalogue, whose every change of leader holds declares up until all leases have ended.
func TestRestartedNodeDeposesCatalogueLeader(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		leader := c.catalogueLeader()
		for _, n := range c.Others(leader) {
			var votes atomic.Int64
			c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool {
				if m.ShardID == catalogueShard && m.Type == pb.RequestVote {
					votes.Add(1)
				}
				return false
			}})
			n.Kill()
			n.Start()
			c.Pass(2 * time.Second)
			c.SetRaftFaults(RaftFaults{})
			if votes.Load() > 0 {
				c.T.Errorf("%d votes were asked for when %s was restarted", votes.Load(), n.Name)
			}
		}
		if now := c.catalogueLeader(); now != leader {
			c.T.Errorf("%s leads the catalogue, before the restarts %s did", now.Name, leader.Name)
		}
	})
}
