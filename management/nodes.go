package management

import (
	"net/http"
	"strconv"
	"time"

	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
)

// listNodes is GET /nodes.
func listNodes(c *call) error {
	var rows []*meta.Node
	for n := range c.view.Nodes() {
		if !n.Replaced {
			rows = append(rows, n)
		}
	}
	return list(c, rows, func(n *meta.Node) string { return n.Name }, c.writeNode)
}

// getNode is GET /nodes/NAME.
func getNode(c *call) error {
	n := c.view.NodeNamed(c.params[0])
	if n == nil {
		return objectNotFound()
	}
	return c.object(http.StatusOK, func(w *writer) { c.writeNode(w, n) })
}

// nodeFacts returns what is known of a node that is up and tells, as of now; nil of any other.
func (s *Server) nodeFacts(id meta.NodeID) *nodeSample {
	snap := s.sampler.snapshot()
	if id == s.opt.Host.Node() {
		n := snap.node
		n.uptimeMillis, n.listeners = uint64(time.Since(s.started).Milliseconds()), s.opt.Listeners()
		return &n
	}
	h, ok := snap.others[id]
	if !ok || !s.opt.Host.NodeUp(id) {
		return nil
	}
	h.node.uptimeMillis += uint64(max(time.Since(h.at).Milliseconds(), 0))
	return &h.node
}

// writeNode writes all of a node that is up, and of another one that it is not.
func (c *call) writeNode(w *writer, node *meta.Node) {
	w.Str("name", node.Name)
	w.Str("type", "disc")
	n := c.s.nodeFacts(node.ID)
	w.Bool("running", n != nil)
	if n == nil {
		return
	}
	w.Bool("being_drained", false)
	w.Str("os_pid", strconv.FormatUint(n.pid, 10))
	w.Uint("uptime", n.uptimeMillis)
	w.Int("run_queue", 0)
	w.Uint("processors", n.processors)
	w.Str("rates_mode", "basic")
	w.Str("rabbitmq_version", RabbitMQVersion)
	w.Strings("enabled_plugins", plugins[:])
	writeApplications(w, n)
	writeExchangeTypes(w)
	writeMechanisms(w)
	if w.Array("contexts") {
		writeContexts(w, node.Name, n)
		w.EndArray()
	}
	w.Strings("log_files", []string{"<stderr>"})
	w.Strings("config_files", n.configFiles)
	w.Str("db_dir", n.dataDir)
	w.Int("net_ticktime", 60)
	w.EmptyArray("partitions")
	w.EmptyArray("cluster_links")
	w.EmptyObject("ra_open_file_metrics")
	writeGarbageQueues(w)
	c.writeUsage(w, node, n)
	writeChurnCounters(w, n, c.nodeTrend(node.ID, n.churnRates, c.spans.node, func(h *nodeHistory) *history { return &h.churn }))
}

// plugins are those of RabbitMQ whose work is done here; tools look for them.
var plugins = [...]string{"rabbitmq_management", "rabbitmq_prometheus"}

// writeGarbageQueues writes the lengths of queues that exist only in RabbitMQ.
func writeGarbageQueues(w *writer) {
	if !w.Object("metrics_gc_queue_length") {
		return
	}
	for _, key := range [...]string{
		"connection_closed", "channel_closed", "consumer_deleted", "exchange_deleted", "queue_deleted", "vhost_deleted", "node_node_deleted", "channel_consumer_deleted",
	} {
		w.Uint(key, 0)
	}
	w.End()
}

func writeApplications(w *writer, n *nodeSample) {
	if w.Array("applications") {
		w.Object("")
		w.Str("name", "warren")
		w.Str("description", productName)
		w.Str("version", n.version)
		w.End()
		w.EndArray()
	}
}

func writeMechanisms(w *writer) {
	if w.Array("auth_mechanisms") {
		w.Object("")
		w.Str("name", "PLAIN")
		w.Str("description", "SASL PLAIN authentication mechanism")
		w.Bool("enabled", true)
		w.End()
		w.EndArray()
	}
}

