package broker

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/guess"
	"github.com/warrenmq/warren/internal/tlsconf"
	"github.com/warrenmq/warren/internal/tlsconf/tlstest"
)

// secured is a broker behind TLS.
type secured struct {
	*testBroker
	authority *tlstest.Authority
	by        Entrance
}

func startSecured(t *testing.T, change ...func(*Options)) *secured {
	t.Helper()
	s := &secured{testBroker: startBroker(t, change...), authority: tlstest.NewAuthority(t, "authority")}
	server := s.authority.Server("server").TLS(t)
	config := &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: s.authority.Pool()}
	s.by = Entrance{TLS: func() *tls.Config { return config }, TLSTimeout: 5 * time.Second}
	return s
}

// rawTLS connects with TLS, showing certificates.
func (s *secured) rawTLS(certs ...tls.Certificate) *rawClient {
	s.tb.Helper()
	client, server := net.Pipe()
	s.serveConn(server, &s.by)
	c := tls.Client(client, &tls.Config{RootCAs: s.authority.Pool(), ServerName: "localhost", Certificates: certs})
	if err := c.Handshake(); err != nil {
		s.tb.Fatal(err)
	}
	return s.rawOn(c)
}

// TestMechanisms: what is configured is offered and taken, EXTERNAL only with a certificate; the rest is refused by name.
func TestMechanisms(t *testing.T) {
	all := func(o *Options) {
		o.Mechanisms = []string{"AMQPLAIN", "ANONYMOUS", "EXTERNAL", "PLAIN"}
		o.AnonymousUser, o.AnonymousPass = "guest", "guest"
		o.CertificateLogin = tlsconf.Login{From: tlsconf.FromCommonName}
	}
	const tuned = "connection.tune channel-max=2047 frame-max=131072 heartbeat=60"
	refused := func(mechanism string) string {
		return "403 ACCESS_REFUSED - Login was refused using authentication mechanism " + mechanism + ". For details see the broker logfile."
	}
	for _, c := range []struct {
		name    string
		change  func(*Options)
		cert    string // the client's name, "-" for a certificate without one, "" for none
		offered string
		login   *amqp.ConnectionStartOk
		want    string // the refusal, "" if the user comes in
	}{
		{"default", func(*Options) {}, "guest", "AMQPLAIN PLAIN", plain("guest", "guest"), ""},
		{"all with a certificate", all, "guest", "AMQPLAIN ANONYMOUS EXTERNAL PLAIN", &amqp.ConnectionStartOk{Mechanism: "EXTERNAL"}, ""},
		{"a response that counts nothing", all, "guest", "AMQPLAIN ANONYMOUS EXTERNAL PLAIN", &amqp.ConnectionStartOk{Mechanism: "EXTERNAL", Response: "\x00x\x00y"}, ""},
		{"certificate of nobody", all, "nobody", "AMQPLAIN ANONYMOUS EXTERNAL PLAIN", &amqp.ConnectionStartOk{Mechanism: "EXTERNAL"}, refused("EXTERNAL")},
		{"certificate without a name", all, "-", "AMQPLAIN ANONYMOUS EXTERNAL PLAIN", &amqp.ConnectionStartOk{Mechanism: "EXTERNAL"}, refused("EXTERNAL")},
		{"all without a certificate", all, "", "AMQPLAIN ANONYMOUS PLAIN", plain("guest", "guest"), ""},
		{"EXTERNAL without a certificate", all, "", "AMQPLAIN ANONYMOUS PLAIN", &amqp.ConnectionStartOk{Mechanism: "EXTERNAL"}, "503 COMMAND_INVALID - invalid authentication mechanism 'EXTERNAL'"},
		{"anonymous", all, "", "AMQPLAIN ANONYMOUS PLAIN", &amqp.ConnectionStartOk{Mechanism: "ANONYMOUS", Response: "trace"}, ""},
		{"anonymous with a wrong password", func(o *Options) { all(o); o.AnonymousPass = "x" }, "", "AMQPLAIN ANONYMOUS PLAIN", &amqp.ConnectionStartOk{Mechanism: "ANONYMOUS"}, refused("ANONYMOUS")},
		{"anonymous without a user", func(o *Options) { all(o); o.AnonymousUser = "" }, "", "AMQPLAIN ANONYMOUS PLAIN", &amqp.ConnectionStartOk{Mechanism: "ANONYMOUS"}, refused("ANONYMOUS")},
		{"not configured", func(o *Options) { o.Mechanisms = []string{"PLAIN"} }, "", "PLAIN", &amqp.ConnectionStartOk{Mechanism: "ANONYMOUS"}, "503 COMMAND_INVALID - invalid authentication mechanism 'ANONYMOUS'"},
		{"unknown", all, "", "AMQPLAIN ANONYMOUS PLAIN", &amqp.ConnectionStartOk{Mechanism: "KERBEROS"}, "503 COMMAND_INVALID - unknown authentication mechanism 'KERBEROS'"},
		{"case counts", all, "", "AMQPLAIN ANONYMOUS PLAIN", &amqp.ConnectionStartOk{Mechanism: "plain"}, "503 COMMAND_INVALID - unknown authentication mechanism 'plain'"},
		{"authorization identity", all, "", "AMQPLAIN ANONYMOUS PLAIN", &amqp.ConnectionStartOk{Mechanism: "PLAIN", Response: "guest\x00guest\x00guest"}, "502 SYNTAX_ERROR - response of 17 bytes invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startSecured(t, c.change)
			var certs []tls.Certificate
			if c.cert != "" {
				certs = append(certs, s.authority.Issue("client", x509.Certificate{Subject: pkix.Name{CommonName: strings.Trim(c.cert, "-")}}).TLS(t))
			}
			r := s.rawTLS(certs...)
			if m := r.start(); m.Mechanisms != c.offered {
				t.Errorf("offered %q, want %q", m.Mechanisms, c.offered)
			}
			c.login.ClientProperties = allCapabilities
			r.send(0, c.login)
			if c.want != "" {
				r.dies(c.want)
				return
			}
			r.expect(tuned)
			r.send(0, &amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072}, &amqp.ConnectionOpen{VirtualHost: "/"})
			r.expect("connection.open-ok")
			if x := s.Connections()[0]; x.Mechanism != c.login.Mechanism || x.User != "guest" || x.TLS == nil || x.TLS.Protocol != "tlsv1.3" || (x.TLS.PeerSubject == "") != (c.cert == "") {
				t.Errorf("shown as %+v, %+v", x, x.TLS)
			}
		})
	}
}

