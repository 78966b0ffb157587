package node

import (
	"net"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/quorum"
)

// serveOperators serves the HTTP API and the metrics.
func (n *node) serveOperators(host *quorum.Host, clients *broker.Broker, web, metrics net.Listener) {
}
