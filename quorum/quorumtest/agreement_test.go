package quorumtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// docs/adr/0013: transactions over several queues. Each test is named after what goes wrong without the rule.

// treaty is a session that takes part in one transaction over several queues, step by step. The first queue is the home.
type treaty struct {
	c       *Cluster
	session *quorum.Session
	queues  []meta.QueueID

	mu      sync.Mutex
	replies map[meta.QueueID]queue.Reply
}

// The steps of a treaty.
const (
	treatyStages = iota
	treatyPrepares
	treatyDecides
	treatyFinishes
	treatyForgets
	treatySteps
)

// Completed implements quorum.Receiver.
func (y *treaty) Completed(q meta.QueueID, done []quorum.Completion) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.replies[q] = done[len(done)-1].Reply
}

// The others of these implement quorum.Receiver, too.
func (*treaty) Deliver(meta.QueueID, []quorum.Delivery)  {}
func (*treaty) Cancelled(meta.QueueID, queue.ConsumerID) {}
func (*treaty) Synced(meta.QueueID, *queue.SessionSync)  {}
func (*treaty) Ready(meta.QueueID, uint64)               {}
func (*treaty) TimedOut(meta.QueueID, []uint64)          {}
func (*treaty) Gone(meta.QueueID)                        {}

// newTreaty puts two messages into each of three queues, of which the session gets the first: it is to be acknowledged in the transaction, which also brings a new one.
func (c *Cluster) newTreaty(at *Node, prefix string) *treaty {
	c.T.Helper()
	y := &treaty{c: c, replies: make(map[meta.QueueID]queue.Reply)}
	y.session = at.Host().OpenSession(y)
	for i := range 3 {
		q := c.declareWith(fmt.Sprint(prefix, i), nil)
		y.queues = append(y.queues, q)
		c.newPost(at).send(q, 2)
	}
	y.do(y.queues, queue.Command{Op: queue.OpGet})
	y.await(5*time.Second, queue.CodeOK)
	return y
}

// do sends a command to queues without waiting.
func (y *treaty) do(queues []meta.QueueID, cmds ...queue.Command) {
	y.c.T.Helper()
	y.mu.Lock()
	clear(y.replies)
	y.mu.Unlock()
	for _, q := range queues {
		for i := range cmds {
			cmd, token := cmds[i], uint64(0)
			if i == len(cmds)-1 {
				token = 1
			}
			if err := y.session.Submit(q, &cmd, token); err != nil {
				y.c.T.Fatal(err)
			}
		}
	}
	y.session.Flush()
}

// await waits for the answers of so many queues as were asked.
func (y *treaty) await(within time.Duration, code queue.Code) {
	y.c.T.Helper()
	y.c.Until(within, "the queues answer", func() bool { return y.answered(code) > 0 })
}

// answered counts the answers, which must have that code.
func (y *treaty) answered(code queue.Code) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	for q, r := range y.replies {
		if r.Code != code {
			y.c.T.Errorf("queue %d answers %+v, want code %d", q, r, code)
		}
	}
	return len(y.replies)
}

// step takes one step. others leaves out queues behind those.
func (y *treaty) step(step, others int) {
	y.c.T.Helper()
	home, rest := y.queues[:1], y.queues[1:1+others]
	switch step {
	case treatyStages:
		env := message.Append(nil, &message.Envelope{RoutingKey: []byte("new"), Properties: []byte{0, 0}, Body: []byte("7")})
		y.do(y.queues, queue.Command{Op: queue.OpTxEnqueue, Tx: 1, Flags: queue.FlagPersistent, BodyBytes: 1, Envelope: env},
			queue.Command{Op: queue.OpTxSettle, Tx: 1, Outcome: queue.OutcomeAck, From: 1, To: 1})
	case treatyPrepares:
		y.do(rest, queue.Command{Op: queue.OpTxPrepare, Tx: 1, To: 2, Peer: queue.QueueID(home[0])})
	case treatyDecides:
		cmd := queue.Command{Op: queue.OpTxDecide, Tx: 1, To: 2}
		for _, q := range y.queues[1:] {
			cmd.Envelope = queue.AppendQueue(cmd.Envelope, queue.QueueID(q))
		}
		y.do(home, cmd)
	case treatyFinishes:
		y.do(rest, queue.Command{Op: queue.OpTxFinish, Tx: 1})
	case treatyForgets:
		y.do(home, queue.Command{Op: queue.OpTxFinish, Tx: 1})
	}
}

