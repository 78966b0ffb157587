package broker

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

func vhostLimit(name string, value int64) meta.Command {
	return meta.Command{Op: meta.OpSetVHostLimit, VHost: meta.VHost{Name: "/"}, Limit: meta.Limit{Name: name, Value: value}}
}

func userLimit(user, name string, value int64) meta.Command {
	return meta.Command{Op: meta.OpSetUserLimit, User: meta.User{Name: user}, Limit: meta.Limit{Name: name, Value: value}}
}

// enters logs in and opens a virtual host, and returns the answer to that.
func (b *testBroker) enters(user, vhost string) (*rawClient, string) {
	b.tb.Helper()
	r := b.raw()
	r.start()
	r.send(0, plain(user, "guest"))
	if _, ok := r.method().(*amqp.ConnectionTune); !ok {
		b.tb.Fatal("no connection.tune")
	}
	r.send(0, &amqp.ConnectionTuneOk{}, &amqp.ConnectionOpen{VirtualHost: vhost})
	m := r.method()
	if c, ok := m.(*amqp.ConnectionClose); ok {
		r.send(0, &amqp.ConnectionCloseOk{})
		r.ends()
		return r, c.ReplyText
	}
	return r, m.String()
}

// leaves ends a connection and waits until it does not count any more.
func (b *testBroker) leaves(r *rawClient) {
	b.tb.Helper()
	before := len(b.Connections())
	r.call(0, &amqp.ConnectionClose{ReplyCode: 200}, "connection.close-ok")
	_ = r.nc.Close()
	b.eventually("the connection ends", func() bool { return len(b.Connections()) < before })
}

func (b *testBroker) eventually(what string, done func() bool) {
	b.tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.tb.Fatalf("%s: not within 10 s", what)
		}
	}
}

const opened = "connection.open-ok"

func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		try := func(user, vhost, want string) *rawClient {
			t.Helper()
			r, got := b.enters(user, vhost)
			if got != want {
				t.Fatalf("%s into %s: %s, want %s", user, vhost, got, want)
			}
			return r
		}
		first := try("guest", "/", opened) // counts though there was no limit when it came
		b.do(vhostLimit(meta.MaxConnections, 2), userLimit("guest", meta.MaxConnections, 1))
		try("guest", "/", "NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached")
		other := try(limitedUser, "/", opened)
		try(limitedUser, "/", "NOT_ALLOWED - access to vhost '/' refused for user 'limited': connection limit (2) is reached")
		try(limitedUser, "nowhere", "NOT_ALLOWED - vhost nowhere not found")
		// Who is refused, and who has left, takes nobody's place.
		b.leaves(first)
		try("guest", "closed", "NOT_ALLOWED - access to vhost 'closed' refused for user 'guest'")
		first = try("guest", "/", opened)
		b.leaves(other)
		b.do(userLimit("guest", meta.MaxConnections, -1))
		try("guest", "/", opened)
		b.do(vhostLimit(meta.MaxConnections, 0))
		try("guest", "/", "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (0) is reached")
		b.do(meta.Command{Op: meta.OpClearVHostLimit, VHost: meta.VHost{Name: "/"}, Limit: meta.Limit{Name: meta.MaxConnections}}, userLimit("guest", meta.MaxConnections, 0))
		try("guest", "/", "NOT_ALLOWED - connection refused for user 'guest': user connection limit (0) is reached")
		try(limitedUser, "/", opened)
		first.sync0()
	})
}

// sync0 checks that a connection serves on.
func (c *rawClient) sync0() {
	c.tb.Helper()
	c.call(0, &amqp.ConnectionUpdateSecret{}, "connection.update-secret-ok")
}

func TestChannelLimitOfUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		b.do(userLimit("guest", meta.MaxChannels, 3))
		const reached = "530 NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed user limit of (3)"
		r, s := b.open(), b.open()
		r.call(2, &amqp.ChannelOpen{}, "channel.open-ok")
		s.send(2, &amqp.ChannelOpen{})
		s.dies(reached)
		b.eventually("the connection ends", func() bool { return len(b.Connections()) == 1 }) // and its channel counts no more
		r.call(3, &amqp.ChannelOpen{}, "channel.open-ok")
		r.call(2, &amqp.ChannelClose{}, "channel.close-ok")
		r.call(2, &amqp.ChannelOpen{}, "channel.open-ok")
		r.fails(2, &amqp.QueueDelete{}, "404 NOT_FOUND - no previously declared queue") // opens it again
		r.send(4, &amqp.ChannelOpen{})
		r.dies(reached)
	})
}

