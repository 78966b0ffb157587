package cluster

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// alarmTimeout is how long a cluster may take to do what it does within two seconds.
const alarmTimeout = 10 * time.Second

// limitDisk sets the disk limit of a node at run time, through another one.
func limitDisk(t *testing.T, through, of *harness.Node, size string) {
	t.Helper()
	if a := through.API(t, "PUT", harness.Path("nodes", of.Name, "limits"), map[string]any{"disk_free_limit.absolute": size}); a.Status != 204 {
		t.Fatalf("limit of %s: %v", of.Name, a)
	}
}

// awaitAlarms waits until every node knows as many alarms.
func awaitAlarms(t *testing.T, c *harness.Cluster, want int) {
	t.Helper()
	for _, n := range c.Alive() {
		harness.Eventually(t, alarmTimeout, func() error {
			a, err := n.TryAPI("GET", "/api/health/checks/alarms", nil)
			var body struct {
				Alarms []struct{ Node, Resource string }
			}
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

// awaitBlocking waits until the clients of a node will be blocked when they publish: the broker looks four times a second.
func awaitBlocking(t *testing.T, n *harness.Node) {
	t.Helper()
	harness.Eventually(t, alarmTimeout, func() error {
		var list []struct{ State string }
		if err := n.TryGet("/api/connections?columns=state", &list); err != nil {
			return err
		}
		for _, x := range list {
			if x.State != "blocking" {
				return fmt.Errorf("states %v", list)
			}
		}
		return nil
	})
}

func wantTold(t *testing.T, blockings <-chan amqp.Blocking, want amqp.Blocking) {
	t.Helper()
	select {
	case x := <-blockings:
		if x != want {
			t.Fatalf("told %+v, want %+v", x, want)
		}
	case <-time.After(alarmTimeout):
		t.Fatalf("not told %+v", want)
	}
}

func wantConfirm(t *testing.T, d *amqp.DeferredConfirmation) {
	t.Helper()
	select {
	case <-d.Done():
	case <-time.After(alarmTimeout):
		t.Fatal("no confirm")
	}
}

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
	publish := func() *amqp.DeferredConfirmation {
		t.Helper()
		d, err := ch.PublishWithDeferredConfirm("", "work", false, false, amqp.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}

	limitDisk(t, one, two, "1000TB")
	limitDisk(t, one, three, "1000TB")
	awaitAlarms(t, c, 2)
	awaitBlocking(t, one)
	wantConfirm(t, publish())
	wantTold(t, blockings, amqp.Blocking{Active: true, Reason: "low on disk"})
	held := publish()
	limitDisk(t, one, two, "1MB")
	awaitAlarms(t, c, 1)
	select {
	case x := <-blockings:
		t.Fatalf("told %+v while a node has an alarm", x)
	case <-held.Done():
		t.Fatal("a publish was taken while a node has an alarm")
	case <-time.After(time.Second):
	}
	three.Kill9() // what it lacks does not count any more
	wantTold(t, blockings, amqp.Blocking{})
	wantConfirm(t, held)
	awaitAlarms(t, c, 0)
}
