//go:build !linux

package broker

import "net"

// socketState tells nothing here: a client that died while it was blocked is found when a heartbeat cannot be written.
func socketState(net.Conn) (closed bool, silentMillis uint64, ok bool) { return false, 0, false }
