// Package guess slows down who guesses passwords: after some failures every login from the same address has to wait, the longer the more failed.
//
// Hop before: the logins of packages broker and management, which share one Brake. Hop after: none. Invariants: nobody is locked out, for a wait is bounded; memory is bounded however many addresses
// there are.
package guess

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// Brake remembers failed logins by address. The zero value is ready; its methods may be called from several goroutines. A nil Brake does not brake.
type Brake struct {
	mu sync.Mutex
	of map[netip.Prefix]failures
}

// failures are how many logins have failed that are not yet forgotten, as of a time.
type failures struct {
	count float64
	at    time.Time
}

const (
	// failuresCounted is beyond what failures are not counted, so that they are soon forgotten: the longest wait is reached.
	failuresCounted  = limits.LoginFailuresFree + 6
	failureForgotten = limits.LoginFailureMillis * time.Millisecond
)

// now is how many failures are left.
func (f failures) now(now time.Time) float64 {
	return max(f.count-float64(now.Sub(f.at))/float64(failureForgotten), 0)
}

// origin is what counts as one address: of IPv6 a network of 64 bits. false for none.
func origin(addr netip.Addr) (netip.Prefix, bool) {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	return p, err == nil && addr.IsValid()
}

// Wait lets a login from an address wait as long as it has to; false if ctx ends meanwhile. Only what has an address waits.
func (b *Brake) Wait(ctx context.Context, peer netip.Addr) bool {
	d := b.delay(peer)
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *Brake) delay(peer netip.Addr) time.Duration {
	from, ok := origin(peer)
	if b == nil || !ok {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f, known := b.of[from]
	if !known {
		return 0
	}
	beyond := int(f.now(time.Now())+0.5) - limits.LoginFailuresFree
	if beyond < 0 {
		return 0
	}
	return time.Duration(min(limits.LoginDelayMillis<<beyond, limits.LoginDelayMillisMax)) * time.Millisecond
}

// Failed notes that a login from an address has failed.
func (b *Brake) Failed(peer netip.Addr) {
	from, ok := origin(peer)
	if b == nil || !ok {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = make(map[netip.Prefix]failures)
	}
	f, known := b.of[from]
	if !known && len(b.of) >= limits.LoginAddressesMax {
		b.forget(now)
	}
	b.of[from] = failures{min(f.now(now)+1, failuresCounted), now}
}

// forget makes room: what has nothing left goes, else half of the rest, whichever.
func (b *Brake) forget(now time.Time) {
	for from, f := range b.of {
		if f.now(now) == 0 {
			delete(b.of, from)
		}
	}
	for from := range b.of {
		if len(b.of) <= limits.LoginAddressesMax/2 {
			return
		}
		delete(b.of, from)
	}
}
