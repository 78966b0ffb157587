// Package trust says whom the tool believes over TLS, and how it proves itself.
//
// The global flags stand before it, the connections of httpapi and lean behind it. Invariant: a broker's certificate and name are verified unless Insecure says otherwise.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// Files are the flags about TLS.
type Files struct {
	// CACert has the authorities that may vouch for the broker; those of the system if empty.
	CACert string
	// Cert and Key are what the tool shows if the broker asks; Cert may hold both.
	Cert, Key string
	// ServerName is the name that the broker's certificate must have, and that it is asked for; that of the URL if empty.
	ServerName string
	// Insecure takes any certificate.
	Insecure bool
}

// Load reads the files. An error is a Config error.
func (f Files) Load() (*tls.Config, error) {
	c := &tls.Config{ServerName: f.ServerName, InsecureSkipVerify: f.Insecure}
	if f.CACert != "" {
		pem, err := os.ReadFile(f.CACert)
		if err != nil {
			return nil, exit.Errorf(exit.Config, "--cacert: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, exit.Errorf(exit.Config, "--cacert: there is no certificate in PEM in %s", f.CACert)
		}
	}
	if f.Cert == "" {
		if f.Key != "" {
			return nil, exit.Errorf(exit.Config, "--cert-key without --cert")
		}
		return c, nil
	}
	key := f.Key
	if key == "" {
		key = f.Cert
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, key)
	if err != nil {
		return nil, exit.Errorf(exit.Config, "--cert: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// Hint says what to do about an error of TLS; empty for any other error.
func Hint(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var other tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "; name the authority with --cacert"
	case errors.As(err, &name):
		return "; name the one that it has with --server-name"
	case errors.As(err, &other):
		return "; is it a port without TLS?"
	}
	return ""
}
