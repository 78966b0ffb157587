package limits

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

const (
	// idleConnections are opened at most, idleConnectionsMin at least, the rest as far as idleOpenMax goes.
	idleConnections    = 10_000
	idleConnectionsMin = 2_000
	idleOpenMax        = 8 * time.Second
	// idleBytesMax is what an idle connection with one channel may take of the broker's memory, halfOpenBytesMax a socket that has not logged in.
	idleBytesMax     = 15_000
	halfOpenBytesMax = 16 << 10
	halfOpenSockets  = 3_000
	// untunedPayloadMax is the largest payload that a client may send before it has logged in: initial_frame_max without what a frame has around it.
	untunedPayloadMax = 8_192 - 8
	// filesSpare are the descriptors that broker and test need for all else.
	filesSpare = 200
	// openAtOnce is how many connections are opened side by side.
	openAtOnce = 16
	// settleMax is how long memory may take to come down to a bound: buffers are given back after a second of silence.
	settleMax = 10 * time.Second
)

// resident is the broker's resident set in bytes.
func resident(t *testing.T, b *harness.Broker) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		t.Skipf("no figures of a process here: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no VmRSS in %s", status)
	return 0
}

// awaitMemory wants the broker to have grown by at most most bytes for each of n since before.
func awaitMemory(t *testing.T, b *harness.Broker, before, n, most int, what string) {
	t.Helper()
	each := 0
	for end := time.Now().Add(settleMax); ; time.Sleep(100 * time.Millisecond) {
		each = (resident(t, b) - before) / n
		if each <= most || time.Now().After(end) {
			break
		}
	}
	t.Logf("%d %s: %d bytes each", n, what, each)
	if each > most {
		t.Errorf("%d %s take %d bytes each, at most %d are allowed", n, what, each, most)
	}
}

// openMany runs open n times, some at once, and stops early when more tells so. It returns what was opened.
func openMany(t *testing.T, n int, more func(opened int) bool, open func() (*rawamqp.Conn, error)) []*rawamqp.Conn {
	t.Helper()
	conns := make([]*rawamqp.Conn, n)
	var next, opened atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	for range openAtOnce {
		workers.Go(func() {
			for failed.Load() == nil && more(int(opened.Load())) {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				c, err := open()
				if err != nil {
					failed.Store(&err)
					return
				}
				conns[i] = c
				opened.Add(1)
			}
		})
	}
	workers.Wait()
	var list []*rawamqp.Conn
	for _, c := range conns {
		if c != nil {
			list = append(list, c)
		}
	}
	t.Cleanup(func() {
		for _, c := range list {
			c.Close()
		}
	})
	if err := failed.Load(); err != nil {
		t.Fatalf("after %d: %v", opened.Load(), *err)
	}
	return list
}

// settled opens and closes some connections, so that what a broker has once for all of them is not counted.
func settled(t *testing.T, b *harness.Broker) int {
	t.Helper()
	served(t, b)
	return resident(t, b)
}

// TestIdleConnections: what a connection costs that has one channel and does nothing.
func TestIdleConnections(t *testing.T) {
	harness.NeedFiles(t, idleConnections+filesSpare)
	b := harness.Start(t, harness.Options{})
	before := settled(t, b)
	began := time.Now()
	conns := openMany(t, idleConnections, func(opened int) bool {
		return harness.Full() || opened < idleConnectionsMin || time.Since(began) < idleOpenMax
	}, func() (*rawamqp.Conn, error) {
		c, err := rawamqp.Open(b.AMQP, rawamqp.Guest)
		if err == nil {
			err = c.OpenChannel(1)
		}
		return c, err
	})
	t.Logf("%d connections in %v", len(conns), time.Since(began).Round(time.Millisecond))
	awaitMemory(t, b, before, len(conns), idleBytesMax, "idle connections")
	served(t, b)
}

// halfOpen are clients that stop in the middle of the handshake.
var halfOpen = []struct {
	name string
	send func(*rawamqp.Conn) error
	near bool // to the bound
}{
	{name: "sockets on which nothing came", send: func(*rawamqp.Conn) error { return nil }},
	{name: "sockets that sent the protocol header", send: started},
	{name: "sockets that sent half of start-ok", send: func(c *rawamqp.Conn) error {
		startOK := rawamqp.StartOK(rawamqp.Guest).Append(nil)
		return errors.Join(started(c), c.SendRaw(string(startOK[:len(startOK)/2])))
	}},
	{name: "sockets that sent all but the end of the largest start-ok", near: true, send: func(c *rawamqp.Conn) error {
		login := rawamqp.Login{Mechanism: "PLAIN"}
		login.Response = strings.Repeat("x", untunedPayloadMax-len(rawamqp.StartOK(login).Payload))
		startOK := rawamqp.StartOK(login).Append(nil)
		return errors.Join(started(c), c.SendRaw(string(startOK[:len(startOK)-1])))
	}},
	{name: "sockets that did not answer tune", send: func(c *rawamqp.Conn) error {
		if err := started(c); err != nil {
			return err
		}
		_, err := c.Call(rawamqp.StartOK(rawamqp.Guest), 10, 30)
		return err
	}},
}

// started sends the protocol header and reads connection.start.
func started(c *rawamqp.Conn) error {
	if err := c.SendRaw(rawamqp.Header); err != nil {
		return err
	}
	_, err := c.Expect(10, 10)
	return err
}

// TestHalfOpenSocketsAreSmall: what a client costs that has not logged in.
func TestHalfOpenSocketsAreSmall(t *testing.T) {
	for _, kind := range halfOpen {
		t.Run(kind.name, func(t *testing.T) {
			if kind.near && !harness.Full() {
				t.Skip("close to the bound, which counts on a machine that does nothing else")
			}
			harness.NeedFiles(t, halfOpenSockets+filesSpare)
			b := harness.Start(t, harness.Options{})
			before := settled(t, b)
			openMany(t, halfOpenSockets, func(int) bool { return true }, func() (*rawamqp.Conn, error) {
				c, err := rawamqp.Dial(b.AMQP)
				if err == nil {
					err = kind.send(c)
				}
				return c, err
			})
			served(t, b) // a later client is served, so those before it are, too
			each := (resident(t, b) - before) / halfOpenSockets
			t.Logf("%d %s: %d bytes each", halfOpenSockets, kind.name, each)
			if each > halfOpenBytesMax {
				t.Errorf("%d %s take %d bytes each, at most %d are allowed", halfOpenSockets, kind.name, each, halfOpenBytesMax)
			}
		})
	}
}
