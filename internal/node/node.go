// Package node starts and stops the parts of one broker process in the right order: data directory, machines (quorum), clients (broker), operators (management); the AMQP port opens last, when the
// catalogue is loaded, and closes first.
//
// The hop before is cmd/warren, which has read the configuration. Every error of Run says in one line what failed and the way out; ExitCode gives its exit code.
package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/internal/guess"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// node is a running process, taken down in the opposite order of its making.
type node struct {
	cfg     *config.Config
	version string
	log     *slog.Logger
	secret  []byte // the cluster's
	memory  alarm.Budget
	// memoryLimit is what the process may take, in bytes.
	memoryLimit uint64
	fatal       chan error
	undo        []func()

	clients atomic.Pointer[broker.Broker]

	certs   certificates
	guesses guess.Brake // of clients and of operators
	http    []door      // where operators are served

	mu   sync.Mutex
	amqp []door // where clients are served
}

// errNotListening says that the AMQP port is not open yet.
var errNotListening = errors.New("the AMQP port is not open")

// Run runs a node until ctx ends, then stops it cleanly. It returns nil after a clean stop.
func Run(ctx context.Context, cfg *config.Config, version string, log *slog.Logger) error {
	n := &node{cfg: cfg, version: version, log: log, fatal: make(chan error, 1)}
	started := make(chan error, 1)
	go func() { started <- n.start(ctx) }()
	select {
	case err := <-started:
		defer n.stop()
		if err != nil {
			if ctx.Err() != nil {
				return nil // told to stop while starting
			}
			return err
		}
	case err := <-n.fatal:
		return err // start may never come back; nothing of it is undone
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
		return nil
	case err := <-n.fatal:
		n.undo = nil // nothing can be trusted to stop in order; the end of the process gives everything back
		return err
	}
}

func (n *node) start(ctx context.Context) error {
	for _, notice := range n.cfg.Ignored {
		n.log.Warn("a setting does nothing in this version", "key", notice.Key, "source", notice.Source, "reason", notice.Reason)
	}
	if err := n.openCertificates(); err != nil {
		return err
	}
	web, err := n.httpDoors("the HTTP API", "management", "", &n.cfg.Management, n.certs.management)
	if err != nil {
		return err
	}
	metrics, err := n.httpDoors("metrics", "prometheus", "/prometheus", &n.cfg.Metrics, n.certs.metrics)
	if err != nil {
		return err
	}
	dir, damaged, err := openDir(n.cfg.DataDir)
	if err != nil {
		return err
	}
	n.onStop(func() { _ = dir.Close() })
	n.divideMemory()
	port, err := n.listen("other nodes", "cluster.listen", n.cfg.Cluster.Listen)
	if err != nil {
		return err
	}
	host, err := n.openHost(ctx, dir, damaged, port)
	if err != nil {
		return err
	}
	n.onStop(host.Close)
	watch := alarm.Start(alarm.Options{
		Dir: n.cfg.DataDir, MemoryHigh: n.cfg.Alarms.MemoryHigh, DiskFree: n.cfg.Alarms.DiskFree, MemoryLimitBytes: n.memoryLimit, Changed: host.SetAlarms, Log: n.log,
	})
	n.onStop(watch.Close)
	clients := n.newBroker(host)
	n.clients.Store(clients)
	n.onStop(func() {
		stopping, cancel := context.WithTimeout(context.Background(), limits.ShutdownMillis*time.Millisecond)
		defer cancel()
		if err := clients.Shutdown(stopping); err != nil {
			n.log.Warn("some clients did not answer the close of their connection", "error", err)
		}
	})
	n.serveOperators(host, clients, watch, web, metrics, port)
	for _, address := range n.cfg.AMQP.Listen {
		if err := n.openToClients(clients, "amqp", "listeners.tcp.default", address, nil); err != nil {
			return err
		}
	}
	for _, address := range n.cfg.AMQP.ListenTLS {
		if err := n.openToClients(clients, "amqp/ssl", "listeners.ssl.default", address, n.certs.amqp); err != nil {
			return err
		}
	}
	n.log.Info("ready", "node", n.cfg.NodeName, "version", n.version, "data", n.cfg.DataDir, "amqp", n.cfg.AMQP.Listen, "amqps", n.cfg.AMQP.ListenTLS, "http", addresses(web), "metrics", addresses(metrics))
	return nil
}

// openDir opens the data directory. One whose identity is damaged is opened, too, with what is wrong with it, if it is that of a node that has others: they may take it in anew.
func openDir(path string) (dir *datadir.Dir, damaged, err error) {
	dir, err = datadir.Open(storage.OS, path)
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) {
		return dir, nil, err
	}
	damaged = err
	if !quorum.KnowsOthers(storage.OS, path) {
		return nil, nil, damaged // it may be anybody's directory
	}
	if dir, err = datadir.OpenDamaged(storage.OS, path); err != nil {
		return nil, nil, damaged
	}
	return dir, damaged, nil
}

func addresses(doors []door) (list []string) {
	for _, d := range doors {
		list = append(list, d.Addr().String())
	}
	return list
}

// onStop has f called when the node stops; the last one first.
func (n *node) onStop(f func()) { n.undo = append(n.undo, f) }

