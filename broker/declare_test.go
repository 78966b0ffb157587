package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

func TestQueueDeclare(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.call(1, &amqp.QueueDeclare{Queue: "q", Durable: true, Arguments: amqp.Table{{Key: "x-max-length", Value: amqp.Int32(9)}}}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
	r.publish("q", "a", "b")
	r.consume("q", "c", false)
	r.expectDelivery("a", 1, false)
	r.expectDelivery("b", 2, false)
	r.publish("q", "c")
	r.expectDelivery("c", 3, false)
	r.send(1, &amqp.BasicNack{DeliveryTag: 3, Requeue: true})
	r.expectDelivery("c", 4, true)
	// Counts are ready messages and consumers; integers are equal whatever their width; a name with line ends is the name without.
	r.call(1, &amqp.QueueDeclare{Queue: "q\r\n", Durable: true, Arguments: amqp.Table{{Key: "x-max-length", Value: amqp.Int64(9)}, {Key: "x-unknown", Value: amqp.Longstr("y")}}}, `queue.declare-ok queue="q" message-count=0 consumer-count=1`)
	r.call(1, &amqp.QueueDeclare{Queue: "q", Passive: true}, `queue.declare-ok queue="q" message-count=0 consumer-count=1`)
	for _, c := range []struct {
		m    amqp.QueueDeclare
		want string
	}{
		{amqp.QueueDeclare{Queue: "q"}, "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"},
		{amqp.QueueDeclare{Queue: "q", Durable: true, AutoDelete: true}, "406 PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"},
		{amqp.QueueDeclare{Queue: "q", Durable: true}, "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value '9' of type 'signedint'"},
		{amqp.QueueDeclare{Queue: "amq.q"}, "403 ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"},
		{amqp.QueueDeclare{Queue: "none", Passive: true}, "404 NOT_FOUND - no queue 'none' in vhost '/'"},
		{amqp.QueueDeclare{Passive: true}, "404 NOT_FOUND - no queue '' in vhost '/'"},
		{amqp.QueueDeclare{Queue: "bad", Arguments: amqp.Table{{Key: "x-message-ttl", Value: amqp.Int32(-1)}}}, "406 PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'bad' in vhost '/': {value_negative,-1}"},
		{amqp.QueueDeclare{Queue: "q", Exclusive: true}, "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."},
	} {
		r.fails(1, &c.m, c.want)
	}
	r.send(1, &amqp.QueueDeclare{Queue: "s", Durable: true, Arguments: amqp.Table{{Key: "x-queue-type", Value: amqp.Longstr("stream")}}})
	r.dies("540 NOT_IMPLEMENTED - streams are not served")
	if n := b.Totals(); n.QueuesCreated != 1 || n.QueuesDeclared < 3 {
		t.Errorf("totals %+v", n)
	}
}

func TestServerNamedQueue(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.send(1, &amqp.QueueDeclare{Exclusive: true})
	m, ok := r.method().(*amqp.QueueDeclareOk)
	if !ok || !strings.HasPrefix(m.Queue, "amq.gen-") || len(m.Queue) != len("amq.gen-")+22 {
		t.Fatalf("got %v", m)
	}
	// Declaring it again by its name is fine, and an empty name stands for it.
	r.call(1, &amqp.QueueDeclare{Queue: m.Queue, Exclusive: true}, `queue.declare-ok queue="`+m.Queue+`" message-count=0 consumer-count=0`)
	r.call(1, &amqp.QueueBind{Exchange: "amq.direct"}, "queue.bind-ok") // by its name as the key
	r.write(message(1, "amq.direct", m.Queue, []byte("m")))
	r.call(1, &amqp.BasicGet{NoAck: true}, `basic.get-ok delivery-tag=1 exchange="amq.direct" routing-key="`+m.Queue+`" message-count=0`)
	r.content()
	r.call(1, &amqp.QueuePurge{}, "queue.purge-ok message-count=0")
	r.call(1, &amqp.QueueUnbind{Exchange: "amq.direct"}, "queue.unbind-ok")
	if n := b.host.Catalogue().View.BindingCount("/"); n != 0 {
		t.Errorf("%d bindings", n)
	}
	r.call(1, &amqp.QueueDelete{}, "queue.delete-ok message-count=0")
}

// TestDeclareDoesNotWakeAQueue: asking for the counts of a queue that never had a message starts nothing, unless something is on the way to it.
func TestDeclareDoesNotWakeAQueue(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.declare("q")
	r.call(1, &amqp.QueueDeclare{Queue: "q", Passive: true}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
	if n := len(b.host.queues); n != 0 {
		t.Errorf("%d queues were started", n)
	}
	for i := 1; i < 20; i++ { // the count includes what the same client has just published
		r.write(append(message(1, "", "q", nil), (&amqp.QueueDeclare{Queue: "q", Passive: true}).AppendFrame(nil, 1)...))
		if m, ok := r.method().(*amqp.QueueDeclareOk); !ok || m.MessageCount != uint32(i) {
			t.Fatalf("got %v after %d messages", m, i)
		}
	}
}

func TestQueueDelete(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.call(1, &amqp.QueueDelete{Queue: "none"}, "queue.delete-ok message-count=0")
	r.declare("q")
	r.publish("q", "a", "b", "c")
	r.fails(1, &amqp.QueueDelete{Queue: "q", IfEmpty: true}, "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty")
	r.call(1, &amqp.QueuePurge{Queue: "q"}, "queue.purge-ok message-count=3")
	r.consume("q", "c", false)
	r.fails(1, &amqp.QueueDelete{Queue: "q", IfUnused: true}, "406 PRECONDITION_FAILED - queue 'q' in vhost '/' in use")
	r.publish("q", "d")
	r.sync(1)
	r.call(1, &amqp.QueueDelete{Queue: "q"}, "queue.delete-ok message-count=1")
	r.fails(1, &amqp.QueuePurge{Queue: "q"}, "404 NOT_FOUND - no queue 'q' in vhost '/'")
}

// TestPurgeLeavesUnacked: purge drops ready messages only.
func TestPurgeLeavesUnacked(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.publish("q", "a", "b")
	r.call(1, &amqp.BasicGet{Queue: "q"}, `basic.get-ok delivery-tag=1 exchange="" routing-key="q" message-count=1`)
	r.content()
	r.call(1, &amqp.QueuePurge{Queue: "q"}, "queue.purge-ok message-count=1")
	r.send(1, &amqp.BasicReject{DeliveryTag: 1, Requeue: true})
	r.call(1, &amqp.BasicGet{Queue: "q"}, `basic.get-ok delivery-tag=2 redelivered exchange="" routing-key="q" message-count=0`)
}

// TestExclusiveQueues die with their connection, however it ends, and nobody else may use them before.
func TestExclusiveQueues(t *testing.T) {
	b := startBroker(t)
	r, other := b.open(), b.open()
	r.call(1, &amqp.QueueDeclare{Queue: "mine", Exclusive: true, Durable: true}, `queue.declare-ok queue="mine" message-count=0 consumer-count=0`)
	const locked = "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
	for _, m := range []amqp.Method{
		&amqp.QueueDeclare{Queue: "mine", Exclusive: true}, &amqp.QueueDeclare{Queue: "mine", Passive: true}, &amqp.BasicGet{Queue: "mine"}, &amqp.BasicConsume{Queue: "mine"},
		&amqp.QueuePurge{Queue: "mine"}, &amqp.QueueDelete{Queue: "mine"}, &amqp.QueueBind{Queue: "mine", Exchange: "amq.fanout"},
	} {
		other.fails(1, m, locked)
	}
	other.publish("mine", "everybody may publish")
	other.sync(1)
	r.call(1, &amqp.BasicGet{Queue: "mine", NoAck: true}, `basic.get-ok delivery-tag=1 exchange="" routing-key="mine" message-count=0`)
	r.content()
	r.call(0, &amqp.ConnectionClose{}, "connection.close-ok")
	other.fails(1, &amqp.QueueDeclare{Queue: "mine", Passive: true}, "404 NOT_FOUND - no queue 'mine' in vhost '/'")
}

func TestExclusiveQueueOfABrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r, other := b.open(), b.open()
		r.call(1, &amqp.QueueDeclare{Queue: "mine", Exclusive: true}, `queue.declare-ok queue="mine" message-count=0 consumer-count=0`)
		_ = r.nc.Close()
		time.Sleep(time.Second)
		other.call(1, &amqp.QueueDeclare{Queue: "mine", Exclusive: true}, `queue.declare-ok queue="mine" message-count=0 consumer-count=0`)
	})
}

func TestAutoDeleteQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.call(1, &amqp.QueueDeclare{Queue: "q", AutoDelete: true}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
		r.consume("q", "a", false)
		r.consume("q", "b", false)
		r.call(1, &amqp.BasicCancel{ConsumerTag: "a"}, `basic.cancel-ok consumer-tag="a"`)
		synctest.Wait()
		r.call(1, &amqp.QueueDeclare{Queue: "q", Passive: true}, `queue.declare-ok queue="q" message-count=0 consumer-count=1`)
		r.call(1, &amqp.BasicCancel{ConsumerTag: "b"}, `basic.cancel-ok consumer-tag="b"`)
		synctest.Wait()
		r.fails(1, &amqp.QueueDeclare{Queue: "q", Passive: true}, "404 NOT_FOUND - no queue 'q' in vhost '/'")
	})
}

func TestExchanges(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.call(1, &amqp.ExchangeDeclare{Exchange: "x", Type: "fanout", Durable: true}, "exchange.declare-ok")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "x", Type: "fanout", Durable: true}, "exchange.declare-ok")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "x", Passive: true}, "exchange.declare-ok")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "amq.direct", Type: "direct", Durable: true}, "exchange.declare-ok")
	for _, c := range []struct {
		m    amqp.Method
		want string
	}{
		{&amqp.ExchangeDeclare{Exchange: "x", Type: "direct", Durable: true}, "406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is 'fanout'"},
		{&amqp.ExchangeDeclare{Exchange: "x", Type: "fanout"}, "406 PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'"},
		{&amqp.ExchangeDeclare{Exchange: "y", Type: "foo"}, "406 PRECONDITION_FAILED - unknown exchange type 'foo'"},
		{&amqp.ExchangeDeclare{Exchange: "amq.y", Type: "direct"}, "403 ACCESS_REFUSED - exchange name 'amq.y' contains reserved prefix 'amq.*'"},
		{&amqp.ExchangeDeclare{Exchange: "", Type: "direct"}, "403 ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&amqp.ExchangeDeclare{Exchange: "", Type: "foo"}, "406 PRECONDITION_FAILED - unknown exchange type 'foo'"},
		{&amqp.ExchangeDeclare{Exchange: "amq.y", Type: "direct", Arguments: amqp.Table{{Key: "alternate-exchange", Value: amqp.Int32(1)}}}, "403 ACCESS_REFUSED - exchange name 'amq.y' contains reserved prefix 'amq.*'"},
		{&amqp.ExchangeDeclare{Exchange: "none", Passive: true}, "404 NOT_FOUND - no exchange 'none' in vhost '/'"},
		{&amqp.ExchangeDeclare{Exchange: "y", Type: "direct", Arguments: amqp.Table{{Key: "alternate-exchange", Value: amqp.Int32(1)}}}, "406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'y' in vhost '/'"},
		{&amqp.ExchangeDelete{Exchange: ""}, "403 ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&amqp.ExchangeDelete{Exchange: "amq.direct"}, "403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"},
	} {
		r.fails(1, c.m, c.want)
	}
	r.call(1, &amqp.ExchangeDelete{Exchange: "none"}, "exchange.delete-ok")
	r.declare("q")
	r.call(1, &amqp.QueueBind{Queue: "q", Exchange: "x"}, "queue.bind-ok")
	r.fails(1, &amqp.ExchangeDelete{Exchange: "x", IfUnused: true}, "406 PRECONDITION_FAILED - exchange 'x' in vhost '/' in use")
	r.call(1, &amqp.ExchangeDelete{Exchange: "x"}, "exchange.delete-ok")
	if n := b.host.Catalogue().View.BindingCount("/"); n != 0 {
		t.Errorf("%d bindings", n)
	}
}

func TestBindings(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "x", Type: "topic"}, "exchange.declare-ok")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "y", Type: "headers"}, "exchange.declare-ok")
	for range 2 { // twice is one binding
		r.call(1, &amqp.QueueBind{Queue: "q", Exchange: "x", RoutingKey: "a.*"}, "queue.bind-ok")
		r.call(1, &amqp.ExchangeBind{Destination: "x", Source: "amq.fanout"}, "exchange.bind-ok")
	}
	r.publish("q")
	r.write(message(1, "amq.fanout", "a.b", []byte("m")))
	r.call(1, &amqp.BasicGet{Queue: "q", NoAck: true}, `basic.get-ok delivery-tag=1 exchange="amq.fanout" routing-key="a.b" message-count=0`)
	r.content()
	r.call(1, &amqp.ExchangeUnbind{Destination: "x", Source: "amq.fanout"}, "exchange.unbind-ok")
	r.call(1, &amqp.QueueUnbind{Queue: "q", Exchange: "x", RoutingKey: "other"}, "queue.unbind-ok")
	r.call(1, &amqp.QueueUnbind{Queue: "none", Exchange: "none"}, "queue.unbind-ok")
	for _, c := range []struct {
		m    amqp.Method
		want string
	}{
		{&amqp.QueueBind{Queue: "q", Exchange: ""}, "403 ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&amqp.QueueUnbind{Queue: "q", Exchange: ""}, "403 ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&amqp.QueueBind{Queue: "q", Exchange: "none"}, "404 NOT_FOUND - no exchange 'none' in vhost '/'"},
		{&amqp.QueueBind{Queue: "none", Exchange: "x"}, "404 NOT_FOUND - no queue 'none' in vhost '/'"},
		{&amqp.QueueBind{Exchange: "x"}, "404 NOT_FOUND - no previously declared queue"},
		{&amqp.ExchangeBind{Destination: "none", Source: "x"}, "404 NOT_FOUND - no exchange 'none' in vhost '/'"},
		{&amqp.ExchangeBind{Destination: "", Source: "x"}, "403 ACCESS_REFUSED - operation not permitted on the default exchange"},
		{&amqp.QueueBind{Queue: "q", Exchange: "y", Arguments: amqp.Table{{Key: "x-match", Value: amqp.Longstr("most")}}}, `406 PRECONDITION_FAILED - Invalid x-match field value <<"most">>; expected all, any, all-with-x, or any-with-x`},
	} {
		r.fails(1, c.m, c.want)
	}
	if n := b.host.Catalogue().View.BindingCount("/"); n != 1 {
		t.Errorf("%d bindings", n)
	}
}

