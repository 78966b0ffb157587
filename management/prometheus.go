package management

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/storage/wal"
)

// scrapesAtOnce bounds the scrapes that are answered at the same time; beyond it: 503.
const scrapesAtOnce = 8

func (s *Server) newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{s: s})
	return r
}

// metricsHandler serves the aggregated metrics. OpenMetrics is on, for only there do numbers look as the dashboards of RabbitMQ expect them.
func (s *Server) metricsHandler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn), MaxRequestsInFlight: scrapesAtOnce,
	})
}

// collector makes this node's metrics (the queues that it leads, the clients that it serves, so that sums over all nodes are right) from the sampler's sums and the broker's totals: a scrape costs the same with one queue and with a hundred thousand.
type collector struct{ s *Server }

// Describe sends nothing, so the registry does not check the metrics beforehand.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// descs keeps the descriptions, which are costly to make, by name.
var descs sync.Map

func desc(name, help string, labels ...string) *prometheus.Desc {
	if d, ok := descs.Load(name); ok {
		return d.(*prometheus.Desc)
	}
	d := prometheus.NewDesc(name, help, labels, nil)
	descs.Store(name, d)
	return d
}

// sink takes metrics of one scrape.
type sink chan<- prometheus.Metric

func (out sink) gauge(name, help string, v float64) {
	out <- prometheus.MustNewConstMetric(desc(name, help), prometheus.GaugeValue, v)
}

func (out sink) counter(name, help string, v uint64) {
	out <- prometheus.MustNewConstMetric(desc(name, help), prometheus.CounterValue, float64(v))
}

// global writes a counter of the protocol, and of the queue type where RabbitMQ tells them apart. Here all queues are one machine and count together.
func (out sink) global(name, help string, v uint64) {
	out <- prometheus.MustNewConstMetric(desc("rabbitmq_global_"+name, help, "protocol"), prometheus.CounterValue, float64(v), "amqp091")
}

func (out sink) globalQueues(name, help string, v uint64) {
	out <- prometheus.MustNewConstMetric(desc("rabbitmq_global_"+name, help, "protocol", "queue_type"), prometheus.CounterValue, float64(v), "amqp091", "rabbit_quorum_queue")
}

// Collect makes the metrics of one scrape.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	out, snap := sink(ch), c.s.sampler.snapshot()
	c.identity(out)
	c.messages(out, &snap.led)
	c.delays(out, &snap.delays)
	c.churn(out)
	c.resources(out, snap)
	ownMetrics(out, &snap.replicas)
}

func (c *collector) identity(out sink) {
	view := c.s.opt.Host.Catalogue().View
	out <- prometheus.MustNewConstMetric(
		desc("rabbitmq_identity_info", "The node and its cluster; join it to other metrics for their labels", "rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"),
		prometheus.UntypedValue, 1, text(c.s.nodeName(view)), text(view.ClusterName()), text(view.ClusterID()), "aggregated")
	out <- prometheus.MustNewConstMetric(
		desc("rabbitmq_build_info", "Versions of the API, the product and its runtime", "rabbitmq_version", "prometheus_plugin_version", "prometheus_client_version", "erlang_version",
			"product_version", "product_name"),
		prometheus.UntypedValue, 1, RabbitMQVersion, RabbitMQVersion, "client_golang", runtime.Version(), text(c.s.opt.Version), productName)
}

