package broker

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
)

// start sends the protocol header and reads connection.start.
func (c *rawClient) start() *amqp.ConnectionStart {
	c.tb.Helper()
	go func() { _, _ = io.WriteString(c.nc, amqp.ProtocolHeader) }()
	m, ok := c.method().(*amqp.ConnectionStart)
	if !ok {
		c.tb.Fatal("no connection.start")
	}
	return m
}

func plain(user, password string) *amqp.ConnectionStartOk {
	return &amqp.ConnectionStartOk{ClientProperties: allCapabilities, Mechanism: "PLAIN", Response: "\x00" + user + "\x00" + password, Locale: "en_US"}
}

func TestOtherProtocolsGetTheHeader(t *testing.T) {
	for _, first := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x00\x01\x00\x00", "\x16\x03\x01\x02\x00\x01\x00\x01", "AMQP\x03\x01\x00\x00"} {
		b := startBroker(t)
		c := b.raw()
		go func() { _, _ = io.WriteString(c.nc, first) }()
		got, _ := io.ReadAll(c.nc)
		if string(got) != amqp.ProtocolHeader {
			t.Errorf("%q was answered %q", first, got)
		}
	}
}

func TestConnectionStart(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.Platform = "Warren/1.2" })
	m := b.raw().start()
	if m.VersionMajor != 0 || m.VersionMinor != 9 || m.Mechanisms != "AMQPLAIN PLAIN" || m.Locales != "en_US" {
		t.Errorf("connection.start %v", m)
	}
	for key, want := range map[string]string{"product": "RabbitMQ", "version": "4.3.0", "platform": "Warren/1.2", "cluster_name": "test cluster"} {
		v, _ := m.ServerProperties.Get(key)
		if got, _ := v.AsString(); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	v, _ := m.ServerProperties.Get("capabilities")
	capabilities, _ := v.AsTable()
	for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to"} {
		v, _ := capabilities.Get(name)
		if yes, _ := v.AsBool(); !yes {
			t.Errorf("capability %s is missing", name)
		}
	}
}

func TestHandshakeErrors(t *testing.T) {
	tune := func(change func(*amqp.ConnectionTuneOk)) *amqp.ConnectionTuneOk {
		m := &amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60}
		change(m)
		return m
	}
	const refused = "403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
	for _, c := range []struct {
		name  string
		sends []amqp.Method
		want  string
	}{
		{"wrong password", []amqp.Method{plain("guest", "wrong")}, refused},
		{"no password", []amqp.Method{plain("guest", "")}, refused},
		{"unknown user", []amqp.Method{plain("nobody", "guest")}, refused},
		{"unknown mechanism", []amqp.Method{&amqp.ConnectionStartOk{Mechanism: "X"}}, "503 COMMAND_INVALID - unknown authentication mechanism 'X'"},
		{"malformed response", []amqp.Method{&amqp.ConnectionStartOk{Mechanism: "PLAIN", Response: "guest"}}, "502 SYNTAX_ERROR - response of 5 bytes invalid"},
		{"method too early", []amqp.Method{&amqp.ConnectionOpen{VirtualHost: "/"}}, "504 CHANNEL_ERROR - unexpected method in connection state starting"},
		{"start-ok again", []amqp.Method{plain("guest", "guest"), plain("guest", "guest")}, "504 CHANNEL_ERROR - unexpected method in connection state tuning"},
		{"small frames", []amqp.Method{plain("guest", "guest"), tune(func(m *amqp.ConnectionTuneOk) { m.FrameMax = 100 })}, "530 NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value (4096)"},
		{"large frames", []amqp.Method{plain("guest", "guest"), tune(func(m *amqp.ConnectionTuneOk) { m.FrameMax = 131073 })}, "530 NOT_ALLOWED - negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"},
		{"many channels", []amqp.Method{plain("guest", "guest"), tune(func(m *amqp.ConnectionTuneOk) { m.ChannelMax = 2048 })}, "530 NOT_ALLOWED - negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"},
		{"no such vhost", []amqp.Method{plain("guest", "guest"), tune(func(*amqp.ConnectionTuneOk) {}), &amqp.ConnectionOpen{VirtualHost: "none"}}, "530 NOT_ALLOWED - vhost none not found"},
		{"closed vhost", []amqp.Method{plain("guest", "guest"), tune(func(*amqp.ConnectionTuneOk) {}), &amqp.ConnectionOpen{VirtualHost: "closed"}}, "530 NOT_ALLOWED - access to vhost 'closed' refused for user 'guest'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startBroker(t)
			r := b.raw()
			r.start()
			for i, m := range c.sends {
				r.send(0, m)
				if _, ok := m.(*amqp.ConnectionStartOk); ok && i+1 < len(c.sends) {
					r.expect("connection.tune channel-max=2047 frame-max=131072 heartbeat=60")
				}
			}
			r.dies(c.want)
		})
	}
}

