package memnet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// windowBytes is how much one direction of a connection takes before the reader must read: beyond it writes block.
	windowBytes = 256 << 10

	// backlogConns bounds the connections of a listener that nobody has accepted; beyond it dials are refused.
	backlogConns = 256
)

// Fault is what a cut direction does to connections.
type Fault int

const (
	// Stall holds everything until the heal; dials wait.
	Stall Fault = 1
	// Reset resets the connections between the two hosts, whoever opened them, and refuses dials in both directions until the heal.
	Reset Fault = 2
)

// Net is one network. Its zero value is not usable; New makes one.
type Net struct {
	mu      sync.Mutex
	changed *sync.Cond // a cut, a heal, a host up or down: dials look again
	hosts   map[string]*Host
	conns   []*Conn // ends of open connections, in order of their opening
	latency map[route]time.Duration
	cuts    map[route]Fault
	sent    map[string]int // segments by host
	dials   map[string]int // attempts by host
}

// route is one direction between two hosts.
type route struct{ from, to string }

func (r route) back() route { return route{r.to, r.from} }

func (r route) compare(o route) int {
	return cmp.Or(cmp.Compare(r.from, o.from), cmp.Compare(r.to, o.to))
}

// New makes a network without hosts, latency or faults.
func New() *Net {
	n := &Net{hosts: make(map[string]*Host), latency: make(map[route]time.Duration), cuts: make(map[route]Fault), sent: make(map[string]int), dials: make(map[string]int)}
	n.changed = sync.NewCond(&n.mu)
	return n
}

// Host returns the host of that name and makes it at the first call.
func (n *Net) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, listeners: make(map[int]*listener)}
		n.hosts[name] = h
	}
	return h
}

// Sent returns how many segments a host has sent.
func (n *Net) Sent(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[host]
}

// Dials returns how many connections a host has tried to open.
func (n *Net) Dials(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[host]
}

// SetLatency sets how long bytes travel from one host to another. An empty from or to means any host that has no value of its own. What is on its way keeps its
// time, and nothing overtakes it.
func (n *Net) SetLatency(from, to string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency[route{from, to}] = d
}

// Cut breaks one direction. A second Cut of the same direction replaces the first.
func (n *Net) Cut(from, to string, fault Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cutLocked(route{from, to}, fault)
}

// Heal opens one direction again: what it held arrives after the latency.
func (n *Net) Heal(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.healLocked(route{from, to})
}

// Isolate cuts both directions between a host and every other host that exists.
func (n *Net) Isolate(name string, fault Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(n.hosts)) {
		if other != name {
			n.cutLocked(route{name, other}, fault)
			n.cutLocked(route{other, name}, fault)
		}
	}
}

// HealAll opens every direction.
func (n *Net) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range slices.SortedFunc(maps.Keys(n.cuts), route.compare) {
		n.healLocked(r)
	}
}

func (n *Net) cutLocked(r route, fault Fault) {
	n.cuts[r] = fault
	if fault == Reset {
		for _, c := range slices.Clone(n.conns) {
			if c.in.route == r {
				c.resetLocked()
				c.peer.resetLocked()
			}
		}
	}
	n.changed.Broadcast()
}

func (n *Net) healLocked(r route) {
	if _, cut := n.cuts[r]; !cut {
		return
	}
	delete(n.cuts, r)
	n.resumeLocked(func(o route) bool { return o == r })
}

// resumeLocked sends what waits for directions that may be open again: data, acknowledgements, and resets for what was sent to an end that is closed.
func (n *Net) resumeLocked(these func(route) bool) {
	for _, c := range n.conns {
		if these(c.in.route) {
			c.in.releaseLocked()
		}
		if these(c.out.route) {
			c.in.acknowledgeLocked()
			if c.peer.closed && c.out.used > 0 {
				c.refuseLocked()
			}
		}
	}
	n.changed.Broadcast()
}

func (n *Net) delay(r route) time.Duration {
	for _, k := range []route{r, {r.from, ""}, {"", r.to}, {}} {
		if d, ok := n.latency[k]; ok {
			return d
		}
	}
	return 0
}

// openLocked tells whether bytes travel in a direction now.
func (n *Net) openLocked(r route) bool {
	_, cut := n.cuts[r]
	return !cut && !n.dark(r.from) && !n.dark(r.to)
}

func (n *Net) dark(name string) bool {
	h := n.hosts[name]
	return h != nil && h.dark
}

