package api

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// look is the answer to a peek.
type look struct {
	Items []struct {
		Position    int
		Redelivered bool
		Payload     string
		ConsumerTag string `json:"consumer_tag"`
		Channel     string
	}
	Total int
}

func peek(t *testing.T, b *harness.Broker, queue, state string, count int) (l look) {
	t.Helper()
	a := b.API(t, http.MethodPost, harness.Path("queues", "/", queue, "peek"), map[string]any{"state": state, "count": count})
	if a.Status != http.StatusOK {
		t.Fatalf("peek: %d %s", a.Status, a.Body)
	}
	a.JSON(t, &l)
	return l
}

// TestPeekOnEveryNode: in a cluster, each node shows the same messages of a queue, wherever that is; consumers beside see every message once, in order and not as redelivered.
func TestPeekOnEveryNode(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	const messages = 1000
	for _, transient := range []bool{false, true} {
		name := fmt.Sprintf("looked-at-%t", transient)
		ch := c.Nodes[0].Channel(t)
		if _, err := ch.QueueDeclare(name, !transient, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		bodies := make([][]byte, messages)
		for i := range bodies {
			bodies[i] = fmt.Appendf(nil, "m%04d", i)
		}
		harness.PublishConfirmed(t, ch, "", name, bodies...)
		for _, n := range c.Nodes {
			harness.Eventually(t, 10*time.Second, func() error { // a queue that was just made may not have told who leads it
				l := peek(t, n.Broker, name, "ready", messages)
				for i, x := range l.Items {
					if x.Position != i || x.Payload != string(bodies[i]) || x.Redelivered {
						t.Fatalf("%s, %s: item %d is %+v", n.Name, name, i, x)
					}
				}
				if len(l.Items) != messages || l.Total != messages {
					return fmt.Errorf("%s shows %d of %d messages", n.Name, len(l.Items), l.Total)
				}
				return nil
			})
		}
		consumeBeside(t, c, name, messages)
	}
}

// consumeBeside consumes all messages while every node looks.
func consumeBeside(t *testing.T, c *harness.Cluster, name string, messages int) {
	t.Helper()
	ch := c.Nodes[0].Channel(t)
	if err := ch.Qos(100, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(name, "the-consumer", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	held := make([]amqp.Delivery, 0, messages)
	for range 100 {
		held = append(held, harness.Receive(t, deliveries))
	}
	for _, n := range c.Nodes {
		harness.Eventually(t, 10*time.Second, func() error {
			l := peek(t, n.Broker, name, "unacked", messages)
			if len(l.Items) != 100 || l.Items[0].ConsumerTag != "the-consumer" || l.Items[0].Channel == "" || l.Items[99].Payload != "m0099" {
				return fmt.Errorf("%s shows %d unacked messages: %+v", n.Name, len(l.Items), l.Items)
			}
			return nil
		})
	}
	for i := 0; ; i++ {
		if d := held[i]; string(d.Body) != fmt.Sprintf("m%04d", i) || d.Redelivered || d.DeliveryTag != uint64(i+1) {
			t.Fatalf("delivery %d is %q, redelivered %t, tag %d", i, d.Body, d.Redelivered, d.DeliveryTag)
		}
		if err := held[i].Ack(false); err != nil {
			t.Fatal(err)
		}
		if i == messages-1 {
			return
		}
		if i%50 == 0 {
			for _, n := range c.Nodes {
				peek(t, n.Broker, name, "ready", messages)
				peek(t, n.Broker, name, "unacked", messages)
			}
		}
		if len(held) < messages {
			held = append(held, harness.Receive(t, deliveries))
		}
	}
}
