package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// acceptRetryMillis is the pause after an accept that failed, as for want of file descriptors.
const acceptRetryMillis = 50

// accept takes connections until the listener is closed.
func (n *Network) accept() {
	defer n.serving.Done()
	for {
		conn, err := n.cfg.Listener.Accept()
		if err == nil {
			n.serving.Add(1)
			go n.serve(conn)
			continue
		}
		select {
		case <-n.closed:
			return
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			n.log.Error("the cluster port is closed", "error", err)
			return
		}
		n.log.Warn("a node's connection cannot be accepted", "error", err)
		t := time.NewTimer(acceptRetryMillis * time.Millisecond)
		select {
		case <-t.C:
		case <-n.closed:
			t.Stop()
			return
		}
	}
}

// serve runs an accepted connection to its end, but for links, which outlive their handler.
func (n *Network) serve(raw net.Conn) {
	defer n.serving.Done()
	s, err := n.prove(raw)
	if err != nil {
		raw.Close()
		return
	}
	n.alive(s.peer.Node)
	switch s.purpose {
	case PurposeJoin:
		n.serveJoin(s)
	case PurposeRaft:
		n.serveRaft(s)
	case PurposeSnapshot:
		n.serveSnapshot(s)
	case PurposeLink:
		n.serveLink(s)
	}
}

// prove makes a session of an accepted connection, or nothing.
func (n *Network) prove(raw net.Conn) (*session, error) {
	if !n.admitUnproved(raw) {
		return nil, ErrClosed
	}
	if err := raw.SetDeadline(time.Now().Add(limits.HandshakeMillis * time.Millisecond)); err != nil {
		n.dropUnproved(raw)
		return nil, err
	}
	conn := raw
	if n.cfg.TLS != nil {
		conn = tls.Server(raw, tls13(n.cfg.TLS()))
	}
	var s *session
	peer, err := n.proveOver(conn, func(peer Peer, purpose Purpose) *RefusedError {
		if no := n.ready(peer, purpose); no != nil {
			return no
		}
		s = newSession(n, conn, raw, peer, purpose, true)
		return n.add(s)
	})
	crowdedOut := !n.dropUnproved(raw)
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		if crowdedOut {
			err = refuse(codeCrowded, "%d connections that had proved nothing came after it", limits.HandshakesAtOnce)
		}
		if s != nil {
			s.fail(err)
		}
		peer.Address = raw.RemoteAddr().String()
		n.refused(peer, err)
		return nil, err
	}
	return s, nil
}

func (n *Network) proveOver(conn net.Conn, serve func(Peer, Purpose) *RefusedError) (Peer, error) {
	if c, ok := conn.(*tls.Conn); ok {
		if err := c.Handshake(); err != nil {
			tellOfTLS(err)
			return Peer{}, fmt.Errorf("%w: %w", ErrHandshake, err)
		}
	}
	h, err := newHandshake(conn, n.cfg.Secret, n.self())
	if err != nil {
		return Peer{}, err
	}
	return h.answerCall(serve)
}

// tellOfTLS answers a caller without TLS, who would wonder.
func tellOfTLS(err error) {
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && string(plain.RecordHeader[:4]) == helloMagic {
		h := handshake{conn: plain.Conn, highest: versionHighest}
		h.refuse(refuse(codeMalformed, "it wants TLS"), h.appendRefusal)
	}
}

// ready says whether a proved caller is served.
func (n *Network) ready(peer Peer, purpose Purpose) *RefusedError {
	ok := true
	switch purpose {
	case PurposeRaft, PurposeSnapshot:
		ok = n.library.isOpen()
	case PurposeLink:
		ok = n.onLink.Load() != nil
	case PurposeJoin:
		ok = n.onJoin.Load() != nil
	}
	if !ok {
		return refuse(codeNotReady, "it does not take %v connections now", purpose)
	}
	if n.cfg.Admit != nil && purpose != PurposeJoin {
		if err := n.cfg.Admit(peer, purpose); err != nil {
			return refuse(codeNotAdmitted, "%v", err)
		}
	}
	return nil
}