// through takes all steps before one and waits for each; of the last of them only so many other queues hear.
func (y *treaty) through(steps, others int) {
	y.c.T.Helper()
	for s := range steps {
		n := len(y.queues) - 1
		if s == steps-1 {
			n = others
		}
		y.step(s, n)
		want := map[int]int{treatyStages: len(y.queues), treatyPrepares: n, treatyDecides: 1, treatyFinishes: n, treatyForgets: 1}[s]
		y.c.Until(5*time.Second, fmt.Sprint("step ", s, " is answered"), func() bool { return y.answered(queue.CodeOK) == want })
	}
}

// ends waits until nothing is open, and holds every queue to the same outcome: with a commit the first message is acknowledged and the new one there, else the first is there again and the new one is not.
func (y *treaty) ends(within time.Duration, mayCommit, mayAbort bool) {
	y.c.T.Helper()
	var n [3]queue.Counts
	y.c.Until(within, "the transaction ends", func() bool {
		for i, q := range y.queues {
			if n[i] = y.c.Counts(q); n[i].Unacked > 0 || n[i].Ready != 2 {
				return false
			}
		}
		return true
	})
	for i := range n {
		if n[i].Acked != n[0].Acked || n[i].Enqueued != n[0].Enqueued || n[i].Enqueued != 2+n[i].Acked {
			y.c.T.Errorf("queue %d: %d acknowledged, %d enqueued; home: %d and %d", i, n[i].Acked, n[i].Enqueued, n[0].Acked, n[0].Enqueued)
		}
	}
	if committed := n[0].Acked == 1; committed && !mayCommit || !committed && !mayAbort {
		y.c.T.Errorf("committed: %t", committed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if r, err := y.c.AwaitLeader(y.queues[0]).Host().DeleteQueue(ctx, y.queues[0], queue.IfUnused); err != nil || r.Code != queue.CodeOK {
		y.c.T.Errorf("the home still has decisions, or was asked in vain: %+v, %v", r, err)
	}
}

// TestDeadCoordinatorLeavesHalfATransaction: the node of the channel dies behind every step, or in the middle of it. Until the home has decided nothing happened, from then on everything.
func TestDeadCoordinatorLeavesHalfATransaction(t *testing.T) {
	for steps := 1; steps <= treatySteps; steps++ {
		for others := 1; others <= 2; others++ {
			if others == 1 && steps-1 != treatyPrepares && steps-1 != treatyFinishes {
				continue
			}
			Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
				far := c.Node(4)
				y := c.newTreaty(far, "q")
				y.through(steps, others)
				far.Kill()
				decided := steps > treatyDecides
				y.ends(2*deathMillis*time.Millisecond+10*time.Second, decided, !decided)
				far.Start()
			})
		}
	}
}

// TestLeaderTakesATransactionWithIt: the leader of the home, or of another queue, dies with a step on its way to it. The steps are taken all the same, and the transaction is committed.
func TestLeaderTakesATransactionWithIt(t *testing.T) {
	for step := range treatySteps {
		for victim := range 2 {
			Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
				y := c.newTreaty(c.Node(4), "q")
				y.through(step, 2)
				leader := c.AwaitLeader(y.queues[victim])
				y.step(step, 2)
				if step%2 == 0 {
					c.Pass(time.Millisecond)
				}
				leader.Kill()
				want := map[int]int{treatyStages: 3, treatyPrepares: 2, treatyDecides: 1, treatyFinishes: 2, treatyForgets: 1}[step]
				y.c.Until(10*time.Second, "the step is answered", func() bool { return y.answered(queue.CodeOK) == want })
				for s := step + 1; s < treatySteps; s++ {
					y.step(s, 2)
					y.c.Until(10*time.Second, "a later step is answered", func() bool { return y.answered(queue.CodeOK) > 0 })
				}
				leader.Start()
				y.ends(10*time.Second, true, false)
			})
		}
	}
}

