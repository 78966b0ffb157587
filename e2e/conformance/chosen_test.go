package conformance

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// spread publishes messages with different keys and returns how many each queue got.
func (p *pair) spread(t *testing.T, exchange string, queues []string, messages int) []int {
	t.Helper()
	ch := p.broker.Channel(t)
	defer ch.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var last *amqp.DeferredConfirmation
	for i := range messages {
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, fmt.Sprintf("key-%d", i), false, false, text(""))
		if err != nil {
			t.Fatal(err)
		}
		last = c
	}
	if ok, err := last.WaitContext(t.Context()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	got := make([]int, len(queues))
	sum := 0
	for i, q := range queues {
		// Behind what was published: a purge goes through the same queue.
		n, err := p.ch.QueuePurge(q, false)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = n
		sum += n
	}
	if sum != messages {
		t.Fatalf("%d messages were published, the queues got %v", messages, got)
	}
	return got
}

func consistentHash(t *testing.T, p *pair) {
	const x = "e2e-hash"
	p.exchange(t, x, "x-consistent-hash", nil)
	var queues []string
	for _, weight := range []string{"1", "2", "7"} {
		queues = append(queues, p.bound(t, x, weight, nil))
	}
	first := p.spread(t, x, queues, 2000)
	for i, want := range []int{200, 400, 1400} {
		if n := first[i]; n < want*7/10 || n > want*13/10 {
			t.Errorf("shares %v, want about 200, 400, 1400", first)
		}
	}
	if again := p.spread(t, x, queues, 2000); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the same keys are spread as %v and as %v", first, again)
	}
	// By a property, and by a header that is not there: one queue.
	for name, args := range map[string]amqp.Table{"property": {"hash-property": "correlation_id"}, "header": {"hash-header": "absent"}} {
		p.exchange(t, x, "x-consistent-hash", args)
		for _, q := range queues {
			if err := p.ch.QueueBind(q, "5", x, false, nil); err != nil {
				t.Fatal(err)
			}
		}
		reached := 0
		for _, n := range p.spread(t, x, queues, 50) {
			if n > 0 {
				reached++
			}
		}
		if reached != 1 {
			t.Errorf("by %s: messages without it reach %d queues, want 1", name, reached)
		}
	}
	p.broker.DropExchange(t, x)
}

func consistentHashRefused(t *testing.T, p *pair) {
	const x = "e2e-hash-refused"
	p.broker.DropExchange(t, x)
	for _, c := range []struct {
		args amqp.Table
		text string
	}{
		{amqp.Table{"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"},
		{amqp.Table{"hash-property": "app_id"}, "Unsupported property: app_id"},
	} {
		err := harness.Channel(t, p.conn).ExchangeDeclare(x, "x-consistent-hash", true, false, false, false, c.args)
		closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - "+c.text)
	}
	p.exchange(t, x, "x-consistent-hash", amqp.Table{"hash-header": "a"})
	if err := p.ch.ExchangeDeclare(x, "x-consistent-hash", true, false, false, false, amqp.Table{"hash-header": "b"}); err != nil {
		t.Errorf("declared again with another header: %v", err)
	}
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{
		"": "must be an integer: <<>>", "many": `must be an integer: <<"many">>`, "1.5": `must be an integer: <<"1.5">>`, " 3": `must be an integer: <<" 3">>`,
		"3\x01": "must be an integer: <<51,1>>", "0": "must be greater than 0", "-3": "must be greater than 0",
	} {
		err := harness.Channel(t, p.conn).QueueBind(q.Name, key, x, false, nil)
		closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - The binding key "+text)
	}
	for _, key := range []string{"+3", "007"} {
		if err := p.ch.QueueBind(q.Name, key, x, false, nil); err != nil {
			t.Errorf("binding key %q: %v", key, err)
		}
	}
	if !p.broker.External() { // 3.10 has no bound, and dies of large weights
		err := harness.Channel(t, p.conn).QueueBind(q.Name, "10001", x, false, nil)
		closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - The binding key must not exceed 10000")
	}
	p.broker.DropExchange(t, x)
}

func randomExchange(t *testing.T, p *pair) {
	for _, kind := range []string{"x-random", "x-local-random", "x-modulus-hash"} {
		if p.broker.External() && kind != "x-random" {
			continue // younger than 3.10
		}
		x := "e2e-" + kind
		p.exchange(t, x, kind, nil)
		var queues []string
		for range 4 {
			queues = append(queues, p.bound(t, x, "", nil))
		}
		for i, n := range p.spread(t, x, queues, 400) {
			if n < 50 || n > 150 {
				t.Errorf("%s: queue %d got %d of 400 messages, want about 100", kind, i, n)
			}
		}
		p.broker.DropExchange(t, x)
	}
}

// localRandom takes classic queues without a routing key.
func localRandom(t *testing.T, p *pair) {
	if p.broker.External() {
		t.Skip("RabbitMQ 3.10 has no x-local-random")
	}
	const x, quorum, classic = "e2e-local", "e2e-local-quorum", "e2e-local-classic"
	p.exchange(t, x, "x-local-random", nil)
	p.broker.FreshQueue(t, quorum, harness.Quorum)
	p.broker.FreshQueue(t, classic, harness.Classic)
	err := harness.Channel(t, p.conn).QueueBind(quorum, "", x, false, nil)
	closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - Queue type rabbit_quorum_queue not valid for this exchange type")
	err = harness.Channel(t, p.conn).QueueBind(classic, "k", x, false, nil)
	closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - Non empty binding 'k' key not permitted")
	if !p.sends(t, x, "any", text("m")) {
		t.Error("a message without a queue did not come back")
	}
	if err := p.ch.QueueBind(classic, "", x, false, nil); err != nil {
		t.Fatal(err)
	}
	if p.sends(t, x, "any", text("m")) {
		t.Error("the message came back though a queue on this node is bound")
	}
	drained(t, p.ch, classic, "m")
	p.broker.DropExchange(t, x)
}
