package broker

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// attempts slow down who guesses passwords: after some failures every login from the same address has to wait, the longer the more failed. Nobody is locked out.
type attempts struct {
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

// origin is what counts as one address; false for what is none, as in tests.
func origin(peer net.Addr) (netip.Prefix, bool) {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	return p, err == nil
}

// delay tells how long a login from there has to wait now.
func (a *attempts) delay(peer net.Addr) time.Duration {
	from, ok := origin(peer)
	if !ok {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, known := a.of[from]
	if !known {
		return 0
	}
	beyond := int(f.now(time.Now())+0.5) - limits.LoginFailuresFree
	if beyond < 0 {
		return 0
	}
	return time.Duration(min(limits.LoginDelayMillis<<beyond, limits.LoginDelayMillisMax)) * time.Millisecond
}

// failed notes that a login from there has failed.
func (a *attempts) failed(peer net.Addr) {
	from, ok := origin(peer)
	if !ok {
		return
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = make(map[netip.Prefix]failures)
	}
	f, known := a.of[from]
	if !known && len(a.of) >= limits.LoginAddressesMax {
		a.forget(now)
	}
	a.of[from] = failures{min(f.now(now)+1, failuresCounted), now}
}

// forget makes room: what has nothing left goes, else half of the rest, whichever.
func (a *attempts) forget(now time.Time) {
	for from, f := range a.of {
		if f.now(now) == 0 {
			delete(a.of, from)
		}
	}
	for from := range a.of {
		if len(a.of) <= limits.LoginAddressesMax/2 {
			return
		}
		delete(a.of, from)
	}
}

// hold lets a login wait if too many from its address have failed; false if the broker closes meanwhile.
func (c *conn) hold() bool {
	d := c.b.attempts.delay(c.ends.Load().peer)
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.b.ending:
		return false
	}
}