// admitUnproved gives an accepted connection a place, the oldest one's if there is no other.
func (n *Network) admitUnproved(raw net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shut {
		return false
	}
	if len(n.unproved) >= limits.HandshakesAtOnce {
		n.unproved[0].Close() // its handshake ends with an error
		n.unproved = slices.Delete(n.unproved, 0, 1)
	}
	n.unproved = append(n.unproved, raw)
	return true
}

// dropUnproved gives the place back; false if it was taken.
func (n *Network) dropUnproved(raw net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.unproved, raw)
	if i < 0 {
		return n.shut
	}
	n.unproved = slices.Delete(n.unproved, i, i+1)
	return true
}

// refusedLogSeconds is how often callers that came to nothing are logged, together.
const refusedLogSeconds = 1

func (n *Network) refused(peer Peer, err error) {
	if errors.Is(err, ErrClosed) || n.isClosed() {
		return
	}
	if errors.Is(err, io.EOF) {
		n.log.Debug("a caller of the cluster port hung up", "address", peer.Address) // as probes of load balancers do
		return
	}
	n.counts.refused.Add(1)
	if n.cfg.Refused != nil {
		n.cfg.Refused(peer, err)
	}
	n.mu.Lock()
	now := time.Now()
	quiet := now.Sub(n.warnedAt) < refusedLogSeconds*time.Second
	others := n.unwarned
	if quiet {
		n.unwarned++
	} else {
		n.warnedAt, n.unwarned = now, 0
	}
	n.mu.Unlock()
	if !quiet {
		n.log.Warn("a connection to the cluster port was refused", "address", peer.Address, "node", peer.Node, "error", err, "others", others)
	}
}

func (n *Network) isClosed() bool {
	select {
	case <-n.closed:
		return true
	default:
		return false
	}
}

// dialer opens a connection to an address.
type dialer = func(ctx context.Context, addr string) (net.Conn, error)

// dial opens a session with a node.
func (n *Network) dial(ctx context.Context, dial dialer, node uint64, purpose Purpose) (*session, error) {
	if n.isClosed() {
		return nil, ErrClosed
	}
	addr, err := n.cfg.Resolve(Target(n.cfg.Cluster, node))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var s *session
	err = connect(ctx, dial, addr, n.cfg.TLS, func(conn, raw net.Conn) error {
		h, err := newHandshake(conn, n.cfg.Secret, n.self())
		if err != nil {
			return err
		}
		peer, err := h.call(purpose, node)
		if err != nil {
			return err
		}
		s = newSession(n, conn, raw, peer, purpose, false)
		if no := n.add(s); no != nil {
			return ErrClosed
		}
		return nil
	})
	if err != nil {
		if s != nil {
			s.fail(err)
		}
		return nil, err
	}
	return s, nil
}

// connect opens a connection and lets shake do the handshake on it, in bounded time. The connection has no deadline afterwards.
func connect(ctx context.Context, dial dialer, addr string, mutual func() *tls.Config, shake func(conn, raw net.Conn) error) error {
	dialing, cancel := context.WithTimeout(ctx, limits.DialMillis*time.Millisecond)
	raw, err := dial(dialing, addr)
	cancel()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	err = raw.SetDeadline(time.Now().Add(limits.HandshakeMillis * time.Millisecond))
	conn := raw
	if err == nil && mutual != nil {
		c := tls.Client(raw, clientTLS(mutual(), addr))
		conn = c
		if err = c.Handshake(); err != nil {
			err = fmt.Errorf("%w: %w", ErrHandshake, err)
		}
	}
	if err == nil {
		err = shake(conn, raw)
	}
	if notBelieved(err) {
		err = fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
	return err
}

// notBelieved tells whether a caller's error is about certificates: it does not believe the other end, or heard, when it was through with its part, that the other end does not believe it.
func notBelieved(err error) bool {
	var own *tls.CertificateVerificationError
	var op *net.OpError
	return errors.As(err, &own) || errors.As(err, &op) && op.Op == "remote error"
}

func tls13(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	cfg.MinVersion = tls.VersionTLS13
	return cfg
}

func clientTLS(cfg *tls.Config, addr string) *tls.Config {
	cfg = tls13(cfg)
	if cfg.ServerName == "" {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.ServerName = host
		}
	}
	return cfg
}
