package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/queue"
)

func TestClientPublishGetPurge(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	ctx := t.Context()
	var p amqp.Properties
	p.SetMessageID("7")
	for i := range 40 {
		routed, err := b.Publish(ctx, testUser, "/", "", "q", p.Append(nil), fmt.Appendf(nil, "m%d", i))
		if err != nil || !routed {
			t.Fatalf("publish %d: %v %v", i, routed, err)
		}
	}
	if routed, err := b.Publish(ctx, testUser, "/", "amq.direct", "none", nil2, nil); err != nil || routed {
		t.Errorf("unroutable: %v %v", routed, err)
	}
	get := func(count int, s Settlement) []Message {
		t.Helper()
		ms, err := b.Get(ctx, testUser, "/", "q", count, s)
		if err != nil {
			t.Fatal(err)
		}
		return ms
	}
	ms := get(50, Requeue)
	if len(ms) != 40 || string(ms[39].Body) != "m39" || ms[0].Left != 39 || ms[39].Left != 0 || ms[0].Redelivered || string(ms[0].RoutingKey) != "q" {
		t.Fatalf("%d messages, last %+v", len(ms), ms[len(ms)-1])
	}
	if props, _ := amqp.DecodeProperties(ms[0].Properties); props.MessageID != "7" {
		t.Errorf("properties %v", &props)
	}
	ms = get(2, RejectRequeue)
	if len(ms) != 2 || string(ms[0].Body) != "m0" || !ms[0].Redelivered || ms[0].DeliveryCount != 0 || ms[0].AcquiredCount != 1 {
		t.Fatalf("after requeue %+v", ms)
	}
	ms = get(1, Remove)
	if string(ms[0].Body) != "m0" || ms[0].DeliveryCount != 1 {
		t.Fatalf("after reject %+v", ms)
	}
	if ms = get(1, RejectRemove); string(ms[0].Body) != "m1" {
		t.Fatalf("got %q", ms[0].Body)
	}
	if n, err := b.Purge(ctx, testUser, "/", "q"); n != 38 || err != nil {
		t.Errorf("purged %d: %v", n, err)
	}
	if ms = get(5, Remove); len(ms) != 0 {
		t.Errorf("%d messages after the purge", len(ms))
	}
	if in, out := b.ExchangeCounts("/", ""); in != 40 || out != 40 {
		t.Errorf("the default exchange counts %d in, %d out", in, out)
	}
	r.call(1, &amqp.QueueDelete{Queue: "q", IfEmpty: true}, "queue.delete-ok message-count=0")
}

