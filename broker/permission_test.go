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

func permit(configure, write, read string) meta.Command {
	return meta.Command{Op: meta.OpPutPermission, Permission: meta.Permission{User: testUser, VHost: "/", Configure: configure, Write: write, Read: read}}
}

// A consumer whose user may not read its queue any more is cancelled; other consumers of the channel, its unacked messages and the connection stay.
func TestConsumersAreRevoked(t *testing.T) {
	for name, revoke := range map[string]meta.Command{
		"permission changed": permit(".*", ".*", "^b$"), "permission deleted": {Op: meta.OpDeletePermission, Permission: meta.Permission{User: testUser, VHost: "/"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBroker(t)
			r := b.open()
			r.declare("a")
			r.declare("b")
			r.publish("a", "1")
			r.consume("a", "of a", false)
			r.expect(`basic.deliver consumer-tag="of a" delivery-tag=1 exchange="" routing-key="a"`)
			r.content()
			if name == "permission changed" {
				r.consume("b", "of b", true)
			}
			b.do(permit("", "", ".*")) // still allowed
			b.do(revoke)
			r.expect(`basic.cancel consumer-tag="of a" no-wait`)
			r.send(1, &amqp.BasicAck{DeliveryTag: 1})
			if name == "permission changed" {
				r.call(1, &amqp.BasicGet{Queue: "b"}, "basic.get-empty")
			}
			r.fails(1, &amqp.BasicConsume{Queue: "a", ConsumerTag: "of a"}, "403 ACCESS_REFUSED - read access to queue 'a' in vhost '/' refused for user 'guest'")
			b.do(permit(".*", ".*", ".*"))
			r.call(1, &amqp.BasicGet{Queue: "a"}, "basic.get-empty") // it was acked
			r.consume("a", "again", true)
		})
	}
}

// A client that cannot be told of a cancelled consumer loses the channel.
func TestConsumersAreRevokedWithoutNotification(t *testing.T) {
	b := startBroker(t)
	b.open().declare("a")
	r := b.raw()
	r.start()
	login := plain("guest", "guest")
	login.ClientProperties = nil
	r.send(0, login)
	if _, ok := r.method().(*amqp.ConnectionTune); !ok {
		t.Fatal("no connection.tune")
	}
	r.send(0, &amqp.ConnectionTuneOk{}, &amqp.ConnectionOpen{VirtualHost: "/"})
	r.expect(opened)
	r.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	r.consume("a", "t", false)
	b.do(permit("", "", ""))
	r.closed(1, amqp.MethodBasicConsume, "403 ACCESS_REFUSED - read access to queue 'a' in vhost '/' refused for user 'guest'")
}

// A right that is taken away while the queue has not yet answered basic.consume is not kept by that.
func TestConsumerRevokedBeforeItStarts(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("a")
	q := b.queueNamed("a")
	q.freeze()
	r.send(1, &amqp.BasicConsume{Queue: "a", ConsumerTag: "t"})
	b.eventually("the consumer is known", func() bool { return len(b.Consumers()) == 1 })
	b.do(permit("", "", ""))
	q.thaw()
	r.expect(`basic.consume-ok consumer-tag="t"`)
	r.expect(`basic.cancel consumer-tag="t" no-wait`)
	b.eventually("the consumer is gone from its queue", func() bool {
		return q.counts().Consumers == 0
	})
}

// As in RabbitMQ a changed password or tag closes nothing; an impersonator who is none any more is none at once. A deleted user's connections end.
func TestChangedUsersOnOpenConnections(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	hash := meta.HashPassword([4]byte{9}, []byte("other"))
	asOther := func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetUserID("other") }
	put := func(tags ...string) {
		b.do(meta.Command{Op: meta.OpPutUser, User: meta.User{Name: testUser, PasswordHash: hash, Tags: tags}})
	}
	put("impersonator")
	r.confirm()
	r.write(message(1, "", "q", nil, asOther))
	r.expect("basic.ack delivery-tag=1")
	put()
	r.write(message(1, "", "q", nil, asOther))
	r.closed(1, amqp.MethodBasicPublish, "406 PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'guest'")
	r.call(0, &amqp.ConnectionUpdateSecret{NewSecret: "neither", Reason: "test"}, "connection.update-secret-ok")
	b.do(meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: testUser}})
	r.dies("320 CONNECTION_FORCED - user 'guest' is deleted")
}

// A secret for a user who is gone is refused.
func TestUpdateSecretOfNobody(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	b.host.mu.Lock()
	b.host.watchers = nil // the broker has not heard of it yet
	b.host.mu.Unlock()
	b.do(meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: testUser}})
	r.send(0, &amqp.ConnectionUpdateSecret{NewSecret: "guest"})
	r.dies("530 NOT_ALLOWED - New secret was refused by one of the backends")
}
