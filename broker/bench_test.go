package broker

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/warrenmq/warren/amqp"
)

// rawClient speaks frames without a client library.
type rawClient struct {
	tb testing.TB
	nc net.Conn
	r  *amqp.Reader
}

func (b *testBroker) raw() *rawClient {
	return b.rawOn(b.dial())
}

func (b *testBroker) rawOn(nc net.Conn) *rawClient {
	b.tb.Cleanup(func() { _ = nc.Close() })
	return &rawClient{tb: b.tb, nc: nc, r: amqp.NewReader(nc, nil, 131072)}
}

func (c *rawClient) write(b []byte) {
	c.tb.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.tb.Fatalf("write: %v", err)
	}
}

func (c *rawClient) send(channel uint16, methods ...amqp.Method) {
	c.tb.Helper()
	var b []byte
	for _, m := range methods {
		b = m.AppendFrame(b, channel)
	}
	c.write(b)
}

func (c *rawClient) frame() amqp.Frame {
	c.tb.Helper()
	f, err := c.r.ReadFrame()
	if err != nil {
		c.tb.Fatalf("read: %v", err)
	}
	return f
}

// method reads the next method, heartbeats aside.
func (c *rawClient) method() amqp.Method {
	c.tb.Helper()
	f := c.frame()
	for f.Type == amqp.FrameHeartbeat {
		f = c.frame()
	}
	m, err := amqp.DecodeMethod(f.Payload)
	if f.Type != amqp.FrameMethod || err != nil {
		c.tb.Fatalf("frame type %d: %v", f.Type, err)
	}
	return m
}

// expect reads a method and checks how it prints.
func (c *rawClient) expect(want string) amqp.Method {
	c.tb.Helper()
	m := c.method()
	if m.String() != want {
		c.tb.Fatalf("got  %s\nwant %s", m, want)
	}
	return m
}

var allCapabilities = amqp.Table{{Key: "capabilities", Value: amqp.Nested(amqp.Table{
	{Key: "authentication_failure_close", Value: amqp.Bool(true)}, {Key: "consumer_cancel_notify", Value: amqp.Bool(true)},
})}}

// login goes through the handshake.
func (c *rawClient) login(user string, tune amqp.ConnectionTuneOk) {
	c.tb.Helper()
	go func() { _, _ = io.WriteString(c.nc, amqp.ProtocolHeader) }()
	if _, ok := c.method().(*amqp.ConnectionStart); !ok {
		c.tb.Fatal("no connection.start")
	}
	c.send(0, &amqp.ConnectionStartOk{ClientProperties: allCapabilities, Mechanism: "PLAIN", Response: "\x00" + user + "\x00guest", Locale: "en_US"})
	if _, ok := c.method().(*amqp.ConnectionTune); !ok {
		c.tb.Fatal("no connection.tune")
	}
	c.send(0, &tune)
	c.send(0, &amqp.ConnectionOpen{VirtualHost: "/"})
	c.expect("connection.open-ok")
}

// open logs in as guest and opens channel 1.
func (b *testBroker) open() *rawClient {
	b.tb.Helper()
	c := b.raw()
	c.login("guest", amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
	c.send(1, &amqp.ChannelOpen{})
	c.expect("channel.open-ok")
	return c
}

// message is the three frames of a publish.
func message(channel uint16, exchange, key string, body []byte, change ...func(*amqp.BasicPublish, *amqp.Properties)) []byte {
	m := amqp.BasicPublish{Exchange: exchange, RoutingKey: key}
	var p amqp.Properties
	for _, f := range change {
		f(&m, &p)
	}
	b := m.AppendFrame(nil, channel)
	b = amqp.AppendHeaderFrame(b, channel, amqp.ClassBasic, uint64(len(body)), p.Append(nil))
	return amqp.AppendBodyFrames(b, channel, body, 131072)
}

// benchListen serves b on a loopback socket.
func (b *testBroker) listen() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.tb.Fatal(err)
	}
	go func() { _ = b.Serve(l) }()
	return l.Addr().String()
}

// BenchmarkThrough is a message all the way: publish, confirm, deliver, ack, over loopback sockets with pre-encoded frames. What it allocates includes the fake
// queue, which keeps each batch.
func BenchmarkThrough(b *testing.B) {
	for _, size := range []int{16, 1024} {
		b.Run(map[int]string{16: "16B", 1024: "1KiB"}[size], func(b *testing.B) { benchmarkThrough(b, size) })
	}
}

func benchmarkThrough(b *testing.B, size int) {
	broker := startBroker(b)
	addr := broker.listen()
	dial := func() *rawClient {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		c := broker.rawOn(nc)
		c.login("guest", amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
		c.send(1, &amqp.ChannelOpen{})
		c.expect("channel.open-ok")
		return c
	}
	publisher, consumer := dial(), dial()
	publisher.send(1, &amqp.QueueDeclare{Queue: "q", Exclusive: false}, &amqp.ConfirmSelect{})
	publisher.method()
	publisher.method()
	consumer.send(1, &amqp.BasicQos{PrefetchCount: 1000}, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c"})
	consumer.method()
	consumer.method()
	const burst, window = 50, 1000
	frames := message(1, "", "q", make([]byte, size))
	var batch []byte
	for range burst {
		batch = append(batch, frames...)
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	b.ResetTimer()
	done := make(chan struct{})
	go func() { // the consumer acks every 200
		defer close(done)
		for got := 0; got < b.N; {
			f := consumer.frame()
			if f.Type == amqp.FrameMethod {
				got++
				if got%200 == 0 || got == b.N {
					consumer.send(1, &amqp.BasicAck{DeliveryTag: uint64(got), Multiple: true})
				}
			}
		}
	}()
	for sent, confirmed := 0, uint64(0); confirmed < uint64(b.N); {
		for sent < b.N && uint64(sent)-confirmed < window {
			n := min(burst, b.N-sent)
			publisher.write(batch[:n*len(frames)])
			sent += n
		}
		f := publisher.frame()
		if f.Method() != amqp.MethodBasicAck {
			b.Fatalf("method %v", f.Method())
		}
		confirmed = max(confirmed, binary.BigEndian.Uint64(f.Payload[4:]))
	}
	<-done
}
