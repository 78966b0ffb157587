package cluster

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestAlarmsOfTwoNodes: publishers of all nodes are blocked while any node that is up has an alarm: two are raised, one is cleared, and the node with the other one is lost.
func TestAlarmsOfTwoNodes(t *testing.T) {
	if !harness.Full() {
		t.Skip("long: run with WARREN_E2E=full")
	}
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	one, two, three := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	one.FreshQueue(t, "work", harness.Quorum)
	conn := one.Connect(t)
	blockings := conn.NotifyBlocked(make(chan amqp.Blocking, 10))
	ch := harness.Channel(t, conn)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	limit := func(n *harness.Node, size string) {
		t.Helper()
		if a := one.API(t, "PUT", harness.Path("nodes", n.Name, "limits"), map[string]any{"disk_free_limit.absolute": size}); a.Status != 204 {
			t.Fatalf("limit of %s: %v", n.Name, a)
		}
	}
	alarms := func(want int) {
		t.Helper()
		for _, n := range c.Alive() {
			harness.Eventually(t, 10*time.Second, func() error {
				a, err := n.TryAPI("GET", "/api/health/checks/alarms", nil)
				var body struct{ Alarms []struct{ Node, Resource string } }
				if err == nil {
					a.JSON(t, &body)
				}
				if err == nil && len(body.Alarms) != want {
					err = fmt.Errorf("%s knows %s, want %d alarms", n.Name, a.Body, want)
				}
				return err
			})
		}
	}
	told := func(want amqp.Blocking) {
		t.Helper()
		select {
		case x := <-blockings:
			if x != want {
				t.Fatalf("told %+v, want %+v", x, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("not told %+v", want)
		}
	}
	publish := func() *amqp.DeferredConfirmation {
		t.Helper()
		d, err := ch.PublishWithDeferredConfirm("", "work", false, false, amqp.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	confirmed := func(d *amqp.DeferredConfirmation) {
		t.Helper()
		select {
		case <-d.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("no confirm")
		}
	}

	limit(two, "1000TB")
	limit(three, "1000TB")
	alarms(2)
	harness.Eventually(t, 10*time.Second, func() error { // the broker looks four times a second
		var list []struct{ State string }
		if err := one.TryGet("/api/connections?columns=state", &list); err != nil {
			return err
		}
		for _, x := range list {
			if x.State != "blocking" {
				return fmt.Errorf("states %v", list)
			}
		}
		return nil
	})
	confirmed(publish())
	told(amqp.Blocking{Active: true, Reason: "low on disk"})
	held := publish()
	limit(two, "1MB")
	alarms(1)
	select {
	case x := <-blockings:
		t.Fatalf("told %+v while a node has an alarm", x)
	case <-held.Done():
		t.Fatal("a publish was taken while a node has an alarm")
	case <-time.After(time.Second):
	}
	three.Kill9() // what it lacks does not count any more
	told(amqp.Blocking{})
	confirmed(held)
	alarms(0)
}
