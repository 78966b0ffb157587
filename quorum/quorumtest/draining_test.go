package quorumtest

import (
	"context"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// delete deletes a queue as a client of a node does.
func (c *Cluster) delete(at *Node, q meta.QueueID) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := at.Host().DeleteQueue(ctx, q, 0); err != nil {
		c.T.Fatal(err)
	}
}

// arrived waits until messages 0 to many-1 are in a queue, each once, and its source is gone.
func (c *Cluster) arrived(source, target meta.QueueID, many int) {
	c.T.Helper()
	c.Until(30*time.Second, "the deleted queue is gone", func() bool { return c.Live()[0].Host().Catalogue().View.QueueByID(source) == nil })
	c.Pass(2 * time.Second)
	times := make(map[int]int)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	peeked, err := c.AwaitLeader(target).Host().Peek(ctx, target, quorum.Look{Count: 2 * many}, c.counting(times))
	if err != nil || peeked.Total != uint64(many) {
		c.T.Errorf("%d messages arrived, want %d (%v)", peeked.Total, many, err)
	}
	for n := range many {
		if times[n] != 1 {
			c.Books.violate("dead letter %d is there %d times", n, times[n])
		}
	}
	c.sound()
}

// TestLettersOfDeletedQueueAreLost: a queue is deleted, by a node that leads it, one that follows and one that has nothing of it, while letters wait in it: for their target, and for a target at all. They arrive, though the
// leader dies; the name is free at once; then nothing is left.
func TestLettersOfDeletedQueueAreLost(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 16 << 10}, func(c *Cluster) {
		const many = 300
		for round := range 3 {
			source, target := c.declareWith("source", letters("dead", "")), c.declareWith("target", nil)
			if round == 0 {
				c.fanout("dead", "target")
			} else {
				c.drop(target)
			}
			c.SetRaftFaults(blocked(target))
			c.newPost(c.Node(4)).send(source, many)
			c.dead(source, many)
			leader := c.AwaitLeader(source)
			c.delete([]*Node{leader, c.Others(leader)[0], c.Node(4)}[round], source)
			view := c.Live()[0].Host().Catalogue().View
			if q := view.QueueByID(source); q == nil || !q.IsDraining() || q.KnownAs() != "source" || view.Queue("/", "source") != nil {
				t.Fatalf("the deleted queue is %+v", q)
			}
			again := c.declareWith("source", amqp.Table{})
			if again == source {
				t.Fatal("the name is not free")
			}
			c.Pass(time.Second)
			leader.Kill()
			c.Pass(3 * time.Second)
			leader.Start()
			c.SetRaftFaults(RaftFaults{})
			if round > 0 {
				target = c.declareWith("target", nil)
				c.fanout("dead", "target")
			}
			c.arrived(source, target, many)
			c.drop(again)
			c.drop(target)
		}
	})
}

// TestDrainingQueueGoesByForce: nothing ever takes its letters, and then most of its replicas are lost; a delete without mercy removes it, and so does that of its virtual host.
func TestDrainingQueueGoesByForce(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		for round := range 3 {
			source := c.declareWith("source", letters("dead", ""))
			c.newPost(c.Node(1)).send(source, 50)
			c.dead(source, 50)
			c.delete(c.Node(1), source)
			c.Pass(30 * time.Second)
			if q := c.Node(1).Host().Catalogue().View.QueueByID(source); q == nil || !q.IsDraining() {
				t.Fatal("it did not wait:", q)
			}
			switch round {
			case 0:
				c.drop(source)
			case 1:
				c.Node(2).Kill()
				c.Node(3).Kill()
				c.Pass(time.Minute)
				if st, ok := c.Node(1).Host().QueueStatus(source); !ok || st.Leader != 0 || st.Counts.Dead != 50 {
					t.Errorf("without a majority it is %+v", st)
				}
				c.drop(source)
				c.Pass(time.Second)
				c.Node(2).Start()
				c.Node(3).Start()
				c.Until(20*time.Second, "all nodes serve", c.incarnationsAgree)
			case 2:
				c.write(meta.Command{Op: meta.OpDeleteVHost, VHost: meta.VHost{Name: "/"}})
			}
			c.Until(5*time.Second, "it is gone", func() bool {
				for _, n := range c.Live() {
					if _, ok := n.Host().QueueStatus(source); ok {
						return false
					}
				}
				return true
			})
		}
	})
}

