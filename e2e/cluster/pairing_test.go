package cluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestKilledNodesHalveNoTransaction: transactions that take from two queues and publish to two others, by clients of all nodes, while nodes die at random moments, at last all at once. Everything is in
// exactly one place, exactly once.
func TestKilledNodesHalveNoTransaction(t *testing.T) {
	many, kills := pick(2000, 50_000), pick(2, 25)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	began := time.Now()
	p := harness.StartPairing(t, c.Nodes[0].Broker, func() string {
		if alive := c.Alive(); len(alive) > 0 {
			return alive[rand.IntN(len(alive))].AMQPURL()
		}
		return c.Nodes[0].AMQPURL()
	}, many)
	for kill := range kills {
		p.AwaitProgress(t, 1+rng.IntN(max(1, many/kills/4)))
		victims := []*harness.Node{c.Nodes[rng.IntN(len(c.Nodes))]}
		if kill == kills-1 {
			victims = c.Nodes
		}
		for _, n := range victims {
			n.Kill9()
		}
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
		c.Launch(t, victims...)
	}
	c.AwaitWhole(t)
	p.AwaitProgress(t, 1)
	answered := p.Committed()
	t.Logf("%d of %d transactions were carried out, %d of them answered, %d kills, %v", p.Finish(t, c.Nodes[0].Broker), many, answered, kills, round(time.Since(began)))
}
