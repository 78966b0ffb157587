package broker

import (
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// do writes to the catalogue; nothing may be refused.
func (b *testBroker) do(cmds ...meta.Command) {
	b.tb.Helper()
	replies, err := b.host.Do(b.tb.Context(), cmds...)
	if err != nil {
		b.tb.Fatal(err)
	}
	for i := range replies {
		if replies[i].Reason != meta.ReasonOK {
			b.tb.Fatalf("command %d: %v", i, replies[i].Reason)
		}
	}
}

func putTopic(exchange, write, read string) meta.Command {
	return meta.Command{Op: meta.OpPutTopicPermission, Topic: meta.TopicPermission{User: testUser, VHost: "/", Exchange: exchange, Write: write, Read: read}}
}

// Topic permissions bound the keys that are published with and bound with, carbon copies included, on topic exchanges only, and count at once on open channels.
func TestTopicPermissions(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.confirm()
	put := func(exchange, key string, change ...func(*amqp.BasicPublish, *amqp.Properties)) {
		t.Helper()
		r.write(message(1, exchange, key, nil, change...))
		for range 2 {
			if _, isAck := r.method().(*amqp.BasicAck); isAck {
				return
			}
		}
		t.Fatal("no confirm")
	}
	refused := func(access, key string) string {
		return "403 ACCESS_REFUSED - " + access + " access to topic '" + key + "' in exchange 'amq.topic' in vhost '/' refused for user 'guest'"
	}
	r.call(1, &amqp.QueueBind{Queue: "q", Exchange: "amq.topic", RoutingKey: "other"}, "queue.bind-ok")
	put("amq.topic", "other")
	b.do(putTopic("amq.topic", `^{username}\.|^{vhost}$`, "^mine"), putTopic("amq.direct", "^$", "^$"), putTopic("amq.fanout", "^$", "^$"))
	put("amq.topic", "guest.a")
	put("amq.topic", "guest.a")
	put("amq.topic", "/")
	put("amq.direct", "other")
	put("", "q")
	copies := headers(amqp.Field{Key: "CC", Value: amqp.Array(amqp.Longstr("guest.b"), amqp.Longstr("other"))})
	for _, c := range []struct {
		key    string
		change []func(*amqp.BasicPublish, *amqp.Properties)
		bad    string
	}{{"other", nil, "other"}, {"guestxa", nil, "guestxa"}, {"", nil, ""}, {"guest.a", []func(*amqp.BasicPublish, *amqp.Properties){copies}, "other"}} {
		r.write(message(1, "amq.topic", c.key, nil, c.change...))
		r.closed(1, amqp.MethodBasicPublish, refused("write", c.bad))
		r.confirm()
	}
	for _, m := range []amqp.Method{
		&amqp.QueueBind{Queue: "q", Exchange: "amq.topic", RoutingKey: "other"}, &amqp.QueueUnbind{Queue: "q", Exchange: "amq.topic", RoutingKey: "other"},
		&amqp.ExchangeBind{Destination: "amq.fanout", Source: "amq.topic", RoutingKey: "other"}, &amqp.ExchangeUnbind{Destination: "amq.fanout", Source: "amq.topic", RoutingKey: "other"},
	} {
		r.fails(1, m, refused("read", "other"))
	}
	r.call(1, &amqp.QueueBind{Queue: "q", Exchange: "amq.topic", RoutingKey: "mine"}, "queue.bind-ok")
	r.call(1, &amqp.QueueBind{Queue: "q", Exchange: "amq.direct", RoutingKey: "other"}, "queue.bind-ok")
	r.call(1, &amqp.ExchangeBind{Destination: "amq.topic", Source: "amq.fanout", RoutingKey: "other"}, "exchange.bind-ok")
	r.fails(1, &amqp.QueueBind{Queue: "q", Exchange: "none", RoutingKey: "other"}, "404 NOT_FOUND - no exchange 'none' in vhost '/'")
	b.do(meta.Command{Op: meta.OpDeleteTopicPermission, Topic: meta.TopicPermission{User: testUser, VHost: "/"}})
	r.confirm()
	put("amq.topic", "other")
	b.do(putTopic("amq.topic", "", ""))
	put("amq.topic", "")
	r.write(message(1, "amq.topic", "a", nil))
	r.closed(1, amqp.MethodBasicPublish, refused("write", "a"))
}
