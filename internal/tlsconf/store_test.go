package tlsconf

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/internal/tlsconf/tlstest"
)

// shake makes a handshake between a server and a client in memory and returns what the server saw, or the error of the server.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		c := tls.Client(b, client)
		if c.HandshakeContext(ctx) == nil {
			_, _ = c.Read(make([]byte, 1)) // what TLS 1.3 says after its handshake
		}
		b.Close()
	}()
	s := tls.Server(a, server)
	err := s.HandshakeContext(ctx)
	return s.ConnectionState(), err
}

func open(t *testing.T, opt Options) *Store {
	t.Helper()
	s, err := Open(opt, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRefresh: files that changed and fit are taken; files that do not leave what was before, until they change again.
func TestRefresh(t *testing.T) {
	a := tlstest.NewAuthority(t, "authority")
	pair := a.Server("server")
	var log bytes.Buffer
	s, err := Open(Options{CertFile: pair.CertFile, KeyFile: pair.KeyFile}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	first := s.Config()
	if s.Refresh(false); s.Config() != first || log.Len() > 0 {
		t.Errorf("unchanged files were read anew: %s", &log)
	}
	if s.Refresh(true); s.Config() == first {
		t.Error("not read anew by force")
	}
	second := s.Config()
	at := time.Now()
	write := func(path, text string) {
		t.Helper()
		at = at.Add(time.Second)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	log.Reset()
	write(pair.CertFile, "nonsense")
	s.Refresh(false)
	s.Refresh(false)
	if s.Config() != second || strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("a broken file: %s", &log)
	}
	next := a.Server("next")
	for from, to := range map[string]string{next.CertFile: pair.CertFile, next.KeyFile: pair.KeyFile} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(to, string(text))
	}
	s.Refresh(false)
	if chain, _ := s.Certificates(); s.Config() == second || !chain[0].Equal(next.Cert) {
		t.Errorf("still %s", Subject(chain[0]))
	}
	if err := os.Remove(pair.KeyFile); err != nil {
		t.Fatal(err)
	}
	third := s.Config()
	if s.Refresh(false); s.Config() != third || !strings.Contains(log.String(), "no such file") {
		t.Errorf("a missing file: %s", &log)
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	a := tlstest.NewAuthority(t, "authority")
	one, two := a.Server("one"), a.Server("two")
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	if err := os.WriteFile(garbage, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		opt        Options
		path, want string
	}{
		{Options{CertFile: "none", KeyFile: one.KeyFile}, "none", "no such file"},
		{Options{CertFile: one.CertFile, KeyFile: "none"}, "none", "no such file"},
		{Options{CertFile: one.KeyFile, KeyFile: one.KeyFile}, one.KeyFile, "no certificate in PEM"},
		{Options{CertFile: one.CertFile, KeyFile: two.KeyFile}, two.KeyFile, "private key does not match"},
		{Options{CertFile: garbage, KeyFile: one.KeyFile}, garbage, "x509: malformed certificate"},
		{Options{CertFile: one.CertFile, KeyFile: one.KeyFile, CAFile: garbage}, garbage, "x509: malformed certificate"},
		{Options{CertFile: one.CertFile, KeyFile: one.KeyFile, CAFile: "none"}, "none", "no such file"},
		{Options{CertFile: one.CertFile, KeyFile: "testdata/traditional.key"}, "testdata/traditional.key", errNoPassword.Error()},
		{Options{CertFile: t.TempDir(), KeyFile: one.KeyFile}, "", "is a directory"},
	} {
		_, err := Open(c.opt, slog.New(slog.DiscardHandler))
		var e *Error
		if !errors.As(err, &e) || c.path != "" && e.Path != c.path || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s: %s", c.opt, err, c.path, c.want)
		}
	}
}

func TestEncryptedKeys(t *testing.T) {
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	private := func(text []byte) *ecdsa.PrivateKey {
		block, _ := pem.Decode(text)
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			return key.(*ecdsa.PrivateKey)
		}
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	plain := private(read("plain.key"))
	for _, c := range []struct {
		file, password string
		want           error
	}{
		{"plain.key", "", nil}, {"plain.key", "hush", nil},
		{"traditional.key", "hush", nil}, {"traditional.key", "", errNoPassword}, {"traditional.key", "wrong", errWrongPassword},
		{"pkcs8-aes256.key", "hush", nil}, {"pkcs8-aes256.key", "", errNoPassword}, {"pkcs8-aes256.key", "wrong", errWrongPassword}, {"pkcs8-aes128-sha1.key", "hush", nil},
		{"pkcs8-des3.key", "hush", errCipher}, {"pkcs8-scrypt.key", "hush", errCipher},
	} {
		text, err := decryptKey(read(c.file), c.password)
		if err != c.want {
			t.Errorf("%s, %q: %v, want %v", c.file, c.password, err, c.want)
		} else if err == nil && !plain.Equal(private(text)) {
			t.Errorf("%s: another key", c.file)
		}
	}
}

// TestVersions: none below 1.2, and of these what is configured.
func TestVersions(t *testing.T) {
	a := tlstest.NewAuthority(t, "authority")
	pair := a.Server("server")
	for _, c := range []struct {
		versions map[string]uint16
		client   uint16
		ok       bool
	}{
		{nil, tls.VersionTLS11, false}, {nil, tls.VersionTLS12, true}, {nil, tls.VersionTLS13, true},
		{map[string]uint16{"1": tls.VersionTLS13}, tls.VersionTLS12, false}, {map[string]uint16{"1": tls.VersionTLS13}, tls.VersionTLS13, true},
		{map[string]uint16{"1": tls.VersionTLS12}, tls.VersionTLS12, true}, {map[string]uint16{"1": tls.VersionTLS12}, tls.VersionTLS13, false},
		{map[string]uint16{"1": tls.VersionTLS13, "2": tls.VersionTLS12}, tls.VersionTLS12, true},
	} {
		s := open(t, Options{CertFile: pair.CertFile, KeyFile: pair.KeyFile, Versions: c.versions})
		state, err := shake(t, s.Config(), &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", MinVersion: c.client, MaxVersion: c.client})
		if (err == nil) != c.ok {
			t.Errorf("%v, client %s: %v", c.versions, tls.VersionName(c.client), err)
		}
		if err == nil {
			if w := Describe(&state); w.Protocol != "tlsv1."+string("23"[c.client-tls.VersionTLS12]) {
				t.Errorf("%s is called %s", tls.VersionName(c.client), w.Protocol)
			}
		}
	}
}

// TestClientCertificates: what verify_peer, fail_if_no_peer_cert and depth let in.
func TestClientCertificates(t *testing.T) {
	a, stranger := tlstest.NewAuthority(t, "authority"), tlstest.NewAuthority(t, "stranger")
	pair := a.Server("server")
	below := a.Below("below")
	old := a.Issue("old", x509.Certificate{Subject: pkix.Name{CommonName: "old"}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
	none, direct, foreign := tls.Certificate{}, a.Client("direct").TLS(t), stranger.Client("foreign").TLS(t)
	indirect := below.Client("indirect").TLS(t)
	indirect.Certificate = append(indirect.Certificate, below.Cert.Raw)
	for _, c := range []struct {
		name           string
		verify, demand bool
		depth          int
		cert           tls.Certificate
		ok, verified   bool
	}{
		{"not asked", false, false, 10, direct, true, false},
		{"none, none needed", true, false, 10, none, true, false},
		{"none, one needed", true, true, 10, none, false, false},
		{"direct", true, true, 0, direct, true, true},
		{"foreign", true, false, 10, foreign, false, false},
		{"expired", true, false, 10, old.TLS(t), false, false},
		{"one between", true, false, 1, indirect, true, true},
		{"one too many between", true, false, 0, indirect, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Options{CertFile: pair.CertFile, KeyFile: pair.KeyFile, CAFile: a.File, VerifyPeer: c.verify, RequirePeer: c.demand, DepthMax: c.depth})
			client := &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}
			if c.cert.Certificate != nil {
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.cert, nil }
			}
			state, err := shake(t, s.Config(), client)
			if (err == nil) != c.ok || err == nil && (len(state.VerifiedChains) > 0) != c.verified {
				t.Errorf("%v, %d verified", err, len(state.VerifiedChains))
			}
		})
	}
}

// TestWords are Erlang's for every cipher that can be agreed on.
func TestWords(t *testing.T) {
	for suite, want := range map[uint16]Words{
		tls.TLS_AES_128_GCM_SHA256:                  {"tlsv1.3", "any", "aes_128_gcm", "aead"},
		tls.TLS_AES_256_GCM_SHA384:                  {"tlsv1.3", "any", "aes_256_gcm", "aead"},
		tls.TLS_CHACHA20_POLY1305_SHA256:            {"tlsv1.3", "any", "chacha20_poly1305", "aead"},
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:   {"tlsv1.2", "ecdhe_rsa", "aes_256_gcm", "aead"},
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: {"tlsv1.2", "ecdhe_ecdsa", "aes_128_gcm", "aead"},
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305:    {"tlsv1.2", "ecdhe_rsa", "chacha20_poly1305", "aead"},
		tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA:      {"tlsv1.2", "ecdhe_rsa", "aes_128_cbc", "sha"},
	} {
		version := uint16(tls.VersionTLS12)
		if want.Protocol == "tlsv1.3" {
			version = tls.VersionTLS13
		}
		if got := Describe(&tls.ConnectionState{Version: version, CipherSuite: suite}); got != want {
			t.Errorf("%s: %+v, want %+v", tls.CipherSuiteName(suite), got, want)
		}
	}
}
