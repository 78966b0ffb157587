package cluster

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// powerDiskBytes is the disk of each node.
	powerDiskBytes = 1 << 30
	// powerBackMax is how long a cluster may take until all clients are served again by themselves after all of it lost power.
	powerBackMax = 30 * time.Second
)

// TestPowerLossOfAll takes the power from all nodes at once, under load. What was confirmed was synced by a majority; the cluster comes back unaided.
func TestPowerLossOfAll(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 30*time.Minute), DiskBytes: powerDiskBytes})
	declare(t, c.Nodes[0])
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	for cycle := range pick(2, 20) {
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		var gone sync.WaitGroup
		for _, n := range c.Nodes {
			gone.Go(func() { harness.LosePower(t, n.Broker, n.Disk) })
		}
		gone.Wait()
		if t.Failed() {
			return
		}
		began := tr.mark()
		c.Launch(t, c.Nodes...)
		pause, err := awaitPublishers(began, powerBackMax, tr.publishers)
		if err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
		delivered, err := awaitConsumers(began, powerBackMax, tr.consumers)
		if err != nil {
			t.Fatalf("cycle %d: %v", cycle, err)
		}
		t.Logf("cycle %d: confirms for all %v after the start, deliveries for all after %v", cycle, round(pause), round(delivered))
		tr.comeHome(t)
	}
	tr.finish(t)
}
