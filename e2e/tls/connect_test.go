package tls

import (
	"bytes"
	"crypto/tls"
	"testing"
	"time"
)

// logTimeout bounds the wait for a line of the broker's log.
const logTimeout = 10 * time.Second

func TestConnect(t *testing.T) {
	s := start(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			config := s.client()
			config.MinVersion, config.MaxVersion = version, version
			conn, err := s.dial(config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			roundTrip(t, conn, []byte("small"))
			roundTrip(t, conn, bytes.Repeat([]byte("large"), 1<<20))
		})
	}
	t.Run("TLS 1.1", func(t *testing.T) {
		config := s.client()
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if conn, err := s.dial(config); err == nil {
			conn.Close()
			t.Error("connected")
		}
		s.awaitLog(t, "client offered only unsupported versions")
	})
}
