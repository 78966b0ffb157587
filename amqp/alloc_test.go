package amqp

import "testing"

// TestHotPathAllocatesNothing holds what every message goes through to no allocation at all.
func TestHotPathAllocatesNothing(t *testing.T) {
	publish := (&BasicPublish{Exchange: "orders", RoutingKey: "orders.created"}).Append(nil)
	deliver := BasicDeliverView{ConsumerTag: []byte("ctag"), Exchange: []byte("orders"), RoutingKey: []byte("orders.created")}
	ack, nack, reject := (&BasicAck{DeliveryTag: 7}).Append(nil), (&BasicNack{DeliveryTag: 7}).Append(nil), (&BasicReject{DeliveryTag: 7}).Append(nil)
	p := allProperties()
	props := p.Append(nil)
	header := AppendHeaderFrame(nil, 1, ClassBasic, 10, props)[frameHeaderBytes:]
	header = header[:len(header)-1]
	reader := NewReader(&endless{stream: publishStream(10, 1000)}, nil, 131072)
	out := make([]byte, 0, 4096)
	body := make([]byte, 1000)
	var handler ChannelHandler = &noting{}
	var a Assembler
	view, err := ScanProperties(props)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]func() error{
		"decode basic.publish": func() error { var m BasicPublishView; return m.Decode(publish) },
		"decode basic.ack":     func() error { var m BasicAck; return m.Decode(ack) },
		"decode basic.nack":    func() error { var m BasicNack; return m.Decode(nack) },
		"decode basic.reject":  func() error { var m BasicReject; return m.Decode(reject) },
		"dispatch publish":     func() error { return DispatchChannel(handler, publish) },
		"dispatch ack":         func() error { return DispatchChannel(handler, ack) },
		"dispatch nack":        func() error { return DispatchChannel(handler, nack) },
		"dispatch reject":      func() error { return DispatchChannel(handler, reject) },
		"content header":       func() error { _, err := ParseContentHeader(header); return err },
		"scan properties":      func() error { return view.Scan(props) },
		"scan into a new view": func() error { _, err := ScanProperties(props); return err },
		"look up a header": func() error {
			h, _ := view.Headers()
			v, ok := h.Lookup("a")
			if n, isInt := v.AsInt64(); !ok || !isInt || n != 1 {
				t.Error("header not found")
			}
			return nil
		},
		"read and follow a publish": func() error {
			for {
				f, err := reader.ReadFrame()
				if err != nil {
					return err
				}
				if _, done, err := a.Accept(f); done || err != nil {
					return err
				}
			}
		},
		"append a delivery": func() error {
			out = deliver.AppendFrame(out[:0], 1)
			out = AppendHeaderFrame(out, 1, ClassBasic, 1000, props)
			out = AppendBodyFrames(out, 1, body, 4096)
			return nil
		},
		"append an ack": func() error {
			m := BasicAck{DeliveryTag: 7, Multiple: true}
			out = AppendHeartbeat(m.AppendFrame(out[:0], 1))
			return nil
		},
		"edit properties": func() error { out = view.AppendEdited(out[:0], FlagExpiration, p.Headers); return nil },
	}
	for name, path := range paths {
		var err error
		if allocs := testing.AllocsPerRun(200, func() { err = path() }); allocs != 0 || err != nil {
			t.Errorf("%s: %v allocations, %v", name, allocs, err)
		}
	}
}

// TestColdDecodersAllocateLittle: a table costs one copy of its bytes and one slice per level.
func TestColdDecodersAllocateLittle(t *testing.T) {
	raw := Table{{"x-message-ttl", Int32(60000)}, {"x-queue-type", Longstr("quorum")}, {"x-overflow", Longstr("reject-publish")}}.AppendEntries(nil)
	if allocs := testing.AllocsPerRun(100, func() { _, _ = DecodeTable(raw) }); allocs > 2 {
		t.Errorf("table: %v allocations", allocs)
	}
	p := allProperties()
	props := p.Append(nil)
	if allocs := testing.AllocsPerRun(100, func() { _, _ = DecodeProperties(props) }); allocs > 5 {
		t.Errorf("properties: %v allocations", allocs)
	}
}
