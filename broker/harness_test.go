package broker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// testBroker is a broker over a fakeHost.
type testBroker struct {
	*Broker
	tb   testing.TB
	host *fakeHost
}

func startBroker(tb testing.TB, change ...func(*Options)) *testBroker {
	tb.Helper()
	h := newFakeHost(tb)
	opt := Options{Host: h, Log: slog.New(slog.DiscardHandler), LoopbackUsers: []string{"guest"}}
	for _, f := range change {
		f(&opt)
	}
	b := &testBroker{Broker: New(opt), tb: tb, host: h}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			tb.Errorf("shutdown: %v", err)
		}
	})
	return b
}

// dial connects through a pipe.
func (b *testBroker) dial() net.Conn {
	client, server := net.Pipe()
	b.ServeConn(server)
	return client
}

// connect connects a client library.
func (b *testBroker) connect() *amqp091.Connection {
	b.tb.Helper()
	c, err := amqp091.Open(b.dial(), amqp091.Config{
		SASL: []amqp091.Authentication{&amqp091.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/", Heartbeat: -1,
	})
	if err != nil {
		b.tb.Fatalf("connect: %v", err)
	}
	b.tb.Cleanup(func() { _ = c.CloseDeadline(time.Now().Add(5 * time.Second)) })
	return c
}

func (b *testBroker) channel(c *amqp091.Connection) *amqp091.Channel {
	b.tb.Helper()
	ch, err := c.Channel()
	if err != nil {
		b.tb.Fatalf("channel: %v", err)
	}
	return ch
}

// listen serves on a loopback socket.
func (b *testBroker) listen() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.tb.Fatal(err)
	}
	go func() { _ = b.Serve(l, nil) }()
	return l.Addr().String()
}

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
	c.loginWith(user, allCapabilities, tune)
}

// loginWith is login with properties.
func (c *rawClient) loginWith(user string, properties amqp.Table, tune amqp.ConnectionTuneOk) {
	c.tb.Helper()
	c.tuned(user, properties, tune)
	c.send(0, &amqp.ConnectionOpen{VirtualHost: "/"})
	c.expect("connection.open-ok")
}

// tuned goes through the handshake up to connection.open.
func (c *rawClient) tuned(user string, properties amqp.Table, tune amqp.ConnectionTuneOk) {
	c.tb.Helper()
	go func() { _, _ = io.WriteString(c.nc, amqp.ProtocolHeader) }()
	if _, ok := c.method().(*amqp.ConnectionStart); !ok {
		c.tb.Fatal("no connection.start")
	}
	c.send(0, &amqp.ConnectionStartOk{ClientProperties: properties, Mechanism: "PLAIN", Response: "\x00" + user + "\x00guest", Locale: "en_US"})
	if _, ok := c.method().(*amqp.ConnectionTune); !ok {
		c.tb.Fatal("no connection.tune")
	}
	c.send(0, &tune)
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

// fails sends a method and expects the channel to be closed with the error; it answers with close-ok and opens the channel again.
func (c *rawClient) fails(channel uint16, m amqp.Method, want string) {
	c.tb.Helper()
	c.send(channel, m)
	c.closed(channel, m.ID(), want)
}

func (c *rawClient) closed(channel uint16, id amqp.MethodID, want string) {
	c.tb.Helper()
	got := c.method()
	m, ok := got.(*amqp.ChannelClose)
	if !ok {
		c.tb.Fatalf("got  %s\nwant channel.close %s", got, want)
	}
	if text := fmt.Sprintf("%d %s", m.ReplyCode, m.ReplyText); text != want || amqp.NewMethodID(m.ClassID, m.MethodID) != id {
		c.tb.Fatalf("got  %s (%v)\nwant %s (%v)", text, amqp.NewMethodID(m.ClassID, m.MethodID), want, id)
	}
	c.send(channel, &amqp.ChannelCloseOk{}, &amqp.ChannelOpen{})
	c.expect("channel.open-ok")
}

// dies expects the connection to be closed with the error; it answers with close-ok and waits for the end of the stream.
func (c *rawClient) dies(want string) {
	c.tb.Helper()
	got := c.method()
	m, ok := got.(*amqp.ConnectionClose)
	if !ok {
		c.tb.Fatalf("got  %s\nwant connection.close %s", got, want)
	}
	if text := fmt.Sprintf("%d %s", m.ReplyCode, m.ReplyText); text != want {
		c.tb.Fatalf("got  %s\nwant %s", text, want)
	}
	c.send(0, &amqp.ConnectionCloseOk{})
	c.ends()
}

// ends expects the stream to end without another frame.
func (c *rawClient) ends() {
	c.tb.Helper()
	if f, err := c.r.ReadFrame(); err == nil {
		c.tb.Fatalf("another frame: type %d on %d: %v", f.Type, f.Channel, f.Method())
	}
}

// call sends a method and expects the answer.
func (c *rawClient) call(channel uint16, m amqp.Method, want string) amqp.Method {
	c.tb.Helper()
	c.send(channel, m)
	return c.expect(want)
}

// content reads header and body frames.
func (c *rawClient) content() (amqp.Properties, []byte) {
	c.tb.Helper()
	f := c.frame()
	h, err := amqp.ParseContentHeader(f.Payload)
	if f.Type != amqp.FrameHeader || err != nil {
		c.tb.Fatalf("frame type %d instead of a header: %v", f.Type, err)
	}
	p, err := amqp.DecodeProperties(h.Properties)
	if err != nil {
		c.tb.Fatal(err)
	}
	var body []byte
	for uint64(len(body)) < h.BodySize {
		if f = c.frame(); f.Type != amqp.FrameBody {
			c.tb.Fatalf("frame type %d instead of a body", f.Type)
		}
		body = append(body, f.Payload...)
	}
	return p, body
}

// sync makes a round trip, before which everything that was under way has come.
func (c *rawClient) sync(channel uint16) {
	c.tb.Helper()
	c.call(channel, &amqp.BasicQos{}, "basic.qos-ok")
}

func deletedUser(name string) []meta.Effect {
	return []meta.Effect{{Kind: meta.UserDeleted, User: name}}
}

func deletedVHost(name string) []meta.Effect {
	return []meta.Effect{{Kind: meta.VHostDeleted, VHost: name}}
}
