package broker

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
)

// delivery reads one basic.deliver with its content.
func (c *rawClient) delivery() (*amqp.BasicDeliver, amqp.Properties, []byte) {
	c.tb.Helper()
	got := c.method()
	m, ok := got.(*amqp.BasicDeliver)
	if !ok {
		c.tb.Fatalf("got %s, want a delivery", got)
	}
	p, body := c.content()
	return m, p, body
}

// expectDelivery reads a delivery and checks its body, tag and whether it is a redelivery.
func (c *rawClient) expectDelivery(body string, tag uint64, redelivered bool) amqp.Properties {
	c.tb.Helper()
	m, p, got := c.delivery()
	if string(got) != body || m.DeliveryTag != tag || m.Redelivered != redelivered {
		c.tb.Fatalf("got %q %v, want %q under %d, redelivered %v", got, m, body, tag, redelivered)
	}
	return p
}

func (c *rawClient) publish(queue string, bodies ...string) {
	c.tb.Helper()
	for _, body := range bodies {
		c.write(message(1, "", queue, []byte(body)))
	}
}

func TestConsumeErrors(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.ConsumersPerChannelMax = 3 })
	r, other := b.open(), b.open()
	r.fails(1, &amqp.BasicConsume{Queue: "none"}, "404 NOT_FOUND - no queue 'none' in vhost '/'")
	r.fails(1, &amqp.BasicConsume{}, "404 NOT_FOUND - no previously declared queue")
	r.declare("q")
	r.fails(1, &amqp.BasicConsume{Queue: "q", Arguments: amqp.Table{{Key: "x-priority", Value: amqp.Longstr("high")}}},
		`406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': "expected integer, got longstr"`)
	other.call(1, &amqp.QueueDeclare{Queue: "own", Exclusive: true}, `queue.declare-ok queue="own" message-count=0 consumer-count=0`)
	r.fails(1, &amqp.BasicConsume{Queue: "own"}, "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'own' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.")
	other.consume("q", "first", false)
	r.fails(1, &amqp.BasicConsume{Queue: "q", Exclusive: true}, "403 ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
	other.call(1, &amqp.BasicCancel{ConsumerTag: "first"}, `basic.cancel-ok consumer-tag="first"`)
	r.call(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "alone", Exclusive: true}, `basic.consume-ok consumer-tag="alone"`)
	other.fails(1, &amqp.BasicConsume{Queue: "q"}, "403 ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
	if cs := b.Consumers(); len(cs) != 1 || cs[0].Tag != "alone" || !cs[0].Exclusive || !cs[0].Active || cs[0].Queue != "q" {
		t.Errorf("consumers %+v", cs)
	}
	r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "alone"})
	r.dies("530 NOT_ALLOWED - attempt to reuse consumer tag 'alone'")
	r = b.open()
	r.declare("r")
	for i := range 3 {
		r.consume("r", fmt.Sprint("c", i), false)
	}
	r.send(1, &amqp.BasicConsume{Queue: "r"})
	r.dies("530 NOT_ALLOWED - reached maximum (3) of consumers per channel")
}

func TestServerNamedConsumer(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.send(1, &amqp.BasicConsume{Queue: "q"})
	m, ok := r.method().(*amqp.BasicConsumeOk)
	if !ok || !strings.HasPrefix(m.ConsumerTag, "amq.ctag-") || len(m.ConsumerTag) != len("amq.ctag-")+22 {
		t.Fatalf("got %v", m)
	}
	r.publish("q", "m")
	if d, _, _ := r.delivery(); d.ConsumerTag != m.ConsumerTag {
		t.Errorf("delivered to %q", d.ConsumerTag)
	}
}

