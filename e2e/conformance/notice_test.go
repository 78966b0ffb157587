package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// TestNotices holds what the broker itself publishes: the firehose and events.
func TestNotices(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	for name, test := range map[string]func(*testing.T, *pair){
		"firehose":              firehose,
		"firehose of commits":   firehoseOfCommits,
		"events of topology":    topologyEvents,
		"events of connections": connectionEvents,
		"events of users":       userEvents,
		"events of limits":      limitEvents,
		"events of a vhost":     vhostEvents,
	} {
		t.Run(name, func(t *testing.T) { test(t, newPair(t, b)) })
	}
}

// spy consumes what an exchange of the broker says from now on.
func (p *pair) spy(t *testing.T, exchange, pattern string) <-chan amqp.Delivery {
	t.Helper()
	return consume(t, p.ch, p.bound(t, exchange, pattern, nil), "", true)
}

// told waits for the notice with a key about something, and passes over others.
func told(t *testing.T, notices <-chan amqp.Delivery, key string, about amqp.Table) amqp.Delivery {
	t.Helper()
	deadline := time.After(eventTimeout) // a broker that others use never falls silent
	for {
		var d amqp.Delivery
		select {
		case d = <-notices:
		case <-deadline:
			t.Fatalf("no %s about %v within %v", key, about, eventTimeout)
		}
		matches := d.RoutingKey == key
		for k, v := range about {
			matches = matches && fmt.Sprint(d.Headers[k]) == fmt.Sprint(v)
		}
		if matches {
			return d
		}
	}
}

// has wants headers to be there, with their types.
func has(t *testing.T, d amqp.Delivery, want amqp.Table) {
	t.Helper()
	for k, v := range want {
		if got := d.Headers[k]; fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", v, v) {
			t.Errorf("%s: header %s is %T %v, want %T %v", d.RoutingKey, k, got, got, v, v)
		}
	}
}

func (b *pair) tracing(t *testing.T, on bool) {
	t.Helper()
	if a := b.broker.API(t, http.MethodPut, "/api/vhosts/%2F", map[string]any{"tracing": on}); a.Status/100 != 2 {
		t.Fatalf("PUT tracing: %d %s", a.Status, a.Body)
	}
	var vhost struct{ Tracing bool }
	b.broker.Get(t, "/api/vhosts/%2F", &vhost)
	if vhost.Tracing != on {
		t.Errorf("tracing is %t, want %t", vhost.Tracing, on)
	}
}

func firehose(t *testing.T, p *pair) {
	const queue = "e2e-traced"
	p.broker.FreshQueue(t, queue, harness.Classic)
	if err := p.ch.QueueBind(queue, queue, "amq.direct", false, nil); err != nil {
		t.Fatal(err)
	}
	trace := p.spy(t, "amq.rabbitmq.trace", "#")
	p.publish(t, queue, "before")
	p.tracing(t, true)
	t.Cleanup(func() { p.tracing(t, false) })
	ch := p.broker.Channel(t)
	m := amqp.Publishing{
		Headers: amqp.Table{"h": "v", "CC": []any{"e2e-copy"}}, ContentType: "text/plain", MessageId: "id", Priority: 3, DeliveryMode: 2, Body: []byte("body"),
	}
	if err := ch.PublishWithContext(t.Context(), "amq.direct", queue, false, false, m); err != nil {
		t.Fatal(err)
	}
	keys := []any{queue, "e2e-copy"}
	properties := amqp.Table{"content_type": "text/plain", "message_id": "id", "priority": int32(3), "delivery_mode": int32(2), "headers": m.Headers}
	d := next(t, trace, "trace of the publish")
	if d.RoutingKey != "publish.amq.direct" || d.Exchange != "amq.rabbitmq.trace" || string(d.Body) != "body" {
		t.Errorf("traced as %s %s %q", d.Exchange, d.RoutingKey, d.Body)
	}
	has(t, d, amqp.Table{
		"exchange_name": "amq.direct", "routing_keys": keys, "properties": properties, "vhost": "/", "channel": int32(1), "user": "guest", "routed_queues": []any{queue},
	})
	if name, _ := d.Headers["connection"].(string); !strings.Contains(name, " -> ") || d.Headers["node"] == "" || len(d.Headers) != 9 {
		t.Errorf("headers of a publish: %v", d.Headers)
	}
	// An unroutable message is traced, too, and a blind copy's header is gone.
	if err := ch.PublishWithContext(t.Context(), "amq.topic", "nowhere", false, false, amqp.Publishing{Headers: amqp.Table{"BCC": []any{"blind"}}}); err != nil {
		t.Fatal(err)
	}
	d = next(t, trace, "trace of the unroutable message")
	has(t, d, amqp.Table{"exchange_name": "amq.topic", "routing_keys": []any{"nowhere", "blind"}, "routed_queues": []any{}})
	if d.RoutingKey != "publish.amq.topic" || strings.Contains(fmt.Sprint(d.Headers["properties"]), "BCC") {
		t.Errorf("%s: %v", d.RoutingKey, d.Headers)
	}
	for _, body := range []string{"before", "body"} {
		get(t, ch, queue, body)
	}
	has(t, told(t, trace, "deliver."+queue, amqp.Table{"redelivered": 0}), amqp.Table{"redelivered": int32(0), "routing_keys": []any{queue}})
	has(t, told(t, trace, "deliver."+queue, amqp.Table{"redelivered": 0}), amqp.Table{"exchange_name": "amq.direct", "routing_keys": keys, "properties": properties, "user": "guest", "vhost": "/"})
	if err := ch.Nack(2, true, true); err != nil {
		t.Fatal(err)
	}
	deliveries := consume(t, ch, queue, "", false)
	receive(t, deliveries, "before*", "body*")
	for range 2 {
		has(t, next(t, trace, "trace of the redelivery"), amqp.Table{"redelivered": int32(1)})
	}
	p.tracing(t, false)
	if err := ch.PublishWithContext(t.Context(), "", queue, false, false, text("after")); err != nil {
		t.Fatal(err)
	}
	receive(t, deliveries, "after")
	select {
	case d := <-trace:
		t.Errorf("%s %q is traced after the end", d.RoutingKey, d.Body)
	default:
	}
}