// TestPermissions is the matrix of operations and what each asks for.
func TestPermissions(t *testing.T) {
	b := startBroker(t)
	guest := b.open()
	guest.declare("mine")
	guest.declare("theirs")
	guest.call(1, &amqp.ExchangeDeclare{Exchange: "theirs", Type: "fanout"}, "exchange.declare-ok")
	r := b.raw()
	r.login(limitedUser, amqp.ConnectionTuneOk{})
	r.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	refused := func(access, what string) string {
		return "403 ACCESS_REFUSED - " + access + " access to " + what + " in vhost '/' refused for user 'limited'"
	}
	for _, c := range []struct {
		m    amqp.Method
		want string
	}{
		{&amqp.QueueDeclare{Queue: "theirs", Durable: true}, refused("configure", "queue 'theirs'")},
		{&amqp.QueueDeclare{Queue: "theirs", Passive: true}, refused("configure", "queue 'theirs'")},
		{&amqp.QueueDelete{Queue: "theirs"}, refused("configure", "queue 'theirs'")},
		{&amqp.QueuePurge{Queue: "theirs"}, refused("read", "queue 'theirs'")},
		{&amqp.BasicGet{Queue: "theirs"}, refused("read", "queue 'theirs'")},
		{&amqp.BasicConsume{Queue: "theirs"}, refused("read", "queue 'theirs'")},
		{&amqp.ExchangeDeclare{Exchange: "theirs", Type: "fanout"}, refused("configure", "exchange 'theirs'")},
		{&amqp.ExchangeDelete{Exchange: "theirs"}, refused("configure", "exchange 'theirs'")},
		{&amqp.QueueBind{Queue: "theirs", Exchange: "amq.topic"}, refused("write", "queue 'theirs'")},
		{&amqp.QueueBind{Queue: "mine", Exchange: "theirs"}, refused("read", "exchange 'theirs'")},
		{&amqp.QueueUnbind{Queue: "mine", Exchange: "theirs"}, refused("read", "exchange 'theirs'")},
		{&amqp.ExchangeBind{Destination: "theirs", Source: "amq.topic"}, refused("write", "exchange 'theirs'")},
		{&amqp.ExchangeUnbind{Destination: "theirs", Source: "amq.topic"}, refused("write", "exchange 'theirs'")},
		{&amqp.QueueDeclare{Queue: "mine.dlx", Arguments: amqp.Table{{Key: "x-dead-letter-exchange", Value: amqp.Longstr("theirs")}}}, refused("write", "exchange 'theirs'")},
		{&amqp.ExchangeDeclare{Exchange: "theirs", Passive: true}, refused("configure", "exchange 'theirs'")},
		{&amqp.ExchangeDeclare{Exchange: "none", Passive: true}, refused("configure", "exchange 'none'")},
		{&amqp.ExchangeDeclare{Exchange: "mine.x", Type: "fanout", Arguments: amqp.Table{{Key: "alternate-exchange", Value: amqp.Longstr("theirs")}}}, refused("write", "exchange 'theirs'")},
	} {
		r.fails(1, c.m, c.want)
	}
	r.call(1, &amqp.QueueBind{Queue: "mine", Exchange: "amq.topic"}, "queue.bind-ok")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "amq.topic", Passive: true}, "exchange.declare-ok") // any permission will do
	r.call(1, &amqp.BasicGet{Queue: "mine"}, "basic.get-empty")
	// A change takes effect on open channels.
	_, err := b.host.Do(t.Context(), meta.Command{Op: meta.OpPutPermission, Permission: meta.Permission{User: limitedUser, VHost: "/", Configure: ".*", Write: "", Read: ".*"}})
	if err != nil {
		t.Fatal(err)
	}
	r.call(1, &amqp.BasicGet{Queue: "theirs"}, "basic.get-empty")
	r.write(message(1, "amq.topic", "k", nil))
	r.closed(1, amqp.MethodBasicPublish, refused("write", "exchange 'amq.topic'"))
}

