package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pair connects host a with host b, port 1.
func pair(t *testing.T, n *Net) (near, far net.Conn) {
	t.Helper()
	l, err := n.Host("b").Listen(1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = n.Host("a").Dial(t.Context(), "b:1")
	if err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// expect reads exactly text and says how long that took.
func expect(t *testing.T, c net.Conn, text string) time.Duration {
	t.Helper()
	began := time.Now()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("read %q, %v, want %q", got, err, text)
	}
	return time.Since(began)
}

// silent fails if anything arrives within d.
func silent(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(d)))
	n, err := c.Read(make([]byte, 10))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, want silence", n, err)
	}
	must(t, c.SetReadDeadline(time.Time{}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error %v, want %v", got, want)
	}
}

func TestLatencyIsPerDirectionAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		n.SetLatency("", "", 3*time.Millisecond)
		n.SetLatency("b", "a", 20*time.Millisecond)
		began := time.Now()
		a, b := pair(t, n)
		if d := time.Since(began); d != 23*time.Millisecond {
			t.Errorf("the connection opened after %v, want both ways, 23ms", d)
		}
		write(t, a, "one")
		n.SetLatency("a", "b", time.Millisecond)
		write(t, a, "two")
		if d := expect(t, b, "onetwo"); d != 3*time.Millisecond {
			t.Errorf("data arrived after %v, want 3ms: nothing overtakes", d)
		}
		write(t, b, "back")
		if d := expect(t, a, "back"); d != 20*time.Millisecond {
			t.Errorf("the answer took %v, want 20ms", d)
		}
	})
}

func TestCloseArrivesBehindTheData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, New())
		write(t, a, "last words")
		must(t, a.Close())
		expect(t, b, "last words")
		_, err := b.Read(make([]byte, 1))
		wantError(t, err, io.EOF)
		wantError(t, a.Close(), net.ErrClosed)
		_, err = a.Read(make([]byte, 1))
		wantError(t, err, net.ErrClosed)
		write(t, b, "too late") // accepted, then answered by a reset
		_, err = b.Write([]byte("x"))
		wantError(t, err, syscall.ECONNRESET)
	})
}

func TestWindowHoldsTheWriterBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, New())
		data := bytes.Repeat([]byte("0123456789abcdef"), 3*windowBytes/16)
		done := make(chan error, 1)
		go func() {
			_, err := a.Write(data)
			done <- err
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("three windows were written without a reader")
		default:
		}
		got := make([]byte, len(data))
		_, err := io.ReadFull(b, got)
		must(t, err)
		must(t, <-done)
		if !bytes.Equal(got, data) {
			t.Error("the bytes changed on their way")
		}
		must(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
		k, err := a.Write(data)
		wantError(t, err, os.ErrDeadlineExceeded)
		if k != windowBytes {
			t.Errorf("%d bytes were written into an empty window of %d", k, windowBytes)
		}
	})
}

func TestOneWayStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		n.Cut("a", "b", Stall)
		write(t, a, "held")
		silent(t, b, time.Hour)
		write(t, b, "other way")
		expect(t, a, "other way")
		n.SetLatency("a", "b", 5*time.Millisecond)
		n.Heal("a", "b")
		if d := expect(t, b, "held"); d != 5*time.Millisecond {
			t.Errorf("held data arrived %v after the heal, want the latency, 5ms", d)
		}
	})
}

func TestAcknowledgementsStallToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		n.Cut("b", "a", Stall)
		window := make([]byte, windowBytes)
		_, err := a.Write(window)
		must(t, err)
		_, err = io.ReadFull(b, window)
		must(t, err)
		must(t, a.SetWriteDeadline(time.Now().Add(time.Minute)))
		_, err = a.Write([]byte("x"))
		wantError(t, err, os.ErrDeadlineExceeded)
		must(t, a.SetWriteDeadline(time.Time{}))
		n.Heal("b", "a")
		write(t, a, "y")
		expect(t, b, "y")
	})
}

func TestResetCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		l, err := n.Host("b").Listen(2)
		must(t, err)
		n.Cut("a", "b", Reset)
		_, err = a.Read(make([]byte, 1))
		wantError(t, err, syscall.ECONNRESET)
		_, err = b.Write([]byte("x"))
		wantError(t, err, syscall.ECONNRESET)
		_, err = n.Host("a").Dial(t.Context(), "b:2")
		wantError(t, err, syscall.ECONNREFUSED)
		n.HealAll()
		_, err = n.Host("a").Dial(t.Context(), "b:2")
		must(t, err)
		must(t, l.Close())
	})
}

func TestDialWaitsWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		l, err := n.Host("b").Listen(1)
		must(t, err)
		n.Host("a")
		n.Isolate("b", Stall)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = n.Host("a").Dial(ctx, "b:1")
		wantError(t, err, os.ErrDeadlineExceeded)
		if d := time.Since(began); d != time.Second {
			t.Errorf("the dial gave up after %v, want 1s", d)
		}
		time.AfterFunc(7*time.Second, n.HealAll)
		began = time.Now()
		c, err := n.Host("a").Dial(t.Context(), "b:1")
		must(t, err)
		if d := time.Since(began); d != 7*time.Second {
			t.Errorf("the dial took %v, want until the heal, 7s", d)
		}
		must(t, c.Close())
		must(t, l.Close())
		_, err = n.Host("a").Dial(t.Context(), "b:1")
		wantError(t, err, syscall.ECONNREFUSED)
	})
}

func TestKilledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		l, err := n.Host("b").Listen(2)
		must(t, err)
		n.Host("b").Kill()
		_, err = l.Accept()
		wantError(t, err, net.ErrClosed)
		_, err = b.Read(make([]byte, 1))
		wantError(t, err, net.ErrClosed)
		_, err = a.Read(make([]byte, 1))
		wantError(t, err, syscall.ECONNRESET)
		_, err = n.Host("a").Dial(t.Context(), "b:2")
		wantError(t, err, syscall.ECONNREFUSED)
		if _, err = n.Host("b").Listen(2); err != nil {
			t.Fatal("a restarted process cannot listen:", err)
		}
	})
}

func TestPowerOffIsSilentUntilPowerOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, _ := pair(t, n)
		n.Host("b").PowerOff()
		write(t, a, "nobody is there")
		silent(t, a, time.Hour)
		n.Host("b").PowerOn()
		_, err := a.Read(make([]byte, 1))
		wantError(t, err, syscall.ECONNRESET)
	})
}

// A writer that nobody reads from must hear that its peer closed during a partition, or it waits for ever.
func TestCloseDuringStallReachesTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := pair(t, n)
		n.Isolate("a", Stall)
		done := make(chan error, 1)
		go func() {
			_, err := a.Write(make([]byte, 2*windowBytes))
			done <- err
		}()
		synctest.Wait()
		must(t, b.Close())
		n.HealAll()
		wantError(t, <-done, syscall.ECONNRESET)
	})
}

// The network works without a bubble, too, and under the race detector.
func TestRealTime(t *testing.T) {
	n := New()
	n.SetLatency("", "", time.Millisecond)
	a, b := pair(t, n)
	go io.Copy(b, b)
	for range 20 {
		write(t, a, "ping")
		expect(t, a, "ping")
	}
	must(t, a.Close())
}
