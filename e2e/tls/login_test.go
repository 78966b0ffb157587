package tls

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestExternal logs in with a certificate: its whole name is the user's.
func TestExternal(t *testing.T) {
	t.Parallel()
	s := start(t, "ssl_options.verify = verify_peer", "auth_mechanisms.1 = PLAIN", "auth_mechanisms.2 = EXTERNAL")
	known := s.authority.Issue("shop", x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example, Inc."}}})
	const name = `CN=shop,O=Example\, Inc.`
	s.makeUser(t, name)
	external := &amqp.ExternalAuth{}

	conn, err := s.dial(s.client(known.TLS(t)), external)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	roundTrip(t, conn, []byte("by certificate"))
	var list []struct {
		User, Node, AuthMechanism string
		SSL                       bool
		Protocol                  string `json:"ssl_protocol"`
		Cipher                    string `json:"ssl_cipher"`
		Subject                   string `json:"peer_cert_subject"`
		Issuer                    string `json:"peer_cert_issuer"`
		Validity                  string `json:"peer_cert_validity"`
		Mechanism                 string `json:"auth_mechanism"`
	}
	s.broker.API(t, http.MethodGet, harness.Path("connections"), nil).JSON(t, &list)
	if len(list) != 1 {
		t.Fatalf("%d connections", len(list))
	}
	c := list[0]
	if c.User != name || c.Subject != name || c.Issuer != "CN=authority" || !c.SSL || c.Protocol != "tlsv1.3" || c.Mechanism != "EXTERNAL" || !strings.Contains(c.Validity, "Z - 2") || !strings.Contains(c.Cipher, "_") {
		t.Errorf("the connection is shown as %+v", c)
	}

	for what, c := range map[string]struct {
		config *tls.Config
		want   error
	}{
		"unknown user":   {s.client(s.authority.Client("nobody").TLS(t)), amqp.ErrCredentials},
		"no certificate": {s.client(), amqp.ErrSASL},
	} {
		conn, err := s.dial(c.config, external)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	s.awaitLog(t, `user="CN=nobody" mechanism=EXTERNAL`)
	// Whoever has another authority's certificate does not come in at all, whatever it says.
	stranger := start(t).authority.Issue("stranger", x509.Certificate{Subject: known.Cert.Subject})
	if conn, err := s.dial(s.client(stranger.TLS(t)), external); err == nil {
		conn.Close()
		t.Error("a certificate of another authority was accepted")
	}
	// A password still counts for those that have no certificate.
	conn, err = s.dial(s.client())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// makeUser makes a user without a password who may do everything.
func (s *stage) makeUser(t *testing.T, name string) {
	t.Helper()
	for _, step := range []struct {
		path string
		body map[string]string
	}{
		{harness.Path("users", name), map[string]string{"tags": "", "password_hash": ""}},
		{harness.Path("permissions", "/", name), map[string]string{"configure": ".*", "write": ".*", "read": ".*"}},
	} {
		if a := s.broker.API(t, http.MethodPut, step.path, step.body); a.Status != http.StatusCreated {
			t.Fatalf("%s: %d %s", step.path, a.Status, a.Body)
		}
	}
}
