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
