package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// TestHandshakeMatrix has a caller and a called node that do not fit, and what each of them says.
func TestHandshakeMatrix(t *testing.T) {
	for _, tt := range []struct {
		name   string
		caller func(*Config)
		called func(*Config)
		want   error
		text   string // in the caller's error
		either bool   // the called node hears nothing of it
	}{
		{name: "fits"},
		{name: "wrong secret", caller: func(c *Config) { c.Secret = []byte("another one") }, want: ErrSecret, text: "the caller does not know the secret"},
		{name: "secret with one bit changed", caller: func(c *Config) { c.Secret = flip(testSecret, len(testSecret)*8-1) }, want: ErrSecret},
		{name: "secret longer by a zero", caller: func(c *Config) { c.Secret = append(slices.Clone(testSecret), 0) }, want: ErrSecret},
		{name: "called node without secret", called: func(c *Config) { c.Secret = nil }, want: ErrNoSecret, text: "it takes nobody"},
		{name: "caller without secret", caller: func(c *Config) { c.Secret = nil }, want: ErrNoSecret, either: true},
		{name: "neither with secret", caller: func(c *Config) { c.Secret = nil }, called: func(c *Config) { c.Secret = nil }, want: ErrNoSecret, either: true},
		{name: "other cluster", caller: func(c *Config) { c.Cluster = 0xC2; c.Resolve = anywhere("n2:1") }, want: ErrCluster, text: "of cluster 00000000000000c2, the called node of 00000000000000c1"},
		{name: "other node at the address", caller: func(c *Config) { c.Resolve = anywhere("n3:1") }, want: ErrIdentity, text: "node 2 was called, node 3 answered"},
		{name: "own address", caller: func(c *Config) { c.Resolve = anywhere("n1:1") }, want: ErrIdentity, text: "one id, 1"},
		{name: "not admitted", called: func(c *Config) {
			c.Admit = func(p Peer, purpose Purpose) error {
				if p.Node != 1 || p.Boot != (Boot{1, 101}) || p.Cluster != testCluster || purpose != PurposeLink {
					return errors.New("the test is wrong")
				}
				return errors.New("node 1 was removed\nfrom the cluster")
			}
		}, want: ErrNotAdmitted, text: "node 1 was removed?from the cluster"},
		{name: "nothing listens", caller: func(c *Config) { c.Resolve = anywhere("n9:1") }, want: ErrUnreachable, either: true},
		{name: "unknown address", caller: func(c *Config) {
			c.Resolve = func(string) (string, error) { return "", errors.New("not in the catalogue") }
		}, want: ErrUnreachable, text: "not in the catalogue", either: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				keep := func(*Config) {}
				caller := l.open(1, orElse(tt.caller, keep))
				for _, id := range []uint64{2, 3} {
					l.open(id, orElse(tt.called, keep)).OnLink(func(*Link) {})
				}
				k, err := caller.DialLink(t.Context(), 2)
				heard := l.lastRefused()
				if tt.want == nil {
					must(t, err)
					must(t, heard)
					if p := k.Peer(); p.Node != 2 || p.Boot != (Boot{1, 102}) || p.Cluster != testCluster {
						t.Errorf("the peer is %+v", p)
					}
					return
				}
				wantError(t, err, tt.want)
				if !strings.Contains(err.Error(), tt.text) {
					t.Errorf("the caller says %q, want something with %q", err, tt.text)
				}
				if !tt.either {
					wantError(t, heard, tt.want)
				}
				if strings.Contains(err.Error(), string(testSecret)) {
					t.Error("the secret is in an error")
				}
			})
		})
	}
}

func orElse(f, other func(*Config)) func(*Config) {
	if f != nil {
		return f
	}
	return other
}

func anywhere(addr string) func(string) (string, error) {
	return func(string) (string, error) { return addr, nil }
}

func flip(b []byte, bit int) []byte {
	b = slices.Clone(b)
	b[bit/8] ^= 1 << (bit % 8)
	return b
}

func TestNotReadyUntilHandlersAreSet(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		a, b := l.open(1), l.open(2)
		for _, p := range []Purpose{PurposeLink, PurposeRaft, PurposeSnapshot} {
			_, err := a.dial(t.Context(), a.cfg.Dial, 2, p)
			wantError(t, err, ErrNotReady)
			wantError(t, l.lastRefused(), ErrNotReady)
		}
		_, err := Join(t.Context(), l.net.Host("n3").Dial, "n2:1", testSecret, nil, nil)
		wantError(t, err, ErrNotReady)
		b.OnLink(func(*Link) {})
		_, err = a.DialLink(t.Context(), 2)
		must(t, err)
	})
}

