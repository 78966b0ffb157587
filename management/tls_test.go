package management

import (
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/guess"
)

// TestCertificatesThatEnd: the check fails for what ends within the time asked about, own certificates and clients' authorities alike, and tells when.
func TestCertificatesThatEnd(t *testing.T) {
	day := 24 * time.Hour
	cert := func(from, until time.Duration) *x509.Certificate {
		return &x509.Certificate{NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until)}
	}
	for _, c := range []struct {
		name, within       string
		chain, authorities []*x509.Certificate
		want               string // in the answer; "" if all is well
	}{
		{"far away", "2/weeks", []*x509.Certificate{cert(-day, 15*day)}, nil, ""},
		{"soon", "2/weeks", []*x509.Certificate{cert(-day, 13*day)}, nil, `"certfile":"c.pem","cacertfile":"a.pem","certfile_expires_on":["20`},
		{"a month of 30 days and 10 hours", "1/months", []*x509.Certificate{cert(-day, 30*day)}, nil, `"certfile_expires_on":["20`},
		{"ended", "0/days", []*x509.Certificate{cert(-2*day, -day)}, nil, `"certfile_expires_on":["20`},
		{"an intermediate", "1/YEARS", []*x509.Certificate{cert(-day, 400*day), cert(-day, day)}, nil, `"certfile_expires_on":["20`},
		{"an authority", "1/days", []*x509.Certificate{cert(-day, 400*day)}, []*x509.Certificate{cert(-day, time.Hour)}, `"certfile_expires_on":[],"cacertfile_expires_on":["20`},
		{"not yet", "1/days", []*x509.Certificate{cert(day, 400*day)}, nil, `"certfile_expires_on":["Certificate is not yet valid"]`},
		{"for ever", "9223372036854775807/years", []*x509.Certificate{cert(-day, 400*day)}, nil, `"certfile_expires_on":["20`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) {
				o.Listeners = func() []Listener {
					return []Listener{{Protocol: "amqp", Port: 5672}, {Protocol: "amqp/ssl", IP: "::", Port: 5671, TLS: true, Certificates: &Certificates{"c.pem", "a.pem", c.chain, c.authorities}}}
				}
			})
			w := f.do("mgt", http.MethodGet, "/api/health/checks/certificate-expiration/"+c.within, "")
			body := w.Body.String()
			if c.want == "" {
				if w.Code != http.StatusOK || body != `{"status":"ok"}` {
					t.Errorf("%d %s", w.Code, body)
				}
				return
			}
			head := `{"status":"failed","reason":"Certificates expiring","expired":[{"node":"rabbit@test","protocol":"amqp/ssl","interface":"::","port":5671,`
			if w.Code != http.StatusServiceUnavailable || !strings.HasPrefix(body, head) || !strings.Contains(body, c.want) {
				t.Errorf("%d %s", w.Code, body)
			}
		})
	}
}

// TestListenersWithTLS: they have RabbitMQ's names in overview, node and check of protocols.
func TestListenersWithTLS(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Listeners = func() []Listener {
			return []Listener{{Protocol: "amqp/ssl", IP: "::", Port: 5671, TLS: true}, {Protocol: "https", IP: "::", Port: 15671, TLS: true}}
		}
	})
	for path, want := range map[string]string{
		"/api/overview?columns=listeners":                             `{"node":"rabbit@test","protocol":"amqp/ssl","ip_address":"::","port":5671,"tls":true,"socket_opts":{}}`,
		"/api/overview?columns=contexts":                              `"description":"RabbitMQ Management","path":"/","ip":"::","port":"15671","cowboy_opts":"","protocol":"https"`,
		"/api/nodes?columns=contexts":                                 `"port":"15671","cowboy_opts":"","protocol":"https"`,
		"/api/health/checks/protocol-listener/amqps,https,amqp%2Fssl": `"protocols":["amqp/ssl","https","amqp/ssl"]`,
	} {
		if got := f.get(path); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nlacks %s", path, got, want)
		}
	}
}

// TestConnectionWithTLS: how it is encrypted and whose certificate it showed.
func TestConnectionWithTLS(t *testing.T) {
	f := newFixture(t)
	f.broker.connections = []broker.Connection{
		{Name: "c1", User: "guest", TLS: &broker.ConnectionTLS{
			Protocol: "tlsv1.3", KeyExchange: "any", Cipher: "aes_256_gcm", Hash: "aead", PeerSubject: "CN=shop", PeerIssuer: "CN=authority", PeerValidity: "2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z",
		}},
		{Name: "c2", User: "guest", TLS: &broker.ConnectionTLS{Protocol: "tlsv1.2", KeyExchange: "ecdhe_rsa", Cipher: "aes_128_cbc", Hash: "sha"}},
	}
	for name, want := range map[string]string{
		"c1": `"ssl":true,"ssl_protocol":"tlsv1.3","ssl_cipher":"aes_256_gcm","ssl_hash":"aead","ssl_key_exchange":"any","peer_cert_issuer":"CN=authority","peer_cert_subject":"CN=shop",` +
			`"peer_cert_validity":"2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z"`,
		"c2": `"ssl":true,"ssl_protocol":"tlsv1.2","ssl_cipher":"aes_128_cbc","ssl_hash":"sha","ssl_key_exchange":"ecdhe_rsa","peer_cert_issuer":null,"peer_cert_subject":null,"peer_cert_validity":null`,
	} {
		if got := f.get("/api/connections/" + name); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}

// TestWrongPasswordsWait: after some of them a refusal takes longer; a right password does not.
func TestWrongPasswordsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.Guesses = new(guess.Brake) })
		try := func(password string, status int) time.Duration {
			t.Helper()
			began := time.Now()
			if w := f.do("-", http.MethodGet, "/api/whoami", "", func(r *http.Request) { r.SetBasicAuth("guest", password) }); w.Code != status {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			return time.Since(began)
		}
		for range limits.LoginFailuresFree {
			if d := try("wrong", http.StatusUnauthorized); d != 0 {
				t.Errorf("waited %v", d)
			}
		}
		if d := try("wrong", http.StatusUnauthorized); d != limits.LoginDelayMillis*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		if d := try(password, http.StatusOK); d != 0 {
			t.Errorf("the right password waited %v", d)
		}
	})
}