// TestConsumeNoWait: no consume-ok comes, deliveries do.
func TestConsumeNoWait(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.publish("q", "a")
	r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c", NoWait: true})
	r.expectDelivery("a", 1, false)
	r.send(1, &amqp.BasicCancel{ConsumerTag: "c", NoWait: true})
	r.publish("q", "b")
	r.call(1, &amqp.BasicGet{Queue: "q"}, `basic.get-ok delivery-tag=2 exchange="" routing-key="q" message-count=0`)
	if _, body := r.content(); string(body) != "b" {
		t.Errorf("got %q", body)
	}
}

// TestConsumeOkComesFirst: with messages waiting, consume-ok precedes the first delivery.
func TestConsumeOkComesFirst(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	for i := range 100 {
		r.publish("q", "m")
		r.consume("q", "c", false)
		r.expectDelivery("m", uint64(i+1), false)
		r.send(1, &amqp.BasicAck{DeliveryTag: uint64(i + 1)})
		r.call(1, &amqp.BasicCancel{ConsumerTag: "c"}, `basic.cancel-ok consumer-tag="c"`)
	}
}

func TestPrefetch(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.call(1, &amqp.BasicQos{PrefetchCount: 2}, "basic.qos-ok")
	r.consume("q", "c", false)
	r.call(1, &amqp.BasicQos{PrefetchCount: 9}, "basic.qos-ok") // for consumers to come
	r.publish("q", "1", "2", "3", "4", "5")
	r.expectDelivery("1", 1, false)
	r.expectDelivery("2", 2, false)
	r.sync(1)
	r.send(1, &amqp.BasicAck{DeliveryTag: 1})
	r.expectDelivery("3", 3, false)
	r.send(1, &amqp.BasicAck{DeliveryTag: 3, Multiple: true})
	r.expectDelivery("4", 4, false)
	r.expectDelivery("5", 5, false)
	if ch := b.Channels()[0]; ch.Unacked != 2 || ch.PrefetchCount != 0 && ch.PrefetchCount != 9 {
		t.Errorf("channel %+v", ch)
	}
}

func TestAckErrors(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.call(1, &amqp.BasicQos{}, "basic.qos-ok")
	r.send(1, &amqp.BasicAck{DeliveryTag: 0, Multiple: true}) // nothing is outstanding: fine
	r.sync(1)
	r.fails(1, &amqp.BasicAck{DeliveryTag: 5}, "406 PRECONDITION_FAILED - unknown delivery tag 5")
	r.fails(1, &amqp.BasicNack{DeliveryTag: 5, Multiple: true}, "406 PRECONDITION_FAILED - unknown delivery tag 5")
	r.fails(1, &amqp.BasicReject{DeliveryTag: 0}, "406 PRECONDITION_FAILED - unknown delivery tag 0")
	r.publish("q", "a", "b")
	r.consume("q", "c", false)
	r.expectDelivery("a", 1, false)
	r.expectDelivery("b", 2, false)
	r.send(1, &amqp.BasicAck{DeliveryTag: 1})
	r.fails(1, &amqp.BasicAck{DeliveryTag: 1}, "406 PRECONDITION_FAILED - unknown delivery tag 1") // twice
	r.call(1, &amqp.BasicGet{Queue: "q"}, `basic.get-ok delivery-tag=1 redelivered exchange="" routing-key="q" message-count=0`)
	if p, body := r.content(); string(body) != "b" {
		t.Errorf("got %q %v", body, &p)
	}
	// Deliveries without acknowledgement have tags that are not to be acked.
	r.publish("q", "n")
	r.call(1, &amqp.BasicGet{Queue: "q", NoAck: true}, `basic.get-ok delivery-tag=2 exchange="" routing-key="q" message-count=0`)
	r.content()
	r.fails(1, &amqp.BasicAck{DeliveryTag: 2}, "406 PRECONDITION_FAILED - unknown delivery tag 2")
}

