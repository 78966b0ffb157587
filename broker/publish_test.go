package broker

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/quorum"
)

func (c *rawClient) declare(queue string, arguments ...amqp.Field) {
	c.tb.Helper()
	c.call(1, &amqp.QueueDeclare{Queue: queue, Durable: true, Arguments: arguments}, fmt.Sprintf("queue.declare-ok queue=%q message-count=0 consumer-count=0", queue))
}

func (c *rawClient) consume(queue, tag string, noAck bool) {
	c.tb.Helper()
	c.call(1, &amqp.BasicConsume{Queue: queue, ConsumerTag: tag, NoAck: noAck}, fmt.Sprintf("basic.consume-ok consumer-tag=%q", tag))
}

func (c *rawClient) confirm() {
	c.tb.Helper()
	c.call(1, &amqp.ConfirmSelect{}, "confirm.select-ok")
}

func mandatory(m *amqp.BasicPublish, _ *amqp.Properties) { m.Mandatory = true }

func expiration(v string) func(*amqp.BasicPublish, *amqp.Properties) {
	return func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetExpiration(v) }
}

func headers(fields ...amqp.Field) func(*amqp.BasicPublish, *amqp.Properties) {
	return func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetHeaders(fields) }
}

func TestPublishErrors(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.BodyBytesMax = 100 })
	r := b.open()
	r.call(1, &amqp.ExchangeDeclare{Exchange: "hidden", Type: "fanout", Internal: true}, "exchange.declare-ok")
	for _, c := range []struct {
		bytes []byte
		want  string
	}{
		{message(1, "none", "k", nil), "404 NOT_FOUND - no exchange 'none' in vhost '/'"},
		{message(1, "hidden", "k", nil), "403 ACCESS_REFUSED - cannot publish to internal exchange 'hidden' in vhost '/'"},
		{message(1, "", "q", nil, expiration("abc")), "406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer"},
		{message(1, "", "q", nil, expiration("-1")), "406 PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}"},
		{message(1, "", "q", nil, func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetUserID("a") }), "406 PRECONDITION_FAILED - user_id property set to 'a' but authenticated user was 'guest'"},
		{message(1, "", "q", nil, headers(amqp.Field{Key: "CC", Value: amqp.Longstr("k")})), `406 PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}`},
		{message(1, "", "q", make([]byte, 101)), "406 PRECONDITION_FAILED - message size 101 is larger than configured max size 100"},
	} {
		r.write(c.bytes)
		r.closed(1, amqp.MethodBasicPublish, c.want)
	}
	// A body is refused by its announced size: none of it need come.
	publish := (&amqp.BasicPublish{RoutingKey: "q"}).AppendFrame(nil, 1)
	r.write(amqp.AppendHeaderFrame(publish, 1, 60, 1<<29, nil))
	r.closed(1, amqp.MethodBasicPublish, "406 PRECONDITION_FAILED - message size 536870912 is larger than configured max size 100")
	r.write(message(1, "", "q", nil, expiration("60000"), func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetUserID("guest") }))
	r.sync(1)
}

func TestPublishPermission(t *testing.T) {
	b := startBroker(t)
	r := b.raw()
	r.login(limitedUser, amqp.ConnectionTuneOk{})
	r.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	r.write(message(1, "amq.topic", "k", nil))
	r.sync(1)
	r.write(message(1, "amq.direct", "k", nil))
	r.closed(1, amqp.MethodBasicPublish, "403 ACCESS_REFUSED - write access to exchange 'amq.direct' in vhost '/' refused for user 'limited'")
	r.write(message(1, "", "k", nil))
	r.closed(1, amqp.MethodBasicPublish, "403 ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'limited'")
}

// TestReturnBeforeConfirm: of a mandatory message that nobody gets, basic.return comes before its ack; others are acked only.
func TestReturnBeforeConfirm(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.confirm()
	r.write(message(1, "amq.direct", "none", []byte("body"), mandatory, func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetMessageID("7") }))
	r.expect(`basic.return reply-code=312 reply-text="NO_ROUTE" exchange="amq.direct" routing-key="none"`)
	if p, body := r.content(); p.MessageID != "7" || string(body) != "body" {
		t.Errorf("returned %v %q", &p, body)
	}
	r.expect("basic.ack delivery-tag=1")
	r.write(message(1, "amq.direct", "none", []byte("dropped")))
	r.expect("basic.ack delivery-tag=2")
	r.write(message(1, "", "q", []byte("kept"), mandatory))
	r.expect("basic.ack delivery-tag=3")
	large := bytes.Repeat([]byte("x"), 300_000)
	r.write(message(1, "", "none", large, mandatory))
	r.expect(`basic.return reply-code=312 reply-text="NO_ROUTE" exchange="" routing-key="none"`)
	if _, body := r.content(); !bytes.Equal(body, large) {
		t.Error("a large body came back changed")
	}
	r.expect("basic.ack delivery-tag=4")
	if n := b.Totals(); n.Returned != 2 || n.Dropped != 1 || n.Published != 4 || n.ToConfirm != 4 || n.Routed != 1 || n.Confirmed != 4 {
		t.Errorf("totals %+v", n)
	}
}

