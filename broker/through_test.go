package broker

import (
	"fmt"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

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
