package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// putPolicy makes a user policy in the default virtual host.
func putPolicy(t *testing.T, b *harness.Broker, name string, policy map[string]any) {
	t.Helper()
	if a := b.API(t, http.MethodPut, harness.Path("policies", "/", name), policy); a.Status != http.StatusCreated && a.Status != http.StatusNoContent {
		t.Fatalf("policy %s: %d %s", name, a.Status, a.Body)
	}
}

func dropPolicy(t *testing.T, b *harness.Broker, kind, name string) {
	t.Helper()
	if a := b.API(t, http.MethodDelete, harness.Path(kind, "/", name), nil); a.Status != http.StatusNoContent {
		t.Fatalf("delete of %s %s: %d %s", kind, name, a.Status, a.Body)
	}
}

// follows is what the API says that a queue follows.
func follows(t *testing.T, b *harness.Broker, queue string) string {
	t.Helper()
	var q struct {
		Policy    *string
		Operator  *string         `json:"operator_policy"`
		Effective json.RawMessage `json:"effective_policy_definition"`
	}
	b.Get(t, harness.Path("queues", "/", queue), &q)
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprintf("%s %s %s", text(q.Policy), text(q.Operator), q.Effective)
}

func wantFollows(t *testing.T, b *harness.Broker, queue, want string) {
	t.Helper()
	if got := follows(t, b, queue); got != want {
		t.Fatalf("%s follows %s, want %s", queue, got, want)
	}
}

// fill publishes and waits until the queue holds what its limits let it.
func fill(t *testing.T, b *harness.Broker, ch *amqp.Channel, queue string, messages, size, want int) {
	t.Helper()
	bodies := make([][]byte, messages)
	for i := range bodies {
		bodies[i] = bytes.Repeat([]byte{'m'}, size)
	}
	harness.PublishConfirmed(t, ch, "", queue, bodies...)
	b.AwaitCount(t, queue, want)
}

// TestPolicyReplacementAndMerge (K12): one policy counts, the one of the highest priority; numbers are merged with arguments to the lower one; what a policy did is undone with it. On queues with replicas
// and those without, of messages that were there before.
func TestPolicyReplacementAndMerge(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	for _, durable := range []bool{true, false} {
		ch := b.Channel(t)
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		declare := func(name string, args amqp.Table) {
			t.Helper()
			if _, err := ch.QueueDeclare(name, durable, false, false, false, args); err != nil {
				t.Fatal(err)
			}
		}
		q, r := fmt.Sprintf("q-%t", durable), fmt.Sprintf("r-%t", durable)
		putPolicy(t, b, "one", map[string]any{"pattern": "^q-", "definition": map[string]any{"max-length-bytes": 1000}, "priority": 1})
		declare(q, nil)
		wantFollows(t, b, q, `one - {"max-length-bytes":1000}`)
		fill(t, b, ch, q, 5, 400, 2)
		putPolicy(t, b, "two", map[string]any{"pattern": "^q-", "definition": map[string]any{"max-length": 1000000}, "priority": 10})
		wantFollows(t, b, q, `two - {"max-length":1000000}`)
		fill(t, b, ch, q, 100, 1000, 102)

		putPolicy(t, b, "length", map[string]any{"pattern": "^r-", "apply-to": "queues", "definition": map[string]any{"max-length": 20}})
		declare(r, amqp.Table{"x-max-length": 50})
		fill(t, b, ch, r, 60, 1, 20)
		dropPolicy(t, b, "policies", "length")
		wantFollows(t, b, r, `- - {}`)
		fill(t, b, ch, r, 60, 1, 50)
		putPolicy(t, b, "length", map[string]any{"pattern": "^r-", "apply-to": "queues", "definition": map[string]any{"max-length": 10}})
		b.AwaitCount(t, r, 10) // those that were there before
		declare(r, amqp.Table{"x-max-length": 50})
		dropPolicy(t, b, "policies", "one")
		dropPolicy(t, b, "policies", "two")
		wantFollows(t, b, q, `- - {}`)
		dropPolicy(t, b, "policies", "length")
	}
}

// TestPolicySettings: what else policies give queues and exchanges: an operator's bound, dead letters, times to live, what counts for the delivery limit, an alternate exchange; and all of it holds after a
// kill -9.
func TestPolicySettings(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	ch := b.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dead", "rest", "work", "twice"} {
		if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(ch.ExchangeDeclare("x", "direct", true, false, false, false, nil), ch.ExchangeDeclare("y", "fanout", true, false, false, false, nil), ch.QueueBind("rest", "", "y", false, nil)); err != nil {
		t.Fatal(err)
	}
	toDead := map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
	putPolicy(t, b, "work", map[string]any{"pattern": "^work$", "definition": map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": "dead", "message-ttl": 3600000}})
	if a := b.API(t, http.MethodPut, harness.Path("operator-policies", "/", "bounds"), map[string]any{"pattern": "^work$", "definition": map[string]any{"message-ttl": 1}}); a.Status != http.StatusCreated {
		t.Fatal(a.Status, a.Body)
	}
	wantFollows(t, b, "work", `work bounds {"dead-letter-exchange":"","dead-letter-routing-key":"dead","message-ttl":1}`)
	harness.PublishConfirmed(t, ch, "", "work", []byte("1"))
	b.AwaitCount(t, "dead", 1)
	putPolicy(t, b, "ae", map[string]any{"pattern": "^x$", "apply-to": "exchanges", "definition": map[string]any{"alternate-exchange": "y"}})
	harness.PublishConfirmed(t, ch, "x", "nowhere", []byte("2"))
	b.AwaitCount(t, "rest", 1)
	toDead["delivery-limit"], toDead["delivery-limit-counts"] = 0, "all"
	putPolicy(t, b, "twice", map[string]any{"pattern": "^twice$", "definition": toDead})
	harness.PublishConfirmed(t, ch, "", "twice", []byte("3"))
	nackOnce(t, ch, "twice")
	b.AwaitCount(t, "dead", 2)

	b.Kill9()
	b.Launch(t)
	ch = b.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	wantFollows(t, b, "work", `work bounds {"dead-letter-exchange":"","dead-letter-routing-key":"dead","message-ttl":1}`)
	harness.PublishConfirmed(t, ch, "", "work", []byte("4"))
	b.AwaitCount(t, "dead", 3)
	harness.PublishConfirmed(t, ch, "x", "nowhere", []byte("5"))
	b.AwaitCount(t, "rest", 2)
	dropPolicy(t, b, "policies", "ae")
	dropPolicy(t, b, "operator-policies", "bounds")
	harness.PublishConfirmed(t, ch, "x", "nowhere", []byte("6"))
	harness.PublishConfirmed(t, ch, "", "work", []byte("7"))
	b.AwaitCount(t, "work", 1)
	b.AwaitCount(t, "rest", 2)
	b.AwaitCount(t, "dead", 3)
}

func nackOnce(t *testing.T, ch *amqp.Channel, queue string) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, func() error {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return errors.New("nothing is ready")
		}
		return d.Nack(false, true)
	})
}
