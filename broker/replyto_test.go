package broker

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

func wantsReply(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetReplyTo(replyQueue) }

func (c *rawClient) consumeReplies(tag string) {
	c.tb.Helper()
	c.call(1, &amqp.BasicConsume{Queue: replyQueue, NoAck: true, ConsumerTag: tag}, `basic.consume-ok consumer-tag="`+tag+`"`)
}

// request publishes a request and returns the address that its receiver sees.
func (c *rawClient) request(queue string) string {
	c.tb.Helper()
	c.write(message(1, "", queue, []byte("request"), wantsReply, func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetCorrelationID("7") }))
	c.send(1, &amqp.BasicGet{Queue: queue, NoAck: true})
	if m, ok := c.method().(*amqp.BasicGetOk); !ok {
		c.tb.Fatalf("got %v", m)
	}
	p, _ := c.content()
	if p.CorrelationID != "7" {
		c.tb.Errorf("properties %v", &p)
	}
	return p.ReplyTo
}

func TestReplyConsumer(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.write(message(1, "", "q", nil, wantsReply))
	r.closed(1, amqp.MethodBasicPublish, "406 PRECONDITION_FAILED - fast reply consumer does not exist")
	r.fails(1, &amqp.BasicConsume{Queue: replyQueue}, "406 PRECONDITION_FAILED - reply consumer cannot acknowledge")
	r.consumeReplies("c")
	r.fails(1, &amqp.BasicConsume{Queue: replyQueue, NoAck: true}, "406 PRECONDITION_FAILED - reply consumer already set")
	r.consumeReplies("c")
	r.fails(1, &amqp.BasicConsume{Queue: replyQueue}, "406 PRECONDITION_FAILED - reply consumer cannot acknowledge")
	r.consumeReplies("c")
	r.call(1, &amqp.BasicCancel{ConsumerTag: "c"}, `basic.cancel-ok consumer-tag="c"`)
	r.consumeReplies("c") // on the same channel
	for _, m := range []amqp.Method{&amqp.QueueBind{Queue: replyQueue, Exchange: "amq.direct"}, &amqp.QueueUnbind{Queue: replyQueue, Exchange: "amq.direct"}} {
		r.fails(1, m, "403 ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue")
	}
	r.fails(1, &amqp.BasicGet{Queue: replyQueue}, "404 NOT_FOUND - no queue 'amq.rabbitmq.reply-to' in vhost '/'")
	if b.host.Catalogue().View.Queue("/", replyQueue) != nil {
		t.Error("the pseudo queue is in the catalogue")
	}
}

// TestReplies: a reply comes to the channel that asked, as a delivery under its consumer tag, and nowhere else.
func TestReplies(t *testing.T) {
	b := startBroker(t)
	r, server := b.open(), b.open()
	r.declare("q")
	r.consumeReplies("c")
	address := r.request("q")
	if a, ok := parseReplyAddress([]byte(address)); !ok || a.node != fakeNode {
		t.Fatalf("reply-to is %q", address)
	}
	if again := r.request("q"); again != address {
		t.Errorf("reply-to changes from %s to %s", address, again)
	}
	for _, passive := range []bool{true, false} {
		server.call(1, &amqp.QueueDeclare{Queue: address, Passive: passive}, `queue.declare-ok queue="`+address+`" message-count=0 consumer-count=1`)
		server.call(1, &amqp.QueueDeclare{Queue: replyQueue, Passive: passive}, `queue.declare-ok queue="`+replyQueue+`" message-count=0 consumer-count=1`)
	}
	server.confirm()
	server.write(message(1, "", address, []byte("reply"), mandatory, func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetReplyTo("else"); p.SetMessageID("m") }))
	server.expect("basic.ack delivery-tag=1")
	m, p, body := r.delivery()
	if m.ConsumerTag != "c" || m.DeliveryTag != 3 || m.Redelivered || m.Exchange != "" || m.RoutingKey != address || string(body) != "reply" || p.ReplyTo != "else" || p.MessageID != "m" {
		t.Errorf("got %s %v %q", m, &p, body)
	}
	// As a copy, beside a queue.
	server.write(message(1, "", "q", []byte("both"), func(_ *amqp.BasicPublish, p *amqp.Properties) {
		p.SetHeaders(amqp.Table{{Key: "CC", Value: amqp.Array(amqp.Longstr(address))}})
	}))
	server.expect("basic.ack delivery-tag=2")
	if m, _, body := r.delivery(); m.RoutingKey != "q" || string(body) != "both" {
		t.Errorf("got %s %q", m, body)
	}
	r.get("q", "both")
	// Named twice it gets one.
	server.write(message(1, "", address, []byte("once"), func(_ *amqp.BasicPublish, p *amqp.Properties) {
		p.SetHeaders(amqp.Table{{Key: "CC", Value: amqp.Array(amqp.Longstr(address))}})
	}))
	server.expect("basic.ack delivery-tag=3")
	if _, _, body := r.delivery(); string(body) != "once" {
		t.Errorf("got %q", body)
	}
	r.sync(1)
	// Through another exchange it is a key like any other.
	server.write(message(1, "amq.direct", address, nil))
	server.expect("basic.ack delivery-tag=4")
	r.sync(1)
	large := bytes.Repeat([]byte("x"), 1<<20)
	server.write(message(1, "", address, large))
	if _, _, body := r.delivery(); !bytes.Equal(body, large) {
		t.Errorf("%d bytes came", len(body))
	}
	server.expect("basic.ack delivery-tag=5")
}

