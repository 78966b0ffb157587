package broker

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"time"
)

const (
	// acceptPauseMax is the longest wait after an accept that failed for want of resources.
	acceptPauseMax = time.Second
	// keepAlivePeriod finds dead peers of connections without heartbeats.
	keepAlivePeriod = 30 * time.Second
)

// Entrance says what clients of a listener have to pass before AMQP begins.
type Entrance struct {
	// TLS returns the configuration for the next connection; nil for a listener without TLS. TLSTimeout bounds the handshake.
	TLS        func() *tls.Config
	TLSTimeout time.Duration
	// Proxies are the addresses from which connections may come, each with a PROXY header in front; where there are none, no header is read.
	Proxies []netip.Prefix
}

// unguarded is the entrance where AMQP begins at once.
var unguarded Entrance

func (e *Entrance) isGuarded() bool { return e.TLS != nil || len(e.Proxies) > 0 }

// Serve accepts connections until the listener closes; it closes with Shutdown. It returns nil after Shutdown and the listener's error otherwise. Without an Entrance AMQP begins at
// once.
func (b *Broker) Serve(l net.Listener, by *Entrance) error {
	if by == nil {
		by = &unguarded
	}
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		_ = l.Close()
		return nil
	}
	b.listeners[l] = struct{}{}
	b.mu.Unlock()
	defer b.unlisten(l)
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			b.serveConn(nc, by)
			continue
		}
		if b.isClosing() {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Out of file descriptors, or a peer that was gone again: neither is a reason to stop listening.
		pause = min(max(2*pause, 5*time.Millisecond), acceptPauseMax)
		b.log.Warn("a connection could not be accepted", "listener", l.Addr().String(), "error", err)
		select {
		case <-time.After(pause):
		case <-b.stop:
		}
	}
}

func (b *Broker) unlisten(l net.Listener) {
	_ = l.Close()
	b.mu.Lock()
	delete(b.listeners, l)
	b.mu.Unlock()
}

func (b *Broker) isClosing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closing
}

// ServeConn serves one connection that was accepted elsewhere, in a goroutine of its own, without TLS.
func (b *Broker) ServeConn(nc net.Conn) { b.serveConn(nc, &unguarded) }

func (b *Broker) serveConn(nc net.Conn, by *Entrance) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlivePeriod, Interval: keepAlivePeriod / 3})
	}
	c := newConn(b, nc, by)
	if !b.admit(c) {
		_ = nc.Close()
		return
	}
	go c.serve()
}

// isLoopback tells whether an address is this machine's own: a loopback address or no network address at all.
func isLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UDPAddr, *net.IPAddr:
		return false
	}
	return true
}
