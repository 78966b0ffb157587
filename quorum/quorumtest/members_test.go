package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// TestRemovedLeaderStrandsItsNode: the leader's own replica is removed while its node publishes and consumes. The others have a leader at once, and the node goes on without a replica.
func TestRemovedLeaderStrandsItsNode(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(4), "q", 1, 2, 3, 4)
		c.NewPublisher(c.Node(4), q).Confirm(3*time.Second, 1)
		leader := c.AwaitLeader(q)
		k := c.NewConsumer(leader, q, ConsumerPlan{Hold: 10, Window: 30})
		p, other := c.NewPublisher(leader, q), c.NewPublisher(c.Others(leader)[0], q)
		p.Confirm(time.Second, 20)
		removed := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			removed <- leader.Host().RemoveReplica(ctx, q, leader.ID)
		}()
		for range 100 {
			p.Send(2, 20)
			other.Send(2, 20)
			c.Pass(2 * time.Millisecond)
		}
		if err := <-removed; err != nil {
			c.T.Fatal(err)
		}
		if took := other.Confirm(time.Second, 1); took > 500*time.Millisecond {
			c.T.Errorf("the next confirm after %v", took)
		}
		p.Confirm(time.Second, 5)
		if _, member := leader.Host().Catalogue().View.QueueByID(q).MemberOn(leader.ID); member {
			c.T.Error("its replica was not removed")
		}
		k.Release()
		c.drained(q, leader)
	})
}

// TestChangeOfMembersIsForgotten: the leader dies between the change of its group and the note of it in the catalogue. A later leader makes up for it.
func TestChangeOfMembersIsForgotten(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		leader := c.catalogueLeader()
		far, others := c.Others(leader)[0], c.Others(leader)
		var q meta.QueueID
		for i := 0; ; i++ { // until one is led by the catalogue's leader, whose last words are lost
			q = c.Declare(leader, fmt.Sprint("q", i), leader.ID, others[1].ID, others[2].ID, others[3].ID)
			c.NewPublisher(far, q).Confirm(3*time.Second, 1)
			if c.AwaitLeader(q) == leader {
				break
			}
		}
		c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool { return carriesEntries(m, catalogueShard) }})
		gone := others[1]
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = leader.Host().RemoveReplica(ctx, q, gone.ID)
		}()
		c.Pass(300 * time.Millisecond)
		leader.Kill()
		c.SetRaftFaults(RaftFaults{})
		c.Until(8*time.Second, "the catalogue has the members that the group has", func() bool {
			_, member := far.Host().Catalogue().View.QueueByID(q).MemberOn(gone.ID)
			return !member
		})
		c.NewPublisher(gone, q).Confirm(3*time.Second, 5)
		leader.Start()
		c.drained(q, gone)
	})
}

// TestLeaderlessQueueAnswersLate: whoever wants something of a queue that has lost its majority is told so within seconds, on a node with a replica and on one without, and not that the node is closing.
func TestLeaderlessQueueAnswersLate(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		q := c.Declare(c.Node(1), "q", 1, 2, 3)
		c.NewPublisher(c.Node(1), q).Confirm(3*time.Second, 1)
		c.Node(2).Kill()
		c.Node(3).Kill()
		c.Pass(8 * time.Second) // the leader has stepped down, and the dead are declared dead
		for _, at := range []*Node{c.Node(1), c.Node(4)} {
			h := at.Host()
			for what, ask := range map[string]func(context.Context) error{
				"add":    func(ctx context.Context) error { return h.AddReplica(ctx, q, 5) },
				"remove": func(ctx context.Context) error { return h.RemoveReplica(ctx, q, 2) },
				"move":   func(ctx context.Context) error { return h.MoveLeader(ctx, q, 1) },
				"delete": func(ctx context.Context) error { _, err := h.DeleteQueue(ctx, q, queue.IfEmpty); return err },
			} {
				began := time.Now()
				err := ask(context.Background())
				took := time.Since(began)
				if limit := 11 * time.Second; !errors.Is(err, quorum.ErrNoLeader) || took > limit || what != "delete" && took > 4*time.Second {
					c.T.Errorf("%s at %s: %v after %v", what, at.Name, err, took)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
				began = time.Now()
				if err := ask(ctx); !errors.Is(err, quorum.ErrNoLeader) || time.Since(began) > 600*time.Millisecond {
					c.T.Errorf("%s at %s within half a second: %v after %v", what, at.Name, err, time.Since(began))
				}
				cancel()
			}
		}
		c.Node(2).Start()
		c.Node(3).Start()
		c.NewPublisher(c.Node(4), q).Confirm(5*time.Second, 1)
		c.drained(q, c.Node(4))
	})
}