func (n *node) stop() {
	for i := len(n.undo) - 1; i >= 0; i-- {
		n.undo[i]()
	}
	n.undo = nil
}

// fail ends Run with err.
func (n *node) fail(err error) {
	select {
	case n.fatal <- err:
	default: // it ends already
	}
}

func (n *node) listen(what, key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, &ListenError{What: what, Key: key, Address: addr, Err: err}
	}
	n.onStop(func() { _ = l.Close() })
	return l, nil
}

func (n *node) openHost(ctx context.Context, dir *datadir.Dir, damaged error, port net.Listener) (*quorum.Host, error) {
	founding, err := founding(n.cfg.First)
	if err != nil {
		return nil, err
	}
	if n.secret, err = clusterSecret(n.cfg.Cluster.Secret, dir.Path()); err != nil {
		return nil, err
	}
	return quorum.Open(ctx, quorum.Config{
		Dir: dir, Damaged: damaged, Name: n.cfg.NodeName, Address: n.cfg.Cluster.Advertise, ClusterName: n.cfg.Cluster.Name, Founding: founding, Log: n.log, OnFatal: n.fail,
		Ceilings: quorum.Ceilings{Queues: n.cfg.Cluster.QueuesMax, Exchanges: n.cfg.Cluster.ExchangesMax, VHosts: n.cfg.Cluster.VHostsMax},
		Cluster:  quorum.Cluster{Listener: port, Secret: n.secret, Join: n.cfg.Cluster.Join, TLS: n.certs.betweenNodes()}, OnFenced: n.fenced,
		ParkMillis: n.cfg.Cluster.ParkAfter.Milliseconds(), BodiesInMemoryBytes: n.memory.Bodies, DiskReserveBytes: limits.DiskReserveBytes,
	})
}

// fenced closes every client: the cluster declared this incarnation of the node dead while it lived.
func (n *node) fenced() {
	if clients := n.clients.Load(); clients != nil {
		clients.CloseAll("the node was cut off from its cluster")
	}
}

// founding is what an empty data directory begins with: a virtual host and an administrator who may do everything in it.
func founding(first config.First) ([]meta.Command, error) {
	var salt [4]byte
	if _, err := rand.Read(salt[:]); err != nil {
		return nil, fmt.Errorf("no random numbers: %w", err)
	}
	return []meta.Command{
		{Op: meta.OpPutVHost, VHost: meta.VHost{Name: first.VHost, Description: "Default virtual host"}},
		broker.EventExchange(first.VHost),
		{Op: meta.OpPutUser, User: meta.User{Name: first.User, PasswordHash: meta.HashPassword(salt, []byte(first.Pass)), Tags: []string{"administrator"}}},
		{Op: meta.OpPutPermission, Permission: meta.Permission{User: first.User, VHost: first.VHost, Configure: ".*", Write: ".*", Read: ".*"}},
	}, nil
}

func (n *node) newBroker(host *quorum.Host) *broker.Broker {
	a, login := &n.cfg.AMQP, &n.cfg.Login
	heartbeat := a.Heartbeat
	if heartbeat == 0 {
		heartbeat = -1 // proposes none
	}
	return broker.New(broker.Options{
		Host: broker.On(host), Log: n.log, Platform: "Warren/" + n.version, HandshakeTimeout: a.HandshakeTimeout, Heartbeat: heartbeat, PublishTimeout: a.PublishTimeout,
		FrameBytesMax: a.FrameBytesMax, UntunedFrameBytesMax: a.UntunedFrameBytesMax, ChannelMax: a.ChannelMax, ConsumersPerChannelMax: a.ConsumersPerChannelMax,
		ConnectionMax: connectionMax(a.ConnectionMax), ChannelsPerNodeMax: a.ChannelsPerNodeMax, ConnectionsPerSecondMax: a.ConnectionsPerSecondMax, ConnectionsPerAddressMax: a.ConnectionsPerAddressMax, Intercept: stamps(a, n.cfg.NodeName).Intercept(broker.WallMillis),
		BodyBytesMax: a.BodyBytesMax, UnackedBytesMax: unackedMax(n.memoryLimit), PublishBytesMax: n.memory.Publish, WindowBytesMax: n.memory.Window,
		LoopbackUsers: n.cfg.LoopbackUsers, EventVHost: n.cfg.First.VHost,
		Guesses: &n.guesses, Mechanisms: login.Mechanisms, CertificateLogin: login.Certificate, AnonymousUser: login.AnonymousUser, AnonymousPass: login.AnonymousPass,
	})
}

// unackedMax is where a channel's consumers get no more than what is on its way.
func unackedMax(memoryLimit uint64) uint64 {
	return max(memoryLimit/100*limits.ChannelUnackedPercent, limits.ChannelUnackedBytesMin) - limits.ConnectionWindowBytes
}

// serveHTTP serves until the node stops.
func (n *node) serveHTTP(s *http.Server, l net.Listener) {
	n.onStop(func() { _ = s.Close() })
	go func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			n.fail(fmt.Errorf("the HTTP listener on %s failed: %w", l.Addr(), err))
		}
	}()
}