// firehoseOfCommits: a message in a transaction is traced when it is committed, with all its keys, and not at all if it is rolled back.
func firehoseOfCommits(t *testing.T, p *pair) {
	if p.broker.External() {
		t.Skip("RabbitMQ traces before the commit")
	}
	const queue = "e2e-traced-tx"
	p.broker.FreshQueue(t, queue, harness.Classic)
	trace := p.spy(t, "amq.rabbitmq.trace", "#")
	p.tracing(t, true)
	t.Cleanup(func() { p.tracing(t, false) })
	ch := p.broker.Channel(t)
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body string
		end  func() error
	}{{"rolled back", ch.TxRollback}, {"committed", ch.TxCommit}} {
		m := amqp.Publishing{Headers: amqp.Table{"BCC": []any{"blind"}}, Body: []byte(c.body)}
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, m); err != nil {
			t.Fatal(err)
		}
		if err := p.other.PublishWithContext(t.Context(), "amq.topic", "meanwhile", false, false, text("")); err != nil {
			t.Fatal(err)
		}
		if d := next(t, trace, "trace of a message beside the transaction"); d.RoutingKey != "publish.amq.topic" {
			t.Errorf("%s %q is traced before its commit", d.RoutingKey, d.Body)
		}
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
	}
	d := next(t, trace, "trace of the commit")
	if string(d.Body) != "committed" {
		t.Errorf("%q is traced", d.Body)
	}
	has(t, d, amqp.Table{"routing_keys": []any{queue, "blind"}, "routed_queues": []any{queue}, "channel": int32(1)})
}

// TestLostLettersAreTold: a queue whose dead letters have nowhere to go keeps a million of them and a little more; what dies then is lost, which an event and a metric tell.
func TestLostLettersAreTold(t *testing.T) {
	if !harness.Full() {
		t.Skip("takes a million messages")
	}
	harness.NeedProcess(t)
	const kept, lost = 1 << 20, 1000
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	m := &mortal{newPair(t, b), transient}
	source := m.declare(t, "source", to(t, "nowhere", amqp.Table{"x-max-length": 1}))
	events := m.spy(t, "amq.rabbitmq.event", "queue.letters.#")
	c, err := rawamqp.Open(b.AMQP, rawamqp.Guest)
	settled(t, err)
	defer c.Close()
	settled(t, c.OpenChannel(1))
	publish := rawamqp.BodyHeader(1, 0).Append(rawamqp.Publish(1, source).Append(nil))
	burst := strings.Repeat(string(publish), 1024)
	for range kept / 1024 {
		settled(t, c.SendRaw(burst))
	}
	m.fills(t, source, kept-1)
	settled(t, c.SendRaw(strings.Repeat(string(publish), lost+1))) // the first of them fills it
	d := told(t, events, "queue.letters.lost", amqp.Table{"name": source, "vhost": "/"})
	if n, _ := d.Headers["lost"].(int64); n < 1 || n > lost {
		t.Errorf("%v letters are told lost, of %d", d.Headers["lost"], lost)
	}
	m.fills(t, source, kept)
	harness.Eventually(t, eventTimeout, func() error {
		n, err := b.Metric("warren_dead_letters_lost_total")
		if err == nil && n != lost {
			err = errCount{int(n), lost}
		}
		return err
	})
}