// TestClientCarbonCopies: CC and BCC count in messages of the HTTP API, too.
func TestClientCarbonCopies(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("cc")
	r.declare("bcc")
	var p amqp.Properties
	p.SetHeaders(amqp.Table{{Key: "CC", Value: keys("cc")}, {Key: "BCC", Value: keys("bcc")}})
	if routed, err := b.Publish(t.Context(), testUser, "/", "", "none", p.Append(nil), nil); err != nil || !routed {
		t.Fatalf("routed %t, %v", routed, err)
	}
	for _, q := range []string{"cc", "bcc"} {
		ms, err := b.Get(t.Context(), testUser, "/", q, 1, Remove)
		if err != nil || len(ms) != 1 {
			t.Fatalf("%s: %d messages, %v", q, len(ms), err)
		}
		if got, _ := amqp.DecodeProperties(ms[0].Properties); got.Headers.Has("BCC") || !got.Headers.Has("CC") {
			t.Errorf("%s has headers %v", q, got.Headers)
		}
	}
	p.SetHeaders(amqp.Table{{Key: "CC", Value: amqp.Longstr("cc")}})
	_, err := b.Publish(t.Context(), testUser, "/", "", "none", p.Append(nil), nil)
	if want := `406 PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestClientMove: the named ones of the ready messages leave, with the rights to read here and to write there.
func TestClientMove(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("from")
	r.declare("to")
	r.call(1, &amqp.QueueDeclare{Queue: "own", Exclusive: true}, `queue.declare-ok queue="own" message-count=0 consumer-count=0`)
	for i := range 5 {
		if _, err := b.Publish(t.Context(), testUser, "/", "", "from", nil2, fmt.Appendf(nil, "m%d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		user, from, to string
		want           string
	}{
		{testUser, "none", "to", "404 NOT_FOUND - no queue 'none' in vhost '/'"},
		{testUser, "from", "none", "404 NOT_FOUND - no queue 'none' in vhost '/'"},
		{testUser, "from", "own", "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'own' in vhost '/'. It could be originally declared on another connection or the exclusive property " +
			"value does not match that of the original declaration."},
		{limitedUser, "from", "to", "403 ACCESS_REFUSED - read access to queue 'from' in vhost '/' refused for user 'limited'"},
	} {
		if _, err := b.Move(t.Context(), c.user, &Move{VHost: "/", From: c.from, To: c.to, Seqs: []queue.Seq{1}}); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []struct {
		seqs []queue.Seq
		n    uint64
	}{{[]queue.Seq{2, 4, 9}, 2}, {[]queue.Seq{2, 4}, 0}} {
		if n, err := b.Move(t.Context(), testUser, &Move{VHost: "/", From: "from", To: "to", Seqs: c.seqs, Back: true}); err != nil || n != c.n {
			t.Errorf("%v: moved %d, %v", c.seqs, n, err)
		}
	}
	ms, err := b.Get(t.Context(), testUser, "/", "from", 9, Remove)
	if err != nil || len(ms) != 3 || string(ms[0].Body) != "m1" || string(ms[1].Body) != "m3" || string(ms[2].Body) != "m5" {
		t.Errorf("left %d messages, %v", len(ms), err)
	}
}

// nil2 is no properties.
var nil2 = []byte{0, 0}

func TestClientErrors(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.BodyBytesMax = 10 })
	r := b.open()
	r.declare("q")
	r.call(1, &amqp.ExchangeDeclare{Exchange: "hidden", Type: "fanout", Internal: true}, "exchange.declare-ok")
	r.call(1, &amqp.QueueDeclare{Queue: "own", Exclusive: true}, `queue.declare-ok queue="own" message-count=0 consumer-count=0`)
	ctx := t.Context()
	publish := func(user, vhost, exchange string, properties []byte, size int) error {
		_, err := b.Publish(ctx, user, vhost, exchange, "k", properties, make([]byte, size))
		return err
	}
	var bad amqp.Properties
	bad.SetExpiration("x")
	get := func(user, queue string) error {
		_, err := b.Get(ctx, user, "/", queue, 1, Remove)
		return err
	}
	_, purge := b.Purge(ctx, testUser, "/", "none")
	for i, c := range []struct {
		err  error
		want string
	}{
		{publish(testUser, "none", "", nil2, 0), "530 NOT_ALLOWED - vhost none not found"},
		{publish(testUser, "/", "none", nil2, 0), "404 NOT_FOUND - no exchange 'none' in vhost '/'"},
		{publish(testUser, "/", "hidden", nil2, 0), "403 ACCESS_REFUSED - cannot publish to internal exchange 'hidden' in vhost '/'"},
		{publish(limitedUser, "/", "", nil2, 0), "403 ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'limited'"},
		{publish(testUser, "/", "", []byte{0x80}, 0), "502 SYNTAX_ERROR - malformed content properties: flags are missing"},
		{publish(testUser, "/", "", bad.Append(nil), 0), "406 PRECONDITION_FAILED - invalid expiration 'x': no_integer"},
		{publish(testUser, "/", "", nil2, 11), "406 PRECONDITION_FAILED - message size 11 is larger than configured max size 10"},
		{get(testUser, "none"), "404 NOT_FOUND - no queue 'none' in vhost '/'"},
		{get(limitedUser, "q"), "403 ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'limited'"},
		{get(testUser, "own"), "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'own' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."},
		{purge, "404 NOT_FOUND - no queue 'none' in vhost '/'"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("case %d: got %v, want %s", i, c.err, c.want)
		}
	}
	b.queueNamed("q").freeze()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := b.Publish(ctx, testUser, "/", "", "q", nil2, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publish to a queue that does not answer: %v", err)
	}
	b.queueNamed("q").thaw()
}