// TestLateDecisionIsTaken: the channel's node is cut off with everything reserved, and decides. The others ask and hear that nothing was decided: the decision that comes late is refused. If it came first,
// they hear that.
func TestLateDecisionIsTaken(t *testing.T) {
	for _, late := range []bool{true, false} {
		Run(t, Options{Nodes: 7, Latency: time.Millisecond}, func(c *Cluster) {
			far := c.Node(7)
			y := c.newTreaty(far, "q")
			y.through(treatyDecides, 2)
			if !late {
				y.step(treatyDecides, 2)
				c.Pass(100 * time.Millisecond)
			}
			for _, m := range c.Nodes[:3] {
				c.cutBoth(far, m, 0)
			}
			if late {
				y.step(treatyDecides, 2)
			}
			c.Pass(15 * time.Second)
			if late {
				y.mu.Lock()
				clear(y.replies)
				y.mu.Unlock()
			}
			c.Heal()
			if late {
				c.Until(10*time.Second, "the decision is answered", func() bool { return y.answered(queue.CodeStale) == 1 })
			}
			y.session.Close(func(meta.QueueID) uint64 { return 1 }, 0)
			y.ends(20*time.Second, !late, late)
		})
	}
}

// TestEvictedChannelHalvesATransaction: a node that lives is evicted from the queues with everything reserved, or with everything decided.
func TestEvictedChannelHalvesATransaction(t *testing.T) {
	for _, steps := range []int{treatyDecides, treatyFinishes} {
		Run(t, Options{Nodes: 7, Latency: time.Millisecond}, func(c *Cluster) {
			far := c.Node(7)
			y := c.newTreaty(far, "q")
			y.through(steps, 2)
			for _, m := range c.Nodes[:3] {
				c.cutBoth(far, m, 0)
			}
			c.Pass(80 * time.Second)
			decided := steps > treatyDecides
			if decided {
				y.step(treatyFinishes, 2)
			}
			c.Heal()
			if decided {
				c.Until(10*time.Second, "the others answer", func() bool { return y.answered(queue.CodeOK) == 2 })
			}
			y.session.Close(func(meta.QueueID) uint64 { return 1 }, 0)
			y.ends(20*time.Second, decided, !decided)
		})
	}
}

// TestDeletedHomeTakesItsDecisionAlong: somebody deletes the home when the channel's node is dead, on a node that has a replica of it and on one that has none, with a condition and without. What was decided is carried out first; what was not is given back.
func TestDeletedHomeTakesItsDecisionAlong(t *testing.T) {
	for _, steps := range []int{treatyDecides, treatyFinishes} {
		for _, cond := range []queue.Condition{0, queue.IfUnused} {
			for _, by := range []meta.NodeID{1, 5} {
				Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
					y := c.newTreaty(c.Node(4), "q")
					y.through(steps, 2)
					c.Node(4).Kill()
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					if r, err := c.Node(by).Host().DeleteQueue(ctx, y.queues[0], cond); err != nil || r.Code != queue.CodeOK {
						c.T.Fatalf("the delete: %+v, %v", r, err)
					}
					y.othersEnd(steps > treatyDecides)
				})
			}
		}
	}
}

