package node

import (
	"net"
	"slices"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/management"
	"github.com/warrenmq/warren/quorum"
)

// serveOperators serves the HTTP API and the metrics.
func (n *node) serveOperators(host *quorum.Host, clients *broker.Broker, watch *alarm.Monitor, web, metrics []door, cluster net.Listener) {
	n.http = slices.Concat([]door{{"clustering", cluster, nil}}, web, metrics)
	api := management.New(management.Options{
		Host: host, Broker: clients, Watch: watch, ConnectionMax: connectionMax(n.cfg.AMQP.ConnectionMax), Log: n.log, Version: n.version, LoopbackUsers: n.cfg.LoopbackUsers, DataDir: n.cfg.DataDir, Ready: n.ready,
		Guesses: &n.guesses, Secret: n.secret, SessionLife: n.cfg.LoginSession, PathPrefix: n.cfg.PathPrefix,
		Listeners: n.listeners,
	})
	n.onStop(api.Close)
	for _, d := range web {
		n.serveHTTP(management.NewHTTPServer(api.Handler(), n.log), d)
	}
	for _, d := range metrics {
		n.serveHTTP(management.NewHTTPServer(api.MetricsHandler(), n.log), d)
	}
}

// ready says why clients are not served, nil if they are.
func (n *node) ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.amqp) < len(n.cfg.AMQP.Listen)+len(n.cfg.AMQP.ListenTLS) {
		return errNotListening
	}
	return nil
}

// listeners lists where the node listens now.
func (n *node) listeners() []management.Listener {
	n.mu.Lock()
	doors := slices.Concat(n.amqp, n.http)
	n.mu.Unlock()
	list := make([]management.Listener, 0, len(doors))
	for _, d := range doors {
		list = append(list, d.show())
	}
	return list
}

func (d *door) show() management.Listener {
	out := management.Listener{Protocol: d.protocol, TLS: d.certs != nil}
	if d.certs != nil {
		opt := d.certs.Options()
		out.Certificates = &management.Certificates{CertFile: opt.CertFile, CAFile: opt.CAFile}
		out.Certificates.Chain, out.Certificates.Authorities = d.certs.Certificates()
	}
	if addr, ok := d.Addr().(*net.TCPAddr); ok {
		out.IP, out.Port = addr.IP.String(), addr.Port
	}
	return out
}
