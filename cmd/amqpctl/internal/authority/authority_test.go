package authority

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair are the files of a node in dir.
func pair(dir, node string) (certFile, keyFile string) {
	return filepath.Join(dir, node+".pem"), filepath.Join(dir, node+".key")
}

// issue has the authority of dir, made if need be, certify a node.
func issue(t *testing.T, dir, node string, addresses ...string) tls.Certificate {
	t.Helper()
	a, _, err := Open(dir, 100*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := pair(dir, node)
	until, err := a.Issue(node, addresses, time.Hour, certFile, keyFile, false)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(until); left > time.Hour || left < 59*time.Minute {
		t.Errorf("the certificate of %s is good for %v", node, left)
	}
	c, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shake has a client and a server meet, each with its certificate, and returns the client's and the server's error.
func shake(t *testing.T, dir, host string, client, server tls.Certificate) (error, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, certName))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("the authority's file has no certificate")
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	served := make(chan error, 1)
	go func() {
		s := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS13})
		served <- s.Handshake()
		far.Close()
	}()
	c := tls.Client(near, &tls.Config{Certificates: []tls.Certificate{client}, RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS13})
	err = c.Handshake()
	near.SetReadDeadline(time.Now().Add(5 * time.Second))
	c.Read(make([]byte, 1)) // of a client's certificate TLS 1.3 tells after the handshake
	near.Close()
	return err, <-served
}

func TestNodesOfOneAuthorityTrustEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	one := issue(t, dir, "rabbit@one", "10.0.0.1", "one.example")
	two := issue(t, dir, "rabbit@two", "two.example") // by the authority that is there
	for _, host := range []string{"10.0.0.1", "one.example"} {
		if err, served := shake(t, dir, host, two, one); err != nil || served != nil {
			t.Errorf("as %s: %v, %v", host, err, served)
		}
	}
	if err, _ := shake(t, dir, "two.example", two, one); err == nil || !strings.Contains(err.Error(), "not two.example") {
		t.Errorf("under a name of another node: %v", err)
	}
	stranger := issue(t, t.TempDir(), "rabbit@two", "two.example")
	if _, served := shake(t, dir, "one.example", stranger, one); served == nil || !strings.Contains(served.Error(), "unknown authority") {
		t.Errorf("a stranger: %v", served)
	}
	for _, node := range []string{"rabbit@one", "ca"} {
		_, keyFile := pair(dir, node)
		if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key of %s: %v, %v", node, info.Mode(), err)
		}
	}
}

func TestFilesAreNotWrittenOver(t *testing.T) {
	dir := t.TempDir()
	first := issue(t, dir, "n", "localhost")
	a, made, err := Open(dir, time.Hour)
	if err != nil || made {
		t.Fatal(made, err)
	}
	certFile, keyFile := pair(dir, "n")
	if _, err := a.Issue("n", []string{"localhost"}, time.Hour, certFile, keyFile, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second certificate over the first: %v", err)
	}
	same, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil || string(same.Certificate[0]) != string(first.Certificate[0]) {
		t.Errorf("the first pair is not as it was: %v", err)
	}
	if _, err := a.Issue("n", []string{"localhost"}, time.Hour, certFile, keyFile, true); err != nil {
		t.Fatal(err)
	}
	renewed, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil || string(renewed.Certificate[0]) == string(first.Certificate[0]) {
		t.Errorf("it was not renewed: %v", err)
	}
}

func TestAuthorityThatCannotSign(t *testing.T) {
	other := t.TempDir()
	issue(t, other, "n", "localhost")
	for _, tt := range []struct {
		name  string
		spoil func(dir string) error
		text  string
	}{
		{"no key", func(dir string) error { return os.Remove(filepath.Join(dir, keyName)) }, "no such file"},
		{"a key of another", func(dir string) error { return os.Rename(filepath.Join(other, keyName), filepath.Join(dir, keyName)) }, "is not the key of"},
		{"a node's certificate", func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "n.pem"), filepath.Join(dir, certName)), os.Rename(filepath.Join(dir, "n.key"), filepath.Join(dir, keyName)))
		}, "no authority's certificate"},
		{"no PEM", func(dir string) error { return os.WriteFile(filepath.Join(dir, certName), []byte("x"), 0o600) }, "not in PEM"},
	} {
		dir := t.TempDir()
		issue(t, dir, "n", "localhost")
		if err := tt.spoil(dir); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(dir, time.Hour); err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
