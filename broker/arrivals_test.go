package broker

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// comesFrom is a connection from an address.
type comesFrom struct {
	net.Conn
	ip string
}

func (c comesFrom) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 4711} }

// knock connects from an address and tells whether the broker talks to it.
func (b *testBroker) knock(ip string) (net.Conn, bool) {
	client, server := net.Pipe()
	b.ServeConn(comesFrom{server, ip})
	if _, err := client.Write([]byte(amqp.ProtocolHeader)); err != nil {
		return client, false
	}
	_, err := io.ReadFull(client, make([]byte, 7))
	return client, err == nil
}

// TestConnectionsPerSecond: the newest ones beyond the limit are closed at once, and others are let in when time has passed.
func TestConnectionsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5
		b := startBroker(t, func(o *Options) { o.ConnectionsPerSecondMax = most })
		burst := func() (in int) {
			for range 3 * most {
				if c, ok := b.knock("192.0.2.1"); ok {
					in++
					defer c.Close()
				}
			}
			return in
		}
		time.Sleep(10 * time.Second) // a pause does not add up
		if in := burst(); in != most {
			t.Errorf("%d at once, want %d", in, most)
		}
		if in := burst(); in != 0 {
			t.Errorf("%d more at once", in)
		}
		time.Sleep(400 * time.Millisecond)
		if in := burst(); in != 2 {
			t.Errorf("%d after two fifths of a second, want 2", in)
		}
	})
}

// TestConnectionsPerAddress: an address has its number of connections, others theirs; when one goes another may come.
func TestConnectionsPerAddress(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.ConnectionsPerAddressMax = 2 })
	want := func(ip string, in bool) net.Conn {
		t.Helper()
		c, ok := b.knock(ip)
		if ok != in {
			t.Errorf("from %s: let in %v, want %v", ip, ok, in)
		}
		return c
	}
	first := want("192.0.2.1", true)
	defer want("::ffff:192.0.2.1", true).Close()
	want("192.0.2.1", false)
	defer want("192.0.2.2", true).Close()
	defer want("2001:db8::1", true).Close()
	defer want("2001:db8::2", true).Close()
	want("2001:db8::3", false) // the same network
	defer want("2001:db8:0:1::1", true).Close()
	_ = first.Close()
	b.until(func() bool { return len(b.connections()) == 5 })
	defer want("192.0.2.1", true).Close()
	want("192.0.2.1", false)
}

// TestUnauthenticatedConnectionsMax: beyond the limit the newest is closed; who was there stays.
func TestUnauthenticatedConnectionsMax(t *testing.T) {
	b := startBroker(t)
	before := b.open()
	for range limits.UnauthenticatedConnectionsMax {
		c := b.dial()
		defer c.Close()
	}
	if _, ok := b.knock("192.0.2.1"); ok {
		t.Error("one more is let in")
	}
	before.sync(1)
}
