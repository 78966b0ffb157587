package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestTransactions holds what transactions do and how they fail.
func TestTransactions(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	t.Run("commit and rollback", func(t *testing.T) { each(t, b, commitAndRollback) })
	t.Run("a queue that refuses", func(t *testing.T) { refusedTx(t, b) })
	t.Run("no time to live", func(t *testing.T) { each(t, b, txWithoutTime) })
	t.Run("several queues", func(t *testing.T) { each(t, b, txOverQueues) })
	if !b.External() { // RabbitMQ does what it can and leaves the rest
		t.Run("one of several queues refuses", func(t *testing.T) { refusedTxOverQueues(t, b) })
	}
}

func commitAndRollback(t *testing.T, p *pair, queue string) {
	ch, body := p.ch, amqp.Publishing{Body: []byte("x"), DeliveryMode: amqp.Persistent}
	publish := func() {
		t.Helper()
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, body); err != nil {
			t.Fatal(err)
		}
	}
	count := func(want int) {
		t.Helper()
		harness.Eventually(t, 5*time.Second, func() error { // RabbitMQ's quorum queues return messages a little later
			q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			if err == nil && q.Messages != want {
				err = fmt.Errorf("%d messages, want %d", q.Messages, want)
			}
			return err
		})
	}
	do := func(f func() error) {
		t.Helper()
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	do(ch.Tx)
	publish()
	count(0)
	do(ch.TxRollback)
	publish()
	publish()
	do(ch.TxCommit)
	count(2)
	d, ok, err := ch.Get(queue, false)
	if err != nil || !ok {
		t.Fatal(err)
	}
	do(func() error { return ch.Ack(d.DeliveryTag, false) })
	do(ch.TxRollback)
	do(func() error { return ch.Nack(d.DeliveryTag, false, true) }) // the tag counts again
	count(1)
	do(ch.TxCommit)
	count(2)
}

// refusedTx: RabbitMQ takes what fits, Warren nothing; both say so.
func refusedTx(t *testing.T, b *harness.Broker) {
	const queue = "tx-refused"
	ch := b.Channel(t)
	b.DropQueue(t, queue)
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	err := ch.TxCommit()
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed || refused.Reason != "PRECONDITION_FAILED - partial tx completion" {
		t.Errorf("the commit gives %v", err)
	}
	want := 0
	if b.External() {
		want = 1
	}
	b.AwaitCount(t, queue, want)
}

// txWithoutTime: messages that may not wait go to a consumer that is there at the commit; what it cannot take is gone. What it settles in the same transaction makes room too late.
func txWithoutTime(t *testing.T, p *pair, queue string) {
	qos(t, p.ch, 1, false)
	c := consume(t, p.ch, queue, "c", false)
	if err := p.ch.Tx(); err != nil {
		t.Fatal(err)
	}
	commit := func(bodies ...string) {
		t.Helper()
		for _, body := range bodies {
			if err := p.ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Expiration: "0", Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.ch.TxCommit(); err != nil {
			t.Fatal(err)
		}
	}
	commit("1", "2")
	d := harness.Receive(t, c)
	if string(d.Body) != "1" {
		t.Fatalf("got %s", d.Body)
	}
	ack(t, d)
	commit("3")
	quiet(t, p.ch, queue, c)
	commit("4")
	if d := harness.Receive(t, c); string(d.Body) != "4" {
		t.Fatalf("got %s", d.Body)
	}
}

// txOverQueues: what a transaction does in several queues is seen in none of them before the commit, and in all of them with its answer: durable and transient ones, publishes and settlements of all kinds.
func txOverQueues(t *testing.T, p *pair, queue string) {
	queues := []string{queue, queue + "-second", queue + "-third"}
	for i, q := range queues[1:] {
		if _, err := p.ch.QueueDeclare(q, i == 0, false, i != 0, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	send := func(ch *amqp.Channel, q, body string) {
		t.Helper()
		if err := ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent}); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(want ...int) {
		t.Helper()
		for i, q := range queues {
			info, err := p.ch.QueueDeclarePassive(q, true, false, false, false, nil)
			if err != nil || info.Messages != want[i] {
				t.Fatalf("%s: %d messages (%v), want %d", q, info.Messages, err, want[i])
			}
		}
	}
	if err := p.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	tx, err := p.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Tx(); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		for _, q := range queues {
			send(tx, q, fmt.Sprint(round))
		}
		if err := tx.Qos(0, 0, false); err != nil { // the broker has all of it
			t.Fatal(err)
		}
		counts(0, 0, 0)
		if err := tx.TxCommit(); err != nil {
			t.Fatal(err)
		}
		counts(1, 1, 1)
		for i, q := range queues {
			d, ok, err := tx.Get(q, false)
			if err != nil || !ok || string(d.Body) != fmt.Sprint(round) {
				t.Fatalf("%s: got %q, %t, %v", q, d.Body, ok, err)
			}
			if err := tx.Ack(d.DeliveryTag, false); err != nil {
				t.Fatal(err)
			}
			send(tx, queues[(i+1)%3], "forwarded")
		}
		if err := tx.TxCommit(); err != nil {
			t.Fatal(err)
		}
		counts(1, 1, 1)
		for _, q := range queues {
			if d, ok, err := tx.Get(q, true); err != nil || !ok || string(d.Body) != "forwarded" {
				t.Fatalf("%s: got %q, %t, %v", q, d.Body, ok, err)
			}
		}
	}
}

// refusedTxOverQueues: one queue has no room, so nothing happens in the others either: nothing is published, and what was settled is there again.
func refusedTxOverQueues(t *testing.T, b *harness.Broker) {
	ch := b.Channel(t)
	queues := []string{"tx-in", "tx-out", "tx-full"}
	for _, q := range queues {
		b.DropQueue(t, q)
		args := amqp.Table{}
		if q == "tx-full" {
			args = amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}
		}
		if _, err := ch.QueueDeclare(q, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	send := func(q string, times int) {
		t.Helper()
		for range times {
			if err := ch.PublishWithContext(t.Context(), "", q, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send("tx-in", 2)
	b.AwaitCount(t, "tx-in", 2)
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d, ok, err := ch.Get("tx-in", false); err != nil || !ok || ch.Ack(d.DeliveryTag, false) != nil {
			t.Fatal(ok, err)
		}
	}
	send("tx-out", 3)
	send("tx-full", 2)
	err := ch.TxCommit()
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed || refused.Reason != "PRECONDITION_FAILED - partial tx completion" {
		t.Errorf("the commit gives %v", err)
	}
	b.AwaitCount(t, "tx-in", 2)
	b.AwaitCount(t, "tx-out", 0)
	b.AwaitCount(t, "tx-full", 0)
	ch = b.Channel(t)
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	send("tx-full", 1)
	send("tx-out", 1)
	if err := ch.TxCommit(); err != nil {
		t.Fatal(err)
	}
	b.AwaitCount(t, "tx-full", 1)
	b.AwaitCount(t, "tx-out", 1)
}
