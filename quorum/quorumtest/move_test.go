package quorumtest

import (
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// move has a node move up to many messages of a queue to another one. Whoever asks may die with the question.
func (p *post) move(from, to meta.QueueID, many uint64) {
	_ = p.session.Submit(from, &queue.Command{Op: queue.OpMove, Peer: queue.QueueID(to), Reason: queue.ReasonMoved, To: many}, 0)
	p.session.Flush()
}

// TestMovedComeTwiceOrNever: the leaders of the source and of the target die in turn while messages are moved from one to the other, and who had them moved asks again.
func TestMovedComeTwiceOrNever(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 16 << 10}, func(c *Cluster) {
		const many, rounds = 600, 6
		source, target := c.declareWith("source", nil), c.declareWith("target", nil)
		p := c.newPost(c.Node(4))
		for round := range rounds {
			c.newPost(c.Node(4)).send(source, many)
			c.wake(target)
			victim := c.AwaitLeader([]meta.QueueID{source, target}[round%2])
			p.move(source, target, 200)
			p.move(source, target, 200)
			c.Pass(time.Duration(1+2*round) * time.Millisecond)
			victim.Kill()
			p.move(source, target, 150)
			c.Pass(time.Second)
			victim.Start()
			p.move(source, target, many)
			c.once(source, target, many)
			c.drop(target)
			target = c.declareWith("target", nil)
		}
	})
}
