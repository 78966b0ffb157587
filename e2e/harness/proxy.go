package harness

import (
	wire "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Net stands between the nodes of a cluster: each node advertises the address of a proxy, which forwards to its cluster port. What one node sends to another can be held up, per
// pair and direction, or the connections of a pair can be reset. Its methods may be called from many goroutines.
//
// Who calls is read from the hello that begins each connection (quorum/transport has its layout), who is called from the answer: the proxies learn the nodes' ids that way.
type Net struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when a rule changes
	ends     map[string]*end
	ids      map[uint64]string // node id on the wire -> name
	stalled  map[direction]bool
	cut      map[direction]bool
	conns    map[*proxied]struct{}
	closed   bool
	forwards sync.WaitGroup
}

// direction is one way between two nodes, by name.
type direction struct{ from, to string }

// end is the proxy in front of one node.
type end struct {
	name, behind string
	listener     net.Listener
}

// proxied is one connection between two nodes.
type proxied struct {
	caller, called net.Conn
	from           uint64 // the caller's id; 0 for one that joins
	to             string
}

// way is one way of a connection.
type way struct {
	c    *proxied
	back bool // from the called node to the caller
}

func newNet() *Net {
	return &Net{changed: make(chan struct{}), ends: map[string]*end{}, ids: map[uint64]string{}, stalled: map[direction]bool{}, cut: map[direction]bool{},
		conns: map[*proxied]struct{}{}}
}

// add puts a proxy in front of a node and returns its address.
func (n *Net) add(name, behind string) (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "", err
	}
	e := &end{name: name, behind: behind, listener: l}
	n.mu.Lock()
	n.ends[name] = e
	n.mu.Unlock()
	n.forwards.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.forwards.Go(func() { n.serve(e, conn) })
		}
	})
	return l.Addr().String(), nil
}

// Stall holds up what from sends to to, as a network does that drops packets: nothing is lost, nothing arrives.
func (n *Net) Stall(from, to *Node) { n.rule(n.stalled, from, to, true) }

// Partition stalls both ways between every node of one side and every node of the other.
func (n *Net) Partition(one, other []*Node) {
	for _, a := range one {
		for _, b := range other {
			n.Stall(a, b)
			n.Stall(b, a)
		}
	}
}

// Cut resets the connections between two nodes and those that they try to make.
func (n *Net) Cut(a, b *Node) {
	n.rule(n.cut, a, b, true)
	n.rule(n.cut, b, a, true)
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if n.cut[n.direction(way{c: c})] {
			c.reset()
		}
	}
}

// Heal ends every rule.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.stalled)
	clear(n.cut)
	n.broadcast()
}

// Close ends all connections and stops listening.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	for _, e := range n.ends {
		e.listener.Close()
	}
	for c := range n.conns {
		c.reset()
	}
	n.broadcast()
	n.mu.Unlock()
	n.forwards.Wait()
}

func (n *Net) rule(rules map[direction]bool, from, to *Node, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rules[direction{from.Name, to.Name}] = on
	n.broadcast()
}

// broadcast wakes what waits for a rule. Called with n.mu held.
func (n *Net) broadcast() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// The hello and the answer of quorum/transport: a head with the length of the body at its end; the node's id stands in the body.
const (
	helloHeadBytes, helloNodeAt   = 10, 1
	answerHeadBytes, answerNodeAt = 9, 0
	helloTimeout                  = 10 * time.Second
)

// readIdentity reads a first message and the node id in it, 0 if there is none.
func readIdentity(conn net.Conn, headBytes, nodeAt int) (message []byte, id uint64, err error) {
	message = make([]byte, headBytes)
	if _, err := io.ReadFull(conn, message); err != nil {
		return nil, 0, err
	}
	body := make([]byte, wire.BigEndian.Uint16(message[headBytes-2:]))
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, 0, err
	}
	if len(body) >= nodeAt+8 {
		id = wire.BigEndian.Uint64(body[nodeAt:])
	}
	return append(message, body...), id, nil
}

// serve forwards one connection to the node behind e.
func (n *Net) serve(e *end, caller net.Conn) {
	defer caller.Close()
	_ = caller.SetReadDeadline(time.Now().Add(helloTimeout))
	hello, id, err := readIdentity(caller, helloHeadBytes, helloNodeAt)
	if err != nil {
		return
	}
	_ = caller.SetReadDeadline(time.Time{})
	c := &proxied{caller: caller, from: id, to: e.name}
	if !n.pass(way{c: c}) {
		c.reset()
		return
	}
	if c.called, err = net.DialTimeout("tcp", e.behind, helloTimeout); err != nil {
		c.reset()
		return
	}
	defer c.called.Close()
	if !n.enter(c) {
		return
	}
	defer n.leave(c)
	if _, err := c.called.Write(hello); err != nil {
		return
	}
	answer, id, err := readIdentity(c.called, answerHeadBytes, answerNodeAt)
	if err != nil {
		return
	}
	if answer[answerHeadBytes-3] == 0 { // accepted
		n.learn(id, e.name)
	}
	if !n.pass(way{c: c, back: true}) {
		return
	}
	if _, err := caller.Write(answer); err != nil {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { n.pump(c.called, caller, way{c: c}) })
	ways.Go(func() { n.pump(caller, c.called, way{c: c, back: true}) })
	ways.Wait()
}

// pump forwards one way until it ends; a stalled way holds the end up as well.
func (n *Net) pump(dst, src net.Conn, w way) {
	buf := make([]byte, 64<<10)
	for {
		count, err := src.Read(buf)
		if !n.pass(w) {
			break
		}
		if _, failed := dst.Write(buf[:count]); err != nil || failed != nil {
			break
		}
	}
	src.Close()
	dst.Close()
}

// pass waits until the way is open. False: it is cut.
func (n *Net) pass(w way) bool {
	for {
		n.mu.Lock()
		d := n.direction(w)
		stalled, cut, changed := n.stalled[d], n.cut[d] || n.closed, n.changed
		n.mu.Unlock()
		if cut || !stalled {
			return !cut
		}
		<-changed
	}
}

// direction names both ends; a caller that nobody has called yet has no name. Called with n.mu held.
func (n *Net) direction(w way) direction {
	d := direction{n.ids[w.c.from], w.c.to}
	if w.back {
		d.from, d.to = d.to, d.from
	}
	return d
}

func (n *Net) learn(id uint64, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids[id] = name
}

func (n *Net) enter(c *proxied) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *Net) leave(c *proxied) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// reset ends a connection without a farewell.
func (c *proxied) reset() {
	for _, conn := range []net.Conn{c.caller, c.called} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			tcp.Close()
		}
	}
}

func unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("not the JSON expected: %w\n%s", err, data)
	}
	return nil
}

func makeDir(dir string) error { return os.MkdirAll(dir, 0o700) }
