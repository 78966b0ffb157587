package cluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestKilledNodesKeepDeadLettersOnce: messages go from queue to queue as dead letters while the leaders of the queues, and at last all nodes at once, die. What was
// not confirmed is published again and known by its id. Each is in one place, once.
func TestKilledNodesKeepDeadLettersOnce(t *testing.T) {
	if !harness.Full() {
		t.Skip("takes minutes")
	}
	const messages, kills, perSecond = 100_000, 15, 3000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: 15 * time.Minute})
	began := time.Now()
	chain := harness.StartChain(t, c.Nodes[0].Broker, func() string {
		if alive := c.Alive(); len(alive) > 0 {
			return alive[rand.IntN(len(alive))].AMQPURL()
		}
		return c.Nodes[0].AMQPURL()
	}, messages, perSecond)
	for kill := range kills {
		at := messages*kill/kills + rng.IntN(messages/kills)
		harness.Eventually(t, time.Minute, func() error { return chain.Reached(at) })
		victims := []*harness.Node{c.Nodes[rng.IntN(len(c.Nodes))]}
		if kill == kills-1 {
			victims = c.Nodes
		}
		for _, n := range victims {
			n.Kill9()
		}
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		c.Launch(t, victims...)
	}
	c.AwaitWhole(t)
	var brokers []*harness.Broker
	for _, n := range c.Nodes {
		n.AwaitHTTP(t)
		brokers = append(brokers, n.Broker)
	}
	repeats := chain.Finish(t, brokers...)
	t.Logf("%d messages, %d repeated publishes were known, %d kills, %v", messages, repeats, kills, round(time.Since(began)))
}
