package tls

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// strangers is how many clients connect and do not log in.
	strangers = 300
	// strangerBytesMax is what one of them may cost.
	strangerBytesMax = 48 << 10
)

// TestMemoryBeforeLogin: a client that has not logged in takes little, with its TLS handshake done and before it.
func TestMemoryBeforeLogin(t *testing.T) {
	s := prepare(t, "handshake_timeout = 120000", "ssl_handshake_timeout = 120000")
	s.broker.SetEnv(harness.SmallHeap...)
	s.broker.Launch(t)
	used := func() float64 {
		t.Helper()
		heap, err := s.broker.HeapInUse()
		if err != nil {
			t.Fatal(err)
		}
		stacks, err := s.broker.Metric("go_memstats_stack_inuse_bytes")
		if err != nil {
			t.Fatal(err)
		}
		return heap + stacks
	}
	for _, c := range []struct {
		name    string
		connect func() (net.Conn, error)
	}{
		{"TLS begun", func() (net.Conn, error) {
			conn, err := net.Dial("tcp", s.amqps)
			if err == nil {
				_, err = conn.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
			}
			return conn, err
		}},
		{"connection.start received", func() (net.Conn, error) {
			conn, err := tls.Dial("tcp", s.amqps, s.client())
			if err == nil {
				_, err = conn.Write([]byte("AMQP\x00\x00\x09\x01"))
			}
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			return conn, err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.awaitNobody(t)
			before := used()
			var conns []net.Conn
			defer func() {
				for _, conn := range conns {
					conn.Close()
				}
			}()
			for range strangers {
				conn, err := c.connect()
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
			}
			each := (used() - before) / strangers
			t.Logf("%.1f KiB each", each/(1<<10))
			if each > strangerBytesMax {
				t.Errorf("%.1f KiB each, want at most %d", each/(1<<10), strangerBytesMax>>10)
			}
		})
	}
}

// awaitNobody waits until there is no connection.
func (s *stage) awaitNobody(t *testing.T) {
	t.Helper()
	harness.Eventually(t, logTimeout, func() error {
		var list []struct{ Name string }
		s.broker.API(t, http.MethodGet, harness.Path("connections")+"?columns=name", nil).JSON(t, &list)
		if len(list) > 0 {
			return fmt.Errorf("%d connections", len(list))
		}
		return nil
	})
}
