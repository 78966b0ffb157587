package conformance

import (
	"context"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func propertiesArrive(t *testing.T, p *pair, queue string) {
	p.unlike(t, queue, "x-delivery-count stands in every message")
	sent := amqp.Publishing{
		Headers: amqp.Table{
			"bool": true, "byte": uint8(200), "int8": int8(-3), "int16": int16(-300), "int32": int32(-70000), "int64": int64(-5e12),
			"float32": float32(1.5), "float64": -2.25, "text": "äöü", "bytes": []byte{0, 1, 255}, "time": time.Unix(1_700_000_000, 0), "nothing": nil,
			"decimal": amqp.Decimal{Scale: 2, Value: 12345}, "list": []any{int32(1), "two", []any{true}}, "table": amqp.Table{"inner": amqp.Table{"x": int32(1)}},
		},
		ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: amqp.Persistent, Priority: 7, CorrelationId: "correlation", ReplyTo: "reply",
		Expiration: "600000", MessageId: "id", Timestamp: time.Unix(1_600_000_000, 0), Type: "kind", UserId: "guest", AppId: "app", Body: []byte("body"),
	}
	if err := p.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	c, err := p.ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, false, false, sent)
	if err != nil || !c.Wait() {
		t.Fatalf("publish: %v", err)
	}
	d, ok, err := p.ch.Get(queue, true)
	if err != nil || !ok {
		t.Fatalf("get: %t, %v", ok, err)
	}
	got := amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type,
		UserId: d.UserId, AppId: d.AppId, Body: d.Body,
	}
	if d.Exchange != "" || d.RoutingKey != queue {
		t.Errorf("exchange %q and key %q", d.Exchange, d.RoutingKey)
	}
	for key, want := range sent.Headers {
		if !reflect.DeepEqual(got.Headers[key], want) {
			t.Errorf("header %s is %#v, want %#v", key, got.Headers[key], want)
		}
	}
	if len(got.Headers) != len(sent.Headers) {
		t.Errorf("headers %v", got.Headers)
	}
	got.Headers, sent.Headers = nil, nil
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v\nwant %+v", got, sent)
	}
}
