package cluster

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	classicQueue = "work-classic"
	quorumQueue  = "work-quorum"
	// confirmMax is the longest that clients of surviving nodes may wait for a confirm after a kill, confirmMedianMax the same for half of the kills.
	confirmMax       = 3 * time.Second
	confirmMedianMax = time.Second
)

// declare makes the queues of the load, one of each durable type, with three replicas.
func declare(t *testing.T, n *harness.Node) {
	t.Helper()
	ch := n.Channel(t)
	for name, kind := range map[string]string{classicQueue: harness.Classic, quorumQueue: harness.Quorum} {
		declareReplicated(t, ch, name, kind)
	}
}

// declareReplicated relies on the default: three replicas where there are three nodes.
func declareReplicated(t *testing.T, ch *amqp.Channel, name, kind string) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: kind}); err != nil {
		t.Fatalf("declare %s: %v", name, err)
	}
}

// TestKillLeaders kills the node that leads a queue, again and again. The clients of the others notice nothing but a pause.
func TestKillLeaders(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	declare(t, c.Nodes[0])
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	var pauses []time.Duration
	for i := range pick(5, 20) {
		queue := tr.queues[i%len(tr.queues)]
		pauses = append(pauses, killLeader(t, tr, queue, i+1))
		if t.Failed() {
			return
		}
	}
	tr.finish(t)
	slices.Sort(pauses)
	median := pauses[len(pauses)/2]
	t.Logf("from kill to confirm for all clients of the surviving nodes: median %v, longest %v, all %v", round(median), round(pauses[len(pauses)-1]), pauses)
	if median > confirmMedianMax {
		t.Errorf("the median from kill to confirm is %v, want at most %v", median, confirmMedianMax)
	}
}

// killLeader kills the node that leads queue, looks at the clients of the others, starts the node again, and has its clients come back. It returns how long the slowest publisher on a
// surviving node waited for the confirm of a message that it sent after the kill.
func killLeader(t *testing.T, tr *traffic, queue string, number int) time.Duration {
	t.Helper()
	leader := tr.cluster.Leader(t, queue)
	publishers, consumers := tr.on(others(tr.cluster.Nodes, leader)...)
	before := ends(publishers, consumers)
	began := time.Now()
	leader.Kill9()
	tr.mark() // what was sent before does not count
	pause, err := awaitPublishers(began, serveTimeout, publishers)
	if err != nil {
		t.Fatalf("kill %d, of %s, which led %s: %v", number, leader.Name, queue, err)
	}
	// Only now, for what was on its way at the kill does not count.
	tr.mark()
	delivered, err := awaitConsumers(began, serveTimeout, consumers)
	if err != nil {
		t.Fatalf("kill %d, of %s, which led %s: %v", number, leader.Name, queue, err)
	}
	// Where the others' clients went they find everything.
	if _, err := awaitPublishers(time.Now(), serveTimeout, tr.publishers); err != nil {
		t.Fatalf("kill %d, of %s, which led %s: %v", number, leader.Name, queue, err)
	}
	if n := ends(publishers, consumers) - before; n > 0 {
		t.Errorf("kill %d: %d connections or consumers on the surviving nodes ended", number, n)
	}
	t.Logf("kill %d, of %s, which led %s: confirms after %v, deliveries after %v", number, leader.Name, queue, round(pause), round(delivered))
	if pause > confirmMax {
		t.Errorf("kill %d: a client of a surviving node waited %v for a confirm, want at most %v", number, round(pause), confirmMax)
	}
	time.Sleep(500 * time.Millisecond) // some load on two nodes, for a log that the third has not
	leader.Launch(t)
	tr.comeHome(t)
	return pause
}

// others are the nodes but one.
func others(nodes []*harness.Node, but *harness.Node) []*harness.Node {
	var list []*harness.Node
	for _, n := range nodes {
		if n != but {
			list = append(list, n)
		}
	}
	return list
}