// TestGet checks basic.get and its counters.
func TestGet(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.fails(1, &amqp.BasicGet{Queue: "none"}, "404 NOT_FOUND - no queue 'none' in vhost '/'")
	r.declare("q")
	r.call(1, &amqp.BasicGet{Queue: "q"}, "basic.get-empty")
	r.publish("q", "1", "2", "3")
	var gets []byte
	for range 4 { // pipelined
		gets = (&amqp.BasicGet{Queue: "q"}).AppendFrame(gets, 1)
	}
	r.write(gets)
	for _, want := range []string{
		`basic.get-ok delivery-tag=1 exchange="" routing-key="q" message-count=2`, `basic.get-ok delivery-tag=2 exchange="" routing-key="q" message-count=1`,
		`basic.get-ok delivery-tag=3 exchange="" routing-key="q" message-count=0`,
	} {
		r.expect(want)
		r.content()
	}
	r.expect("basic.get-empty")
	r.send(1, &amqp.BasicAck{DeliveryTag: 3, Multiple: true})
	r.call(1, &amqp.QueueDelete{Queue: "q", IfEmpty: true}, "queue.delete-ok message-count=0")
	if n := b.Totals(); n.Got != 3 || n.GotEmpty != 2 || n.Acked != 3 {
		t.Errorf("totals %+v", n)
	}
}

