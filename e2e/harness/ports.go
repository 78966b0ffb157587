package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports lie below the range that systems take the ports of outgoing connections from: a client that dials a broker while it is down could
// otherwise be given the broker's own port, connect to itself, and keep the port from the broker.
const (
	portFirst = 20000
	portLast  = 31999
	portTries = 1000
)

var givenPorts struct {
	mu   sync.Mutex
	used map[int]bool
}

// FreeAddress returns a loopback address with a port like freePort's, for a broker that listens in more places than usual.
func FreeAddress() (string, error) {
	port, err := freePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// freePort returns a loopback port that nobody listens on and that this process has not given away before.
func freePort() (int, error) {
	givenPorts.mu.Lock()
	defer givenPorts.mu.Unlock()
	if givenPorts.used == nil {
		givenPorts.used = map[int]bool{}
	}
	for range portTries {
		port := portFirst + rand.IntN(portLast-portFirst+1)
		if givenPorts.used[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		givenPorts.used[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d on 127.0.0.1", portFirst, portLast)
}
