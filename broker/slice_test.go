package broker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// testBroker is a broker over a fakeHost.
type testBroker struct {
	*Broker
	tb   testing.TB
	host *fakeHost
}

func startBroker(tb testing.TB, change ...func(*Options)) *testBroker {
	tb.Helper()
	h := newFakeHost(tb)
	opt := Options{Host: h, Log: slog.New(slog.DiscardHandler), LoopbackUsers: []string{"guest"}}
	for _, f := range change {
		f(&opt)
	}
	b := &testBroker{Broker: New(opt), tb: tb, host: h}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			tb.Errorf("shutdown: %v", err)
		}
	})
	return b
}

// dial connects through a pipe.
func (b *testBroker) dial() net.Conn {
	client, server := net.Pipe()
	b.ServeConn(server)
	return client
}

// connect connects a client library.
func (b *testBroker) connect() *amqp091.Connection {
	b.tb.Helper()
	c, err := amqp091.Open(b.dial(), amqp091.Config{
		SASL: []amqp091.Authentication{&amqp091.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/", Heartbeat: -1,
	})
	if err != nil {
		b.tb.Fatalf("connect: %v", err)
	}
	b.tb.Cleanup(func() { _ = c.CloseDeadline(time.Now().Add(5 * time.Second)) })
	return c
}

func (b *testBroker) channel(c *amqp091.Connection) *amqp091.Channel {
	b.tb.Helper()
	ch, err := c.Channel()
	if err != nil {
		b.tb.Fatalf("channel: %v", err)
	}
	return ch
}

func TestPublishConsumeAck(t *testing.T) {
	b := startBroker(t)
	ch := b.channel(b.connect())
	q, err := ch.QueueDeclare("q", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(q.Name, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	var confirms []*amqp091.DeferredConfirmation
	for i := range n {
		d, err := ch.PublishWithDeferredConfirm("", q.Name, false, false, amqp091.Publishing{Body: fmt.Appendf(nil, "m%d", i), MessageId: "id"})
		if err != nil {
			t.Fatal(err)
		}
		confirms = append(confirms, d)
	}
	for i := range n {
		d := <-deliveries
		if string(d.Body) != fmt.Sprintf("m%d", i) || d.MessageId != "id" || d.DeliveryTag != uint64(i+1) || d.Redelivered || d.RoutingKey != "q" {
			t.Fatalf("delivery %d: %+v", i, d)
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range confirms {
		if !d.Wait() {
			t.Fatalf("publish %d was nacked", i)
		}
	}
	if q, err = ch.QueueDeclarePassive("q", true, false, false, false, nil); err != nil || q.Messages != 0 || q.Consumers != 1 {
		t.Fatalf("passive declare: %+v %v", q, err)
	}
}
