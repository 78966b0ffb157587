package reliability

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestKillNineKeepsLettersOfDeletedQueue: dead letters wait for a target, their queue is deleted and declared again, and the broker dies before and after the target appears. Each letter arrives, once, and nothing is left.
func TestKillNineKeepsLettersOfDeletedQueue(t *testing.T) {
	const messages = 2000
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	ch := b.Channel(t)
	declare := func(ch *amqp.Channel) {
		t.Helper()
		args := amqp.Table{amqp.QueueTypeArg: harness.Quorum, "x-dead-letter-exchange": "late"}
		if _, err := ch.QueueDeclare("gone", true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	declare(ch)
	for n := range messages {
		m := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: strconv.Itoa(n), Expiration: "0"}
		if err := ch.PublishWithContext(t.Context(), "", "gone", false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(path string, want int) func() error {
		return func() error {
			var list []struct {
				Name     string `json:"name"`
				Messages int    `json:"messages_dlx"`
			}
			if err := b.TryGet(path, &list); err != nil {
				return err
			}
			sum := 0
			for _, q := range list {
				if q.Name == "gone" {
					sum += q.Messages
				}
			}
			if sum != want || want == 0 && len(list) > 0 {
				return fmt.Errorf("%s: %+v, want %d", path, list, want)
			}
			return nil
		}
	}
	restart := func() {
		t.Helper()
		b.Kill9()
		b.Launch(t)
		b.AwaitHTTP(t)
	}
	harness.Eventually(t, time.Minute, waiting("/api/queues", messages))
	if a := b.API(t, http.MethodDelete, harness.Path("queues", "/", "gone"), nil); a.Status != http.StatusNoContent {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	restart()
	harness.Eventually(t, time.Minute, waiting("/api/draining", messages))
	ch = b.Channel(t)
	declare(ch)
	if err := ch.ExchangeDeclare("late", "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	harness.Declare(t, ch, "target", harness.Quorum)
	if err := ch.QueueBind("target", "", "late", false, nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // some are on their way
	restart()
	harness.Eventually(t, time.Minute, waiting("/api/draining", 0))
	lettersOnce(t, b, messages)
}

// lettersOnce takes all letters from the target: each that died in the deleted queue is there once.
func lettersOnce(t *testing.T, b *harness.Broker, messages int) {
	t.Helper()
	deliveries, err := b.Channel(t).Consume("target", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	times := make([]int, messages)
	for range messages {
		select {
		case d := <-deliveries:
			n, err := strconv.Atoi(d.MessageId)
			if err != nil || n >= messages || d.Headers["x-first-death-queue"] != "gone" {
				t.Fatalf("message %q with headers %v", d.MessageId, d.Headers)
			}
			if times[n]++; times[n] > 1 {
				t.Errorf("message %d comes twice", n)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no more messages come")
		}
	}
	select {
	case d := <-deliveries:
		t.Errorf("message %q is one too many", d.MessageId)
	case <-time.After(200 * time.Millisecond):
	}
}
