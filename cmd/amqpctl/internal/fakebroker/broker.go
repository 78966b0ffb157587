package fakebroker

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/warrenmq/warren/amqp"
)

// Fault is what happens to a published message instead of the usual.
type Fault int

// The faults.
const (
	None   Fault = iota
	Refuse       // nack
	Lose         // confirm and forget
	Double       // enqueue twice
	Silent       // enqueue and never confirm
	Hangup       // close the connection at once, without a word; messages before are confirmed
	Block        // say connection.blocked and take neither this nor further messages
)

// Config says how the broker behaves.
type Config struct {
	Password string                      // of every user; "" is guest
	FrameMax uint32                      // proposed; 0 is 131072
	OnPub    func(number uint64) Fault   // called with 1, 2, 3 ... for every publish of a connection
	OnCall   func(m amqp.MethodID) error // an *amqp.Error closes the channel instead of an answer
}

// Broker is a running broker.
type Broker struct {
	cfg    Config
	listen net.Listener

	mu     sync.Mutex
	queues map[string]*queue
	conns  map[*conn]bool
}

type message struct {
	exchange, key string
	properties    []byte
	body          []byte
	redelivered   bool
}

type queue struct {
	ready     []message
	consumers []*conn
}

// Start runs a broker on a port of its own until the test ends.
func Start(t testing.TB, cfg Config) *Broker {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Password == "" {
		cfg.Password = "guest"
	}
	if cfg.FrameMax == 0 {
		cfg.FrameMax = 131072
	}
	b := &Broker{cfg: cfg, listen: listen, queues: map[string]*queue{}, conns: map[*conn]bool{}}
	go b.accept()
	t.Cleanup(func() {
		listen.Close()
		b.Disconnect()
	})
	return b
}

// URL returns the AMQP URL of the broker.
func (b *Broker) URL() string { return fmt.Sprintf("amqp://guest:guest@%s", b.listen.Addr()) }

// Declare makes a queue.
func (b *Broker) Declare(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ensure(name)
}

func (b *Broker) ensure(name string) *queue {
	if b.queues[name] == nil {
		b.queues[name] = &queue{}
	}
	return b.queues[name]
}

// Put appends messages to a queue.
func (b *Broker) Put(name string, bodies ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.ensure(name)
	for _, body := range bodies {
		q.ready = append(q.ready, message{key: name, properties: []byte{0, 0}, body: []byte(body)})
	}
	b.pump(q)
}

// Bodies returns the bodies of the ready messages of a queue; ok is false when there is no such queue.
func (b *Broker) Bodies(name string) (bodies []string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	if q == nil {
		return nil, false
	}
	for _, m := range q.ready {
		bodies = append(bodies, string(m.body))
	}
	return bodies, true
}

// Redelivered returns how many ready messages of a queue were delivered before.
func (b *Broker) Redelivered(name string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q := b.queues[name]; q != nil {
		for _, m := range q.ready {
			if m.redelivered {
				n++
			}
		}
	}
	return n
}

// Disconnect closes every connection without a word.
func (b *Broker) Disconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		c.net.Close()
	}
}

func (b *Broker) accept() {
	for {
		raw, err := b.listen.Accept()
		if err != nil {
			return
		}
		c := &conn{broker: b, net: raw, frames: amqp.NewReader(raw, nil, 131072)}
		c.more.L = &c.mu
		b.mu.Lock()
		b.conns[c] = true
		b.mu.Unlock()
		go c.writeLoop()
		go func() {
			c.serve()
			b.forget(c)
			c.end()
		}()
	}
}

// forget ends a connection's consumer and returns its messages. The caller does not hold the lock.
func (b *Broker) forget(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
	b.closeChannel(c)
}

// closeChannel ends a channel: what was not acknowledged goes back to the front of the queue.
func (b *Broker) closeChannel(c *conn) {
	b.cancel(c)
	if q := b.queues[c.queue]; q != nil {
		b.giveBack(q, c, len(c.unacked))
	}
	c.unacked = nil
}

// cancel ends the consumer of a connection.
func (b *Broker) cancel(c *conn) {
	q := b.queues[c.queue]
	if q == nil {
		return
	}
	kept := q.consumers[:0]
	for _, other := range q.consumers {
		if other != c {
			kept = append(kept, other)
		}
	}
	q.consumers = kept
}

// giveBack returns the first n unacknowledged messages of a connection to the front.
func (b *Broker) giveBack(q *queue, c *conn, n int) {
	back := make([]message, 0, n+len(q.ready))
	for _, d := range c.unacked[:n] {
		m := d.message
		m.redelivered = true
		back = append(back, m)
	}
	q.ready = append(back, q.ready...)
	c.unacked = c.unacked[n:]
	b.pump(q)
}

// pump delivers what consumers may have, in turn.
func (b *Broker) pump(q *queue) {
	for idle := 0; len(q.ready) > 0 && idle < len(q.consumers); {
		c := q.consumers[0]
		q.consumers = append(q.consumers[1:], c)
		if !c.noAck && c.prefetch > 0 && len(c.unacked) >= c.prefetch {
			idle++
			continue
		}
		idle = 0
		m := q.ready[0]
		q.ready = q.ready[1:]
		c.tag++
		if !c.noAck {
			c.unacked = append(c.unacked, delivery{c.tag, m})
		}
		c.deliver(m)
	}
}