// TestReturns: nack returns uncounted, reject returns counted, and what returns keeps its place.
func TestReturns(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q", amqp.Field{Key: "x-queue-type", Value: amqp.Longstr("quorum")})
	r.publish("q", "1", "2", "3")
	r.call(1, &amqp.BasicQos{PrefetchCount: 3}, "basic.qos-ok")
	r.consume("q", "c", false)
	for i := range 3 {
		p := r.expectDelivery(fmt.Sprint(i+1), uint64(i+1), false)
		if p.Flags != 0 {
			t.Errorf("first delivery has %v", &p)
		}
	}
	r.send(1, &amqp.BasicNack{DeliveryTag: 3, Multiple: true, Requeue: true})
	for i := range 3 {
		p := r.expectDelivery(fmt.Sprint(i+1), uint64(i+4), true)
		if p.Headers.Has("x-delivery-count") || p.Headers.String() != `{"x-acquired-count"=long(1)}` {
			t.Errorf("after nack %v", p.Headers)
		}
	}
	r.send(1, &amqp.BasicReject{DeliveryTag: 4, Requeue: true})
	p := r.expectDelivery("1", 7, true)
	if p.Headers.String() != `{"x-acquired-count"=long(2) "x-delivery-count"=long(1)}` {
		t.Errorf("after reject %v", p.Headers)
	}
	r.send(1, &amqp.BasicReject{DeliveryTag: 7}, &amqp.BasicNack{DeliveryTag: 5}, &amqp.BasicAck{DeliveryTag: 6})
	r.call(1, &amqp.BasicCancel{ConsumerTag: "c"}, `basic.cancel-ok consumer-tag="c"`)
	r.call(1, &amqp.QueueDelete{Queue: "q", IfEmpty: true}, "queue.delete-ok message-count=0")
}

func TestRecover(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.publish("q", "1", "2")
	r.consume("q", "c", false)
	r.expectDelivery("1", 1, false)
	r.expectDelivery("2", 2, false)
	r.send(1, &amqp.BasicRecover{Requeue: true})
	r.expect("basic.recover-ok")
	r.expectDelivery("1", 3, true)
	r.expectDelivery("2", 4, true)
	r.fails(1, &amqp.BasicAck{DeliveryTag: 1}, "406 PRECONDITION_FAILED - unknown delivery tag 1")
}

// TestCountsDoNotOverwriteHeaders: the broker's headers come beside the publisher's, and properties without headers get some.
func TestCountsDoNotOverwriteHeaders(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.write(message(1, "", "q", []byte("m"), headers(amqp.Field{Key: "mine", Value: amqp.Longstr("x")}), func(_ *amqp.BasicPublish, p *amqp.Properties) {
		p.SetContentType("text/plain")
		p.SetMessageID("1")
	}))
	r.call(1, &amqp.BasicGet{Queue: "q"}, `basic.get-ok delivery-tag=1 exchange="" routing-key="q" message-count=0`)
	r.content()
	r.send(1, &amqp.BasicReject{DeliveryTag: 1, Requeue: true})
	r.call(1, &amqp.BasicGet{Queue: "q"}, `basic.get-ok delivery-tag=2 redelivered exchange="" routing-key="q" message-count=0`)
	p, _ := r.content()
	if p.ContentType != "text/plain" || p.MessageID != "1" || p.Headers.String() != `{"mine"="x" "x-delivery-count"=long(1)}` {
		t.Errorf("properties %v", &p)
	}
}

// TestHeadersBeyondTheClientsFrames: a header frame is never larger than negotiated, even if headers must be left out.
func TestHeadersBeyondTheClientsFrames(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	small := b.raw()
	small.login("guest", amqp.ConnectionTuneOk{FrameMax: 4096})
	small.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	small.consume("q", "c", true)
	body := bytes.Repeat([]byte("b"), 20_000)
	r.write(message(1, "", "q", body, headers(amqp.Field{Key: "big", Value: amqp.Longstr(strings.Repeat("h", 9000))}), func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetMessageID("7") }))
	small.method()
	f := small.frame()
	h, _ := amqp.ParseContentHeader(f.Payload)
	p, err := amqp.DecodeProperties(h.Properties)
	if err != nil || len(f.Payload) > 4096-8 || p.MessageID != "7" || !p.Headers.Has("x-headers-omitted") {
		t.Fatalf("header frame of %d: %v %v", len(f.Payload), &p, err)
	}
	for got := 0; got < len(body); {
		f = small.frame()
		if len(f.Payload) > 4096-8 {
			t.Fatalf("body frame of %d", len(f.Payload))
		}
		got += len(f.Payload)
	}
}