// fills waits until so many dead letters wait in a queue beside one message.
func (m *mortal) fills(t *testing.T, queue string, dead int) {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, func() error {
		var q struct {
			Dead int `json:"messages_dlx"`
		}
		m.broker.Get(t, harness.Path("queues", "/", queue), &q)
		if q.Dead != dead {
			return errCount{q.Dead, dead}
		}
		return nil
	})
}

// limitEvents: limits and topic permissions are told when they are set and when they go.
func limitEvents(t *testing.T, p *pair) {
	const user, vhost = "e2e-event-limited", "e2e-event-limits"
	p.broker.API(t, http.MethodDelete, "/api/users/"+user, nil)
	p.broker.API(t, http.MethodDelete, "/api/vhosts/"+vhost, nil)
	p.changes(t, http.MethodPut, "/api/vhosts/"+vhost, map[string]any{})
	p.changes(t, http.MethodPut, "/api/users/"+user, map[string]any{"password": "x", "tags": ""})
	events := p.spy(t, "amq.rabbitmq.event", "#")
	p.changes(t, http.MethodPut, "/api/vhost-limits/"+vhost+"/max-queues", map[string]any{"value": 9})
	has(t, told(t, events, "vhost.limits.set", amqp.Table{"name": "limits"}), amqp.Table{"max-queues": int64(9)})
	p.changes(t, http.MethodDelete, "/api/vhost-limits/"+vhost+"/max-queues", nil)
	if !p.broker.External() { // 3.10 tells that an empty list is set
		told(t, events, "vhost.limits.cleared", amqp.Table{"name": "limits", "vhost": vhost})
	}
	p.changes(t, http.MethodPut, "/api/user-limits/"+user+"/max-channels", map[string]any{"value": 7})
	has(t, told(t, events, "user.limits.set", amqp.Table{"username": user}), amqp.Table{"name": "limits", "max-channels": int64(7)})
	p.changes(t, http.MethodDelete, "/api/user-limits/"+user+"/max-channels", nil)
	told(t, events, "user.limits.cleared", amqp.Table{"name": "limits", "username": user})
	rights := amqp.Table{"user": user, "vhost": vhost}
	p.changes(t, http.MethodPut, "/api/topic-permissions/"+vhost+"/"+user, map[string]any{"exchange": "amq.topic", "write": "a", "read": "b"})
	has(t, told(t, events, "topic.permission.created", rights), amqp.Table{"exchange": "amq.topic", "write": "a", "read": "b"})
	p.changes(t, http.MethodDelete, "/api/topic-permissions/"+vhost+"/"+user, nil)
	told(t, events, "topic.permission.deleted", rights)
	for _, kind := range []string{"policies", "operator-policies"} {
		policy := amqp.Table{"name": "e2e", "vhost": vhost}
		p.changes(t, http.MethodPut, "/api/"+kind+"/"+vhost+"/e2e", map[string]any{"pattern": "^none$", "definition": map[string]any{"max-length": 7}, "priority": 3})
		has(t, told(t, events, "policy.set", policy), amqp.Table{"pattern": "^none$"})
		p.changes(t, http.MethodDelete, "/api/"+kind+"/"+vhost+"/e2e", nil)
		told(t, events, map[string]string{"policies": "policy.cleared", "operator-policies": "operator.policy.cleared"}[kind], policy)
	}
	p.changes(t, http.MethodDelete, "/api/vhosts/"+vhost, nil)
	p.changes(t, http.MethodDelete, "/api/users/"+user, nil)
}

