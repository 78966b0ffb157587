package conformance

import (
	"fmt"
	"regexp"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestTopology holds what queues, exchanges and bindings are, and what is refused.
func TestTopology(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	for name, test := range map[string]func(*testing.T, *pair){
		"server-named queue":                   serverNamed,
		"exclusive queue":                      exclusiveQueue,
		"exclusive queue ends with connection": exclusiveEnds,
		"auto-delete queue":                    autoDelete,
		"declare again":                        declareAgain,
		"reserved names":                       reservedNames,
		"default exchange":                     defaultExchange,
		"exchange declare again":               exchangeAgain,
		"exchange delete":                      exchangeDelete,
		"unbind":                               unbind,
		"one message per queue":                onePerQueue,
	} {
		t.Run(name, func(t *testing.T) { test(t, newPair(t, b)) })
	}
}

func serverNamed(t *testing.T, p *pair) {
	q, err := p.ch.QueueDeclare("", false, true, false, false, nil)
	if err != nil || !regexp.MustCompile(`^amq\.gen-[A-Za-z0-9_-]{22}$`).MatchString(q.Name) {
		t.Fatalf("server-named queue %q, %v", q.Name, err)
	}
	p.broker.DropQueue(t, "unused")
	// An empty name stands for the last declared queue of the channel.
	if err := p.ch.QueueBind("", "key", "amq.direct", false, nil); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, p.other, "amq.direct", "key", []byte("a"))
	drained(t, p.ch, "", "a")
	if _, err := p.ch.QueueDelete(q.Name, false, false, false); err != nil {
		t.Error(err)
	}
	_, _, err = p.other.Get("", true)
	closes(t, err, amqp.NotFound, "NOT_FOUND - no previously declared queue")
}

const lockedText = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '/'. It could be originally declared on another connection or the exclusive property value"

func exclusiveQueue(t *testing.T, p *pair) {
	const queue = "exclusive"
	if _, err := p.ch.QueueDeclare(queue, false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	for what, use := range map[string]func(ch *amqp.Channel) error{
		"declare": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, false, false, true, false, nil)
			return err
		},
		"passive declare": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(queue, false, false, true, false, nil)
			return err
		},
		"consume": func(ch *amqp.Channel) error {
			_, err := ch.Consume(queue, "", true, false, false, false, nil)
			return err
		},
		"get":    func(ch *amqp.Channel) error { _, _, err := ch.Get(queue, true); return err },
		"purge":  func(ch *amqp.Channel) error { _, err := ch.QueuePurge(queue, false); return err },
		"bind":   func(ch *amqp.Channel) error { return ch.QueueBind(queue, "k", "amq.direct", false, nil) },
		"delete": func(ch *amqp.Channel) error { _, err := ch.QueueDelete(queue, false, false, false); return err },
	} {
		t.Run(what, func(t *testing.T) {
			closes(t, use(p.broker.Channel(t)), amqp.ResourceLocked, fmt.Sprintf(lockedText, queue))
		})
	}
	// Everybody may publish to it.
	harness.PublishConfirmed(t, p.other, "", queue, []byte("a"))
	drained(t, p.ch, queue, "a")
}

func exclusiveEnds(t *testing.T, p *pair) {
	const queue = "exclusive-ends"
	if _, err := p.ch.QueueDeclare(queue, false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	p.conn.Close()
	harness.Eventually(t, eventTimeout, func() error {
		ch := p.broker.Channel(t)
		defer ch.Close()
		_, err := ch.QueueDeclare(queue, false, true, true, false, nil)
		return err
	})
}

func autoDelete(t *testing.T, p *pair) {
	const queue = "auto-delete"
	if _, err := p.ch.QueueDeclare(queue, false, true, false, false, nil); err != nil {
		t.Fatal(err)
	}
	// Without a consumer it stays.
	p.publish(t, queue, "a")
	one := consume(t, p.ch, queue, "one", true)
	receive(t, one, "a")
	consume(t, p.other, queue, "two", true)
	if err := p.ch.Cancel("one", false); err != nil {
		t.Fatal(err)
	}
	if n := p.broker.Count(t, queue); n != 0 {
		t.Errorf("%d messages", n)
	}
	if err := p.other.Cancel("two", false); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, eventTimeout, func() error {
		if n, err := p.broker.TryCount(queue); err == nil {
			return fmt.Errorf("the queue is still there with %d messages", n)
		}
		return nil
	})
}

