package broker

import (
	"testing"

	"github.com/warrenmq/warren/amqp"
)

// TestSettlementsAfterChannelError: what the client sent before it saw channel.close is ignored, settlements, too; then the number is free at once.
func TestSettlementsAfterChannelError(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.publish("q", "1")
	tag := r.get("q", "1")
	r.send(1, &amqp.BasicAck{DeliveryTag: 99}, &amqp.BasicAck{DeliveryTag: tag}, &amqp.BasicNack{DeliveryTag: tag}, &amqp.TxCommit{}, &amqp.QueueDelete{Queue: "q"})
	r.publish("q", "2")
	r.closed(1, amqp.MethodBasicAck, "406 PRECONDITION_FAILED - unknown delivery tag 99")
	r.get("q", "1") // neither acked nor deleted
	r.send(1, &amqp.BasicGet{Queue: "q"})
	r.expect("basic.get-empty")
}

// TestExchangeUnbindOk has the number 51 and not the next one.
func TestExchangeUnbindOk(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.send(1, &amqp.ExchangeUnbind{Destination: "amq.fanout", Source: "amq.direct"})
	if f := r.frame(); f.Method() != amqp.NewMethodID(40, 51) {
		t.Errorf("exchange.unbind is answered by %v", f.Method())
	}
}

// TestConnectionCloseDuringCommit: a connection may be closed while a channel waits for its queues.
func TestConnectionCloseDuringCommit(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.selectTx()
	r.publish("q", "1")
	q := b.queueNamed("q")
	q.freeze()
	r.send(1, &amqp.TxCommit{})
	r.send(0, &amqp.ConnectionClose{})
	q.thaw()
	r.expect("tx.commit-ok")
	r.expect("connection.close-ok")
	b.holds("q", 1, 0)
}
