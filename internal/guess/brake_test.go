package guess

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// TestWaits grow with the failures and go as they are forgotten.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Brake
		from := netip.MustParseAddr("192.0.2.1")
		waited := func() time.Duration {
			began := time.Now()
			if !b.Wait(t.Context(), from) {
				t.Error("given up")
			}
			return time.Since(began)
		}
		for range limits.LoginFailuresFree {
			if d := waited(); d != 0 {
				t.Errorf("waited %v before the limit", d)
			}
			b.Failed(from)
		}
		for failures, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
			if d := b.delay(from); d != want {
				t.Errorf("%d failures beyond: %v, want %v", failures, d, want)
			}
			b.Failed(from)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if b.Wait(over, from) {
			t.Error("waited for nobody")
		}
		if d := b.delay(netip.MustParseAddr("192.0.2.2")); d != 0 {
			t.Errorf("another address waits %v", d)
		}
		time.Sleep(failuresCounted * failureForgotten)
		if d := waited(); d != 0 {
			t.Errorf("waited %v when all was forgotten", d)
		}
		(*Brake)(nil).Failed(from)
		if !(*Brake)(nil).Wait(over, from) || !b.Wait(over, netip.Addr{}) {
			t.Error("nothing to wait for")
		}
	})
}

// TestGuessersAreForgotten: as many addresses as there are do not take more memory than some.
func TestGuessersAreForgotten(t *testing.T) {
	var b Brake
	for i := range 3 * limits.LoginAddressesMax {
		b.Failed(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(i)))))
		if len(b.of) > limits.LoginAddressesMax {
			t.Fatalf("%d addresses", len(b.of))
		}
	}
	network := func(host byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: host})
	}
	for i := range 6 {
		b.Failed(network(byte(i)))
	}
	if b.delay(network(200)) == 0 {
		t.Error("addresses of one network count each for itself")
	}
}