// vhostEvents: a virtual host is told behind its exchanges; all that goes with it is told, too.
func vhostEvents(t *testing.T, p *pair) {
	const vhost = "e2e-event-whole"
	p.broker.API(t, http.MethodDelete, "/api/vhosts/"+vhost, nil)
	events := p.spy(t, "amq.rabbitmq.event", "#")
	p.changes(t, http.MethodPut, "/api/vhosts/"+vhost, map[string]any{})
	has(t, told(t, events, "exchange.created", amqp.Table{"vhost": vhost, "name": "amq.rabbitmq.trace"}), amqp.Table{"type": "topic", "durable": true, "internal": true})
	told(t, events, "vhost.created", amqp.Table{"name": vhost})
	p.changes(t, http.MethodPut, "/api/permissions/"+vhost+"/guest", map[string]any{"configure": ".*", "write": ".*", "read": ".*"})
	p.changes(t, http.MethodPut, "/api/queues/"+vhost+"/q", map[string]any{"durable": true})
	p.changes(t, http.MethodPut, "/api/exchanges/"+vhost+"/x", map[string]any{"type": "direct"})
	p.changes(t, http.MethodPost, "/api/bindings/"+vhost+"/e/x/q/q", map[string]any{"routing_key": "k"})
	p.changes(t, http.MethodDelete, "/api/vhosts/"+vhost, nil)
	told(t, events, "permission.deleted", amqp.Table{"vhost": vhost, "user": "guest"})
	told(t, events, "binding.deleted", amqp.Table{"vhost": vhost, "source_name": "x", "destination_name": "q", "routing_key": "k"})
	if p.broker.External() {
		told(t, events, "queue.deleted", amqp.Table{"vhost": vhost, "name": "q"})
	}
	told(t, events, "exchange.deleted", amqp.Table{"vhost": vhost, "name": "x"})
	told(t, events, "vhost.deleted", amqp.Table{"name": vhost})
	if !p.broker.External() {
		told(t, events, "queue.deleted", amqp.Table{"vhost": vhost, "name": "q"})
	}
}

// changes asks the API for something that must succeed.
func (p *pair) changes(t *testing.T, method, path string, body any) {
	t.Helper()
	if a := p.broker.API(t, method, path, body); a.Status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
}