// keys is the value of a header CC or BCC.
func keys(names ...string) amqp.Value {
	var vs []amqp.Value
	for _, name := range names {
		vs = append(vs, amqp.Longstr(name))
	}
	return amqp.Array(vs...)
}

func TestCarbonCopies(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	for _, q := range []string{"to", "cc1", "cc2", "bcc"} {
		r.declare(q)
	}
	r.write(message(1, "", "to", []byte("m"), headers(
		amqp.Field{Key: "CC", Value: keys("cc1", "cc2", "to")}, amqp.Field{Key: "BCC", Value: keys("bcc")}, amqp.Field{Key: "x", Value: amqp.Int32(1)})))
	for _, q := range []string{"to", "cc1", "cc2", "bcc"} {
		r.call(1, &amqp.BasicGet{Queue: q, NoAck: true}, fmt.Sprintf("basic.get-ok delivery-tag=%d exchange=\"\" routing-key=\"to\" message-count=0", map[string]int{"to": 1, "cc1": 2, "cc2": 3, "bcc": 4}[q]))
		p, _ := r.content()
		if p.Headers.Has("BCC") || !p.Headers.Has("CC") || !p.Headers.Has("x") {
			t.Errorf("%s has headers %v", q, p.Headers)
		}
	}
	// A key that a binding takes keeps the message from the alternate exchange.
	r.call(1, &amqp.ExchangeDeclare{Exchange: "x", Type: "direct", Arguments: amqp.Table{{Key: "alternate-exchange", Value: amqp.Longstr("amq.fanout")}}}, "exchange.declare-ok")
	r.call(1, &amqp.QueueBind{Queue: "to", Exchange: "x", RoutingKey: "known"}, "queue.bind-ok")
	r.call(1, &amqp.QueueBind{Queue: "cc1", Exchange: "amq.fanout"}, "queue.bind-ok")
	r.write(message(1, "x", "unknown", []byte("m"), headers(amqp.Field{Key: "CC", Value: keys("known")})))
	r.call(1, &amqp.QueuePurge{Queue: "to"}, "queue.purge-ok message-count=1")
	r.call(1, &amqp.QueuePurge{Queue: "cc1"}, "queue.purge-ok message-count=0")
	// A BCC alone leaves an empty table behind.
	r.write(message(1, "", "none", []byte("m"), headers(amqp.Field{Key: "BCC", Value: keys("bcc")})))
	r.call(1, &amqp.BasicGet{Queue: "bcc", NoAck: true}, `basic.get-ok delivery-tag=5 exchange="" routing-key="none" message-count=0`)
	if p, _ := r.content(); p.Flags != amqp.FlagHeaders || len(p.Headers) != 0 {
		t.Errorf("properties %v", &p)
	}
}

// TestContentPassesVerbatim: properties and bodies of every size come out as they went in, unknown flags and odd values included.
func TestContentPassesVerbatim(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.consume("q", "c", true)
	properties := [][]byte{
		{0, 0},
		{0x00, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, // a timestamp beyond all years
		{0x00, 0x01, 0x80, 0x00, 1, 2, 3},                            // a flag of a second word
		{0x04, 0x00, 3, 0xff, 0xfe, 0x00},                            // a binary correlation id
	}
	for _, size := range []int{0, 1, 100, bodyCopyMax, bodyCopyMax + 1, 131064, 131065, 1_000_000} {
		for _, raw := range properties {
			body := bytes.Repeat([]byte{byte(size)}, size)
			f := (&amqp.BasicPublish{RoutingKey: "q"}).AppendFrame(nil, 1)
			f = amqp.AppendHeaderFrame(f, 1, 60, uint64(size), raw)
			f = amqp.AppendBodyFrames(f, 1, body, 131072)
			go r.write(f)
			if m := r.method().String(); !strings.HasPrefix(m, "basic.deliver") {
				t.Fatal(m)
			}
			h, err := amqp.ParseContentHeader(r.frame().Payload)
			if err != nil || !bytes.Equal(h.Properties, raw) || h.BodySize != uint64(size) {
				t.Fatalf("size %d: header %+v %v, want %x", size, h, err, raw)
			}
			var got []byte
			for len(got) < size {
				got = append(got, r.frame().Payload...)
			}
			if !bytes.Equal(got, body) {
				t.Fatalf("size %d: the body changed", size)
			}
		}
	}
}

// TestAnySplitOfTheStream: how the bytes of a session fall into reads changes nothing.
func TestAnySplitOfTheStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		r.confirm()
		var stream []byte
		for i := range 20 {
			stream = append(stream, message(1, "", "q", bytes.Repeat([]byte{byte(i)}, rng.IntN(300)))...)
		}
		go func() {
			for rest := stream; len(rest) > 0; {
				n := min(1+rng.IntN(40), len(rest))
				r.write(rest[:n])
				rest = rest[n:]
			}
		}()
		for tag := uint64(0); tag < 20; {
			m, ok := r.method().(*amqp.BasicAck)
			if !ok || m.DeliveryTag <= tag {
				t.Fatalf("got %v behind %d", m, tag)
			}
			tag = m.DeliveryTag
		}
	}
}

