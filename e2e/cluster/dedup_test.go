package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestDeduplicatedRetry (K15): who does not hear whether a message was taken, because the node that leads its queue died, publishes it again with the same id: the queue has one copy of each. What was
// nacked was not taken for good: it can be published again, too.
func TestDeduplicatedRetry(t *testing.T) {
	const rounds, many = 2, 200
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	ch := c.Nodes[0].Channel(t)
	queues := map[string]amqp.Table{
		"queued": {"x-message-deduplication": true, amqp.QueueTypeArg: harness.Quorum},
		"window": {"x-message-deduplication": true, "x-cache-ttl": 3600_000, amqp.QueueTypeArg: harness.Quorum},
	}
	for name, args := range queues {
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		for name := range queues {
			harness.PublishConfirmed(t, c.Nodes[0].Channel(t), "", name, []byte("wakes the queue"))
			leader := c.Leader(t, name)
			unsure := publishIdentified(t, leader, name, round, many, leader.Kill9)
			t.Logf("round %d, %s: %d of %d unconfirmed", round, name, len(unsure), many)
			if len(unsure) == 0 || len(unsure) == many {
				t.Error("the leader did not die in the middle: this shows nothing")
			}
			next := others(c.Nodes, leader)[0]
			for tries := 0; len(unsure) > 0; tries++ {
				if tries == 10 {
					t.Fatalf("%d messages are still not confirmed", len(unsure))
				}
				unsure = republish(t, next, name, unsure)
			}
			leader.Launch(t)
			c.AwaitWhole(t)
			c.Nodes[0].AwaitCount(t, name, (round+1)*(many+1))
		}
	}
}

// identified is message n of a round.
func identified(round, n int) amqp.Publishing {
	id := fmt.Sprintf("%d-%d", round, n)
	return amqp.Publishing{Headers: amqp.Table{"x-deduplication-header": id}, DeliveryMode: amqp.Persistent, Body: []byte(id)}
}

// publishIdentified publishes messages and calls kill among them. It returns those that were not confirmed.
func publishIdentified(t *testing.T, n *harness.Node, queue string, round, many int, kill func()) (unsure []amqp.Publishing) {
	t.Helper()
	ch := n.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var confirms []*amqp.DeferredConfirmation
	for i := range many {
		if i == many/2 {
			confirms[0].Wait()
			go kill()
		}
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, false, false, identified(round, i))
		if err != nil {
			c = nil
		}
		confirms = append(confirms, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for i, c := range confirms {
		if c == nil {
			unsure = append(unsure, identified(round, i))
		} else if ok, err := c.WaitContext(ctx); !ok || err != nil {
			unsure = append(unsure, identified(round, i))
		}
	}
	return unsure
}

// republish publishes messages again and returns those that were not confirmed.
func republish(t *testing.T, n *harness.Node, queue string, messages []amqp.Publishing) (unsure []amqp.Publishing) {
	t.Helper()
	ch := n.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	var confirms []*amqp.DeferredConfirmation
	for _, m := range messages {
		c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, m)
		if err != nil {
			t.Fatal(err)
		}
		confirms = append(confirms, c)
	}
	for i, c := range confirms {
		if ok, err := c.WaitContext(ctx); !ok || err != nil {
			unsure = append(unsure, messages[i])
		}
	}
	return unsure
}
