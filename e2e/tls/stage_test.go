package tls

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/internal/tlsconf/tlstest"
)

func TestMain(m *testing.M) { harness.Main(m) }

// stage is a broker with a listener with TLS, and the authority that its certificate and its clients' are from.
type stage struct {
	broker    *harness.Broker
	authority *tlstest.Authority
	server    tlstest.Pair
	// amqps is the address for AMQP with TLS, https that for the HTTP API.
	amqps, https string
}

// startTimeout is how long a broker may take to be ready.
const startTimeout = 30 * time.Second

// start starts a broker; settings are further lines of its configuration.
func start(t *testing.T, settings ...string) *stage {
	t.Helper()
	s := prepare(t, settings...)
	s.broker.Launch(t)
	return s
}

// prepare chooses where a broker listens and with what; it does not run yet.
func prepare(t *testing.T, settings ...string) *stage {
	t.Helper()
	harness.Need(t)
	s := &stage{authority: tlstest.NewAuthority(t, "authority")}
	s.server = s.authority.Server("server")
	for _, address := range []*string{&s.amqps, &s.https} {
		var err error
		if *address, err = harness.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	lines := append([]string{
		"listeners.ssl.default = " + s.amqps, "management.ssl.listen = " + s.https, "ssl_options.certfile = " + s.server.CertFile, "ssl_options.keyfile = " + s.server.KeyFile,
		"ssl_options.cacertfile = " + s.authority.File,
	}, settings...)
	file := filepath.Join(t.TempDir(), "warren.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.broker = harness.New(t, harness.Options{Args: []string{"--config", file}})
	return s
}

// client is what a client knows that trusts the authority and shows the certificates.
func (s *stage) client(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: s.authority.Pool(), Certificates: certs, ServerName: "localhost"}
}

// dial connects with TLS and logs in with a password, or as login says.
func (s *stage) dial(config *tls.Config, login ...amqp.Authentication) (*amqp.Connection, error) {
	return amqp.DialConfig("amqps://guest:guest@"+s.amqps+"/", amqp.Config{TLSClientConfig: config, SASL: login})
}

// roundTrip sends a message through a queue and back.
func roundTrip(t *testing.T, conn *amqp.Connection, body []byte) {
	t.Helper()
	ch := harness.Channel(t, conn)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, ch, "", q.Name, body)
	deliveries, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := harness.Receive(t, deliveries); string(d.Body) != string(body) {
		t.Errorf("got %d bytes, want %d", len(d.Body), len(body))
	}
}

// awaitLog waits until the broker has logged a text.
func (s *stage) awaitLog(t *testing.T, text string) {
	t.Helper()
	harness.Eventually(t, logTimeout, func() error {
		if !strings.Contains(s.broker.Log(), text) {
			return fmt.Errorf("%q is not in the broker's log", text)
		}
		return nil
	})
}
