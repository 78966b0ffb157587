package cluster

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestHistoryOnEveryNode: wherever something is bound to an x-recent-history exchange, it gets the same last messages, also after the node is gone that the exchange was declared on.
func TestHistoryOnEveryNode(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	const x = "history"
	if err := c.Nodes[0].Channel(t).ExchangeDeclare(x, "x-recent-history", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 25 {
		harness.PublishConfirmed(t, c.Nodes[i%3].Channel(t), x, "", fmt.Append(nil, i))
	}
	for i, n := range c.Nodes {
		bindAndCompare(t, n, x, 5, 24)
		if large := make([]byte, 3<<20); i == 2 { // together more than fits into an answer between nodes
			harness.PublishConfirmed(t, n.Channel(t), x, "", large, large)
		}
	}
	c.Nodes[0].Kill9()
	for _, n := range c.Nodes[1:] {
		bindAndCompare(t, n, x, 7, 24)
	}
}

// bindAndCompare binds a new queue and wants the messages from first to last in it, and behind them maybe large ones.
func bindAndCompare(t *testing.T, n *harness.Node, exchange string, first, last int) {
	t.Helper()
	ch := n.Channel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, serveTimeout, func() error { // the leader may have gone just now
		if q.Messages == 20 {
			return nil
		}
		if err := ch.QueueUnbind(q.Name, "", exchange, nil); err != nil {
			return err
		}
		if _, err := ch.QueuePurge(q.Name, false); err != nil {
			return err
		}
		if err := ch.QueueBind(q.Name, "", exchange, false, nil); err != nil {
			return err
		}
		if q, err = ch.QueueDeclarePassive(q.Name, false, true, true, false, nil); err == nil && q.Messages != 20 {
			err = fmt.Errorf("%s: %d messages, want 20", n.Name, q.Messages)
		}
		return err
	})
	for i := first; i <= last; i++ {
		if d, ok, err := ch.Get(q.Name, true); err != nil || !ok || string(d.Body) != fmt.Sprint(i) || d.Redelivered {
			t.Fatalf("%s: got %d bytes (%t, %v), want message %d", n.Name, len(d.Body), ok, err, i)
		}
	}
}
