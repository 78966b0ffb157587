package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// oddNames are made to break pages, paths, headers and logs.
var oddNames = []string{
	"<img src=x onerror=alert(1)>\"'\r\n", "</script><script>alert(1)</script>", "a/b", "a%2Fb", "%", "%00", "..", ".", "a b", "a+b", "a?b#c&d=e;f", `a\b`, "\x01\x1b[31m", "größe 日本 \u202e",
	"get", "unacked", "username", strings.Repeat("x", 255),
}

// TestOddNames: whatever an object is called, clients use it, lists show it, its path finds it and deletes it.
func TestOddNames(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	want := func(method string, status int, body any, segments ...string) harness.Answer {
		t.Helper()
		a := b.API(t, method, harness.Path(segments...), body)
		if a.Status != status {
			t.Fatalf("%s %q: %d %s, want %d", method, segments, a.Status, a.Body, status)
		}
		return a
	}
	for _, name := range oddNames {
		inAMQP := strings.NewReplacer("\r", "", "\n", "").Replace(name) // as in RabbitMQ, names of queues and exchanges have no line breaks
		want(http.MethodPut, 201, nil, "vhosts", name)
		want(http.MethodPut, 201, map[string]any{"password": name, "tags": "management"}, "users", name)
		want(http.MethodPut, 201, map[string]any{"configure": ".*", "write": ".*", "read": ".*"}, "permissions", name, name)
		conn, tag := use(t, b, name, inAMQP)
		listed(t, b, name, inAMQP, tag)
		var bindings []struct {
			Key string `json:"properties_key"`
		}
		want(http.MethodGet, 200, nil, "bindings", name, "e", name, "q", name).JSON(t, &bindings)
		if len(bindings) != 1 {
			t.Fatalf("%q: %d bindings", name, len(bindings))
		}
		want(http.MethodGet, 200, nil, "bindings", name, "e", name, "q", name, bindings[0].Key)
		want(http.MethodDelete, 204, nil, "bindings", name, "e", name, "q", name, bindings[0].Key)
		want(http.MethodPost, 200, map[string]any{}, "queues", name, name, "peek")
		want(http.MethodGet, 200, nil, "queues", name, name, "unacked")
		want(http.MethodDelete, 204, nil, "exchanges", name, name)
		want(http.MethodDelete, 204, nil, "queues", name, name)
		closed := conn.NotifyClose(make(chan *amqp.Error, 1))
		want(http.MethodDelete, 204, nil, "connections", "username", name)
		select {
		case e := <-closed:
			if e == nil || e.Code != 320 {
				t.Errorf("%q: closed with %v", name, e)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%q: the connection was not closed", name)
		}
		want(http.MethodDelete, 204, nil, "permissions", name, name)
		want(http.MethodDelete, 204, nil, "users", name)
		want(http.MethodDelete, 204, nil, "vhosts", name)
		for _, kind := range []string{"vhosts", "users"} {
			want(http.MethodGet, 404, nil, kind, name)
		}
	}
}

// use connects as the user of that name and makes a queue, an exchange, a binding and a consumer.
func use(t *testing.T, b *harness.Broker, name, inAMQP string) (conn *amqp.Connection, tag string) {
	t.Helper()
	u, err := url.Parse(b.AMQPURL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err = amqp.DialConfig("amqp://"+u.Host, amqp.Config{
		Vhost: name, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: name, Password: name}}, Properties: amqp.Table{"connection_name": name, "product": name},
	})
	if err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	ch := harness.Channel(t, conn)
	if q, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil || q.Name != inAMQP {
		t.Fatalf("%q is declared as %q: %v", name, q.Name, err)
	}
	if err := ch.ExchangeDeclare(name, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(name, name, name, false, amqp.Table{"h": name}); err != nil {
		t.Fatal(err)
	}
	tag = strings.ToValidUTF8(name[:min(len(name), 200)], "")
	if _, err := ch.Consume(name, tag, false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return conn, tag
}

// listed wants the objects in the lists and at their own paths, under exactly these names.
func listed(t *testing.T, b *harness.Broker, name, inAMQP, tag string) {
	t.Helper()
	var queue struct {
		Name, VHost string
		Consumers   []struct {
			Tag string `json:"consumer_tag"`
		} `json:"consumer_details"`
	}
	harness.Eventually(t, 10*time.Second, func() error {
		b.Get(t, harness.Path("queues", name, name), &queue)
		if queue.Name != inAMQP || queue.VHost != name || len(queue.Consumers) != 1 || queue.Consumers[0].Tag != tag {
			return fmt.Errorf("%q is shown as %+v", name, queue)
		}
		return nil
	})
	var connections []struct {
		Name, User, VHost string
		Provided          string `json:"user_provided_name"`
	}
	b.Get(t, harness.Path("vhosts", name, "connections"), &connections)
	if len(connections) != 1 || connections[0].User != name || connections[0].VHost != name || connections[0].Provided != name {
		t.Fatalf("%q: connections %+v", name, connections)
	}
	b.Get(t, harness.Path("connections", connections[0].Name), &connections[0])
	var exchanges []struct{ Name string }
	b.Get(t, harness.Path("exchanges", name), &exchanges)
	found := false
	for _, x := range exchanges {
		found = found || x.Name == inAMQP
	}
	if !found {
		t.Errorf("%q is not among the exchanges %v", inAMQP, exchanges)
	}
}