// othersEnd waits until the queues that are not the home have carried out their parts, or given them back.
func (y *treaty) othersEnd(committed bool) {
	y.c.T.Helper()
	want := uint64(0)
	if committed {
		want = 1
	}
	for _, q := range y.queues[1:] {
		y.c.Until(2*deathMillis*time.Millisecond+20*time.Second, "the transaction ends", func() bool {
			n := y.c.Counts(q)
			return n.Ready == 2 && n.Unacked == 0 && n.Acked == want
		})
	}
}

// TestDeletedHomeHalvesATransaction: the node that leads the home is told to delete it before it has decided, and it decides before the catalogue knows. One queue hears of it, then the channel's node dies. The others hear the
// same from the home, which stays until then.
func TestDeletedHomeHalvesATransaction(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		y := c.newTreaty(c.Node(5), "q")
		y.through(treatyDecides, 2)
		home := c.AwaitLeader(y.queues[0])
		c.SetRaftFaults(blocked(catalogueShard))
		deleted := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := home.Host().DeleteQueue(ctx, y.queues[0], 0)
			deleted <- err
		}()
		c.Pass(10 * time.Millisecond)
		y.step(treatyDecides, 2)
		y.c.Until(5*time.Second, "the home decides", func() bool { return y.answered(queue.CodeOK) == 1 })
		y.step(treatyFinishes, 1)
		y.c.Until(5*time.Second, "one hears of it", func() bool { return y.answered(queue.CodeOK) == 1 })
		c.Node(5).Kill()
		c.SetRaftFaults(RaftFaults{})
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		y.othersEnd(true)
		c.Until(30*time.Second, "the deleted queue is gone", func() bool { return home.Host().Catalogue().View.QueueByID(y.queues[0]) == nil })
	})
}

// TestFaultsHalveATransaction: nodes die, are cut off and come back at random moments of a transaction, whose channel goes on as far as it can. Whatever was decided, all queues do the same.
func TestFaultsHalveATransaction(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 13))
		Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
			for round := range 4 {
				y := c.newTreaty(c.Node(4), fmt.Sprint("q", round, "-"))
				victim, cut := c.Nodes[min(rng.IntN(6), 3)], rng.IntN(2) == 0 // the channel's own in half of the rounds
				at, after := rng.IntN(treatySteps), time.Duration(rng.IntN(4000))*time.Microsecond
				for step := range treatySteps {
					if !y.tryStep(step) {
						break
					}
					if step == at {
						c.Pass(after)
						if cut {
							c.Pause(victim)
						} else {
							victim.Kill()
						}
					}
					if !y.waits(step, time.Duration(rng.IntN(15_000))*time.Millisecond) {
						break
					}
				}
				c.Pass(time.Duration(rng.IntN(9000)) * time.Millisecond)
				if cut {
					c.Heal()
				} else {
					victim.Start()
				}
				c.Until(20*time.Second, "all nodes serve", c.incarnationsAgree)
				y.session.Close(func(meta.QueueID) uint64 { return 1 }, 0)
				y.ends(2*deathMillis*time.Millisecond+20*time.Second, true, true)
			}
		})
	}
}

// tryStep takes a step, unless the node of the channel is down or was declared dead.
func (y *treaty) tryStep(step int) bool {
	probe := queue.Command{Op: queue.OpQuery}
	if y.session.Submit(y.queues[0], &probe, 0) != nil {
		return false
	}
	y.step(step, 2)
	return true
}

// waits waits for the answers to a step and tells whether all are good.
func (y *treaty) waits(step int, within time.Duration) bool {
	want := map[int]int{treatyStages: 3, treatyPrepares: 2, treatyDecides: 1, treatyFinishes: 2, treatyForgets: 1}[step]
	for until := y.c.Elapsed() + within; y.c.Elapsed() < until; y.c.Pass(5 * time.Millisecond) {
		y.mu.Lock()
		n, good := len(y.replies), true
		for _, r := range y.replies {
			good = good && r.Code == queue.CodeOK
		}
		y.mu.Unlock()
		if !good {
			return false
		}
		if n == want {
			return true
		}
	}
	return false
}
