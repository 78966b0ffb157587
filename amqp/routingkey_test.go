package amqp

import "testing"

// A routing key is any bytes; names are text.
func TestRoutingKeysAreBytes(t *testing.T) {
	key := "\xff\xfe"
	var p BasicPublish
	if err := p.Decode((&BasicPublish{Exchange: "x", RoutingKey: key}).Append(nil)); err != nil || p.RoutingKey != key {
		t.Fatalf("publish: %q %v", p.RoutingKey, err)
	}
	var v BasicPublishView
	if err := v.Decode((&BasicPublish{Exchange: "x", RoutingKey: key}).Append(nil)); err != nil || string(v.RoutingKey) != key {
		t.Fatalf("publish view: %q %v", v.RoutingKey, err)
	}
	var b QueueBind
	if err := b.Decode((&QueueBind{Queue: "q", Exchange: "x", RoutingKey: key}).Append(nil)); err != nil || b.RoutingKey != key {
		t.Fatalf("bind: %q %v", b.RoutingKey, err)
	}
	if err := p.Decode((&BasicPublish{Exchange: key}).Append(nil)); err == nil {
		t.Fatal("an exchange whose name is no text")
	}
}
