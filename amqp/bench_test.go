package amqp

import (
	"bytes"
	"io"
	"testing"
)

// publishStream returns n publishes as a client sends them, each method, header and body.
func publishStream(n, bodyBytes int) []byte {
	p := Properties{}
	p.SetDeliveryMode(2)
	p.SetMessageID("0123456789")
	props := p.Append(nil)
	m := BasicPublish{RoutingKey: "orders.created"}
	body := bytes.Repeat([]byte("x"), bodyBytes)
	var b []byte
	for range n {
		b = m.AppendFrame(b, 1)
		b = AppendHeaderFrame(b, 1, ClassBasic, uint64(len(body)), props)
		b = AppendBodyFrames(b, 1, body, 131072)
	}
	return b
}

// endless repeats a stream, as an io.Reader that gives as much as is asked for.
type endless struct {
	stream []byte
	at     int
}

// Read implements io.Reader.
func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.stream[e.at:])
	if e.at += n; e.at == len(e.stream) {
		e.at = 0
	}
	return n, nil
}

// BenchmarkReadPublish reads whole publishes of 1 KiB: frames, method, header, properties, and one copy of the body.
func BenchmarkReadPublish(b *testing.B) {
	stream := publishStream(64, 1024)
	r := NewReader(&endless{stream: stream}, nil, 131072)
	var a Assembler
	batch := make([]byte, 0, 2048)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream) / 64))
	for b.Loop() {
		for done := false; !done; {
			f, err := r.ReadFrame()
			if err != nil {
				b.Fatal(err)
			}
			var part Part
			if part, done, err = a.Accept(f); err != nil {
				b.Fatal(err)
			}
			switch part {
			case PartMethod:
				var m BasicPublishView
				err = m.Decode(f.Payload)
			case PartHeader:
				var h ContentHeader
				if h, err = ParseContentHeader(f.Payload); err == nil {
					var v PropertyView
					err = v.Scan(h.Properties)
					batch = append(batch[:0], h.Properties...)
				}
			case PartBody:
				batch = append(batch, f.Payload...)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkNextFrame(b *testing.B) {
	var stream []byte
	for range 1000 {
		stream = (&BasicAck{DeliveryTag: 1}).AppendFrame(stream, 1)
	}
	r := NewReader(&endless{stream: stream}, nil, 131072)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.ReadFrame(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeBasicPublishView(b *testing.B) {
	payload := (&BasicPublish{Exchange: "orders", RoutingKey: "orders.created.eu"}).Append(nil)
	var m BasicPublishView
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeBasicAck(b *testing.B) {
	payload := (&BasicAck{DeliveryTag: 7, Multiple: true}).Append(nil)
	var m BasicAck
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanProperties(b *testing.B) {
	p := Properties{}
	p.SetDeliveryMode(2)
	p.SetContentType("application/json")
	p.SetHeaders(Table{{"x-retries", Int32(3)}, {"tenant", Longstr("eu")}})
	raw := p.Append(nil)
	var v PropertyView
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Scan(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookupHeader(b *testing.B) {
	raw := RawTable(Table{{"x-retries", Int32(3)}, {"tenant", Longstr("eu")}, {"x-delay", Int64(5000)}}.AppendEntries(nil))
	b.ReportAllocs()
	for b.Loop() {
		if v, ok := raw.Lookup("x-delay"); !ok || v.Tag() != TagInt64 {
			b.Fatal("not found")
		}
	}
}

func BenchmarkDecodeTable(b *testing.B) {
	raw := Table{{"x-message-ttl", Int32(60000)}, {"x-queue-type", Longstr("quorum")}, {"x-max-length", Int64(100)}}.AppendEntries(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeTable(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendDelivery appends a delivery of 1 KiB: method, header and body frame.
func BenchmarkAppendDelivery(b *testing.B) {
	m := BasicDeliverView{ConsumerTag: []byte("ctag1"), Exchange: []byte("orders"), RoutingKey: []byte("orders.created")}
	props := []byte{0x10, 0, 2}
	body := make([]byte, 1024)
	var out []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		m.DeliveryTag++
		out = m.AppendFrame(out[:0], 1)
		out = AppendHeaderFrame(out, 1, ClassBasic, uint64(len(body)), props)
		out = AppendBodyFrames(out, 1, body, 131072)
	}
	_, _ = io.Discard.Write(out)
}