func TestSmallestAndUnlimitedFrames(t *testing.T) {
	b := startBroker(t)
	for frameMax, want := range map[uint32]int{4096: 4096, 0: 131072} {
		r := b.raw()
		r.login("guest", amqp.ConnectionTuneOk{FrameMax: frameMax})
		conns := b.Connections()
		if got := conns[len(conns)-1]; int(got.FrameMax) != want || got.ChannelMax != 2047 {
			t.Errorf("frame_max %d became %d, channel_max %d", frameMax, got.FrameMax, got.ChannelMax)
		}
	}
}

func TestAMQPlain(t *testing.T) {
	b := startBroker(t)
	r := b.raw()
	r.start()
	response := amqp.Table{{Key: "LOGIN", Value: amqp.Longstr("guest")}, {Key: "PASSWORD", Value: amqp.Longstr("guest")}}.AppendEntries(nil)
	r.send(0, &amqp.ConnectionStartOk{Mechanism: "AMQPLAIN", Response: string(response)})
	r.expect("connection.tune channel-max=2047 frame-max=131072 heartbeat=60")
	if c := b.Totals(); c.AuthAttempts != 1 || c.AuthSucceeded != 1 {
		t.Errorf("totals %+v", c)
	}
}

// TestRefusedLoginWithoutCapability: an old client is not told; its socket closes after three seconds, so that guessing is slow.
func TestRefusedLoginWithoutCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.raw()
		r.start()
		m := plain("guest", "wrong")
		m.ClientProperties = nil
		r.send(0, m)
		began := time.Now()
		r.ends()
		if d := time.Since(began); d < 3*time.Second || d > 5*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestHandshakeTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		began := time.Now()
		b.raw().ends()
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("without a protocol header closed after %v", d)
		}
		began = time.Now()
		r := b.raw()
		r.start()
		r.ends()
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("without start-ok closed after %v", d)
		}
	})
}

func TestFrameTooLargeBeforeTune(t *testing.T) {
	b := startBroker(t)
	r := b.raw()
	r.start()
	big := plain("guest", strings.Repeat("x", 9000)).AppendFrame(nil, 0)
	go func() { _, _ = r.nc.Write(big) }()
	m, ok := r.method().(*amqp.ConnectionClose)
	if !ok || m.ReplyCode != amqp.ReplyFrameError || !strings.Contains(m.ReplyText, "frame_too_large") {
		t.Fatalf("got %v", m)
	}
}

// farConn is a connection that does not come from a loopback address.
type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }
func (farConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 5672} }

func TestLoopbackUsers(t *testing.T) {
	b := startBroker(t)
	for user, want := range map[string]string{
		"guest": "connection.close reply-code=403", limitedUser: "connection.tune",
	} {
		client, server := net.Pipe()
		b.ServeConn(farConn{server})
		r := b.rawOn(client)
		r.start()
		r.send(0, plain(user, "guest"))
		if got := r.method().String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", user, got)
		}
	}
	if name := b.Connections()[0].Name; name != "192.0.2.1:4711 -> 192.0.2.2:5672" {
		t.Errorf("the connection is called %q", name)
	}
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.raw()
		r.login("guest", amqp.ConnectionTuneOk{Heartbeat: 4})
		began, beats := time.Now(), 0
		for {
			f, err := r.r.ReadFrame()
			if err != nil {
				break
			}
			if f.Type != amqp.FrameHeartbeat {
				t.Fatalf("frame type %d", f.Type)
			}
			beats++
		}
		// The client is silent: after two to three intervals the socket closes, and until then a heartbeat comes each half interval.
		if d := time.Since(began); d < 8*time.Second || d > 12*time.Second {
			t.Errorf("closed after %v", d)
		}
		if beats < 3 || beats > 6 {
			t.Errorf("%d heartbeats", beats)
		}
	})
}

// TestClientHeartbeatsKeepTheConnection: any octet counts as a sign of life.
func TestClientHeartbeatsKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.raw()
		r.login("guest", amqp.ConnectionTuneOk{Heartbeat: 2})
		go func() { // what the broker sends is read
			for {
				if _, err := r.r.ReadFrame(); err != nil {
					return
				}
			}
		}()
		for range 30 {
			time.Sleep(time.Second)
			r.write(amqp.AppendHeartbeat(nil))
		}
		if n := len(b.Connections()); n != 1 {
			t.Errorf("%d connections after 30 s", n)
		}
	})
}

// TestNoHeartbeats: with 0 a silent client stays.
func TestNoHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.raw()
		r.login("guest", amqp.ConnectionTuneOk{Heartbeat: 0})
		time.Sleep(time.Hour)
		r.send(1, &amqp.ChannelOpen{})
		r.expect("channel.open-ok")
	})
}

func TestHalfSentFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		began := time.Now()
		r.write([]byte{1, 0, 1, 0, 0, 0, 20, 0, 50})
		r.ends()
		if d := time.Since(began); d < 30*time.Second || d > 31*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}
