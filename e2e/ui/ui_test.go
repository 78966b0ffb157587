package ui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// browserTimeout bounds all that the browser does in one test.
const browserTimeout = 5 * time.Minute

const app = "../../management-ui"

// browse runs a file of browser tests against a broker, whose UI has a path prefix or none, and prints what they print: they measure.
func browse(t *testing.T, b *harness.Broker, prefix, file string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(app, "node_modules", "playwright-core")); err != nil {
		t.Fatal("the packages of the web UI are not installed: make ui")
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "test/browser/"+file)
	cmd.Dir = app
	cmd.Env = append(os.Environ(), "WARREN_UI=http://"+b.HTTP+prefix+"/")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// TestPages: every page and every action, on a broker with traffic.
func TestPages(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{Patience: browserTimeout + time.Minute})
	startTraffic(t, b)
	browse(t, b, "", "pages.test.js")
}

// startTraffic declares a small topology and keeps messages flowing through it until the test ends.
func startTraffic(t *testing.T, b *harness.Broker) {
	t.Helper()
	ch := b.Channel(t)
	for _, q := range []string{"orders.new", "orders.late"} {
		harness.Declare(t, ch, q, harness.Quorum)
	}
	if err := ch.ExchangeDeclare("orders", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for queue, key := range map[string]string{"orders.new": "order.*.new", "orders.late": "order.#"} {
		if err := ch.QueueBind(queue, key, "orders", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	deliveries, err := b.Channel(t).Consume("orders.new", "worker", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for d := range deliveries {
			_ = d.Ack(false)
		}
	}()
	startVictim(t, b)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
			err := ch.PublishWithContext(t.Context(), "orders", "order.eu.new", false, false, amqp.Publishing{
				ContentType: "application/json", DeliveryMode: amqp.Persistent, Headers: amqp.Table{"n": int32(n)}, Body: fmt.Appendf(nil, `{"order":%d}`, n),
			})
			if err != nil {
				return
			}
		}
	}()
}

// startVictim connects a consumer under a name of its own, for the browser to close.
func startVictim(t *testing.T, b *harness.Broker) {
	t.Helper()
	conn, err := amqp.DialConfig(b.AMQPURL(), amqp.Config{Properties: amqp.Table{"connection_name": "victim"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := harness.Channel(t, conn).Consume("orders.late", "victims-consumer", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}

// TestNames: whatever an object is called, it is text, has an address and can be deleted; also where the UI is served below a prefix.
func TestNames(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{Patience: browserTimeout + time.Minute, Args: []string{"--set", "management.path_prefix=/a/b"}})
	browse(t, b, "/a/b", "names.test.js")
}

// TestManyQueues: the list of ten thousand queues is there within a second and scrolls smoothly. It measures, so nothing runs beside it.
func TestManyQueues(t *testing.T) {
	const queues, connections = 10_000, 10
	b := harness.Start(t, harness.Options{Patience: browserTimeout + time.Minute})
	began := time.Now()
	errs := make(chan error, connections)
	for c := range connections {
		ch := b.Channel(t)
		go func() {
			for n := c; n < queues; n += connections {
				if _, err := ch.QueueDeclare(fmt.Sprintf("queue %05d", n), false, false, false, false, nil); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range connections {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d queues declared in %v", queues, time.Since(began).Round(time.Millisecond))
	browse(t, b, "", "many.test.js")
}

// TestCluster: the members of a queue's group, and a node that dies while somebody looks.
func TestCluster(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	ch := c.Nodes[0].Channel(t)
	harness.Declare(t, ch, "replicated", harness.Quorum)
	harness.PublishConfirmed(t, ch, "", "replicated", []byte("so that the group is awake"))
	browse(t, c.Nodes[0].Broker, "", "members.test.js")
	c.Nodes[2].Kill9()
	browse(t, c.Nodes[0].Broker, "", "dead.test.js")
}
