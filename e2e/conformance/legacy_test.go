package conformance

import (
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestDeclarations holds that queues of any shape are taken, and what of a declaration counts.
func TestDeclarations(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	for name, test := range map[string]func(*testing.T, *pair){
		"transient queues":    transientQueues,
		"legacy arguments":    legacyArguments,
		"default queue type":  defaultQueueType,
		"names":               plainNames,
		"streams are refused": streamsRefused,
	} {
		t.Run(name, func(t *testing.T) { test(t, newPair(t, b)) })
	}
}

// transientQueues that are not exclusive work, and those that are quorum queues by their arguments; they go by their rules.
func transientQueues(t *testing.T, p *pair) {
	for _, q := range []struct {
		name                           string
		durable, autoDelete, exclusive bool
		args                           amqp.Table
	}{
		{"e2e-transient", false, true, false, nil},
		{"", false, true, false, nil},
		{"", true, true, false, nil},
		{"", true, false, false, amqp.Table{"x-queue-type": "quorum"}},
		{"e2e-exclusive-quorum", false, false, true, amqp.Table{"x-queue-type": "quorum"}},
		{"e2e-auto-quorum", true, true, false, amqp.Table{"x-queue-type": "quorum"}},
	} {
		declared, err := p.ch.QueueDeclare(q.name, q.durable, q.autoDelete, q.exclusive, false, q.args)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		if q.name == "" && !strings.HasPrefix(declared.Name, "amq.gen-") {
			t.Errorf("a server-named queue is called %s", declared.Name)
		}
		if _, err := p.ch.QueueDeclare(declared.Name, q.durable, q.autoDelete, q.exclusive, false, q.args); err != nil {
			t.Errorf("%+v declared again: %v", q, err)
		}
		if p.sends(t, "", declared.Name, text("m")) {
			t.Errorf("%+v: a message came back", q)
		}
		deliveries := consume(t, p.ch, declared.Name, "tag", false)
		d := receive(t, deliveries, "m")[0]
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
		if err := p.ch.Cancel("tag", false); err != nil {
			t.Fatal(err)
		}
		_, err = harness.Channel(t, p.conn).QueueDeclarePassive(declared.Name, false, false, false, false, nil)
		if gone := err != nil; gone != q.autoDelete {
			t.Errorf("%+v is gone after its last consumer: %t", q, gone)
		}
		if _, err := p.ch.QueueDelete(declared.Name, true, true, false); err != nil { // if-unused, if-empty
			t.Errorf("%+v: delete: %v", q, err)
		}
	}
}

// legacyArguments are accepted with a warning where operators look; arguments that nobody knows are kept and not compared.
func legacyArguments(t *testing.T, p *pair) {
	const queue = "e2e-legacy"
	p.broker.DropQueue(t, queue)
	args := amqp.Table{
		"x-queue-type": "quorum", "x-queue-mode": "lazy", "x-queue-version": int32(1), "x-queue-master-locator": "min-masters", "x-max-in-memory-length": int32(5), "x-foo": "1",
	}
	if _, err := p.ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Arguments map[string]any
		Warnings  []string
	}
	p.broker.Get(t, harness.Path("queues", "/", queue), &shown)
	if len(shown.Warnings) != 4 || !strings.Contains(strings.Join(shown.Warnings, "\n"), "x-queue-mode is accepted and has no effect") || shown.Arguments["x-queue-mode"] != "lazy" {
		t.Errorf("warnings %q, arguments %v", shown.Warnings, shown.Arguments)
	}
	for _, again := range []amqp.Table{{"x-queue-type": "quorum", "x-foo": "2"}, {"x-queue-type": "classic", "x-queue-mode": "default"}, nil} {
		if _, err := p.ch.QueueDeclare(queue, true, false, false, false, again); err != nil {
			t.Errorf("declared again with %v: %v", again, err)
		}
	}
	p.broker.DropQueue(t, queue)
}

func defaultQueueType(t *testing.T, p *pair) {
	const vhost = "e2e-default-type"
	if a := p.broker.API(t, http.MethodPut, "/api/vhosts/"+vhost, map[string]any{"default_queue_type": "quorum"}); a.Status/100 != 2 {
		t.Fatal(a.Status, string(a.Body))
	}
	conn, err := amqp.Dial(strings.TrimSuffix(p.broker.AMQPURL(), "/") + "/" + vhost)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch := harness.Channel(t, conn)
	for _, args := range []amqp.Table{nil, {"x-queue-type": "quorum"}, {"x-queue-type": "classic"}, nil} {
		if _, err := ch.QueueDeclare("q", true, false, false, false, args); err != nil {
			t.Errorf("declared with %v: %v", args, err)
		}
	}
	var shown struct{ Type string }
	p.broker.Get(t, harness.Path("queues", vhost, "q"), &shown)
	if shown.Type != "quorum" {
		t.Errorf("the queue is %s", shown.Type)
	}
	p.broker.API(t, http.MethodDelete, "/api/vhosts/"+vhost, nil)
}

// plainNames: CR and LF are dropped, and names that begin with amq. are reserved.
func plainNames(t *testing.T, p *pair) {
	q, err := p.ch.QueueDeclare("e2e-\r\nname", false, true, true, false, nil)
	if err != nil || q.Name != "e2e-name" {
		t.Errorf("declared %q: %v", q.Name, err)
	}
	if err := p.ch.ExchangeDeclare("e2e-\nx", "fanout", false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.ch.QueueBind("e2e\r-name", "", "e2e-\rx", false, nil); err != nil {
		t.Error(err)
	}
	_, err = harness.Channel(t, p.conn).QueueDeclare("amq.mine", false, false, true, false, nil)
	closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
	err = harness.Channel(t, p.conn).ExchangeDeclare("amq.mine", "direct", true, false, false, false, nil)
	closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'")
	for _, x := range []string{"amq.rabbitmq.event", "amq.rabbitmq.trace"} {
		err = harness.Channel(t, p.conn).ExchangeDelete(x, false, false)
		closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - deletion of system exchange '"+x+"' in vhost '/' not allowed")
		if err := p.ch.ExchangeDeclarePassive(x, "topic", true, false, true, false, nil); err != nil {
			t.Error(err)
		}
	}
}

func streamsRefused(t *testing.T, p *pair) {
	_, err := p.broker.Channel(t).QueueDeclare("e2e-stream", true, false, false, false, amqp.Table{"x-queue-type": "stream"})
	closes(t, err, amqp.NotImplemented, "NOT_IMPLEMENTED - ")
}
