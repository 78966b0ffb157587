package tls

import (
	"crypto/tls"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// served returns the common name of the certificate that an address shows.
func (s *stage) served(address string) (string, error) {
	conn, err := tls.Dial("tcp", address, s.client())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// awaitServed waits until both ports show a certificate.
func (s *stage) awaitServed(t *testing.T, name string) {
	t.Helper()
	harness.Eventually(t, logTimeout, func() error {
		for _, address := range []string{s.amqps, s.https} {
			if got, err := s.served(address); err != nil || got != name {
				return fmt.Errorf("%s shows %q, %v, want %s", address, got, err, name)
			}
		}
		return nil
	})
}

// TestReload replaces the certificate while a connection lives: that goes on, others see the new one, and a broken one changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn, err := s.dial(s.client())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.awaitServed(t, "server")

	replace := func(cert, key string) {
		t.Helper()
		for from, to := range map[string]string{cert: s.server.CertFile, key: s.server.KeyFile} {
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to+".new", text, 0o600)
			}
			if err == nil {
				err = os.Rename(to+".new", to)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	next := s.authority.Server("next")
	replace(next.CertFile, next.KeyFile)
	if err := s.broker.Process().Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.awaitServed(t, "next")

	other := s.authority.Server("other")
	replace(other.CertFile, next.KeyFile) // a certificate with another's key; noticed without a signal
	s.awaitLog(t, "new TLS certificates cannot be used; the ones before stay in force")
	s.awaitServed(t, "next")
	replace(other.CertFile, other.KeyFile)
	s.awaitServed(t, "other")
	roundTrip(t, conn, []byte("still here"))
}

// TestCertificateThatEnds is told of by the health check.
func TestCertificateThatEnds(t *testing.T) {
	s := start(t)
	for within, want := range map[string]int{"0/days": 200, "2/days": 503} {
		if a := s.broker.API(t, "GET", "/api/health/checks/certificate-expiration/"+within, nil); a.Status != want {
			t.Errorf("%s: %d %s, want %d: it ends in 24 hours less %v", within, a.Status, a.Body, want, time.Until(s.server.Cert.NotAfter))
		}
	}
}
