// Package tlstest makes certificates for tests. Hop before: tests of TLS, in process and end to end. Hop after: files in PEM in a directory of the test.
//
// Invariant: no key outlives its test.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File has its certificate.
	File string
	// Cert is its certificate.
	Cert *x509.Certificate

	tb  testing.TB
	dir string
	key *ecdsa.PrivateKey
}

// Pair is a certificate with its key.
type Pair struct {
	// CertFile and KeyFile have them in PEM.
	CertFile, KeyFile string
	// Cert is the certificate.
	Cert *x509.Certificate
}

// NewAuthority makes an authority that signed itself.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir()}
	p, key := a.sign(name, authority(name))
	a.File, a.Cert, a.key = p.CertFile, p.Cert, key
	return a
}

// Below makes an authority that this one vouches for.
func (a *Authority) Below(name string) *Authority {
	a.tb.Helper()
	below := &Authority{tb: a.tb, dir: a.dir}
	p, key := a.sign(name, authority(name))
	below.File, below.Cert, below.key = p.CertFile, p.Cert, key
	return below
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
}

// Issue signs a certificate for a template, of which serial number and times may be missing. name names its files; the same name again replaces them.
func (a *Authority) Issue(name string, template x509.Certificate) Pair {
	a.tb.Helper()
	p, _ := a.sign(name, &template)
	return p
}

// Server issues a certificate for a server on the loopback addresses, and localhost.
func (a *Authority) Server(name string) Pair {
	a.tb.Helper()
	return a.Issue(name, x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}})
}

// Client issues a certificate for a client.
func (a *Authority) Client(name string) Pair {
	a.tb.Helper()
	return a.Issue(name, x509.Certificate{Subject: pkix.Name{CommonName: name}})
}

// Pool has the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

// TLS returns the pair as package tls takes it.
func (p Pair) TLS(tb testing.TB) tls.Certificate {
	tb.Helper()
	c, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func (a *Authority) sign(name string, template *x509.Certificate) (Pair, *ecdsa.PrivateKey) {
	a.tb.Helper()
	check := func(err error) {
		if err != nil {
			a.tb.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	check(err)
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	parent, signer := a.Cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	check(err)
	cert, err := x509.ParseCertificate(der)
	check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	p := Pair{CertFile: filepath.Join(a.dir, name+".pem"), KeyFile: filepath.Join(a.dir, name+".key"), Cert: cert}
	check(os.WriteFile(p.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	check(os.WriteFile(p.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return p, key
}