// TestStartingQueue: an operation on a queue that does not answer fails after a while with an error of its own; other channels go on meanwhile.
func TestStartingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("slow")
		b.queueNamed("slow").freeze()
		r.send(2, &amqp.ChannelOpen{})
		r.expect("channel.open-ok")
		began := time.Now()
		r.send(1, &amqp.BasicGet{Queue: "slow"}, &amqp.BasicQos{PrefetchCount: 5}) // the second waits behind the first
		r.sync(2)
		r.closed(1, amqp.MethodBasicGet, "404 NOT_FOUND - failed to perform operation on queue 'slow' in vhost '/' due to timeout")
		if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("failed after %v", d)
		}
		r.publish("slow", "m")
		b.queueNamed("slow").thaw() // the get that nobody waits for any more takes nothing away
		time.Sleep(time.Second)
		r.call(1, &amqp.BasicGet{Queue: "slow"}, `basic.get-ok delivery-tag=1 exchange="" routing-key="slow" message-count=0`)
	})
}

// TestSilentCatalogue: a declare fails with an error when the catalogue does not answer, and the connection's exclusive queues are dropped later.
func TestSilentCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r, other := b.open(), b.open()
		r.call(1, &amqp.QueueDeclare{Queue: "mine", Exclusive: true}, `queue.declare-ok queue="mine" message-count=0 consumer-count=0`)
		wait := make(chan struct{})
		b.host.mu.Lock()
		b.host.doDelay = wait
		b.host.mu.Unlock()
		r.send(1, &amqp.QueueDeclare{Queue: "q"})
		other.sync(1)
		r.dies("541 INTERNAL_ERROR - failed to perform operation on queue 'q' in vhost '/': the metadata store does not answer")
		b.host.mu.Lock()
		b.host.doDelay = nil
		b.host.mu.Unlock()
		close(wait)
		time.Sleep(10 * time.Second)
		other.fails(1, &amqp.QueueDeclare{Queue: "mine", Passive: true}, "404 NOT_FOUND - no queue 'mine' in vhost '/'")
	})
}
