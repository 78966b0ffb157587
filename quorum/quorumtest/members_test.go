//go:build simulation

package quorumtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
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