// Host is one machine with one process.
type Host struct {
	net       *Net
	name      string
	listeners map[int]*listener
	dark      bool // without power
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// Listen opens a port. The address of the host is its name: "name:port".
func (h *Host) Listen(port int) (net.Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.listeners[port] != nil {
		return nil, opError("listen", addr{h.name, port}, syscall.EADDRINUSE)
	}
	l := &listener{host: h, port: port}
	l.cond = sync.NewCond(&h.net.mu)
	h.listeners[port] = l
	return l, nil
}

// Dial connects to "name:port". It waits while a direction is stalled or the other host has no power, and is refused when nobody listens.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	to, err := parseAddr(address)
	if err != nil {
		return nil, err
	}
	n := h.net
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.changed.Broadcast()
	})
	defer stop()
	there := route{h.name, to.host}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[h.name]++
	if err := n.travelLocked(ctx, there); err != nil {
		return nil, opError("dial", to, err)
	}
	var l *listener
	if other := n.hosts[to.host]; other != nil {
		l = other.listeners[to.port]
	}
	refused := l == nil || len(l.backlog) >= backlogConns
	if err := n.travelLocked(ctx, there.back()); err != nil {
		return nil, opError("dial", to, err)
	}
	if refused || l.closed {
		return nil, opError("dial", to, syscall.ECONNREFUSED)
	}
	near, far := n.connectLocked(addr{h.name, 0}, to)
	l.backlog = append(l.backlog, far)
	l.cond.Signal()
	return near, nil
}

// travelLocked waits until something sent now has arrived.
func (n *Net) travelLocked(ctx context.Context, r route) error {
	for {
		if n.cuts[r] == Reset || n.cuts[r.back()] == Reset {
			return syscall.ECONNREFUSED
		}
		if ctx.Err() != nil {
			return dialError(ctx)
		}
		if n.openLocked(r) {
			break
		}
		n.changed.Wait()
	}
	d := n.delay(r)
	if d <= 0 {
		return nil
	}
	n.mu.Unlock()
	t := time.NewTimer(d)
	select {
	case <-t.C:
	case <-ctx.Done():
		t.Stop()
	}
	n.mu.Lock()
	if ctx.Err() != nil {
		return dialError(ctx)
	}
	return nil
}

func dialError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return ctx.Err()
}

// Kill ends the host's process: its listeners close, its connections are reset. Peers learn it when the news can reach them. The host may listen again at once.
func (h *Host) Kill() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.endLocked()
}

// PowerOff ends the process without a word to anybody: peers see silence, dials wait.
func (h *Host) PowerOff() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.dark = true
	h.endLocked()
	h.net.changed.Broadcast()
}

// PowerOn ends PowerOff: what peers still hold of the old connections is reset.
func (h *Host) PowerOn() {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	h.dark = false
	n.resumeLocked(func(r route) bool { return r.from == h.name || r.to == h.name })
}

// endLocked closes everything that the host's process has open.
func (h *Host) endLocked() {
	for _, port := range slices.Sorted(maps.Keys(h.listeners)) {
		h.listeners[port].closeLocked()
	}
	for _, c := range slices.Clone(h.net.conns) {
		if c.out.route.from == h.name {
			c.closeLocked(true)
		}
	}
}

// addr is "host:port".
type addr struct {
	host string
	port int
}

// Network implements net.Addr.
func (addr) Network() string { return "memnet" }

func (a addr) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

func parseAddr(s string) (addr, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return addr{}, err
	}
	p, err := strconv.Atoi(port)
	if err != nil {
		return addr{}, &net.AddrError{Err: "the port is no number", Addr: s}
	}
	return addr{host, p}, nil
}

func opError(op string, a net.Addr, err error) error {
	return &net.OpError{Op: op, Net: "memnet", Addr: a, Err: err}
}

// listener is an open port.
type listener struct {
	host    *Host
	port    int
	cond    *sync.Cond
	backlog []*Conn
	closed  bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	for len(l.backlog) == 0 {
		if l.closed {
			return nil, opError("accept", l.Addr(), net.ErrClosed)
		}
		l.cond.Wait()
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	return c, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	if l.closed {
		return opError("close", l.Addr(), net.ErrClosed)
	}
	l.closeLocked()
	return nil
}

func (l *listener) closeLocked() {
	l.closed = true
	if l.host.listeners[l.port] == l {
		delete(l.host.listeners, l.port)
	}
	for _, c := range l.backlog {
		c.closeLocked(true)
	}
	l.backlog = nil
	l.cond.Broadcast()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addr{l.host.name, l.port} }