// TestCancelNotification: consumers of a deleted queue are told; late acks of its messages are no error.
func TestCancelNotification(t *testing.T) {
	b := startBroker(t)
	r, other := b.open(), b.open()
	r.declare("q")
	r.publish("q", "m")
	r.consume("q", "c", false)
	r.expectDelivery("m", 1, false)
	other.call(1, &amqp.QueueDelete{Queue: "q"}, "queue.delete-ok message-count=0")
	r.expect(`basic.cancel consumer-tag="c" no-wait`)
	r.send(1, &amqp.BasicAck{DeliveryTag: 1})
	r.call(1, &amqp.BasicCancel{ConsumerTag: "c"}, `basic.cancel-ok consumer-tag="c"`)
	r.sync(1)
	// A client that cannot take the notification gets none.
	plainClient := b.raw()
	plainClient.start()
	m := plain("guest", "guest")
	m.ClientProperties = nil
	plainClient.send(0, m)
	plainClient.method()
	plainClient.send(0, &amqp.ConnectionTuneOk{}, &amqp.ConnectionOpen{VirtualHost: "/"})
	plainClient.expect("connection.open-ok")
	plainClient.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	plainClient.declare("p")
	plainClient.consume("p", "c", false)
	other.call(1, &amqp.QueueDelete{Queue: "p"}, "queue.delete-ok message-count=0")
	plainClient.sync(1)
}

// TestUnackedReturnWhenAChannelEnds, however it ends: in order, as redelivered, counted as a failure.
func TestUnackedReturnWhenAChannelEnds(t *testing.T) {
	for _, how := range []string{"channel.close", "channel error", "connection.close", "socket", "server close"} {
		t.Run(how, func(t *testing.T) {
			b := startBroker(t)
			r, other := b.open(), b.open()
			r.declare("q")
			r.publish("q", "1", "2", "3")
			r.call(1, &amqp.BasicQos{PrefetchCount: 2}, "basic.qos-ok")
			r.consume("q", "c", false)
			r.expectDelivery("1", 1, false)
			r.expectDelivery("2", 2, false)
			switch how {
			case "channel.close":
				r.call(1, &amqp.ChannelClose{}, "channel.close-ok")
			case "channel error":
				r.fails(1, &amqp.BasicAck{DeliveryTag: 77}, "406 PRECONDITION_FAILED - unknown delivery tag 77")
			case "connection.close":
				r.call(0, &amqp.ConnectionClose{}, "connection.close-ok")
			case "socket":
				_ = r.nc.Close()
			case "server close":
				b.CloseConnection(b.Connections()[0].Name, "x")
				r.dies("320 CONNECTION_FORCED - x")
			}
			other.consume("q", "c", false)
			for i := range 3 {
				m, p, body := other.delivery()
				if i == 0 && string(body) == "3" { // the other two had not returned yet
					other.send(1, &amqp.BasicNack{DeliveryTag: m.DeliveryTag, Requeue: true})
					continue
				}
				counted := p.Headers.Has("x-delivery-count")
				if string(body) != "3" && (!m.Redelivered || !counted) {
					t.Errorf("%s: redelivered %v, headers %v", body, m.Redelivered, p.Headers)
				}
			}
		})
	}
}

