package node

import (
	"net"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/management"
	"github.com/warrenmq/warren/quorum"
)

// serveOperators serves the HTTP API and the metrics.
func (n *node) serveOperators(host *quorum.Host, clients *broker.Broker, web, metrics, cluster net.Listener) {
	api := management.New(management.Options{
		Host: host, Broker: clients, Log: n.log, Version: n.version, LoopbackUsers: n.cfg.LoopbackUsers, DataDir: n.cfg.DataDir, Ready: n.ready,
		Secret: n.secret, SessionLife: n.cfg.LoginSession, PathPrefix: n.cfg.PathPrefix,
		Listeners: func() []management.Listener { return n.listeners(web, metrics, cluster) },
	})
	n.onStop(api.Close)
	n.serveHTTP(management.NewHTTPServer(api.Handler(), n.log), web)
	n.serveHTTP(management.NewHTTPServer(api.MetricsHandler(), n.log), metrics)
}

// ready says why clients are not served, nil if they are.
func (n *node) ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.amqp) < len(n.cfg.AMQP.Listen) {
		return errNotListening
	}
	return nil
}

// listeners lists where the node listens now.
func (n *node) listeners(web, metrics, cluster net.Listener) []management.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]management.Listener, 0, len(n.amqp)+3)
	for _, l := range n.amqp {
		list = append(list, listener("amqp", l))
	}
	return append(list, listener("clustering", cluster), listener("http", web), listener("http/prometheus", metrics))
}

func listener(protocol string, l net.Listener) management.Listener {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return management.Listener{Protocol: protocol}
	}
	return management.Listener{Protocol: protocol, IP: addr.IP.String(), Port: addr.Port}
}
