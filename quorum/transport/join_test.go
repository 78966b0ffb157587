package transport

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
)

func TestJoin(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.open(1).OnJoin(func(request []byte) ([]byte, error) {
			<-time.After(20 * time.Second) // a catalogue in trouble
			switch {
			case len(request) == limits.JoinBytesMax:
				return bytes.Repeat([]byte("y"), limits.JoinBytesMax), nil
			case string(request) == "node rabbit@two":
				return []byte("cluster c1, node 2"), nil
			}
			return nil, errors.New("the name is taken")
		})
		join := func(secret, request []byte) ([]byte, error) {
			return Join(t.Context(), l.net.Host("n2").Dial, "n1:1", secret, nil, request)
		}
		got, err := join(testSecret, []byte("node rabbit@two"))
		must(t, err)
		if string(got) != "cluster c1, node 2" {
			t.Errorf("the answer is %q", got)
		}
		got, err = join(testSecret, make([]byte, limits.JoinBytesMax))
		must(t, err)
		if len(got) != limits.JoinBytesMax {
			t.Errorf("the long answer has %d bytes", len(got))
		}
		_, err = join(testSecret, make([]byte, limits.JoinBytesMax+1))
		wantError(t, err, ErrTooLarge)
		_, err = join(testSecret, []byte("node rabbit@one"))
		var no *JoinError
		if !errors.As(err, &no) || no.Text != "the name is taken" {
			t.Errorf("a refused join says %v", err)
		}
		_, err = join([]byte("another secret"), nil)
		wantError(t, err, ErrSecret)
		wantError(t, l.lastRefused(), ErrSecret)
		_, err = join(nil, nil)
		wantError(t, err, ErrNoSecret)
	})
}

// A cluster that stops answering, and a joiner that loses patience.
func TestJoinWithoutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		stuck := make(chan struct{})
		l.open(1).OnJoin(func([]byte) ([]byte, error) { <-stuck; return nil, nil })
		began := time.Now()
		_, err := Join(t.Context(), l.net.Host("n2").Dial, "n1:1", testSecret, nil, nil)
		if d := time.Since(began); err == nil || d != limits.JoinMillis*time.Millisecond {
			t.Errorf("%v after %v", err, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = Join(ctx, l.net.Host("n2").Dial, "n1:1", testSecret, nil, nil)
		wantError(t, err, context.DeadlineExceeded)
		l.net.Isolate("n1", memnet.Reset)
		_, err = Join(t.Context(), l.net.Host("n2").Dial, "n1:1", testSecret, nil, nil)
		wantError(t, err, ErrUnreachable)
		close(stuck)
	})
}

// A node that has an id already cannot hide behind a join, nor one of another cluster.
func TestJoinOfAMember(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.open(1).OnJoin(func([]byte) ([]byte, error) { return nil, nil })
		for _, tt := range []struct {
			self Peer
			want error
		}{
			{Peer{}, nil}, {Peer{Cluster: testCluster}, nil}, {Peer{Cluster: 0xC2}, ErrCluster}, {Peer{Node: 1}, ErrIdentity},
		} {
			h, err := newHandshake(l.stranger(), testSecret, tt.self)
			must(t, err)
			_, err = h.call(PurposeJoin, 0)
			wantError(t, err, tt.want)
			h.conn.Close()
		}
	})
}
