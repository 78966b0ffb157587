package quorumtest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// TestDroppedByRelayCountsTwice: nothing is bound for what leaves a relay, and its leader proposes again and again to let it go.
func TestDroppedByRelayCountsTwice(t *testing.T) {
	Run(t, Options{Latency: 40 * time.Millisecond}, func(c *Cluster) {
		const many = 20
		relay := c.delayedExchange("passed", "fanout", false)
		c.wake(relay)
		var dropped []byte // as they are told to have nowhere to go
		for n := range many {
			dropped = queue.AppendTargets(dropped, uint64(n+1), nil)
		}
		c.SetRaftFaults(RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool {
			return m.ShardID == uint64(relay) && slices.ContainsFunc(m.Entries, func(e pb.Entry) bool { return bytes.Contains(e.Cmd, dropped) })
		}})
		c.newPost(c.AwaitLeader(relay)).send(relay, many)
		c.Pass(100 * time.Second) // proposals time out
		if n := c.Counts(relay); n.Dead != many {
			t.Fatalf("%d have not gone", n.Dead)
		}
		c.SetRaftFaults(RaftFaults{})
		c.Until(60*time.Second, "they are gone", func() bool { n := c.Counts(relay); return n.NextSeq > 1 && n.Dead == 0 })
		c.Pass(10 * time.Second)
		n := uint64(0)
		for _, x := range c.Nodes {
			n += x.Host().Unrouted()
		}
		if n > many {
			t.Errorf("%d are dropped, and %d counted", many, n)
		}
	})
}