// TestLateReplies: what names a channel that is gone is dropped; what names none at all is unroutable.
func TestLateReplies(t *testing.T) {
	b := startBroker(t)
	r, server := b.open(), b.open()
	r.declare("q")
	r.consumeReplies("c")
	address := r.request("q")
	r.call(1, &amqp.BasicCancel{ConsumerTag: "c"}, `basic.cancel-ok consumer-tag="c"`)
	late := func() {
		t.Helper()
		server.write(message(1, "", address, nil, mandatory))
		server.fails(1, &amqp.QueueDeclare{Queue: address, Passive: true}, "404 NOT_FOUND - no queue '"+address+"' in vhost '/'")
	}
	late()
	r.consumeReplies("c") // another address
	late()
	r.sync(1)
	address = r.request("q")
	forged := address[:len(address)-8] + "AAAAAAAA"
	r.call(1, &amqp.ChannelClose{}, "channel.close-ok")
	late()
	address = forged
	late()
	server.confirm()
	for i, name := range []string{replyQueue, replyPrefix, replyPrefix + "abc", address + "A", replyPrefix + strings.Repeat("!", replyTextBytes)} {
		server.write(message(1, "", name, nil))
		if i == 0 { // confirms may come later than what else is answered
			server.expect("basic.ack delivery-tag=1")
		} else {
			server.method()
		}
		server.write(message(1, "", name, nil, mandatory))
		if m, ok := server.method().(*amqp.BasicReturn); !ok || m.ReplyCode != amqp.ReplyNoRoute {
			t.Fatalf("%s: %v", name, m)
		}
		server.content()
		server.method()
	}
}

// TestRepliesOfTransactions go with the commit.
func TestRepliesOfTransactions(t *testing.T) {
	b := startBroker(t)
	r, server := b.open(), b.open()
	r.declare("q")
	r.consumeReplies("c")
	address := r.request("q")
	server.selectTx()
	server.publish(address, "never")
	server.rollback()
	server.publish(address, "1")
	server.sync(1)
	r.sync(1)
	server.commit()
	if _, _, body := r.delivery(); string(body) != "1" {
		t.Errorf("got %q", body)
	}
}

// TestRepliesAreDropped: a client that does not read loses replies and not the broker its memory.
func TestRepliesAreDropped(t *testing.T) {
	b := startBroker(t)
	r, server := b.open(), b.open()
	r.declare("q")
	r.consumeReplies("c")
	address := r.request("q")
	body := make([]byte, 1<<20)
	const sent = 40
	for range sent {
		server.write(message(1, "", address, body))
	}
	server.sync(1)
	c := b.connections()[0]
	c.out.mu.Lock()
	waiting := c.out.replies
	c.out.mu.Unlock()
	if waiting > limits.ReplyBacklogBytesMax {
		t.Errorf("%d bytes wait", waiting)
	}
	r.send(1, &amqp.BasicQos{})
	got := 0
	for ; ; got++ {
		m := r.method()
		if _, ok := m.(*amqp.BasicQosOk); ok {
			break
		}
		r.content()
	}
	if got == 0 || got >= sent {
		t.Errorf("%d of %d replies came", got, sent)
	}
}

// TestReplyToKeepsProperties: naming the address changes no other octet.
func TestReplyToKeepsProperties(t *testing.T) {
	var p amqp.Properties
	p.SetContentType("text/plain")
	p.SetHeaders(amqp.Table{{Key: "b", Value: amqp.Int64(1)}, {Key: "a", Value: amqp.Longstr("x")}})
	p.SetReplyTo(replyQueue)
	p.SetExpiration("5")
	raw := p.Append(nil)
	v, err := amqp.ScanProperties(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Replace(raw, append([]byte{byte(len(replyQueue))}, replyQueue...), []byte("\x03abc"), 1)
	if got := v.AppendReplyTo(nil, "abc"); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func FuzzReplyAddress(f *testing.F) {
	f.Add([]byte(replyPrefix + strings.Repeat("A", replyTextBytes)))
	f.Fuzz(func(t *testing.T, name []byte) {
		if a, ok := parseReplyAddress(name); ok && a.String() != string(name) {
			t.Errorf("%q came back as %s", name, &a)
		}
	})
}
