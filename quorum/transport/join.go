package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// Join asks the node at an address for membership: one request, one response, each of at most limits.JoinBytesMax bytes. The joiner has no id and accepts any cluster that
// knows the secret; the response says which one it is. dial opens the connection, TCP if nil; mutual, unless nil, gives the TLS over it as Config.TLS does. Errors: a *RefusedError of the
// handshake, a *JoinError with the cluster's reason, ErrCertificate, ErrUnreachable.
func Join(ctx context.Context, dial func(ctx context.Context, addr string) (net.Conn, error), addr string, secret []byte, mutual func() *tls.Config, request []byte) (response []byte, err error) {
	if len(request) > limits.JoinBytesMax {
		return nil, fmt.Errorf("%w: a join of %d bytes", ErrTooLarge, len(request))
	}
	if dial == nil {
		dial = dialTCP
	}
	var s *session
	err = connect(ctx, dial, addr, mutual, func(conn, raw net.Conn) error {
		h, err := newHandshake(conn, secret, Peer{})
		if err != nil {
			return err
		}
		peer, err := h.call(PurposeJoin, 0)
		if err != nil {
			return err
		}
		s = newSession(nil, conn, raw, peer, PurposeJoin, false)
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer s.fail(ErrClosed)
	stop := context.AfterFunc(ctx, func() { s.fail(ctx.Err()) })
	defer stop()
	if err := s.raw.SetReadDeadline(time.Now().Add(limits.JoinMillis * time.Millisecond)); err != nil {
		return nil, err
	}
	if err := s.send(appendFrame(nil, frameData, request)); err != nil {
		return nil, err
	}
	kind, payload, err := s.in.next(nil)
	switch {
	case err != nil:
		return nil, s.fail(fmt.Errorf("transport: no answer to the join: %w", err))
	case kind == frameError:
		return nil, &JoinError{Text: printable(payload, limits.JoinBytesMax)}
	case kind != frameData:
		return nil, fmt.Errorf("%w: kind %d in answer to a join", ErrFrame, kind)
	}
	return payload, nil
}

// serveJoin answers one join.
func (n *Network) serveJoin(s *session) {
	defer s.fail(ErrClosed)
	if err := s.raw.SetReadDeadline(time.Now().Add(limits.HandshakeMillis * time.Millisecond)); err != nil {
		return
	}
	kind, request, err := s.in.next(nil)
	if err == nil && kind != frameData {
		err = fmt.Errorf("%w: kind %d in a join", ErrFrame, kind)
	}
	if err != nil {
		n.ended(s, err)
		return
	}
	response, err := (*n.onJoin.Load())(request)
	switch {
	case err != nil:
		text := []byte(err.Error())
		s.send(appendFrame(nil, frameError, text[:min(len(text), limits.JoinBytesMax)])) // the caller may be gone
	case len(response) > limits.JoinBytesMax:
		n.log.Error("the answer to a join is too large", "bytes", len(response))
	default:
		s.send(appendFrame(nil, frameData, response))
	}
}