func (c *collector) messages(out sink, t *queueTotals) {
	out.gauge("rabbitmq_queues", "Queues that this node leads", float64(t.queues))
	out.gauge("rabbitmq_consumers", "Consumers of the queues that this node leads", float64(t.consumers))
	out.gauge("rabbitmq_queue_consumers", "Consumers of the queues that this node leads", float64(t.consumers))
	out.gauge("rabbitmq_queue_messages_ready", "Messages that wait for a consumer", float64(t.ready))
	out.gauge("rabbitmq_queue_messages_unacked", "Messages that a consumer has and did not settle yet", float64(t.unacked))
	out.gauge("rabbitmq_queue_messages", "Messages in queues, waiting or unsettled", float64(t.ready+t.unacked))
	out.gauge("rabbitmq_queue_messages_bytes", "Body bytes of messages in queues", float64(t.readyBytes+t.unackedBytes))
	out.gauge("rabbitmq_queue_messages_ready_bytes", "Body bytes of messages that wait for a consumer", float64(t.readyBytes))
	out.gauge("rabbitmq_queue_messages_unacked_bytes", "Body bytes of unsettled messages", float64(t.unackedBytes))
	out.gauge("rabbitmq_queue_messages_persistent", "Messages in queues that were published as persistent", float64(t.persistent))
	out.gauge("rabbitmq_queue_messages_persistent_bytes", "Body bytes of persistent messages in queues", float64(t.persistentBytes))
	out <- prometheus.MustNewConstMetric(desc("rabbitmq_global_consumers", "Consumers of the protocol", "protocol"), prometheus.GaugeValue, float64(t.consumers), "amqp091")

	out.counter("warren_queue_duplicates_dropped_total", "Messages dropped because the queue, which this node leads, knew their deduplication id", t.counts[queueDuplicates])
	out.counter("warren_queue_publishes_rejected_total", "Messages that the queue, which this node leads, refused because it was full", t.counts[queueRejected])
	out.counter("warren_queue_deliveries_timed_out_total", "Deliveries of the queue, which this node leads, that were taken back because they were not acknowledged in time", t.counts[queueTimedOut])

	n := c.s.opt.Broker.Totals()
	out.global("messages_received_total", "Messages that clients published", n.Published)
	out.global("messages_received_confirm_total", "Messages published on channels in confirm mode, as far as they were answered", n.Confirmed)
	out.global("messages_confirmed_total", "Messages whose publisher was answered", n.Confirmed)
	out.global("messages_routed_total", "Published messages that at least one queue got", n.Published-min(n.Published, n.Returned+n.Dropped))
	out.global("messages_unroutable_dropped_total", "Messages dropped because no queue wanted them", n.Dropped)
	out.global("messages_unroutable_returned_total", "Mandatory messages returned because no queue wanted them", n.Returned)
	out.globalQueues("messages_delivered_total", "Messages sent to consumers and got by basic.get", n.Delivered+n.DeliveredNoAck+n.Got+n.GotNoAck)
	out.globalQueues("messages_delivered_consume_auto_ack_total", "Messages sent to consumers that need not acknowledge", n.DeliveredNoAck)
	out.globalQueues("messages_delivered_consume_manual_ack_total", "Messages sent to consumers that acknowledge", n.Delivered)
	out.globalQueues("messages_delivered_get_auto_ack_total", "Messages got by basic.get without acknowledgement", n.GotNoAck)
	out.globalQueues("messages_delivered_get_manual_ack_total", "Messages got by basic.get to be acknowledged", n.Got)
	out.globalQueues("messages_get_empty_total", "Times that basic.get found nothing", n.GotEmpty)
	out.globalQueues("messages_redelivered_total", "Deliveries that were not the first of their message", n.Redelivered)
	out.globalQueues("messages_acknowledged_total", "Messages that clients acknowledged", n.Acked)
	logMetrics(out, c.s.opt.Host.LogStats())
	out.gauge("warren_damaged_replicas", "Replicas of durable queues on this node whose files are damaged and that are not replaced yet", float64(c.s.opt.Host.DamagedReplicas()))
	out.counter("warren_damaged_replicas_found_total", "Replicas of durable queues on this node whose files were found damaged", c.s.opt.Host.DamageFound())
	out.counter("warren_notices_dropped_total", "Events and traced messages that came faster than they could be published, and were dropped", n.NoticesDropped)
}

// delays are told as of the last tick: what is due comes between one tick and the next.
func (c *collector) delays(out sink, t *delayTotals) {
	out.gauge("warren_messages_delayed", "Messages that are to be ready later, in queues and delayed exchanges that this node leads", float64(t.messages))
	if t.messages > 0 {
		out.gauge("warren_messages_delayed_next_seconds", "Seconds until the first delayed message is due", float64(max(t.leftMillis, 0))/1000)
	}
	out.gauge("warren_messages_delayed_lag_seconds", "Seconds for which the first delayed message is overdue", float64(max(-t.leftMillis, 0))/1000)
	out.counter("warren_dead_letters_lost_total", "Dead letters dropped because too many waited in their queue, which this node leads", c.s.opt.Host.LettersLost())
	out.counter("warren_messages_delayed_unroutable_total", "Messages dropped because no queue wanted them when they were due to leave their exchange", c.s.opt.Host.Unrouted())
}

