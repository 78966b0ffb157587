package broker

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/warrenmq/warren/internal/proxyproto"
	"github.com/warrenmq/warren/internal/tlsconf"
)

// This file is what a connection goes through before AMQP begins: the header of a proxy, then TLS.

// ends are the addresses of a connection: those of its socket, or of the client's connection that a proxy passes on.
type ends struct {
	peer, own net.Addr
	// label is "ip:port -> ip:port".
	label string
}

func newEnds(peer, own net.Addr) *ends {
	return &ends{peer, own, peer.String() + " -> " + own.String()}
}

// arrive takes the connection to where AMQP begins. false: it is over.
func (c *conn) arrive() bool {
	if !c.by.isGuarded() {
		return true
	}
	if len(c.by.Proxies) > 0 && !c.introduce() {
		return false
	}
	nc := c.socket
	if c.by.TLS != nil {
		if nc = c.encrypt(); nc == nil {
			return false
		}
	}
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	c.nc, o.broken = nc, false
	return !o.sealed // else the broker closes
}

// proxyTimeout is how long a proxy may take for its header.
const proxyTimeout = 2 * time.Second

// introduce reads whose connection a proxy passes on.
func (c *conn) introduce() bool {
	if !mayIntroduce(c.by.Proxies, c.ends.Load().peer) {
		c.b.log.Warn("a connection was refused that does not come from a proxy; see proxy_protocol_allowed_ips", "connection", c.name())
		return false
	}
	_ = c.socket.SetReadDeadline(c.until(proxyTimeout))
	h, err := proxyproto.Read(c.socket)
	_ = c.socket.SetReadDeadline(time.Time{})
	if err != nil {
		c.b.log.Warn("a proxy's header could not be read", "connection", c.name(), "error", plainly(err))
		return false
	}
	if !h.Local {
		c.ends.Store(newEnds(net.TCPAddrFromAddrPort(h.Source), net.TCPAddrFromAddrPort(h.Destination)))
	}
	return true
}

func mayIntroduce(proxies []netip.Prefix, peer net.Addr) bool {
	addr := hostOf(peer).Unmap().WithZone("")
	for _, p := range proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// hostOf returns the address of a peer without its port; the zero Addr, which is in no prefix, of a peer that has none.
func hostOf(peer net.Addr) netip.Addr {
	if tcp, ok := peer.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	return netip.Addr{}
}

// from is the address that the client comes from.
func (c *conn) from() netip.Addr { return hostOf(c.ends.Load().peer) }

// encrypt makes the TLS handshake; nil: it failed.
func (c *conn) encrypt() net.Conn {
	t := tls.Server(c.socket, c.by.TLS())
	_ = c.socket.SetDeadline(c.until(c.by.TLSTimeout))
	err := t.Handshake()
	_ = c.socket.SetDeadline(time.Time{})
	if err != nil {
		if !errors.Is(err, io.EOF) { // a look at whether the port is open
			c.b.log.Warn("a TLS handshake failed", "connection", c.name(), "error", plainly(err))
		}
		return nil
	}
	state := t.ConnectionState()
	words := tlsconf.Describe(&state)
	c.tls = &ConnectionTLS{Protocol: words.Protocol, KeyExchange: words.KeyExchange, Cipher: words.Cipher, Hash: words.Hash}
	if len(state.VerifiedChains) > 0 {
		c.certificate = state.PeerCertificates[0]
		c.tls.PeerSubject, c.tls.PeerIssuer, c.tls.PeerValidity = tlsconf.Subject(c.certificate), tlsconf.Issuer(c.certificate), tlsconf.Validity(c.certificate)
	}
	return t
}

// until is the end of a step that may take d, within the time for the whole handshake.
func (c *conn) until(d time.Duration) time.Time {
	return earlier(time.Now().Add(d), c.connectedAt.Add(c.b.opt.HandshakeTimeout))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// plainly says what went wrong before AMQP in words for operators.
func plainly(err error) string {
	var other tls.RecordHeaderError
	switch {
	case errors.As(err, &other):
		return "the client does not speak TLS"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "it was not finished in time"
	}
	return err.Error()
}