func declareAgain(t *testing.T, p *pair) {
	const queue = "declare-again"
	p.broker.DropQueue(t, queue)
	args := amqp.Table{"x-custom": "anything"}
	for range 2 {
		if _, err := p.ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	// Arguments that the broker does not know are no difference.
	if _, err := p.ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Errorf("declare without the unknown argument: %v", err)
	}
	text := "PRECONDITION_FAILED - inequivalent arg '%s' for queue '" + queue + "' in vhost '/': received '%t' but current is '%t'"
	_, err := p.broker.Channel(t).QueueDeclare(queue, false, false, false, false, nil)
	closes(t, err, amqp.PreconditionFailed, fmt.Sprintf(text, "durable", false, true))
	_, err = p.broker.Channel(t).QueueDeclare(queue, true, true, false, false, nil)
	closes(t, err, amqp.PreconditionFailed, fmt.Sprintf(text, "auto_delete", true, false))
	_, err = p.broker.Channel(t).QueueDeclare(queue, true, false, true, false, nil)
	closes(t, err, amqp.ResourceLocked, fmt.Sprintf(lockedText, queue))
}

func reservedNames(t *testing.T, p *pair) {
	_, err := p.ch.QueueDeclare("amq.mine", false, true, true, false, nil)
	closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
	err = p.other.ExchangeDeclare("amq.mine", amqp.ExchangeDirect, false, true, false, false, nil)
	closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'")
}

func defaultExchange(t *testing.T, p *pair) {
	const text = "ACCESS_REFUSED - operation not permitted on the default exchange"
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	closes(t, p.ch.QueueBind(q.Name, "key", "", false, nil), amqp.AccessRefused, text)
	closes(t, p.other.ExchangeDelete("", false, false), amqp.AccessRefused, text)
}

func exchangeAgain(t *testing.T, p *pair) {
	const exchange = "exchange-again"
	p.broker.DropExchange(t, exchange)
	for range 2 {
		if err := p.ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	text := "PRECONDITION_FAILED - inequivalent arg '%s' for exchange '" + exchange + "' in vhost '/': received '%s' but current is '%s'"
	err := p.broker.Channel(t).ExchangeDeclare(exchange, amqp.ExchangeFanout, true, false, false, false, nil)
	closes(t, err, amqp.PreconditionFailed, fmt.Sprintf(text, "type", "fanout", "direct"))
	err = p.broker.Channel(t).ExchangeDeclare(exchange, amqp.ExchangeDirect, false, false, false, false, nil)
	closes(t, err, amqp.PreconditionFailed, fmt.Sprintf(text, "durable", "false", "true"))
	err = p.broker.Channel(t).ExchangeDeclarePassive("no-such-exchange", amqp.ExchangeDirect, true, false, false, false, nil)
	closes(t, err, amqp.NotFound, "NOT_FOUND - no exchange 'no-such-exchange' in vhost '/'")
}

func exchangeDelete(t *testing.T, p *pair) {
	const exchange = "exchange-delete"
	p.broker.DropExchange(t, exchange)
	if err := p.ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ch.QueueBind(q.Name, "key", exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	err = p.broker.Channel(t).ExchangeDelete(exchange, true, false)
	closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - exchange '"+exchange+"' in vhost '/' in use")
	err = p.broker.Channel(t).ExchangeDelete("amq.direct", false, false)
	closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed")
	for range 2 { // the second time there is nothing to delete, which is no error
		if err := p.ch.ExchangeDelete(exchange, false, false); err != nil {
			t.Error(err)
		}
	}
}

func unbind(t *testing.T, p *pair) {
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // binding twice is one binding
		if err := p.ch.QueueBind(q.Name, "unbind-key", "amq.direct", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	harness.PublishConfirmed(t, p.other, "amq.direct", "unbind-key", []byte("a"))
	for range 2 { // unbinding what is not there is no error
		if err := p.ch.QueueUnbind(q.Name, "unbind-key", "amq.direct", nil); err != nil {
			t.Fatal(err)
		}
	}
	harness.PublishConfirmed(t, p.other, "amq.direct", "unbind-key", []byte("b"))
	drained(t, p.ch, q.Name, "a")
}

func onePerQueue(t *testing.T, p *pair) {
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"one.#", "#.two", "one.two", "*.*"} {
		if err := p.ch.QueueBind(q.Name, key, "amq.topic", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	harness.PublishConfirmed(t, p.other, "amq.topic", "one.two", []byte("a"))
	drained(t, p.ch, q.Name, "a")
}