// TestIdleBufferOverTLS: the watch takes the read buffer of an idle connection back, which must not cost it its place in the stream of TLS.
func TestIdleBufferOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecured(t)
		r := s.rawTLS()
		r.login("guest", amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
		r.send(1, &amqp.ChannelOpen{})
		r.expect("channel.open-ok")
		for range 3 {
			r.write(message(1, "", "nowhere", make([]byte, 100_000)))
			r.sync(1)
			time.Sleep(5 * time.Second)
			if s.connections()[0].lent.Load() {
				t.Error("the idle connection has its large buffer")
			}
			r.sync(1)
		}
	})
}

// TestHandshakeOfTLS that does not end is cut in time, and at once when the broker closes the connection.
func TestHandshakeOfTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecured(t)
		for _, first := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
			client, server := net.Pipe()
			began := time.Now()
			s.serveConn(server, &s.by)
			_, _ = io.WriteString(client, first)
			rest, err := io.ReadAll(client)
			if d := time.Since(began); d != 5*time.Second || len(rest) > 0 {
				t.Errorf("%q: closed after %v with %q, %v", first, d, rest, err)
			}
		}
		client, server := net.Pipe()
		s.serveConn(server, &s.by)
		s.connections()[0].fail(errShutdown())
		if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
			t.Errorf("closed with %q, %v", rest, err)
		}
		synctest.Wait()
		if n := len(s.Connections()); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// TestProxies: who may introduce clients, and that a header which does not come is not waited for.
