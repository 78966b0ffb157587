package management

import (
	"net/http"
	"strings"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
)

// The counters of a connection's series.
const (
	connectionReceived = iota
	connectionSent
)

func connectionCounters(x *broker.Connection) *counters {
	return &counters{connectionReceived: x.ReceivedBytes, connectionSent: x.SentBytes}
}

type locatedConnection = located[broker.Connection]

// allConnections lists the connections of all nodes.
func (s *Server) allConnections() []locatedConnection {
	return everywhere(s.opt.Host.Node(), s.ownConnections(&question{}), s.peers.connections.rows(s.peers))
}

// findConnection finds a connection by its name, on whatever node it is.
func (c *call) findConnection(name string) (locatedConnection, error) {
	q := question{kind: askConnections, connection: name, span: c.spans.bytes}
	if own := c.s.ownConnections(&q); len(own) > 0 {
		return locatedConnection{&own[0], c.s.opt.Host.Node()}, nil
	}
	replies, missing := c.s.peers.askAll(c.r.Context(), q)
	for _, n := range readReplies(replies, packConnection) {
		if len(n.rows) > 0 {
			return locatedConnection{&n.rows[0], n.node}, nil
		}
	}
	return locatedConnection{}, c.notFoundUnless(missing)
}

// notFoundUnless is the answer about a thing that no node has, unless one did not answer that may have it.
func (c *call) notFoundUnless(missing meta.NodeID) error {
	if missing == 0 {
		return objectNotFound()
	}
	return unavailable("node '" + nodeNamed(c.view, missing) + "' does not answer, and no other has it")
}

// listConnections answers with those that the user sees: one's own, all as monitoring.
func (c *call) listConnections(keep func(*broker.Connection) bool) error {
	all := c.s.allConnections()
	rows := all[:0]
	for _, x := range all {
		if c.mayTouch(x.thing.User, false) == nil && (keep == nil || keep(&x.thing)) {
			rows = append(rows, x)
		}
	}
	return list(c, rows, func(x locatedConnection) string { return x.thing.Name }, c.writeConnection)
}

// listConnections is GET /connections.
func listConnections(c *call) error { return c.listConnections(nil) }

// listVHostConnections is GET /vhosts/VHOST/connections.
func listVHostConnections(c *call) error {
	vhost := c.params[0]
	if err := c.readVHost(vhost); err != nil {
		return err
	}
	return c.listConnections(func(x *broker.Connection) bool { return x.VHost == vhost })
}

// listUserConnections is GET /connections/username/USER.
func listUserConnections(c *call) error {
	user := c.params[0]
	if err := c.mayTouch(user, false); err != nil {
		return err
	}
	return c.listConnections(func(x *broker.Connection) bool { return x.User == user })
}

// connection finds the connection of the path and checks that the user may see or change it.
func (c *call) connection(name string, change bool) (locatedConnection, error) {
	x, err := c.findConnection(name)
	if err != nil {
		return x, err
	}
	return x, c.mayTouch(x.thing.User, change)
}

// getConnection is GET /connections/NAME.
func getConnection(c *call) error {
	x, err := c.connection(c.params[0], false)
	if err != nil {
		return err
	}
	return c.object(http.StatusOK, func(w *writer) { c.writeConnection(w, x) })
}

// deleteConnection is DELETE /connections/NAME: it closes the connection, wherever it is, with 320 and a reason.
func deleteConnection(c *call) error {
	x, err := c.connection(c.params[0], true)
	if err != nil {
		return err
	}
	q := question{kind: askClose, connection: x.thing.Name, reason: c.closeReason()}
	closed := uint64(0)
	if x.node == c.s.opt.Host.Node() {
		closed = c.s.closeOwn(&q)
	} else {
		body, err := c.s.peers.askOne(c.r.Context(), x.node, q)
		if err != nil {
			return unavailable("node '" + nodeNamed(c.view, x.node) + "' does not answer; it is not known whether the connection was closed")
		}
		unpack(body).uint(&closed)
	}
	if closed == 0 {
		return objectNotFound()
	}
	return c.empty(http.StatusNoContent)
}

