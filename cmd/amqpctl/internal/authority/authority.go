// Package authority makes certificates for the nodes of a cluster, signed by an authority of the cluster's own, whose files are kept in a directory.
//
// Hop before: `amqpctl cluster init-tls`. Hop after: files in PEM, which nodes are started with (cluster.ssl.certfile and its neighbours).
//
// Invariants: a file that is there is never written over unless that was asked for, and then replaced whole; keys can be read by their owner only; a certificate is good for both ends of a connection,
// for the addresses it was made for, and for nothing else.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The authority's files.
const (
	certName = "ca.pem"
	keyName  = "ca.key"
)

// skew is how far the clocks of nodes may be behind the one that made a certificate.
const skew = time.Hour

// Authority signs certificates of nodes.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// File is the path of the authority's certificate.
func (a *Authority) File() string { return filepath.Join(a.dir, certName) }

// Open takes the authority of a directory, or makes one there that is good for some time, and the directory if need be. made tells which. Half an authority is an error.
func Open(dir string, valid time.Duration) (a *Authority, made bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, false, err
	}
	a = &Authority{dir: dir}
	certPEM, certErr := os.ReadFile(a.File())
	keyPEM, keyErr := os.ReadFile(filepath.Join(dir, keyName))
	switch {
	case errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist):
		return a, true, a.make(valid)
	case certErr != nil || keyErr != nil:
		return nil, false, errors.Join(certErr, keyErr)
	}
	return a, false, a.parse(certPEM, keyPEM)
}

// parse reads an authority and sees that it can sign.
func (a *Authority) parse(certPEM, keyPEM []byte) error {
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return fmt.Errorf("%s or %s is not in PEM", certName, keyName)
	}
	var err error
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return fmt.Errorf("%s: %w", certName, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", keyName, err)
	}
	signer, ok := key.(crypto.Signer)
	public, comparable := a.cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case !ok || !comparable || !public.Equal(signer.Public()):
		return fmt.Errorf("%s is not the key of %s", keyName, certName)
	case !a.cert.IsCA:
		return fmt.Errorf("%s is no authority's certificate", certName)
	case time.Now().After(a.cert.NotAfter):
		return fmt.Errorf("%s was good until %s", certName, a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	a.key = signer
	return nil
}

func (a *Authority) make(valid time.Duration) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Warren cluster authority"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	var err error
	a.cert, a.key, err = a.sign(template, valid, a.File(), filepath.Join(a.dir, keyName), false)
	return err
}

// Issue makes a certificate for a node under its addresses, host names and IP addresses, and tells until when it is good: for valid, but not longer than the authority.
func (a *Authority) Issue(node string, addresses []string, valid time.Duration, certFile, keyFile string, replace bool) (time.Time, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: node}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, address)
		}
	}
	cert, _, err := a.sign(template, valid, certFile, keyFile, replace)
	if err != nil {
		return time.Time{}, err
	}
	return cert.NotAfter, nil
}

// sign completes a template, signs it, by itself if there is no authority yet, and writes certificate and key.
func (a *Authority) sign(template *x509.Certificate, valid time.Duration, certFile, keyFile string, replace bool) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Now().Add(-skew)
	template.NotAfter = time.Now().Add(valid)
	parent, signer := template, crypto.Signer(key)
	if a.cert != nil {
		parent, signer = a.cert, a.key
		if template.NotAfter.After(parent.NotAfter) {
			template.NotAfter = parent.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := write(keyFile, "PRIVATE KEY", keyDER, 0o600, replace); err != nil {
		return nil, nil, err
	}
	return cert, key, write(certFile, "CERTIFICATE", der, 0o644, replace)
}

// write makes a file of one block of PEM. With replace it takes the place of one that is there.
func write(name, kind string, der []byte, mode fs.FileMode, replace bool) error {
	into := name
	if replace {
		into = name + ".new"
		if err := os.Remove(into); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(into, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err := errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Close()); err != nil || !replace {
		return err
	}
	return os.Rename(into, name)
}