// TestUnfinishedBodiesAreBounded: bodies that begin on many channels and never end do not fill the memory.
func TestUnfinishedBodiesAreBounded(t *testing.T) {
	b := startBroker(t)
	r := b.raw()
	r.login("guest", amqp.ConnectionTuneOk{})
	const part = 4 << 20
	body := make([]byte, part)
	go func() {
		for n := uint16(1); n < 20; n++ {
			f := (&amqp.ChannelOpen{}).AppendFrame(nil, n)
			f = (&amqp.BasicPublish{RoutingKey: "q"}).AppendFrame(f, n)
			f = amqp.AppendHeaderFrame(f, n, 60, limits.BodyBytesMax, nil)
			if _, err := r.nc.Write(amqp.AppendBodyFrames(f, n, body, 131072)); err != nil {
				return
			}
		}
	}()
	opened := 0
	for {
		m := r.method()
		if _, ok := m.(*amqp.ChannelOpenOk); ok {
			opened++
			continue
		}
		if c, ok := m.(*amqp.ConnectionClose); !ok || c.ReplyCode != amqp.ReplyResourceError {
			t.Fatalf("got %v", m)
		}
		break
	}
	if opened > limits.InflightBodyBytesMax/part+1 {
		t.Errorf("%d bodies had begun", opened)
	}
}

// leasedHost is a host without a lease at first.
type leasedHost struct {
	Host
	asked int
}

func (h *leasedHost) Leased() bool {
	h.asked++
	return h.asked > 2
}

// lateHost has a catalogue without anything that clients made, until it gets a lease.
type lateHost struct {
	Host
	leased atomic.Bool
	before atomic.Pointer[quorum.Catalogue]
	looked atomic.Int32
}

func (h *lateHost) Leased() bool { return h.leased.Load() }

func (h *lateHost) Catalogue() *quorum.Catalogue {
	before := h.before.Load()
	if before == nil || h.leased.Load() {
		return h.Host.Catalogue()
	}
	h.looked.Add(1)
	return before
}

// TestNotFoundOnlyWithALease: what was declared on another node is not known here yet. A client that was told of it there must not hear that it is not there.
func TestNotFoundOnlyWithALease(t *testing.T) {
	for what, c := range map[string]struct {
		ask  amqp.Method
		want string
	}{
		"consume":          {&amqp.BasicConsume{Queue: "q", ConsumerTag: "c"}, `basic.consume-ok consumer-tag="c"`},
		"get":              {&amqp.BasicGet{Queue: "q"}, "basic.get-empty"},
		"passive queue":    {&amqp.QueueDeclare{Queue: "q", Passive: true}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`},
		"passive exchange": {&amqp.ExchangeDeclare{Exchange: "x", Passive: true}, "exchange.declare-ok"},
		"bind":             {&amqp.QueueBind{Queue: "q", Exchange: "x", RoutingKey: "k"}, "queue.bind-ok"},
		"unbind":           {&amqp.QueueUnbind{Queue: "q", Exchange: "x", RoutingKey: "k"}, "queue.unbind-ok"},
		"delete":           {&amqp.QueueDelete{Queue: "q"}, "queue.delete-ok message-count=0"},
	} {
		t.Run(what, func(t *testing.T) {
			h := new(lateHost)
			b := startBroker(t, func(o *Options) { h.Host, o.Host = o.Host, h })
			h.leased.Store(true)
			before := h.Host.Catalogue()
			r := b.open()
			r.declare("q")
			r.call(1, &amqp.ExchangeDeclare{Exchange: "x", Type: "direct"}, "exchange.declare-ok")
			h.before.Store(before)
			h.leased.Store(false)
			looked := h.looked.Load()
			r.send(1, c.ask)
			for h.looked.Load() == looked {
				runtime.Gosched()
			}
			h.leased.Store(true)
			r.expect(c.want)
		})
	}
}

// TestBlindCopyAfterWaitingForALease: the message is routed twice then, and its hidden keys must count the second time, too.
func TestBlindCopyAfterWaitingForALease(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.Host = &leasedHost{Host: o.Host} })
	r := b.open()
	r.declare("to")
	r.declare("bcc")
	r.confirm()
	r.write(message(1, "", "to", []byte("m"), headers(amqp.Field{Key: "BCC", Value: keys("bcc")})))
	r.expect("basic.ack delivery-tag=1")
	for _, q := range []string{"to", "bcc"} {
		r.call(1, &amqp.QueuePurge{Queue: q}, "queue.purge-ok message-count=1")
	}
}