// shake does the caller's side by hand against node 1 after change.
func (l *lab) shake(change func(*handshake)) error {
	conn := l.stranger()
	defer conn.Close()
	h, err := newHandshake(conn, testSecret, Peer{Node: 7, Cluster: testCluster, Boot: Boot{1, 107}})
	must(l.t, err)
	change(h)
	_, err = h.call(PurposeLink, 1)
	return err
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		lowest, highest uint16
		fits            bool
	}{{1, 1, true}, {1, 9, true}, {0, 1, true}, {2, 9, false}, {0, 0, false}} {
		inBubble(t, func(t *testing.T, l *lab) {
			l.open(1).OnLink(func(*Link) {})
			err := l.shake(func(h *handshake) { h.lowest, h.highest = tt.lowest, tt.highest })
			if tt.fits {
				must(t, err)
				return
			}
			wantError(t, err, ErrVersion)
			wantError(t, l.lastRefused(), ErrVersion)
			if want := "the called node 1 to 1"; !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		})
	}
}

// tape is a connection that records what is read from and written to it.
type tape struct {
	net.Conn
	read, written bytes.Buffer
}

func (c *tape) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Write(p[:n])
	return n, err
}

func (c *tape) Write(p []byte) (int, error) {
	c.written.Write(p)
	return c.Conn.Write(p)
}

// record returns what crossed the wire in a good handshake of node 7 with node 1.
func (l *lab) record() *tape {
	conn := &tape{Conn: l.stranger()}
	defer conn.Close()
	h, err := newHandshake(conn, testSecret, Peer{Node: 7, Cluster: testCluster, Boot: Boot{1, 107}})
	must(l.t, err)
	_, err = h.call(PurposeLink, 1)
	must(l.t, err)
	return conn
}

func TestReplayedCallerIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.open(1).OnLink(func(*Link) {})
		heard := l.record()
		if bytes.Contains(heard.written.Bytes(), testSecret) || bytes.Contains(heard.read.Bytes(), testSecret) {
			t.Fatal("the secret crossed the wire")
		}
		conn := l.stranger()
		defer conn.Close()
		_, err := conn.Write(heard.written.Bytes()) // hello and proof
		must(t, err)
		got, err := io.ReadAll(conn)
		must(t, err)
		verdict := got[answerHeadBytes+identityBytes:]
		if refusalCode(verdict[0]) != codeSecret {
			t.Errorf("the verdict on a replay is code %d", verdict[0])
		}
		wantError(t, l.lastRefused(), ErrSecret)
	})
}

// A called node that replays an earlier one's side does not know the caller's new challenge.
func TestReplayedCalledNodeIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.open(1)
		n.OnLink(func(*Link) {})
		heard := l.record()
		n.Close()
		port, err := l.net.Host("n1").Listen(1)
		must(t, err)
		defer port.Close()
		go func() {
			conn, err := port.Accept()
			if err == nil {
				conn.Write(heard.read.Bytes())
				io.Copy(io.Discard, conn)
				conn.Close()
			}
		}()
		err = l.shake(func(*handshake) {})
		wantError(t, err, ErrSecret)
		if want := "the called node does not know the secret"; !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	})
}

// A caller that sends the called node's own proof back has proved nothing.
func TestReflectedProofIsRefused(t *testing.T) {
	h := &handshake{secret: testSecret, hello: []byte("hello"), answer: []byte("answer")}
	if bytes.Equal(h.prove(roleCaller), h.prove(roleCalled)) {
		t.Error("both roles prove themselves with the same bytes")
	}
	first := h.prove(roleCaller)
	h.hello, h.answer = []byte("helloa"), []byte("nswer")
	if bytes.Equal(first, h.prove(roleCaller)) {
		t.Error("the border between hello and answer is not proved")
	}
}

