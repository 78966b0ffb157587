package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// authority issues certificates for the local host.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}
}

// node is the configuration of a node.
func (a *authority) node(t *testing.T) func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a node"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	must(t, err)
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool}
	return func() *tls.Config { return cfg }
}

// pairTLS opens nodes 1 and 2 on real sockets and returns them with what 2 refused.
func pairTLS(t *testing.T, first, second *authority) (a, b *Network, refused chan error) {
	t.Helper()
	l := newLab(t)
	refused = make(chan error, 16)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	with := func(ca *authority, cfg *Config) {
		cfg.Dial = nil
		cfg.Resolve = anywhere(port.Addr().String())
		if ca != nil {
			cfg.TLS = ca.node(t)
		}
	}
	a = l.open(1, func(cfg *Config) { with(first, cfg) })
	b = l.open(2, func(cfg *Config) {
		with(second, cfg)
		cfg.Listener.Close()
		cfg.Listener = port
		cfg.Refused = func(_ Peer, err error) { refused <- err }
	})
	return a, b, refused
}

func TestMutualTLS(t *testing.T) {
	ca := newAuthority(t)
	a, b, _ := pairTLS(t, ca, ca)
	accepted := make(chan *Link, 1)
	b.OnLink(func(k *Link) { accepted <- k })
	k, err := a.DialLink(t.Context(), 2)
	must(t, err)
	far := <-accepted
	for _, size := range []int{0, 10, 100_000, 3 << 20} {
		must(t, k.SendParts(make([]byte, 5), make([]byte, size)))
		got, err := far.Receive()
		must(t, err)
		if len(got) != size+5 {
			t.Errorf("a frame of %d bytes arrived with %d", size+5, len(got))
		}
	}
	b.OnJoin(func(request []byte) ([]byte, error) { return append(request, "!"...), nil })
	addr, err := a.cfg.Resolve("")
	must(t, err)
	got, err := Join(t.Context(), nil, addr, testSecret, ca.node(t), []byte("hello"))
	must(t, err)
	if string(got) != "hello!" {
		t.Errorf("the answer is %q", got)
	}
	_, err = Join(t.Context(), nil, addr, []byte("wrong"), ca.node(t), nil)
	wantError(t, err, ErrSecret)
	k.Close()
}

func TestTLSThatDoesNotFit(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	for _, tt := range []struct {
		name          string
		first, second *authority
		text, heard   string
	}{
		{"caller without", nil, ca, "it wants TLS", "first record does not look like a TLS handshake"},
		{"called node without", ca, nil, "no handshake", "the caller wants TLS, this node has none"},
		{"another authority", other, ca, "certificate signed by unknown authority", "certificate"},
		{"a caller of another authority", &authority{other.cert, other.key, ca.pool}, ca, "remote error", "certificate signed by unknown authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b, refused := pairTLS(t, tt.first, tt.second)
			b.OnLink(func(*Link) { t.Error("a link was accepted") })
			_, err := a.DialLink(t.Context(), 2)
			wantError(t, err, ErrHandshake)
			if tt.first != nil && tt.second != nil {
				wantError(t, err, ErrCertificate)
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the caller says %q, want something with %q", err, tt.text)
			}
			if heard := <-refused; !errors.Is(heard, ErrHandshake) || !strings.Contains(heard.Error(), tt.heard) {
				t.Errorf("the called node says %q, want something with %q", heard, tt.heard)
			}
		})
	}
}

// relay passes two TLS connections into each other. Both ends trust it: it has a certificate of their authority.
func relay(t *testing.T, server, client *tls.Config, to string) string {
	port, err := tls.Listen("tcp", "127.0.0.1:0", server)
	must(t, err)
	t.Cleanup(func() { port.Close() })
	go func() {
		for {
			in, err := port.Accept()
			if err != nil {
				return
			}
			out, err := tls.Dial("tcp", to, client)
			if err != nil {
				in.Close()
				continue
			}
			copyBoth(in, out)
		}
	}()
	return port.Addr().String()
}

func copyBoth(a, b net.Conn) {
	pass := func(from, to net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				to.Write(buf[:n])
			}
			if err != nil {
				from.Close()
				to.Close()
				return
			}
		}
	}
	go pass(a, b)
	go pass(b, a)
}

// The proofs are bound to the TLS connection: a relay that both ends trust, but that does not know the secret, gets nobody in.
func TestRelayedHandshakeIsRefused(t *testing.T) {
	ca := newAuthority(t)
	a, b, refused := pairTLS(t, ca, ca)
	b.OnLink(func(*Link) { t.Error("a relayed link was accepted") })
	relayed := ca.node(t)()
	addr, err := a.cfg.Resolve("")
	must(t, err)
	a.cfg.Resolve = anywhere(relay(t, relayed, relayed, addr))
	_, err = a.DialLink(t.Context(), 2)
	wantError(t, err, ErrSecret)
	wantError(t, <-refused, ErrSecret)
}