func TestQueueLimitOfVHost(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("a")
	b.do(vhostLimit(meta.MaxQueues, 2))
	r.call(1, &amqp.QueueDeclare{Queue: "b", Exclusive: true}, `queue.declare-ok queue="b" message-count=0 consumer-count=0`)
	const reached = "406 PRECONDITION_FAILED - cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
	r.fails(1, &amqp.QueueDeclare{Queue: "c", Durable: true}, reached)
	r.fails(1, &amqp.QueueDeclare{Queue: "c", Exclusive: true}, reached)
	r.declare("a") // one that exists is no more
	r.call(1, &amqp.QueueDelete{Queue: "b"}, "queue.delete-ok message-count=0")
	r.declare("c")
}

// pairHost gives two brokers one catalogue each and a way to each other.
type pairHost struct {
	*fakeHost
	node  meta.NodeID
	mu    sync.Mutex
	f     func(meta.NodeID, []byte)
	other *pairHost
	deaf  bool
}

func (h *pairHost) OnTold(f func(meta.NodeID, []byte)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.f = f
}

func (h *pairHost) Tell(payload []byte) {
	h.other.mu.Lock()
	f, deaf := h.other.f, h.other.deaf
	h.other.mu.Unlock()
	if f != nil && !deaf {
		f(h.node, append([]byte(nil), payload...))
	}
}

func (h *pairHost) TellNode(_ meta.NodeID, payload []byte) { h.Tell(payload) }

func (h *pairHost) AskTold(context.Context, meta.NodeID, []byte) ([]byte, error) {
	return nil, quorum.ErrClosed
}

func (h *pairHost) OnAsked(func([]byte) []byte) {}

// What other nodes serve counts, too, as soon as they have told; a node that is not heard any more counts no more.
func TestLimitsCountOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &pairHost{node: 1}, &pairHost{node: 2}
		one.other, two.other = two, one
		var bs []*testBroker
		for _, h := range []*pairHost{one, two} {
			bs = append(bs, startBroker(t, func(o *Options) { h.fakeHost = o.Host.(*fakeHost); o.Host = h }))
		}
		for _, b := range bs {
			b.do(vhostLimit(meta.MaxConnections, 3), userLimit("guest", meta.MaxConnections, 2), userLimit("guest", meta.MaxChannels, 1))
		}
		r, s := bs[0].open(), bs[1].raw()
		time.Sleep(2 * tickPeriod)
		s.login("guest", amqp.ConnectionTuneOk{})
		s.send(1, &amqp.ChannelOpen{})
		s.dies("530 NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed user limit of (1)")
		bs[1].eventually("the connection ends", func() bool { return len(bs[1].Connections()) == 0 }) // and counts no more
		if _, got := bs[1].enters("guest", "/"); got != opened {
			t.Fatal(got)
		}
		time.Sleep(2 * tickPeriod)
		if _, got := bs[0].enters("guest", "/"); got != "NOT_ALLOWED - connection refused for user 'guest': user connection limit (2) is reached" {
			t.Fatal(got)
		}
		if _, got := bs[1].enters(limitedUser, "/"); got != opened {
			t.Fatal(got)
		}
		time.Sleep(2 * tickPeriod)
		if _, got := bs[0].enters(limitedUser, "/"); got != "NOT_ALLOWED - access to vhost '/' refused for user 'limited': connection limit (3) is reached" {
			t.Fatal(got)
		}
		one.mu.Lock()
		one.deaf = true
		one.mu.Unlock()
		time.Sleep((toldTicks + 2) * tickPeriod)
		if _, got := bs[0].enters("guest", "/"); got != opened {
			t.Fatal(got)
		}
		r.sync(1)
	})
}

// Any bytes from another node are read or ignored.
func TestToldGarbage(t *testing.T) {
	b := startBroker(t)
	b.do(userLimit("guest", meta.MaxConnections, 1))
	b.usage.limitedUsers = []string{"guest"}
	b.usage.users = map[string]*userUse{"guest": {connections: 3, channels: 4}}
	whole := b.usage.word()
	b.usage.users = nil
	for cut := range whole {
		b.told(2, whole[:cut])
	}
	b.told(2, append(whole, 0))
	b.told(2, append([]byte{toldFormat + 1}, whole[1:]...))
	if len(b.usage.others) != 0 {
		t.Fatal("half a word counts")
	}
	b.told(2, whole)
	if got := b.usage.userOf("guest", b.tick.Load()); got != (userUse{3, 4}) {
		t.Fatalf("heard %+v", got)
	}
}

func TestLoopbackAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.255.0.9": true, "::1": true, "::ffff:127.0.0.1": true, "::ffff:127.9.9.9": true, "128.0.0.1": false, "::2": false, "::ffff:128.0.0.1": false, "192.0.2.1": false, "::": false, "0.0.0.0": false,
	} {
		if got := isLoopback(&net.TCPAddr{IP: net.ParseIP(text), Port: 1}); got != want {
			t.Errorf("%s: loopback %v", text, got)
		}
	}
}
