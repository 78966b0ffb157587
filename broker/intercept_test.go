package broker

import (
	"testing"

	"github.com/warrenmq/warren/amqp"
)

func TestStamps(t *testing.T) {
	now := func() int64 { return 1700000000123 }
	var empty, full amqp.Properties
	full.SetTimestamp(5)
	full.SetMessageID("id")
	full.SetHeaders(amqp.Table{{Key: "timestamp_in_ms", Value: amqp.Int64(5000)}, {Key: "x-routed-by", Value: amqp.Longstr("other")}, {Key: "k", Value: amqp.Longstr("v")}})
	for _, c := range []struct {
		name      string
		s         Stamps
		in        *amqp.Properties
		timestamp uint64
		millis    int64
		node      string
	}{
		{"missing", Stamps{Time: true, Node: "n"}, &empty, 1700000000, 1700000000123, "n"},
		{"there", Stamps{Time: true, Node: "n"}, &full, 5, 5000, "other"},
		{"over what is there", Stamps{Time: true, Node: "n", OverTime: true, OverNode: true}, &full, 1700000000, 1700000000123, "n"},
		{"the node alone", Stamps{Node: "n", OverNode: true}, &full, 5, 5000, "n"},
	} {
		p, err := amqp.DecodeProperties(c.s.Intercept(now)(c.in.Append(nil)))
		if err != nil {
			t.Fatal(err)
		}
		millis, _ := p.Headers.Get(headerTimestamp)
		n, _ := millis.AsInt64()
		routed, _ := p.Headers.Get(headerRoutedBy)
		node, _ := routed.AsString()
		if p.Timestamp != c.timestamp || n != c.millis || millis.Tag() != amqp.TagInt64 || node != c.node || p.MessageID != c.in.MessageID || p.Headers.Has("k") != c.in.Headers.Has("k") {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
	if (Stamps{}).Intercept(now) != nil {
		t.Error("nothing to set is an interceptor")
	}
}

// TestInterceptedBeforeRouting: what is set counts for a headers exchange.
func TestInterceptedBeforeRouting(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.Intercept = Stamps{Node: "rabbit@test"}.Intercept(WallMillis) })
	c := b.open()
	c.call(1, &amqp.QueueDeclare{Queue: "q"}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
	c.call(1, &amqp.QueueBind{Queue: "q", Exchange: "amq.headers", Arguments: amqp.Table{{Key: "x-routed-by", Value: amqp.Longstr("rabbit@test")}, {Key: "x-match", Value: amqp.Longstr("all-with-x")}}}, "queue.bind-ok")
	c.call(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c", NoAck: true}, `basic.consume-ok consumer-tag="c"`)
	c.write(message(1, "amq.headers", "", []byte("x")))
	if m, ok := c.method().(*amqp.BasicDeliver); !ok {
		t.Fatalf("got %v", m)
	}
	if p, _ := c.content(); !p.Headers.Has("x-routed-by") {
		t.Errorf("properties %v", p)
	}
}
