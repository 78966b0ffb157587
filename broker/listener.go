package broker

import (
	"errors"
	"net"
	"time"
)

const (
	// acceptPauseMax is the longest wait after an accept that failed for want of resources.
	acceptPauseMax = time.Second
	// keepAlivePeriod finds dead peers of connections without heartbeats.
	keepAlivePeriod = 30 * time.Second
)

// Serve accepts connections until the listener closes; it closes with Shutdown. It returns nil after Shutdown and the listener's error otherwise.
func (b *Broker) Serve(l net.Listener) error {
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
			b.ServeConn(nc)
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

// ServeConn serves one connection that was accepted elsewhere, in a goroutine of its own.
func (b *Broker) ServeConn(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlivePeriod, Interval: keepAlivePeriod / 3})
	}
	c := newConn(b, nc)
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
