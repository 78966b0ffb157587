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
const browserTimeout = 3 * time.Minute

const app = "../../management-ui"

// browse runs a file of browser tests against a broker and prints what they print: they measure.
func browse(t *testing.T, b *harness.Broker, file string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(app, "node_modules", "playwright-core")); err != nil {
		t.Fatal("the packages of the web UI are not installed: make ui")
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "test/browser/"+file)
	cmd.Dir = app
	cmd.Env = append(os.Environ(), "WARREN_UI=http://"+b.HTTP+"/")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// TestPages: every page and every action, on a broker with traffic.
func TestPages(t *testing.T) {
	b := harness.Start(t, harness.Options{Patience: browserTimeout + time.Minute})
	startTraffic(t, b)
	browse(t, b, "pages.test.js")
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