// writeUsage writes what a node's process uses and may use.
func (c *call) writeUsage(w *writer, node *meta.Node, n *nodeSample) {
	t := c.nodeTrend(node.ID, n.usageRates, c.spans.node, func(h *nodeHistory) *history { return &h.used })
	lack := c.s.lackOf(node.ID)
	w.Counter("mem_used", n.used[usedMemory], t, usedMemory)
	w.Uint("mem_limit", n.memoryHighBytes)
	w.Bool("mem_alarm", lack&alarm.Memory != 0)
	w.Str("mem_calculation_strategy", "rss")
	w.Counter("fd_used", n.used[usedFiles], t, usedFiles)
	w.Uint("fd_total", n.filesMax)
	w.Counter("sockets_used", n.used[usedSockets], t, usedSockets)
	w.Uint("sockets_total", n.filesMax)
	w.Counter("proc_used", n.used[usedGoroutines], t, usedGoroutines)
	w.Uint("proc_total", fallbackTotal)
	w.Counter("disk_free", n.used[usedDiskFree], t, usedDiskFree)
	w.Uint("disk_free_limit", n.diskLimitBytes)
	w.Bool("disk_free_alarm", lack&alarm.Disk != 0)
	w.Counter("gc_num", n.used[usedGCRuns], t, usedGCRuns)
	w.Counter("gc_bytes_reclaimed", n.used[usedGCBytes], t, usedGCBytes)
	w.Counter("context_switches", n.used[usedSwitches], t, usedSwitches)
	writeNoCounters(w, "io_read_count", "io_read_bytes", "io_write_count", "io_write_bytes", "io_sync_count", "io_seek_count", "io_reopen_count", "mnesia_ram_tx_count",
		"mnesia_disk_tx_count", "msg_store_read_count", "msg_store_write_count", "queue_index_read_count", "queue_index_write_count")
	for _, key := range [...]string{"io_read_avg_time", "io_write_avg_time", "io_sync_avg_time", "io_seek_avg_time"} {
		w.Float(key, 0)
		w.details(key+"_details", trend{}, nil)
	}
}

// memoryKeys are RabbitMQ's parts of a node's memory. Go does not tell what its memory is for, so all of it is other_system.
var memoryKeys = [...]string{
	"connection_readers", "connection_writers", "connection_channels", "connection_other", "queue_procs", "queue_slave_procs", "quorum_queue_procs", "quorum_queue_dlx_procs",
	"stream_queue_procs", "stream_queue_replica_reader_procs", "stream_queue_coordinator_procs", "plugins", "other_proc", "metrics", "mgmt_db", "mnesia", "metadata_store", "metadata_store_ets",
	"quorum_ets", "other_ets", "binary", "msg_index", "code", "atom", "other_system", "allocated_unused", "reserved_unallocated",
}

// nodeMemory is GET /nodes/NAME/memory.
func nodeMemory(c *call) error {
	return c.nodeMemory(func(w *writer, used uint64) {
		w.Str("strategy", "rss")
		if w.Object("total") {
			for _, key := range [...]string{"erlang", "rss", "allocated"} {
				w.Uint(key, used)
			}
			w.End()
		}
	}, func(used uint64) uint64 { return used })
}

// nodeMemoryShares is GET /nodes/NAME/memory/relative.
func nodeMemoryShares(c *call) error {
	return c.nodeMemory(func(w *writer, _ uint64) { w.Uint("total", 100) }, func(uint64) uint64 { return 100 })
}

func (c *call) nodeMemory(total func(*writer, uint64), part func(used uint64) uint64) error {
	node := c.view.NodeNamed(c.params[0])
	if node == nil {
		return objectNotFound()
	}
	n := c.s.nodeFacts(node.ID)
	return c.object(http.StatusOK, func(w *writer) {
		if n == nil { // as RabbitMQ says of a node that is down
			w.Str("memory", "not_available")
			return
		}
		if !w.Object("memory") {
			return
		}
		for _, key := range memoryKeys {
			if key == "other_system" {
				w.Uint(key, part(n.memoryBytes))
			} else {
				w.Uint(key, 0)
			}
		}
		total(w, n.memoryBytes)
		w.End()
	})
}
