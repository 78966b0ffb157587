package cluster

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const replyTo = "amq.rabbitmq.reply-to"

// TestRepliesBetweenNodes: who asks on one node is answered from another one, directly.
func TestRepliesBetweenNodes(t *testing.T) {
	c := harness.StartCluster(t, 2, harness.ClusterOptions{})
	asking, answering := c.Nodes[0].Channel(t), c.Nodes[1].Channel(t)
	harness.Declare(t, asking, "requests", harness.Quorum)
	replies, err := asking.Consume(replyTo, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := answering.Consume("requests", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	request := amqp.Publishing{ReplyTo: replyTo, CorrelationId: "7", Body: []byte("request")}
	if err := asking.PublishWithContext(t.Context(), "", "requests", false, false, request); err != nil {
		t.Fatal(err)
	}
	address := harness.Receive(t, requests).ReplyTo
	if q, err := answering.QueueDeclarePassive(address, false, false, false, false, nil); err != nil || q.Consumers != 1 {
		t.Fatalf("%s: %+v %v", address, q, err)
	}
	for _, size := range []int{4, 15 << 20} {
		reply := amqp.Publishing{CorrelationId: "7", Body: make([]byte, size)}
		if err := answering.PublishWithContext(t.Context(), "", address, true, false, reply); err != nil {
			t.Fatal(err)
		}
		if d := harness.Receive(t, replies); d.CorrelationId != "7" || d.RoutingKey != address || len(d.Body) != size {
			t.Errorf("got %d bytes, correlation %q, key %q", len(d.Body), d.CorrelationId, d.RoutingKey)
		}
	}
	if err := asking.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = answering.QueueDeclarePassive(address, false, false, false, false, nil)
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.NotFound {
		t.Errorf("%s of a channel that is gone: %v", address, err)
	}
}

// TestLargeMessagesBetweenNodes: the largest messages go through a node that has no replica of the queue, both ways.
func TestLargeMessagesBetweenNodes(t *testing.T) {
	c := harness.StartCluster(t, 2, harness.ClusterOptions{})
	near, far := c.Nodes[0].Channel(t), c.Nodes[1].Channel(t)
	if _, err := near.QueueDeclare("large", true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}); err != nil {
		t.Fatal(err)
	}
	if err := far.Confirm(false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := far.Consume("large", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{5 << 20, 16 << 20} {
		confirm, err := far.PublishWithDeferredConfirmWithContext(t.Context(), "", "large", false, false, amqp.Publishing{Body: make([]byte, size)})
		if err != nil {
			t.Fatal(err)
		}
		d := harness.Receive(t, deliveries)
		if ok, err := confirm.WaitContext(t.Context()); !ok || err != nil {
			t.Fatalf("%d bytes: confirmed %t, %v", size, ok, err)
		}
		if len(d.Body) != size {
			t.Errorf("%d bytes came as %d", size, len(d.Body))
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
}