func topologyEvents(t *testing.T, p *pair) {
	const queue, x = "e2e-events", "e2e-events-x"
	p.broker.DropQueue(t, queue)
	p.broker.DropExchange(t, x)
	events := p.spy(t, "amq.rabbitmq.event", "#")
	ch := p.broker.Channel(t)
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	d := told(t, events, "queue.created", amqp.Table{"name": queue})
	has(t, d, amqp.Table{"name": queue, "vhost": "/", "durable": true, "auto_delete": false, "exclusive": false})
	if ms, _ := d.Headers["timestamp_in_ms"].(int64); ms/1000 != d.Timestamp.Unix() || d.DeliveryMode != 2 || len(d.Body) != 0 {
		t.Errorf("timestamp %v, in ms %v, mode %d, body %q", d.Timestamp.Unix(), ms, d.DeliveryMode, d.Body)
	}
	if err := ch.ExchangeDeclare(x, "fanout", false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	has(t, told(t, events, "exchange.created", amqp.Table{"name": x}), amqp.Table{"type": "fanout", "vhost": "/", "durable": false, "auto_delete": true, "internal": false})
	if err := ch.QueueBind(queue, "key", x, false, nil); err != nil {
		t.Fatal(err)
	}
	binding := amqp.Table{"source_name": x, "source_kind": "exchange", "destination_name": queue, "destination_kind": "queue", "routing_key": "key", "vhost": "/"}
	has(t, told(t, events, "binding.created", amqp.Table{"source_name": x}), binding)
	if err := ch.Qos(7, 0, false); err != nil {
		t.Fatal(err)
	}
	consume(t, ch, queue, "tag", false)
	consumer := amqp.Table{"consumer_tag": "tag", "queue": queue, "vhost": "/"}
	d = told(t, events, "consumer.created", amqp.Table{"queue": queue})
	has(t, d, consumer)
	has(t, d, amqp.Table{"ack_required": true, "exclusive": false, "prefetch_count": int64(7)})
	if err := ch.Cancel("tag", false); err != nil {
		t.Fatal(err)
	}
	has(t, told(t, events, "consumer.deleted", amqp.Table{"queue": queue}), consumer)
	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	has(t, told(t, events, "binding.deleted", amqp.Table{"source_name": x}), binding)
	has(t, told(t, events, "queue.deleted", amqp.Table{"name": queue}), amqp.Table{"vhost": "/"})
	if !p.broker.External() { // RabbitMQ does not tell of an exchange that lost its last binding
		has(t, told(t, events, "exchange.deleted", amqp.Table{"name": x}), amqp.Table{"vhost": "/"})
	}
}

func connectionEvents(t *testing.T, p *pair) {
	events := p.spy(t, "amq.rabbitmq.event", "#")
	conn := p.broker.Connect(t)
	d := told(t, events, "user.authentication.success", nil)
	has(t, d, amqp.Table{"name": "guest", "auth_mechanism": "PLAIN", "ssl": false, "protocol": "{0,9,1}", "connection_type": "network"})
	d = told(t, events, "connection.created", nil)
	name, _ := d.Headers["name"].(string)
	has(t, d, amqp.Table{"user": "guest", "vhost": "/", "auth_mechanism": "PLAIN", "ssl": false, "type": "network", "user_who_performed_action": "guest"})
	if _, ok := d.Headers["frame_max"].(int64); !ok || !strings.Contains(name, " -> ") {
		t.Errorf("connection.created: %v", d.Headers)
	}
	ch := harness.Channel(t, conn)
	channel := told(t, events, "channel.created", amqp.Table{"name": name + " (1)"})
	has(t, channel, amqp.Table{"number": int64(1), "user": "guest", "vhost": "/", "connection": d.Headers["pid"]})
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	told(t, events, "channel.closed", amqp.Table{"pid": channel.Headers["pid"]})
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	has(t, told(t, events, "connection.closed", amqp.Table{"pid": d.Headers["pid"]}), amqp.Table{"name": name})
	go func() { // the socket closes after some seconds, the event comes at once
		if conn, err := amqp.Dial(strings.Replace(p.broker.AMQPURL(), "guest:guest", "guest:wrong", 1)); err == nil {
			conn.Close()
		}
	}()
	has(t, told(t, events, "user.authentication.failure", nil), amqp.Table{"name": "guest", "auth_mechanism": "PLAIN"})
}

func userEvents(t *testing.T, p *pair) {
	const user, vhost = "e2e-event-user", "e2e-event-vhost"
	p.broker.API(t, http.MethodDelete, "/api/users/"+user, nil)
	p.broker.API(t, http.MethodDelete, "/api/vhosts/"+vhost, nil)
	events := p.spy(t, "amq.rabbitmq.event", "#")
	put := func(path string, body map[string]any) {
		t.Helper()
		if a := p.broker.API(t, http.MethodPut, path, body); a.Status/100 != 2 {
			t.Fatalf("PUT %s: %d %s", path, a.Status, a.Body)
		}
	}
	name := amqp.Table{"name": user}
	put("/api/users/"+user, map[string]any{"password": "x", "tags": "monitoring"})
	told(t, events, "user.created", name)
	has(t, told(t, events, "user.tags.set", name), amqp.Table{"tags": []any{"monitoring"}})
	put("/api/users/"+user, map[string]any{"password": "y", "tags": "management"})
	told(t, events, "user.password.changed", name)
	has(t, told(t, events, "user.tags.set", name), amqp.Table{"tags": []any{"management"}})
	put("/api/vhosts/"+vhost, map[string]any{"description": "d"})
	has(t, told(t, events, "vhost.created", amqp.Table{"name": vhost}), amqp.Table{"description": "d", "tracing": false})
	put("/api/vhosts/"+vhost, map[string]any{"description": "e"})
	has(t, told(t, events, "vhost.updated", amqp.Table{"name": vhost}), amqp.Table{"description": "e"})
	rights := amqp.Table{"user": user, "vhost": vhost}
	put("/api/permissions/"+vhost+"/"+user, map[string]any{"configure": ".*", "write": "a", "read": "b"})
	has(t, told(t, events, "permission.created", rights), amqp.Table{"configure": ".*", "write": "a", "read": "b"})
	if a := p.broker.API(t, http.MethodDelete, "/api/permissions/"+vhost+"/"+user, nil); a.Status != http.StatusNoContent {
		t.Fatal(a.Status)
	}
	told(t, events, "permission.deleted", rights)
	p.broker.API(t, http.MethodDelete, "/api/vhosts/"+vhost, nil)
	told(t, events, "vhost.deleted", amqp.Table{"name": vhost})
	p.broker.API(t, http.MethodDelete, "/api/users/"+user, nil)
	told(t, events, "user.deleted", name)
}
