package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// answerTimeout bounds how long a test waits for one answer of a healthy broker.
const answerTimeout = 30 * time.Second

// closeTimeout bounds how long a test waits for the end of a connection that it has no more use for.
const closeTimeout = 5 * time.Second

// Connect opens a connection that ends with the test.
func (b *Broker) Connect(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := Dial(b.AMQPURL())
	if err != nil {
		t.Fatalf("connect to %s: %v", b.AMQP, err)
	}
	t.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(closeTimeout)) })
	return conn
}

// Channel opens a channel on a connection of its own.
func (b *Broker) Channel(t testing.TB) *amqp.Channel {
	t.Helper()
	return Channel(t, b.Connect(t))
}

// Channel opens a channel.
func Channel(t testing.TB, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("channel.open: %v", err)
	}
	return ch
}

// Queue types that a durable queue may have.
const (
	Classic = "classic"
	Quorum  = "quorum"
)

// Declare declares a durable queue of a type.
func Declare(t testing.TB, ch *amqp.Channel, name, queueType string) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: queueType}); err != nil {
		t.Fatalf("declare %s queue %s: %v", queueType, name, err)
	}
}

// FreshQueue declares a durable queue with nothing in it, which is deleted at the end of the test.
func (b *Broker) FreshQueue(t testing.TB, name, queueType string) {
	t.Helper()
	b.deleteQueue(name)
	Declare(t, b.Channel(t), name, queueType)
	t.Cleanup(func() { b.deleteQueue(name) })
}

// DropQueue deletes a queue now and at the end of the test, if it is there.
func (b *Broker) DropQueue(t testing.TB, name string) {
	b.deleteQueue(name)
	t.Cleanup(func() { b.deleteQueue(name) })
}

func (b *Broker) deleteQueue(name string) {
	if !b.Running() {
		return
	}
	conn, err := Dial(b.AMQPURL())
	if err != nil {
		return
	}
	defer conn.Close()
	if ch, err := conn.Channel(); err == nil {
		_, _ = ch.QueueDelete(name, false, false, false)
	}
}

// DropExchange deletes an exchange now and at the end of the test, if it is there.
func (b *Broker) DropExchange(t testing.TB, name string) {
	drop := func() {
		if conn, err := Dial(b.AMQPURL()); err == nil {
			defer conn.Close()
			if ch, err := conn.Channel(); err == nil {
				_ = ch.ExchangeDelete(name, false, false)
			}
		}
	}
	drop()
	t.Cleanup(drop)
}

// Count returns how many messages are ready in a queue.
func (b *Broker) Count(t testing.TB, queue string) int {
	t.Helper()
	n, err := b.TryCount(queue)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TryCount is Count with an error.
func (b *Broker) TryCount(queue string) (int, error) {
	conn, err := Dial(b.AMQPURL())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", queue, err)
	}
	return q.Messages, nil
}

// AwaitCount waits until a queue has as many ready messages.
func (b *Broker) AwaitCount(t testing.TB, queue string, want int) {
	t.Helper()
	Eventually(t, answerTimeout, func() error {
		got, err := b.TryCount(queue)
		if err == nil && got != want {
			err = fmt.Errorf("queue %s has %d messages, want %d", queue, got, want)
		}
		return err
	})
}

// PublishConfirmed publishes persistent messages to a queue and waits until each is confirmed.
func PublishConfirmed(t testing.TB, ch *amqp.Channel, exchange, key string, bodies ...[]byte) {
	t.Helper()
	if err := TryPublishConfirmed(ch, exchange, key, bodies...); err != nil {
		t.Fatal(err)
	}
}

// TryPublishConfirmed is PublishConfirmed with an error.
func TryPublishConfirmed(ch *amqp.Channel, exchange, key string, bodies ...[]byte) error {
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("confirm.select: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	var waiting []*amqp.DeferredConfirmation
	for i, body := range bodies {
		c, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
		if err != nil {
			return fmt.Errorf("publish message %d: %w", i+1, err)
		}
		waiting = append(waiting, c)
	}
	for i, c := range waiting {
		ok, err := c.WaitContext(ctx)
		if err == nil && !ok {
			err = errors.New("nacked, or the connection was lost")
		}
		if err != nil {
			return fmt.Errorf("confirm of message %d of %d: %w", i+1, len(bodies), err)
		}
	}
	return nil
}

// Receive waits for one delivery.
func Receive(t testing.TB, deliveries <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case d, ok := <-deliveries:
		if !ok {
			t.Fatal("the consumer was cancelled or its channel closed")
		}
		return d
	case <-time.After(answerTimeout):
		t.Fatalf("no delivery within %v", answerTimeout)
	}
	panic("unreachable")
}

// Eventually calls check until it returns nil; after the timeout its error fails the test.
func Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", timeout, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