func (c *collector) churn(out sink) {
	n := c.s.opt.Broker.Totals()
	all := c.s.churn.add(&n)
	out.counter("rabbitmq_connections_opened_total", "Connections accepted", n.ConnectionsOpened)
	out.counter("rabbitmq_connections_closed_total", "Connections that ended", n.ConnectionsClosed)
	out.counter("rabbitmq_channels_opened_total", "Channels opened", n.ChannelsOpened)
	out.counter("rabbitmq_channels_closed_total", "Channels that ended", n.ChannelsClosed)
	out.counter("rabbitmq_queues_declared_total", "Declarations of queues", all[churnQueuesDeclared])
	out.counter("rabbitmq_queues_created_total", "Queues made by a declaration", all[churnQueuesCreated])
	out.counter("rabbitmq_queues_deleted_total", "Queues deleted by clients", all[churnQueuesDeleted])
	out.gauge("rabbitmq_connections", "Connections that are open", float64(n.ConnectionsOpened-n.ConnectionsClosed))
	out.gauge("rabbitmq_channels", "Channels that are open", float64(n.ChannelsOpened-n.ChannelsClosed))
	l := &c.s.logins
	for _, m := range [...]struct {
		name, help string
		amqp, http uint64
	}{
		{"rabbitmq_auth_attempts_total", "Logins tried", n.AuthAttempts, l.attempts.Load()},
		{"rabbitmq_auth_attempts_succeeded_total", "Logins that were good", n.AuthSucceeded, l.succeeded.Load()},
		{"rabbitmq_auth_attempts_failed_total", "Logins that were refused", n.AuthFailed, l.failed.Load()},
	} {
		d := desc(m.name, m.help, "protocol")
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(m.amqp), "amqp091")
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(m.http), "http")
	}
}

func (c *collector) resources(out sink, snap *snapshot) {
	n := &snap.node
	out.gauge("rabbitmq_process_open_fds", "File descriptors that the process has open", float64(n.files))
	out.gauge("rabbitmq_process_max_fds", "File descriptors that the process may open", float64(n.filesMax))
	out.gauge("rabbitmq_process_open_tcp_sockets", "Sockets of AMQP clients", float64(n.used[usedSockets]))
	out.gauge("rabbitmq_process_max_tcp_sockets", "Sockets that the process may open", float64(n.filesMax))
	out.gauge("rabbitmq_process_resident_memory_bytes", "Memory of the process that is in RAM", float64(n.memoryBytes))
	out.gauge("rabbitmq_resident_memory_limit_bytes", "Memory above which publishers are held back", float64(n.memoryHighBytes))
	out.gauge("rabbitmq_disk_space_available_bytes", "Free bytes of the file system with the data directory", float64(n.diskFreeBytes))
	out.gauge("rabbitmq_disk_space_available_limit_bytes", "Free bytes below which publishers are held back", float64(n.diskLimitBytes))
	out.gauge("rabbitmq_erlang_uptime_seconds", "Seconds since the node started", time.Since(snap.started).Seconds())
	lack := c.s.lackOf(c.s.opt.Host.Node())
	is := func(bit alarm.Set) float64 { return float64(min(lack&bit, 1)) }
	out.gauge("rabbitmq_alarms_memory_used_watermark", "1 while publishers are held back for memory of this node", is(alarm.Memory))
	out.gauge("rabbitmq_alarms_free_disk_space_watermark", "1 while publishers are held back for disk space of this node", is(alarm.Disk))
	out.gauge("rabbitmq_alarms_file_descriptor_limit", "1 while file descriptors are used up", 0)
}

// ownMetrics are the metrics that RabbitMQ has not.
func ownMetrics(out sink, t *replicaTotals) {
	groups := desc("warren_raft_groups", "Replicas of durable queues on this node by the state of their Raft group", "state")
	for _, m := range [...]struct {
		state string
		n     uint64
	}{{"running", t.running}, {"starting", t.starting}, {"parked", t.parked}, {"minority", t.minority}, {"down", t.down}} {
		out <- prometheus.MustNewConstMetric(groups, prometheus.GaugeValue, float64(m.n), m.state)
	}
	out.gauge("warren_body_bytes_in_memory", "Bytes of message bodies in memory", float64(t.bodyBytesInMemory))
	out.gauge("warren_queue_disk_bytes", "Bytes of message stores and checkpoints on disk", float64(t.diskBytes))
}

// logMetrics are those of the node's Raft log.
func logMetrics(out sink, log wal.Stats) {
	out.counter("warren_wal_syncs_total", "Syncs of the Raft log's end; its rate is syncs per second, and that of warren_wal_bytes_total divided by it bytes per sync", log.Syncs)
	out.counter("warren_wal_commits_total", "Writes that waited for the Raft log; those of all queues share syncs", log.Commits)
	out.counter("warren_wal_bytes_total", "Bytes written to the Raft log", log.Bytes)
	out.counter("warren_wal_copied_bytes_total", "Bytes of the Raft log that were copied so that an old file could go", log.CopiedBytes)
	out.gauge("warren_wal_longest_sync_seconds", "Longest time that writing and syncing one batch took since the last scrape", log.LongestSync.Seconds())
	out.gauge("warren_wal_files", "Files of the Raft log that are needed", float64(log.Files))
	out.gauge("warren_wal_file_bytes", "Length of the files of the Raft log that are needed", float64(log.FilesBytes))
}

// text makes a label out of any name: one that is no UTF-8 would make the scrape fail.
func text(s string) string { return string([]rune(s)) }
