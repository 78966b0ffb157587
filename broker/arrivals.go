package broker

import (
	"net"
	"net/netip"
	"time"
)

// arrivals bounds what comes in at the listeners, if it is configured: connections per second and connections of one address. What is beyond is closed before a byte is read. It is guarded by Broker.mu.
type arrivals struct {
	// perSecond and perAddress are the bounds, 0 for none.
	perSecond, perAddress int
	// left is how many may come at once, as of a time; a second's worth at most.
	left float64
	at   time.Time
	// of counts the connections of each address.
	of map[netip.Prefix]int
}

// take lets a connection in from an address, of which leave must be told; false if it is one too many.
func (a *arrivals) take(from netip.Prefix, now time.Time) bool {
	if a.perAddress > 0 && from.IsValid() && a.of[from] >= a.perAddress {
		return false
	}
	if a.perSecond > 0 {
		rate := float64(a.perSecond)
		a.left = min(a.left+rate*now.Sub(a.at).Seconds(), rate)
		a.at = now
		if a.left < 1 {
			return false
		}
		a.left--
	}
	if a.perAddress > 0 && from.IsValid() {
		if a.of == nil {
			a.of = make(map[netip.Prefix]int)
		}
		a.of[from]++
	}
	return true
}

func (a *arrivals) leave(from netip.Prefix) {
	switch n := a.of[from]; n {
	case 0:
	case 1:
		delete(a.of, from)
	default:
		a.of[from] = n - 1
	}
}

// addressOf is what counts as one address: of IPv6 a network of 64 bits. The zero Prefix is none.
func addressOf(peer net.Addr) netip.Prefix {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits)
	return p
}
