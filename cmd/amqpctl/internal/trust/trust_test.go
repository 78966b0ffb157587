package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/internal/tlsconf/tlstest"
)

func TestLoad(t *testing.T) {
	a := tlstest.NewAuthority(t, "authority")
	pair := a.Client("client")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	both := filepath.Join(t.TempDir(), "both.pem")
	var text []byte
	for _, file := range []string{pair.CertFile, pair.KeyFile} {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(both, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files Files
		want  string // of the error, "" for none
	}{
		{Files{}, ""},
		{Files{CACert: a.File, Cert: pair.CertFile, Key: pair.KeyFile, ServerName: "x"}, ""},
		{Files{Cert: both}, ""},
		{Files{CACert: "none.pem"}, "--cacert: open none.pem: no such file"},
		{Files{CACert: empty}, "--cacert: there is no certificate in PEM in "},
		{Files{Cert: pair.CertFile}, "--cert: "},
		{Files{Key: pair.KeyFile}, "--cert-key without --cert"},
	} {
		got, err := c.files.Load()
		if c.want != "" {
			if exit.Of(err) != exit.Config || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %s", c.files, err, c.want)
			}
			continue
		}
		if err != nil || got.InsecureSkipVerify || got.ServerName != c.files.ServerName || (got.RootCAs == nil) != (c.files.CACert == "") || len(got.Certificates) != min(len(c.files.Cert), 1) {
			t.Errorf("%+v: %+v, %v", c.files, got, err)
		}
	}
	if c, err := (Files{Insecure: true}).Load(); err != nil || !c.InsecureSkipVerify {
		t.Errorf("insecure: %v", err)
	}
}

func TestHint(t *testing.T) {
	for want, err := range map[string]error{
		"; name the authority with --cacert":            &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"; name the one that it has with --server-name": &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}}},
		"; is it a port without TLS?":                   tls.RecordHeaderError{},
		"":                                              errors.New("other"),
	} {
		if got := Hint(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
