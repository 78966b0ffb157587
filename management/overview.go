package management

import (
	"net/http"
	"runtime"
	"strconv"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// exchangeTexts describe the exchange types.
var exchangeTexts = map[string]string{
	"direct": "AMQP direct exchange, as per the AMQP specification", "fanout": "AMQP fanout exchange, as per the AMQP specification",
	"headers": "AMQP headers exchange, as per the AMQP specification", "topic": "AMQP topic exchange, as per the AMQP specification",
}

// overview is GET /overview. Users who are not monitoring see the sums of the virtual hosts that they see.
func overview(c *call) error {
	snap := c.s.sampler.snapshot()
	all := isMonitor(c.user)
	return c.object(http.StatusOK, func(w *writer) {
		w.Str("management_version", RabbitMQVersion)
		w.Str("rates_mode", "basic")
		writeRetention(w)
		writeExchangeTypes(w)
		w.Str("product_version", c.s.opt.Version)
		w.Str("product_name", productName)
		w.Str("rabbitmq_version", RabbitMQVersion)
		w.Str("cluster_name", c.view.ClusterName())
		w.EmptyObject("cluster_tags")
		w.EmptyObject("node_tags")
		w.Str("erlang_version", runtime.Version())
		w.Str("erlang_full_version", "none, this is "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
		w.Str("crypto_lib_version", runtime.Version())
		w.Str("release_series_support_status", "supported")
		w.Bool("disable_stats", false)
		w.Str("default_queue_type", meta.TypeClassic)
		w.Bool("is_op_policy_updating_enabled", true)
		w.Bool("enable_queue_totals", false)
		w.Bool("require_definition_json_extension", false)
		if all {
			c.writeNodeStats(w, &snap.cluster)
		} else {
			t, r := c.visibleTotals(snap)
			if w.Object("message_stats") {
				writeQueueCounters(w, &t.counts, trend{rates: r})
				writeNoCounters(w, "confirm", "drop_unroutable", "return_unroutable", "disk_reads", "disk_writes")
				w.End()
			}
		}
		if w.Object("churn_rates") {
			writeChurnCounters(w, &snap.cluster, c.trend(snap.cluster.churnRates, c.spans.node, func(h *histories) *history { return &h.churn }))
			w.End()
		}
		c.writeTotals(w, snap, all)
		w.Uint("statistics_db_event_queue", 0)
		if all {
			w.Str("node", c.s.nodeName(c.view))
			c.writeListeners(w)
			c.writeReplication(w, &snap.replication)
		}
	})
}

func writeRetention(w *writer) {
	if !w.Object("sample_retention_policies") {
		return
	}
	for _, name := range [...]string{"global", "basic", "detailed"} {
		if w.Array(name) {
			for _, shape := range tierShapes {
				w.Int("", shape.seconds*shape.kept)
			}
			w.EndArray()
		}
	}
	w.End()
}

func writeExchangeTypes(w *writer) {
	if !w.Array("exchange_types") {
		return
	}
	for _, name := range meta.ExchangeTypes() {
		w.Object("")
		w.Str("name", name)
		w.Str("description", exchangeTexts[name])
		w.Bool("enabled", true)
		w.End()
	}
	w.EndArray()
}

// writeNodeStats writes the message_stats of all nodes together.
func (c *call) writeNodeStats(w *writer, n *nodeSample) {
	if !w.Object("message_stats") {
		return
	}
	t := c.trend(n.messageRates, c.spans.messages, func(h *histories) *history { return &h.messages })
	for _, m := range [...]struct {
		key   string
		index int
	}{
		{"publish", nodePublished}, {"confirm", nodeConfirmed}, {"return_unroutable", nodeReturned}, {"drop_unroutable", nodeDropped}, {"deliver", nodeDelivered},
		{"deliver_no_ack", nodeDeliveredNoAck}, {"get", nodeGot}, {"get_no_ack", nodeGotNoAck}, {"get_empty", nodeGotEmpty}, {"ack", nodeAcked},
		{"redeliver", nodeRedelivered},
	} {
		w.Counter(m.key, n.messages[m.index], t, m.index)
	}
	v := &n.messages
	w.Counter("deliver_get", v[nodeDelivered]+v[nodeDeliveredNoAck]+v[nodeGot]+v[nodeGotNoAck], t, nodeDelivered, nodeDeliveredNoAck, nodeGot, nodeGotNoAck)
	writeNoCounters(w, "disk_reads", "disk_writes")
	w.End()
}

// writeNoCounters writes counters of what does not exist here.
func writeNoCounters(w *writer, keys ...string) {
	for _, key := range keys {
		w.Counter(key, 0, trend{})
	}
}

func writeChurnCounters(w *writer, n *nodeSample, t trend) {
	for _, m := range [...]struct {
		key   string
		index int
	}{
		{"connection_created", churnConnectionsCreated}, {"connection_closed", churnConnectionsClosed}, {"channel_created", churnChannelsCreated},
		{"channel_closed", churnChannelsClosed}, {"queue_declared", churnQueuesDeclared}, {"queue_created", churnQueuesCreated}, {"queue_deleted", churnQueuesDeleted},
	} {
		w.Counter(m.key, n.churn[m.index], t, m.index)
	}
}

// writeTotals writes queue_totals and object_totals.
func (c *call) writeTotals(w *writer, snap *snapshot, all bool) {
	t, moves := &snap.totals, c.trend(&snap.rates, c.spans.lengths, func(h *histories) *history { return &h.totals })
	if !all {
		var r *rates
		t, r = c.visibleTotals(snap)
		moves = trend{rates: r}
	}
	if w.Object("queue_totals") {
		writeLengths(w, t.ready+t.unacked, t.ready, t.unacked, moves)
		w.End()
	}
	if !w.Object("object_totals") {
		return
	}
	queues, exchanges := 0, 0
	for _, h := range c.vhosts() {
		queues += c.view.QueueCount(h.Name)
		exchanges += c.view.ExchangeCount(h.Name)
	}
	connections, channels := 0, 0
	if all {
		n := c.s.opt.Broker.Totals()
		connections, channels = int(n.ConnectionsOpened-n.ConnectionsClosed), int(n.ChannelsOpened-n.ChannelsClosed)
		for _, h := range snap.others {
			connections += int(h.node.connections())
			channels += int(h.node.channels())
		}
	} else {
		for _, x := range c.s.allConnections() {
			if x.thing.User == c.user.Name {
				connections++
				channels += x.thing.Channels
			}
		}
	}
	w.Int("channels", int64(channels))
	w.Int("connections", int64(connections))
	w.Uint("consumers", t.consumers)
	w.Int("exchanges", int64(exchanges))
	w.Int("queues", int64(queues))
	w.End()
}

// visibleTotals sums up the queues of the virtual hosts that the user sees.
func (c *call) visibleTotals(snap *snapshot) (*queueTotals, *rates) {
	sees := make(map[string]bool)
	for _, h := range c.vhosts() {
		sees[h.Name] = true
	}
	t, r := new(queueTotals), new(rates)
	for _, q := range snap.queues {
		if sees[q.queue.VHost] {
			t.add(&q.status)
			r.add(q.rates)
		}
	}
	return t, r
}

// add sums up rates.
func (r *rates) add(more *rates) {
	if more == nil {
		return
	}
	for i := range r {
		r[i] += more[i]
	}
}

// nodeName is this node's name, empty if the catalogue does not have it.
func (s *Server) nodeName(view *meta.View) string { return nodeNamed(view, s.opt.Host.Node()) }

func nodeNamed(view *meta.View, id meta.NodeID) string {
	if n := view.Node(id); n != nil {
		return n.Name
	}
	return ""
}

// writeListeners writes listeners and contexts of all nodes that are up.
func (c *call) writeListeners(w *writer) {
	each := func(write func(name string, n *nodeSample)) {
		for node := range c.view.Nodes() {
			if n := c.s.nodeFacts(node.ID); n != nil && !node.Replaced {
				write(node.Name, n)
			}
		}
	}
	if w.Array("listeners") {
		each(func(name string, n *nodeSample) {
			for _, l := range n.listeners {
				w.Object("")
				w.Str("node", name)
				w.Str("protocol", l.Protocol)
				w.Str("ip_address", l.IP)
				w.Int("port", int64(l.Port))
				w.Bool("tls", l.TLS)
				w.EmptyObject("socket_opts")
				w.End()
			}
		})
		w.EndArray()
	}
	if w.Array("contexts") {
		each(func(name string, n *nodeSample) { writeContexts(w, name, n) })
		w.EndArray()
	}
}

// writeContexts writes what a node serves over HTTP and where. RabbitMQ has the port as text here.
func writeContexts(w *writer, name string, n *nodeSample) {
	for _, l := range n.listeners {
		description := ""
		switch l.Protocol {
		case "http", "https":
			description = "RabbitMQ Management"
		case "http/prometheus", "https/prometheus":
			description = "RabbitMQ Prometheus"
		default:
			continue
		}
		w.Object("")
		w.EmptyArray("ssl_opts")
		w.Str("node", name)
		w.Str("description", description)
		w.Str("path", "/")
		w.Str("ip", l.IP)
		w.Str("port", strconv.Itoa(l.Port))
		w.Str("cowboy_opts", "")
		w.Str("protocol", l.Protocol)
		w.End()
	}
}

// writeReplication writes whether queues have the replicas that they should have; RabbitMQ has no such key.
func (c *call) writeReplication(w *writer, r *replication) {
	if !w.Object("replication") {
		return
	}
	w.Int("nodes", int64(r.nodes))
	w.Int("nodes_running", int64(r.running))
	w.Int("replicas_default", limits.ReplicasDefault)
	for _, kind := range [...]struct {
		key string
		*exceptions
	}{{"short", &r.short}, {"wanting", &r.wanting}, {"minority", &r.minority}, {"down", &r.down}} {
		w.Int("queues_"+kind.key, int64(kind.count))
		if w.Array("queues_" + kind.key + "_named") {
			for _, q := range kind.named {
				w.Object("")
				w.Str("name", q.Name)
				w.Str("vhost", q.VHost)
				w.End()
			}
			w.EndArray()
		}
	}
	w.End()
}
