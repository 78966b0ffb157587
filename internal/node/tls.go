package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/tlsconf"
)

// certificates are the sets of certificates that the node uses; nil where there is no TLS.
type certificates struct {
	amqp, management, metrics, cluster *tlsconf.Store
}

// openCertificates reads every set of certificates that is used, and keeps looking for changes until the node stops.
func (n *node) openCertificates() error {
	var all []*tlsconf.Store
	for _, set := range []struct {
		name string // begins those of its settings
		at   **tlsconf.Store
		opt  tlsconf.Options
		used bool
		alpn []string
	}{
		{"ssl_options.", &n.certs.amqp, n.cfg.AMQP.TLS, len(n.cfg.AMQP.ListenTLS) > 0, nil},
		{"management.ssl.", &n.certs.management, n.cfg.Management.TLS, n.cfg.Management.ListenTLS != "", []string{"http/1.1"}},
		{"prometheus.ssl.", &n.certs.metrics, n.cfg.Metrics.TLS, n.cfg.Metrics.ListenTLS != "", []string{"http/1.1"}},
		{"cluster.ssl.", &n.certs.cluster, n.cfg.Cluster.TLS, n.cfg.Cluster.TLS.CertFile != "", nil},
	} {
		if !set.used {
			continue
		}
		store, err := tlsconf.Open(set.opt, n.log, set.alpn...)
		if err != nil {
			return &CertificateError{set.name, err}
		}
		*set.at = store
		all = append(all, store)
	}
	if len(all) > 0 {
		ctx, stop := context.WithCancel(context.Background())
		n.onStop(stop)
		go refresh(ctx, all)
	}
	return nil
}

// betweenNodes gives the TLS that nodes speak among each other; nil if they speak none.
func (c *certificates) betweenNodes() func() *tls.Config {
	if c.cluster == nil {
		return nil
	}
	return c.cluster.Config
}

// refresh has changed files read anew: soon by themselves, at once at SIGHUP.
func refresh(ctx context.Context, all []*tlsconf.Store) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGHUP)
	defer signal.Stop(told)
	t := time.NewTicker(limits.CertificatePollMillis * time.Millisecond)
	defer t.Stop()
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-told:
			forced = true
		case <-t.C:
		}
		for _, store := range all {
			store.Refresh(forced)
		}
	}
}

// secure puts TLS on a listener of HTTP.
func secure(l net.Listener, store *tlsconf.Store) net.Listener {
	return tls.NewListener(l, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return store.Config(), nil }})
}

// door is a place where the node listens.
type door struct {
	// protocol is RabbitMQ's word.
	protocol string
	net.Listener
	certs *tlsconf.Store // nil without TLS
}

// httpDoors opens the addresses of an HTTP server; kind follows the protocol's name.
func (n *node) httpDoors(what, key, kind string, h *config.HTTP, certs *tlsconf.Store) ([]door, error) {
	var doors []door
	if h.Listen != "" {
		l, err := n.listen(what, key+".tcp.port", h.Listen)
		if err != nil {
			return nil, err
		}
		doors = append(doors, door{"http" + kind, l, nil})
	}
	if h.ListenTLS != "" {
		l, err := n.listen(what, key+".ssl.port", h.ListenTLS)
		if err != nil {
			return nil, err
		}
		doors = append(doors, door{"https" + kind, secure(l, certs), certs})
	}
	return doors, nil
}

// openToClients serves AMQP at an address.
func (n *node) openToClients(clients *broker.Broker, protocol, key, address string, certs *tlsconf.Store) error {
	l, err := n.listen("AMQP", key, address)
	if err != nil {
		return err
	}
	by := broker.Entrance{Proxies: n.cfg.AMQP.Proxies}
	if certs != nil {
		by.TLS, by.TLSTimeout = certs.Config, n.cfg.AMQP.TLSTimeout
	}
	n.mu.Lock()
	n.amqp = append(n.amqp, door{protocol, l, certs})
	n.mu.Unlock()
	go func() {
		if err := clients.Serve(l, &by); err != nil && !errors.Is(err, net.ErrClosed) {
			n.fail(fmt.Errorf("the AMQP listener on %s failed: %w", l.Addr(), err))
		}
	}()
	return nil
}
