package management

import (
	"net/http"
	"strings"

	"github.com/warrenmq/warren/broker"
)

// The counters of a connection's series.
const (
	connectionReceived = iota
	connectionSent
)

func connectionCounters(x *broker.Connection) *counters {
	return &counters{connectionReceived: x.ReceivedBytes, connectionSent: x.SentBytes}
}

// connections returns those that the user sees: one's own, all as monitoring.
func (c *call) connections(keep func(*broker.Connection) bool) []*broker.Connection {
	c.s.sampler.look(&c.s.sampler.connections)
	all := c.s.opt.Broker.Connections()
	rows := make([]*broker.Connection, 0, len(all))
	for i := range all {
		if x := &all[i]; c.mayTouch(x.User, false) == nil && (keep == nil || keep(x)) {
			rows = append(rows, x)
		}
	}
	return rows
}

func (c *call) listConnections(keep func(*broker.Connection) bool) error {
	return list(c, c.connections(keep), func(x *broker.Connection) string { return x.Name }, c.writeConnection)
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
func (c *call) connection(name string, change bool) (*broker.Connection, error) {
	all := c.s.opt.Broker.Connections()
	for i := range all {
		if x := &all[i]; x.Name == name {
			return x, c.mayTouch(x.User, change)
		}
	}
	return nil, objectNotFound()
}

// getConnection is GET /connections/NAME.
func getConnection(c *call) error {
	c.s.sampler.look(&c.s.sampler.connections)
	x, err := c.connection(c.params[0], false)
	if err != nil {
		return err
	}
	return c.object(http.StatusOK, func(w *writer) { c.writeConnection(w, x) })
}

// deleteConnection is DELETE /connections/NAME: it closes the connection with 320 and a reason.
func deleteConnection(c *call) error {
	x, err := c.connection(c.params[0], true)
	if err != nil {
		return err
	}
	if !c.s.opt.Broker.CloseConnection(x.Name, c.closeReason()) {
		return objectNotFound()
	}
	return c.empty(http.StatusNoContent)
}

// deleteUserConnections is DELETE /connections/username/USER.
func deleteUserConnections(c *call) error {
	user := c.params[0]
	if err := c.mayTouch(user, true); err != nil {
		return err
	}
	for _, x := range c.s.opt.Broker.Connections() {
		if x.User == user {
			c.s.opt.Broker.CloseConnection(x.Name, c.closeReason())
		}
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

func (c *call) writeConnection(w *writer, x *broker.Connection) {
	r := c.s.sampler.ratesOf(&c.s.sampler.connections, x.Name)
	w.Str("name", x.Name)
	w.Str("node", c.s.nodeName(c.view))
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
	w.Bool("ssl", false)
	for _, key := range [...]string{"ssl_protocol", "ssl_cipher", "ssl_hash", "ssl_key_exchange", "peer_cert_issuer", "peer_cert_subject", "peer_cert_validity"} {
		w.Null(key)
	}
	w.Counter("recv_oct", x.ReceivedBytes, r.of(connectionReceived))
	w.Counter("send_oct", x.SentBytes, r.of(connectionSent))
	w.Uint("recv_cnt", x.ReceivedFrames)
	w.Uint("send_cnt", 0)
	w.Int("send_pend", int64(x.PendingBytes))
	writeProcess(w)
}

// writeProcess writes what RabbitMQ tells of Erlang processes; strict readers want the keys.
func writeProcess(w *writer) {
	w.Counter("reductions", 0, 0)
	if !w.Object("garbage_collection") {
		return
	}
	for _, key := range [...]string{"fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"} {
		w.Uint(key, 0)
	}
	w.End()
}
