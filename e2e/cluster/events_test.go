package cluster

import (
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestNodesAreTold: the event exchange tells of a node that goes and of one that comes.
func TestNodesAreTold(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	ch := c.Nodes[0].Channel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(q.Name, "node.*", "amq.rabbitmq.event", false, nil); err != nil {
		t.Fatal(err)
	}
	events, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	await := func(key string) {
		t.Helper()
		for deadline := time.After(serveTimeout); ; {
			select {
			case d := <-events:
				if d.RoutingKey == key && d.Headers["node"] == c.Nodes[2].Name {
					return
				}
			case <-deadline:
				t.Fatalf("no %s of %s within %v", key, c.Nodes[2].Name, serveTimeout)
			}
		}
	}
	c.Nodes[2].Kill9()
	c.Nodes[2].Launch(t)
	await("node.down") // also a fast restart is one
	await("node.up")
}
