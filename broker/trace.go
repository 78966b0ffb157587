package broker

import (
	"math"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// The firehose: in a virtual host that is traced every message that a client publishes (in a transaction: commits), is delivered or gets is published once more to amq.rabbitmq.trace, with the key publish.EXCHANGE or
// deliver.QUEUE, the body as it is and all else in headers. Messages of that exchange itself are not traced.

// traces tells whether messages of the virtual host are traced now.
func (b *Broker) traces(vhost string) bool {
	traced := b.notices.traced.Load()
	return traced != nil && (*traced)[vhost]
}

// tracePublish traces a message that goes to the targets. Its properties are in ch.w.view.
func (ch *channel) tracePublish(p *publishing, copies []string, targets []meta.QueueID) {
	c := ch.c
	if !c.b.traces(c.vhost) {
		return
	}
	env := p.env.b
	key := string(env[p.routeFrom : p.properties-4])
	c.b.trace("publish", string(env[1:p.exchangeEnd]), &traced{
		vhost: c.vhost, exchange: string(env[1:p.exchangeEnd]), keys: append([]string{key}, copies...), properties: &ch.w.view, body: env[p.body:], connection: c.name(), channel: ch.number,
		user: c.user,
	}, amqp.Field{Key: "routed_queues", Value: amqp.Array(c.b.queueNames(targets)...)})
}

// traceDelivery traces a message that the client is sent.
func (ch *channel) traceDelivery(q *meta.Queue, e *Envelope, redelivered bool) {
	if !ch.c.b.traces(q.VHost) {
		return
	}
	view, err := amqp.ScanProperties(e.Properties)
	if err != nil {
		return
	}
	headers, _ := view.Headers()
	copies, _, _ := carbonCopies(headers)
	again := int32(0)
	if redelivered {
		again = 1
	}
	ch.c.b.trace("deliver", q.Name, &traced{
		vhost: q.VHost, exchange: string(e.Exchange), keys: append([]string{string(e.RoutingKey)}, copies...), properties: &view, body: e.Body, connection: ch.c.name(), channel: ch.number,
		user: ch.c.user,
	}, amqp.Field{Key: "redelivered", Value: amqp.Int32(again)})
}

// traced is a message with who handles it.
type traced struct {
	vhost, exchange  string
	keys             []string
	properties       *amqp.PropertyView
	body             []byte
	connection, user string
	channel          uint16
}

// trace publishes the copy of a message; what is one more header.
func (b *Broker) trace(verb, name string, m *traced, what amqp.Field) {
	if m.exchange == traceExchange {
		return
	}
	keys := make([]amqp.Value, len(m.keys))
	for i, key := range m.keys {
		keys[i] = amqp.Longstr(key)
	}
	n := notice{vhost: m.vhost, exchange: traceExchange, key: cutKey(verb + "." + name), body: append([]byte(nil), m.body...)}
	n.properties.SetHeaders(amqp.Table{
		{Key: "exchange_name", Value: amqp.Longstr(m.exchange)},
		{Key: "routing_keys", Value: amqp.Array(keys...)},
		{Key: "properties", Value: amqp.Nested(propertiesTable(m.properties))},
		{Key: "node", Value: amqp.Longstr(b.nodeName())},
		{Key: "vhost", Value: amqp.Longstr(m.vhost)},
		{Key: "connection", Value: amqp.Longstr(m.connection)},
		{Key: "channel", Value: amqp.Int32(int32(m.channel))},
		{Key: "user", Value: amqp.Longstr(m.user)},
		what,
	})
	b.notices.add(n)
}

// cutKey cuts what is too long for a routing key: a queue's name alone may have 255 bytes.
func cutKey(key string) string { return key[:min(len(key), meta.NameBytesMax)] }

// propertiesTable shows properties under RabbitMQ's names, those that are set.
func propertiesTable(v *amqp.PropertyView) (t amqp.Table) {
	text := func(name string, value []byte, ok bool) {
		if ok {
			t = append(t, amqp.Field{Key: name, Value: amqp.Longstr(string(value))})
		}
	}
	number := func(name string, value uint64, ok bool) {
		switch {
		case !ok:
		case value <= math.MaxInt32:
			t = append(t, amqp.Field{Key: name, Value: amqp.Int32(int32(value))})
		default:
			t = append(t, amqp.Field{Key: name, Value: amqp.Int64(int64(min(value, math.MaxInt64)))})
		}
	}
	var b []byte
	var octet uint8
	var ok bool
	b, ok = v.ContentType()
	text("content_type", b, ok)
	b, ok = v.ContentEncoding()
	text("content_encoding", b, ok)
	if headers, ok := v.Headers(); ok {
		t = append(t, amqp.Field{Key: "headers", Value: amqp.Nested(headers.Table())})
	}
	octet, ok = v.DeliveryMode()
	number("delivery_mode", uint64(octet), ok)
	octet, ok = v.Priority()
	number("priority", uint64(octet), ok)
	b, ok = v.CorrelationID()
	text("correlation_id", b, ok)
	b, ok = v.ReplyTo()
	text("reply_to", b, ok)
	b, ok = v.Expiration()
	text("expiration", b, ok)
	b, ok = v.MessageID()
	text("message_id", b, ok)
	seconds, ok := v.Timestamp()
	number("timestamp", seconds, ok)
	b, ok = v.Type()
	text("type", b, ok)
	b, ok = v.UserID()
	text("user_id", b, ok)
	b, ok = v.AppID()
	text("app_id", b, ok)
	b, ok = v.ClusterID()
	text("cluster_id", b, ok)
	return t
}

func (b *Broker) queueNames(ids []meta.QueueID) []amqp.Value {
	view := b.host.Catalogue().View
	names := make([]amqp.Value, 0, len(ids))
	for _, id := range ids {
		if q := view.QueueByID(id); q != nil {
			names = append(names, amqp.Longstr(q.Name))
		}
	}
	return names
}

// event publishes an event with its headers to amq.rabbitmq.event. Callers have asked whether somebody listens, so that nothing is made for nobody.
func (b *Broker) event(key string, fields ...amqp.Field) {
	now := time.Now()
	n := notice{vhost: b.opt.EventVHost, exchange: eventExchange, key: key}
	n.properties.SetHeaders(append(amqp.Table(fields), amqp.Field{Key: "timestamp_in_ms", Value: amqp.Int64(now.UnixMilli())}))
	n.properties.SetDeliveryMode(2)
	n.properties.SetTimestamp(uint64(now.Unix()))
	b.notices.add(n)
}