// deleteUserConnections is DELETE /connections/username/USER, on all nodes.
func deleteUserConnections(c *call) error {
	user := c.params[0]
	if err := c.mayTouch(user, true); err != nil {
		return err
	}
	q := question{kind: askClose, user: user, reason: c.closeReason()}
	c.s.closeOwn(&q)
	if _, missing := c.s.peers.askAll(c.r.Context(), q); missing != 0 {
		return unavailable("node '" + nodeNamed(c.view, missing) + "' does not answer; it is not known whether connections there were closed")
	}
	return c.empty(http.StatusNoContent)
}

// reasonBytesMax bounds the header X-Reason; what is longer is cut, for a reply text has 255 bytes.
const reasonBytesMax = 200

// closeReason is what a client is told whose connection is closed.
func (c *call) closeReason() string {
	reason := c.r.Header.Get("X-Reason")
	if reason == "" {
		return "Closed via management plugin"
	}
	if len(reason) > reasonBytesMax {
		reason = reason[:reasonBytesMax]
	}
	return strings.ToValidUTF8(reason, "?")
}

func (c *call) writeConnection(w *writer, l locatedConnection) {
	x, t := &l.thing, l.trend()
	w.Str("name", x.Name)
	w.Str("node", nodeNamed(c.view, l.node))
	w.Str("type", "network")
	w.Str("state", x.State)
	w.Str("user", x.User)
	w.Str("user_who_performed_action", x.User)
	w.Str("vhost", x.VHost)
	w.Str("protocol", "AMQP 0-9-1")
	w.Str("auth_mechanism", x.Mechanism)
	w.Int("channels", int64(x.Channels))
	w.Int("channel_max", int64(x.ChannelMax))
	w.Uint("frame_max", uint64(x.FrameMax))
	w.Int("timeout", int64(x.Heartbeat.Seconds()))
	w.Int("connected_at", x.ConnectedAt.UnixMilli())
	w.Table("client_properties", x.Properties)
	name, _ := x.Properties.Get("connection_name")
	text, _ := name.AsString()
	w.Str("user_provided_name", text)
	w.Str("host", x.Host)
	w.Int("port", int64(x.Port))
	w.Str("peer_host", x.PeerHost)
	w.Int("peer_port", int64(x.PeerPort))
	writeTLS(w, x.TLS)
	w.Counter("recv_oct", x.ReceivedBytes, t, connectionReceived)
	w.Counter("send_oct", x.SentBytes, t, connectionSent)
	w.Uint("recv_cnt", x.ReceivedFrames)
	w.Uint("send_cnt", 0)
	w.Int("send_pend", int64(x.PendingBytes))
	writeProcess(w)
}

// writeTLS writes how a connection is encrypted, and whose certificate the client showed.
func writeTLS(w *writer, x *broker.ConnectionTLS) {
	w.Bool("ssl", x != nil)
	if x == nil {
		x = &broker.ConnectionTLS{}
	}
	for _, field := range [...]struct{ key, text string }{
		{"ssl_protocol", x.Protocol}, {"ssl_cipher", x.Cipher}, {"ssl_hash", x.Hash}, {"ssl_key_exchange", x.KeyExchange}, {"peer_cert_issuer", x.PeerIssuer},
		{"peer_cert_subject", x.PeerSubject}, {"peer_cert_validity", x.PeerValidity},
	} {
		if field.text == "" {
			w.Null(field.key)
		} else {
			w.Str(field.key, field.text)
		}
	}
}

// writeProcess writes what RabbitMQ tells of Erlang processes; strict readers want the keys.
func writeProcess(w *writer) {
	w.Counter("reductions", 0, trend{})
	if !w.Object("garbage_collection") {
		return
	}
	for _, key := range [...]string{"fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"} {
		w.Uint(key, 0)
	}
	w.End()
}
