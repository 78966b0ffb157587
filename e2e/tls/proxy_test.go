package tls

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestProxy: behind a proxy the announced address counts, in names and for users that may come from this machine only.
func TestProxy(t *testing.T) {
	t.Parallel()
	s := startProxied(t, "proxy_protocol = true", "proxy_protocol_allowed_ips.1 = 127.0.0.1")
	for _, c := range []struct {
		name, address, header string
		secure, welcome       bool
		label                 string
	}{
		{"loopback announced", s.broker.AMQP, "PROXY TCP4 127.0.0.9 127.0.0.8 4321 5672\r\n", false, true, "127.0.0.9:4321 -> 127.0.0.8:5672"},
		{"over TLS", s.amqps, "PROXY TCP6 ::1 ::1 4322 5671\r\n", true, true, "[::1]:4322 -> [::1]:5671"},
		{"version 2", s.broker.AMQP, "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x07\x7f\x00\x00\x01\x10\x00\x16\x28", false, true, "127.0.0.7:4096 -> 127.0.0.1:5672"},
		{"guest from afar", s.broker.AMQP, "PROXY TCP4 192.0.2.1 192.0.2.2 4323 5672\r\n", false, false, ""},
		{"no header", s.broker.AMQP, "", false, false, ""},
		{"a broken header", s.broker.AMQP, "PROXY TCP4 192.0.2.1 5672\r\n", false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := amqp.Config{
				Dial: func(string, string) (net.Conn, error) {
					conn, err := net.Dial("tcp", c.address)
					if err == nil {
						_, err = conn.Write([]byte(c.header))
					}
					return conn, err
				},
				TLSClientConfig: s.client(),
			}
			url := "amqp://guest:guest@" + c.address + "/"
			if c.secure {
				url = "amqps://guest:guest@" + c.address + "/"
			}
			conn, err := amqp.DialConfig(url, config)
			if !c.welcome {
				if err == nil {
					conn.Close()
					t.Error("connected")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			roundTrip(t, conn, []byte("through a proxy"))
			if a := s.broker.API(t, http.MethodGet, harness.Path("connections", c.label), nil); a.Status != http.StatusOK {
				t.Errorf("there is no connection %s: %s", c.label, s.broker.API(t, http.MethodGet, harness.Path("connections")+"?columns=name", nil).Body)
			}
		})
	}
}

// TestNoProxy: an address that is not among the proxies' is not let in, whatever it sends.
func TestNoProxy(t *testing.T) {
	s := startProxied(t, "proxy_protocol = true", "proxy_protocol_allowed_ips.1 = 192.0.2.0/24")
	conn, err := net.Dial("tcp", s.broker.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write([]byte("PROXY TCP4 127.0.0.1 127.0.0.1 4321 5672\r\nAMQP\x00\x00\x09\x01"))
	if b, err := bufio.NewReader(conn).ReadByte(); err == nil {
		t.Errorf("answered %q", b)
	}
	s.awaitLog(t, "a connection was refused that does not come from a proxy")
}

// startProxied starts a broker that a client cannot reach without a header; the HTTP API tells when it is ready.
func startProxied(t *testing.T, settings ...string) *stage {
	t.Helper()
	s := prepare(t, settings...)
	if err := s.broker.Exec(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, startTimeout, func() error {
		a, err := s.broker.TryAPI(http.MethodGet, "/readyz", nil)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
	return s
}

// TestHTTPS serves the HTTP API with TLS, too.
func TestHTTPS(t *testing.T) {
	metrics, err := harness.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, "prometheus.ssl.listen = "+metrics)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: s.client()}}
	answer, err := client.Get("https://guest:guest@" + s.https + "/api/overview?columns=listeners")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var overview struct {
		Listeners []struct {
			Protocol string
			Port     int
			TLS      bool
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&overview); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, l := range overview.Listeners {
		found[fmt.Sprintf("%s 127.0.0.1:%d %t", l.Protocol, l.Port, l.TLS)] = true
	}
	for _, want := range []string{"amqp " + s.broker.AMQP + " false", "amqp/ssl " + s.amqps + " true", "http " + s.broker.HTTP + " false", "https " + s.https + " true"} {
		if !found[want] {
			t.Errorf("no listener %s among %v", want, overview.Listeners)
		}
	}
	if scraped, err := client.Get("https://" + metrics + "/metrics"); err != nil || scraped.StatusCode != http.StatusOK {
		t.Errorf("metrics over TLS: %v, %v", scraped, err)
	}
	if state := answer.TLS; state.Version != tls.VersionTLS13 {
		t.Errorf("TLS version %x", state.Version)
	}
}