// Every bit of the caller's words is proved: a relay that changes one gets nobody in.
func TestChangedBitsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.open(1).OnLink(func(*Link) { t.Error("a changed hello was accepted") })
		for bit := 4 * 8; bit < (helloHeadBytes+helloBodyBytes)*8; bit += 5 {
			conn := l.stranger()
			h, err := newHandshake(conn, testSecret, Peer{Node: 7, Cluster: testCluster})
			must(t, err)
			h.purpose = PurposeLink
			h.hello = h.appendHello(nil)
			_, err = conn.Write(append(flip(h.hello, bit), bytes.Repeat([]byte{0}, 300)...)[:len(h.hello)])
			must(t, err)
			if _, err := h.readAnswer(); err == nil {
				h.write(appendVerdict(nil, codeOK, h.prove(roleCaller)))
				if _, err := h.readVerdict(); err == nil {
					t.Errorf("bit %d may change", bit)
				}
			}
			conn.Close()
		}
		synctest.Wait()
	})
}

func TestGarbageIsNotAnswered(t *testing.T) {
	for name, sent := range map[string]string{
		"http":                     "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"amqp":                     "AMQP\x00\x00\x09\x01AMQP\x00\x00\x09\x01",
		"zeros":                    strings.Repeat("\x00", 400),
		"tls":                      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00",
		"a hello that is too long": "WRRN\x00\x01\x00\x01\xff\xff" + strings.Repeat("x", 1000),
		"a hello with no body":     "WRRN\x00\x01\x00\x01\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				l.open(1).OnLink(func(*Link) { t.Error("it was taken for a link") })
				conn := l.stranger()
				defer conn.Close()
				_, err := io.WriteString(conn, sent)
				must(t, err)
				must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
				got, err := io.ReadAll(conn)
				if len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%q was answered with %x, %v", sent, got, err)
				}
				heard := l.lastRefused()
				wantError(t, heard, ErrHandshake)
				if name == "tls" && !strings.Contains(heard.Error(), "TLS") {
					t.Errorf("%q does not say that the caller wants TLS", heard)
				}
			})
		})
	}
}

// One byte a second gets five of them: the time counts for the whole handshake.
func TestSlowCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.open(1).OnLink(func(*Link) {})
		hello := (&handshake{purpose: PurposeLink, lowest: 1, highest: 1}).appendHello(nil)
		conn := l.stranger()
		defer conn.Close()
		began := time.Now()
		for _, b := range hello {
			if _, err := conn.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if d := time.Since(began); d > (limits.HandshakeMillis+1000)*time.Millisecond {
			t.Errorf("a slow caller was borne for %v", d)
		}
		wantError(t, l.lastRefused(), os.ErrDeadlineExceeded)
	})
}

// A called node that is silent must not hold its caller longer.
func TestSlowCalledNode(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		port, err := l.net.Host("n2").Listen(1)
		must(t, err)
		defer port.Close()
		began := time.Now()
		_, err = l.open(1).DialLink(t.Context(), 2)
		wantError(t, err, ErrHandshake)
		if d := time.Since(began); d != limits.HandshakeMillis*time.Millisecond {
			t.Errorf("the caller waited %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		_, err = l.nodes[1].DialLink(ctx, 2)
		wantError(t, err, context.DeadlineExceeded)
		if d := time.Since(began); d != time.Second {
			t.Errorf("the caller's context ended after 1s, the dial after %v", d)
		}
	})
}

// Callers that prove nothing take each other's places, and a real one gets through a thousand of them.
func TestCrowdOfSilentCallers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.open(1)
		n.OnLink(func(*Link) {})
		var crowd []net.Conn
		for range 3 * limits.HandshakesAtOnce {
			crowd = append(crowd, l.stranger())
			synctest.Wait()
		}
		must(t, l.shake(func(*handshake) {}))
		n.mu.Lock()
		places := len(n.unproved)
		n.mu.Unlock()
		if places > limits.HandshakesAtOnce {
			t.Errorf("%d connections that proved nothing are open", places)
		}
		wantError(t, l.lastRefused(), ErrCrowded)
		for _, c := range crowd {
			c.Close()
		}
	})
}

func TestProvedConnectionsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.open(1)
		n.OnLink(func(k *Link) { k.Receive() })
		n.mu.Lock()
		n.accepted = limits.PeerConnectionsMax
		n.mu.Unlock()
		wantError(t, l.shake(func(*handshake) {}), ErrCrowded)
		n.mu.Lock()
		n.accepted = 0
		n.mu.Unlock()
		for range 3 {
			must(t, l.shake(func(*handshake) {}))
		}
		time.Sleep(limits.LinkDeadMillis * time.Millisecond)
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.accepted != 0 || len(n.sessions) != 0 {
			t.Errorf("%d connections count that ended, of %d", n.accepted, len(n.sessions))
		}
	})
}