// TestQueueWithoutLettersGoesAtOnce: whoever deletes it, nothing is left of it.
func TestQueueWithoutLettersGoesAtOnce(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		for _, n := range []meta.NodeID{1, 2, 4} {
			for _, used := range []bool{false, true} {
				source := c.declareWith("source", letters("dead", "")[1:]) // what is in it stays there
				if used {
					c.newPost(c.Node(4)).send(source, 10)
				}
				c.delete(c.Node(n), source)
				c.Until(10*time.Second, "it is gone", func() bool { return c.Node(3).Host().Catalogue().View.QueueByID(source) == nil })
			}
		}
	})
}

// TestDeletedExchangeBreaksItsWord: an exchange is deleted, by a node that leads its relay and one that has nothing of it, while its target takes nothing; what it has confirmed
// arrives though its leader dies.
func TestDeletedExchangeBreaksItsWord(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 16 << 10}, func(c *Cluster) {
		const many = 300
		for round := range 2 {
			relay, target := c.delayedExchange("passed", "fanout", false), c.declareWith("target", nil)
			c.bindTo("passed", "target")
			p := c.newPost(c.Node(4))
			p.send(relay, 1)
			c.once(relay, target, 1)
			c.SetRaftFaults(blocked(target))
			p.okay = 0
			p.send(relay, many)
			leader := c.AwaitLeader(relay)
			at := []*Node{leader, c.Node(4)}[round]
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			_, err := at.Host().Do(ctx, meta.Command{Op: meta.OpDeleteExchange, Exchange: meta.Exchange{VHost: "/", Name: "passed"}})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if q := at.Host().Catalogue().View.QueueByID(relay); q == nil || !q.IsDraining() {
				t.Fatalf("the relay of a deleted exchange is %+v", q)
			}
			c.Pass(time.Second)
			leader.Kill()
			c.Pass(3 * time.Second)
			leader.Start()
			c.SetRaftFaults(RaftFaults{})
			c.Until(30*time.Second, "the relay is gone", func() bool { return c.Live()[0].Host().Catalogue().View.QueueByID(relay) == nil })
			c.Until(10*time.Second, "all is there", func() bool { return c.Counts(target).Ready == many+1 })
			c.drop(target)
		}
	})
}

// TestExchangeDeletedUnderItsPublisher: messages come while an exchange is deleted, by a node that leads its relay and one that has nothing of it, or goes with the only exchange that it leads to. All that count as done are in the target.
func TestExchangeDeletedUnderItsPublisher(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		const runs, many = 60, 10
		for round := range 12 {
			target, goes := c.declareWith("target", nil), "passed"
			relay := c.delayedExchange("passed", "fanout", round >= 6)
			if round < 6 {
				c.bindTo("passed", "target")
			} else {
				goes = "behind"
				c.fanout(goes, "target")
				c.write(meta.Command{Op: meta.OpBind, Binding: meta.Binding{VHost: "/", Source: "passed", Kind: meta.ToExchange, Destination: goes}})
			}
			p := c.newPost(c.Node(4))
			p.send(relay, 1)
			c.once(relay, target, 1)
			at := []*Node{c.AwaitLeader(relay), c.Node(4)}[round%2]
			deleted := make(chan error, 1)
			for run := range runs {
				if run == runs/2+round%6 {
					go func() {
						_, err := at.Host().Do(context.Background(), meta.Command{Op: meta.OpDeleteExchange, Exchange: meta.Exchange{VHost: "/", Name: goes}})
						deleted <- err
					}()
				}
				p.submit(relay, many)
				c.Pass(300 * time.Microsecond)
			}
			if err := <-deleted; err != nil {
				t.Fatal(err)
			}
			c.Until(30*time.Second, "the relay is gone", func() bool { return c.Live()[0].Host().Catalogue().View.QueueByID(relay) == nil })
			c.Pass(2 * time.Second)
			done, there := uint64(p.count(&p.okay)), c.Counts(target).Ready
			if done > there {
				t.Errorf("round %d: %d messages count as done, and %d arrived", round, done, there)
			}
			if done < runs*many/4 || done >= runs*many {
				t.Errorf("round %d: %d messages are done, which tests nothing", round, done)
			}
			c.drop(target)
		}
	})
}
