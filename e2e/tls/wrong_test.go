package tls

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// TestWrongPort: a client that expects TLS where there is none, or none where there is, hears so at once, and the log says what happened.
func TestWrongPort(t *testing.T) {
	t.Parallel()
	s := start(t, "ssl_handshake_timeout = 1500")
	t.Run("no TLS on a port with", func(t *testing.T) {
		c, err := rawamqp.Dial(s.amqps)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SendRaw("AMQP\x00\x00\x09\x01"); err != nil {
			t.Fatal(err)
		}
		if data, err := c.AwaitEnd(); err != nil || strings.Contains(string(data), "AMQP") {
			t.Errorf("got %q, %v", data, err)
		}
		s.awaitLog(t, "the client does not speak TLS")
	})
	t.Run("TLS on a port without", func(t *testing.T) {
		began := time.Now()
		_, err := tls.Dial("tcp", s.broker.AMQP, s.client())
		var other tls.RecordHeaderError
		if !errors.As(err, &other) || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.awaitLog(t, "a client began TLS on a port without")
	})
	t.Run("TLS that does not go on", func(t *testing.T) {
		silent, err := net.Dial("tcp", s.amqps)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		began := time.Now()
		if _, err := silent.Write([]byte("\x16\x03\x01\x02\x00\x01")); err != nil {
			t.Fatal(err)
		}
		if err := silent.SetReadDeadline(began.Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(silent)
		if d := time.Since(began); d < time.Second || d > 4*time.Second {
			t.Errorf("closed after %v: %v", d, err)
		}
		s.awaitLog(t, "it was not finished in time")
	})
	t.Run("the broker stops during a handshake", func(t *testing.T) {
		silent, err := net.Dial("tcp", s.amqps)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		began := time.Now()
		if err := s.broker.Stop(); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestFilesThatCannotBeUsed end the start with a line that names setting and file.
func TestFilesThatCannotBeUsed(t *testing.T) {
	s := prepare(t, "ssl_options.keyfile = /nowhere/key.pem")
	if err := s.broker.Exec(); err != nil {
		t.Fatal(err)
	}
	code, err := s.broker.Process().Wait(startTimeout)
	if err != nil || code != 65 || !strings.Contains(s.broker.Log(), "warren: ssl_options.*: the key /nowhere/key.pem: no such file or directory; put it right or name others") {
		t.Errorf("exit code %d, %v: %s", code, err, s.broker.Log())
	}
}
