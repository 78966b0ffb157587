package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/config/limits"
)

// Config says who this node is and how it reaches the others.
type Config struct {
	// Node is this node's id, Cluster its cluster's; neither is 0. Boot is its incarnation as peers see it; SetBoot changes it.
	Node, Cluster uint64
	Boot          Boot
	// Secret is the cluster's. Without one nobody is called and nobody accepted.
	Secret []byte
	// Listener accepts the connections of other nodes. The Network closes it.
	Listener net.Listener
	// Dial opens a connection to an address; TCP if nil. It must return when ctx ends.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Resolve gives the present address of a node by its Target.
	Resolve func(target string) (addr string, err error)
	// TLS, if set, puts TLS 1.3 under everything. It returns the present configuration, which serves both ends: a certificate, RootCAs, and ClientAuth with ClientCAs. The ServerName of a connection is the
	// host of its address.
	TLS func() *tls.Config
	// Admit is asked about every caller who knows the secret, but for joins; its error is told to the caller. Nil admits all.
	Admit func(peer Peer, purpose Purpose) error
	// Refused is told of every accepted connection that came to nothing; peer is what it said of itself, if it got so far. It must not block. May be nil.
	Refused func(peer Peer, err error)
	// Filter decides in tests what becomes of a batch of Raft messages from this node to another: all that it returns is sent, in that order. Nil sends all. The
	// batch's Requests are only good until it returns.
	Filter func(from, to uint64, batch pb.MessageBatch) []pb.MessageBatch
	// SnapshotBytesPerSecond is the rate of all outgoing snapshot streams together; 0 = limits.SnapshotBytesPerSecond.
	SnapshotBytesPerSecond int64
	// Log takes what an operator may want to know; slog.Default() if nil.
	Log *slog.Logger
}

// Network is one node's end of the cluster's network.
type Network struct {
	cfg       Config
	log       *slog.Logger
	library   library
	snapshots throttle
	counts    counters

	boot   atomic.Pointer[Boot]
	onLink atomic.Pointer[func(*Link)]
	onJoin atomic.Pointer[func([]byte) ([]byte, error)]

	closed  chan struct{}
	closing sync.Once
	serving sync.WaitGroup // accepted connections and the loop that accepts them

	mu       sync.Mutex
	shut     bool                  // no session is added any more
	unproved []net.Conn            // accepted, oldest first
	accepted int                   // sessions of the called side
	sessions map[*session]struct{} // all that have proved themselves
	raft     []*raftConnection     // open towards the library
	warnedAt time.Time             // of refused callers
	unwarned int
}

// Open starts to accept connections. Raft connections are refused until a NodeHost has called Create, links and joins until OnLink and OnJoin.
func Open(cfg Config) (*Network, error) {
	switch {
	case cfg.Node == 0 || cfg.Cluster == 0:
		return nil, errors.New("transport: the node's or the cluster's id is missing")
	case cfg.Listener == nil || cfg.Resolve == nil:
		return nil, errors.New("transport: the listener or the catalogue of addresses is missing")
	}
	if cfg.Dial == nil {
		cfg.Dial = dialTCP
	}
	if cfg.SnapshotBytesPerSecond <= 0 {
		cfg.SnapshotBytesPerSecond = limits.SnapshotBytesPerSecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	cfg.Secret = slices.Clone(cfg.Secret)
	n := &Network{cfg: cfg, log: cfg.Log, closed: make(chan struct{}), sessions: make(map[*session]struct{})}
	n.snapshots.perSecond = cfg.SnapshotBytesPerSecond
	n.boot.Store(&cfg.Boot)
	n.serving.Add(1)
	go n.accept()
	return n, nil
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// SetBoot makes b this node's incarnation. Links are closed: their peers know the old one.
func (n *Network) SetBoot(b Boot) {
	n.boot.Store(&b)
	for _, s := range n.sessionsOf(func(s *session) bool { return s.purpose == PurposeLink }) {
		s.fail(ErrClosed)
	}
}

// OnLink sets what is called, in a goroutine of its own, with each link that another node opened. The handler owns the link.
func (n *Network) OnLink(f func(*Link)) { n.onLink.Store(&f) }

// OnJoin sets what answers the requests of joining nodes; it may be called by several at a time. The text of an error goes to the one that asked, as a JoinError.
func (n *Network) OnJoin(f func(request []byte) (response []byte, err error)) { n.onJoin.Store(&f) }

// Reset closes all connections with a node, in both directions. Raft connections dial again at the next message, everything else is up to its users.
func (n *Network) Reset(node uint64) {
	for _, s := range n.sessionsOf(func(s *session) bool { return s.peer.Node == node }) {
		s.fail(ErrClosed)
	}
}

// Close ends all connections and waits until no handler runs any more. It must not be called from one.
func (n *Network) Close() error {
	n.closing.Do(func() {
		close(n.closed)
		n.mu.Lock()
		n.shut = true
		unproved := slices.Clone(n.unproved)
		n.mu.Unlock()
		n.cfg.Listener.Close() // it may be closed already
		for _, c := range unproved {
			c.Close()
		}
		for _, s := range n.sessionsOf(func(*session) bool { return true }) {
			s.fail(ErrClosed)
		}
		n.closeRaft()
	})
	n.serving.Wait()
	return nil
}

func (n *Network) self() Peer {
	return Peer{Node: n.cfg.Node, Cluster: n.cfg.Cluster, Boot: *n.boot.Load()}
}

// sessionsOf lists sessions, so that they can be closed without the lock.
func (n *Network) sessionsOf(which func(*session) bool) []*session {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*session
	for s := range n.sessions {
		if which(s) {
			all = append(all, s)
		}
	}
	return all
}

// add enters a session that proved itself.
func (n *Network) add(s *session) *RefusedError {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.shut:
		return refuse(codeNotReady, "it is stopping")
	case s.called && n.accepted >= limits.PeerConnectionsMax:
		return refuse(codeCrowded, "it has %d", n.accepted)
	}
	n.sessions[s] = struct{}{}
	if s.called {
		n.accepted++
	}
	return nil
}

// forget removes a session that ended.
func (n *Network) forget(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.sessions[s]; !ok {
		return
	}
	delete(n.sessions, s)
	if s.called {
		n.accepted--
	}
}