func TestProxies(t *testing.T) {
	prefix := func(text string) netip.Prefix { return netip.MustParsePrefix(text) }
	for _, c := range []struct {
		peer    string
		proxies []netip.Prefix
		want    bool
	}{
		{"10.1.2.3:1", []netip.Prefix{prefix("10.1.0.0/16")}, true},
		{"10.2.2.3:1", []netip.Prefix{prefix("10.1.0.0/16")}, false},
		{"[::ffff:10.1.2.3]:1", []netip.Prefix{prefix("10.1.0.0/16")}, true},
		{"[2001:db8::5]:1", []netip.Prefix{prefix("10.1.0.0/16"), prefix("2001:db8::/32")}, true},
		{"[2001:db9::5]:1", []netip.Prefix{prefix("2001:db8::/32")}, false},
	} {
		if got := mayIntroduce(c.proxies, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.peer))); got != c.want {
			t.Errorf("%s among %v: %t", c.peer, c.proxies, got)
		}
	}
	if mayIntroduce([]netip.Prefix{prefix("0.0.0.0/0")}, &net.UnixAddr{}) {
		t.Error("what has no address may introduce clients")
	}
}

// fromAddress is a connection that claims to come from somewhere.
type fromAddress struct {
	net.Conn
	peer net.Addr
}

func (c fromAddress) RemoteAddr() net.Addr { return c.peer }

// TestSlowProxy: a header that does not end is not waited for.
func TestSlowProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		by := &Entrance{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}
		client, server := net.Pipe()
		began := time.Now()
		b.serveConn(fromAddress{server, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}}, by)
		_, _ = io.WriteString(client, "PROXY TCP4 ")
		if rest, _ := io.ReadAll(client); len(rest) > 0 || time.Since(began) != proxyTimeout {
			t.Errorf("%q after %v", rest, time.Since(began))
		}
	})
}

// TestGuessing: who fails often waits ever longer, up to a bound, and who then knows the password comes in; other addresses do not wait.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t, func(o *Options) { o.LoopbackUsers, o.Guesses = nil, new(guess.Brake) })
		try := func(from, password string) (time.Duration, bool) {
			t.Helper()
			client, server := net.Pipe()
			b.serveConn(fromAddress{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}, &unguarded)
			r := b.rawOn(client)
			r.start()
			began := time.Now()
			r.send(0, plain("guest", password))
			_, welcome := r.method().(*amqp.ConnectionTune)
			d := time.Since(began)
			client.Close()
			return d, welcome
		}
		var waits []string
		for range 14 {
			d, _ := try("192.0.2.1:1000", "wrong")
			waits = append(waits, fmt.Sprint(d.Milliseconds()))
		}
		if got, want := strings.Join(waits, " "), "0 0 0 0 0 250 500 1000 1000 2000 2000 2000 2000 2000"; got != want {
			t.Errorf("waited %s ms, want %s", got, want)
		}
		if d, welcome := try("192.0.2.1:1000", "guest"); !welcome || d > limits.LoginDelayMillisMax*time.Millisecond {
			t.Errorf("the right password: %t after %v", welcome, d)
		}
		if d, welcome := try("192.0.2.2:1000", "guest"); !welcome || d > 0 {
			t.Errorf("another address: %t after %v", welcome, d)
		}
		for range 20 {
			b.opt.Guesses.Failed(netip.MustParseAddr("192.0.2.1"))
		}
		if d, welcome := try("192.0.2.1:1000", "guest"); !welcome || d != limits.LoginDelayMillisMax*time.Millisecond {
			t.Errorf("the right password after many failures at once: %t after %v", welcome, d)
		}
		time.Sleep(time.Minute)
		if d, welcome := try("192.0.2.1:1000", "guest"); !welcome || d > 0 {
			t.Errorf("later: %t after %v", welcome, d)
		}
	})
}
