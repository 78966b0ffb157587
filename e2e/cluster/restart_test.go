package cluster

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// resumeMax is how long confirms may take once a majority of the nodes listens.
const resumeMax = 5 * time.Second

// orders are the ways to start three nodes one after the other.
var orders = [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}, {0, 2, 1}, {1, 2, 0}}

// TestAllKilled kills every node at once and starts them in every order. Confirms resume when two of them listen.
func TestAllKilled(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	declare(t, c.Nodes[0])
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	for _, order := range pick(orders[:2], orders) {
		killAll(t, tr, order)
		if t.Failed() {
			return
		}
	}
	tr.finish(t)
}

// killAll kills all nodes and starts them in the given order, each when the one before listens on its cluster port.
func killAll(t *testing.T, tr *traffic, order []int) {
	t.Helper()
	nodes := tr.cluster.Nodes
	for _, n := range nodes {
		n.Kill9()
	}
	first, second, third := nodes[order[0]], nodes[order[1]], nodes[order[2]]
	first.Start(t)
	first.AwaitPort(t)
	time.Sleep(300 * time.Millisecond) // alone it can only wait
	second.Start(t)
	second.AwaitPort(t)
	began := tr.mark()
	for _, n := range []*harness.Node{first, second} {
		n.Await(t)
	}
	served := time.Since(began)
	pause, err := awaitPublishers(began, serveTimeout, tr.publishers)
	if err != nil {
		t.Fatalf("order %v: %v", order, err)
	}
	delivered, err := awaitConsumers(began, serveTimeout, tr.consumers)
	if err != nil {
		t.Fatalf("order %v: %v", order, err)
	}
	t.Logf("order %v, from the moment that two nodes listen: AMQP after %v, confirms for all after %v, deliveries for all after %v", order, round(served), round(pause), round(delivered))
	if pause > resumeMax {
		t.Errorf("order %v: confirms resumed %v after two nodes listened, want at most %v", order, round(pause), resumeMax)
	}
	third.Launch(t)
	tr.comeHome(t)
}

// TestRandomKills kills random nodes at random moments, also ones that the others need, and starts them again at once. What was confirmed is there at the end.
func TestRandomKills(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("WARREN_E2E_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("WARREN_E2E_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	declare(t, c.Nodes[0])
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	for range pick(12, 100) {
		time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
		victims := rng.Perm(3)[:1+rng.IntN(2)]
		for _, i := range victims {
			c.Nodes[i].Kill9()
			t.Logf("%s killed %s", clock(time.Now()), c.Nodes[i].Name)
		}
		time.Sleep(time.Duration(rng.IntN(700)) * time.Millisecond)
		for _, i := range victims {
			c.Nodes[i].Start(t)
			t.Logf("%s started %s", clock(time.Now()), c.Nodes[i].Name)
		}
	}
	for _, n := range c.Nodes {
		n.Await(t)
	}
	tr.comeHome(t)
	tr.finish(t)
}