// TestWindowsReopen: a consumer without acknowledgements gets all of a backlog that is many windows long.
func TestWindowsReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		const n, size = 300, 100_000
		body := bytes.Repeat([]byte("x"), size)
		for range n {
			r.write(message(1, "", "q", body))
		}
		r.consume("q", "c", true)
		for i := range n {
			if m, _, got := r.delivery(); m.DeliveryTag != uint64(i+1) || len(got) != size {
				t.Fatalf("delivery %d: %v of %d bytes", i, m, len(got))
			}
		}
		time.Sleep(time.Second) // drained is told when idle
		if c := b.queueNamed("q").counts(); c.Ready+c.Unacked != 0 {
			t.Errorf("counts %+v", c)
		}
		if n := b.queueNamed("q").kept(); n != 0 {
			t.Errorf("%d messages are kept though all were written", n)
		}
	})
}

// TestNoAckIsNotLostUnwritten: what a consumer without acknowledgements was assigned and its socket did not take returns to the queue.
func TestNoAckIsNotLostUnwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r, other := b.open(), b.open()
		r.declare("q")
		const n = 100
		for i := range n {
			r.publish("q", fmt.Sprint(i))
		}
		r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c", NoAck: true})
		synctest.Wait() // the pipe takes nothing that is not read
		_ = r.nc.Close()
		time.Sleep(10 * time.Second)
		other.call(1, &amqp.QueueDeclare{Queue: "q", Passive: true}, fmt.Sprintf(`queue.declare-ok queue="q" message-count=%d consumer-count=0`, n))
	})
}

// TestSlowConsumerIsBounded: a client that does not read has no more than its window in the broker's memory.
func TestSlowConsumerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r, p := b.open(), b.open()
		p.declare("q")
		body := bytes.Repeat([]byte("x"), 50_000)
		r.consume("q", "c", true)
		for range 400 { // 20 MB
			p.write(message(1, "", "q", body))
		}
		p.sync(1)
		synctest.Wait()
		c := b.connections()[0]
		c.out.mu.Lock()
		pending := c.out.bodyBytes
		if c.out.buf != nil {
			pending += len(c.out.buf.b)
		}
		c.out.mu.Unlock()
		if pending > windowBytesMax+100_000 {
			t.Errorf("%d bytes wait for a client that does not read", pending)
		}
		if got := b.Connections()[0].PendingBytes; got != pending {
			t.Errorf("shown as %d, is %d", got, pending)
		}
		time.Sleep(31 * time.Second)
		if n := len(b.Connections()); n != 1 {
			t.Errorf("%d connections: the one whose writes stall should be gone", n)
		}
	})
}

// TestWindowsShareTheBudget: however many consumers a connection has, their windows together stay near its budget.
func TestWindowsShareTheBudget(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	sum := func() (n int64) {
		ch := b.connections()[0].channel(1)
		ch.mu.Lock()
		defer ch.mu.Unlock()
		for _, c := range ch.consumers {
			n += int64(c.window)
		}
		return n
	}
	for i := range 200 {
		r.consume("q", fmt.Sprint(i), true)
	}
	if got := sum(); got > 12<<20 {
		t.Errorf("200 consumers may have %d bytes", got)
	}
	for i := range 200 {
		tag := fmt.Sprint(i)
		r.call(1, &amqp.BasicCancel{ConsumerTag: tag}, fmt.Sprintf("basic.cancel-ok consumer-tag=%q", tag))
	}
	if left := b.connections()[0].windowLeft.Load(); left != 8<<20 {
		t.Errorf("%d bytes are left when all consumers are gone", left)
	}
}

func TestConsumerPriority(t *testing.T) {
	b := startBroker(t)
	low, high := b.open(), b.open()
	low.declare("q")
	low.consume("q", "low", true)
	high.call(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "high", NoAck: true, Arguments: amqp.Table{{Key: "x-priority", Value: amqp.Int8(5)}}}, `basic.consume-ok consumer-tag="high"`)
	low.publish("q", "a", "b")
	high.expectDelivery("a", 1, false)
	high.expectDelivery("b", 2, false)
	low.sync(1)
}
