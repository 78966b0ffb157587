package management

import (
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

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

// writeNode writes all of this node, and of another one whether it is there.
func (c *call) writeNode(w *writer, n *meta.Node) {
	w.Str("name", n.Name)
	w.Str("type", "disc")
	if n.ID != c.s.opt.Host.Node() {
		w.Bool("running", n.Alive())
		return
	}
	w.Bool("running", true)
	w.Bool("being_drained", false)
	w.Str("os_pid", strconv.Itoa(os.Getpid()))
	w.Int("uptime", time.Since(c.s.started).Milliseconds())
	w.Int("run_queue", 0)
	w.Int("processors", int64(runtime.GOMAXPROCS(0)))
	w.Str("rates_mode", "basic")
	w.Str("rabbitmq_version", RabbitMQVersion)
	w.Strings("enabled_plugins", plugins[:])
	c.writeApplications(w)
	writeExchangeTypes(w)
	writeMechanisms(w)
	c.s.writeContexts(w, n.Name)
	w.Strings("log_files", []string{"<stderr>"})
	w.Strings("config_files", c.s.opt.ConfigFiles)
	w.Str("db_dir", c.s.opt.DataDir)
	w.Int("net_ticktime", 60)
	w.EmptyArray("partitions")
	w.EmptyArray("cluster_links")
	w.EmptyObject("ra_open_file_metrics")
	writeGarbageQueues(w)
	c.writeUsage(w, n.Name)
	writeChurnCounters(w, &c.s.sampler.snapshot().node)
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

func (c *call) writeApplications(w *writer) {
	if w.Array("applications") {
		w.Object("")
		w.Str("name", "warren")
		w.Str("description", productName)
		w.Str("version", c.s.opt.Version)
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

// writeUsage writes what the process uses and may use.
func (c *call) writeUsage(w *writer, name string) {
	n := &c.s.sampler.snapshot().node
	rate := n.usageRates.of
	memoryAlarm, diskAlarm := false, false
	for _, a := range c.s.opt.Alarms() {
		if a.Node == name {
			memoryAlarm = memoryAlarm || a.Resource == "memory"
			diskAlarm = diskAlarm || a.Resource == "disk"
		}
	}
	w.Counter("mem_used", n.used[usedMemory], rate(usedMemory))
	w.Uint("mem_limit", n.memoryLimitBytes)
	w.Bool("mem_alarm", memoryAlarm)
	w.Str("mem_calculation_strategy", "rss")
	w.Counter("fd_used", n.used[usedFiles], rate(usedFiles))
	w.Uint("fd_total", n.filesMax)
	w.Counter("sockets_used", n.used[usedSockets], rate(usedSockets))
	w.Uint("sockets_total", n.filesMax)
	w.Counter("proc_used", n.used[usedGoroutines], rate(usedGoroutines))
	w.Uint("proc_total", fallbackTotal)
	w.Counter("disk_free", n.used[usedDiskFree], rate(usedDiskFree))
	w.Uint("disk_free_limit", diskFreeLimitBytes)
	w.Bool("disk_free_alarm", diskAlarm)
	w.Counter("gc_num", n.used[usedGCRuns], rate(usedGCRuns))
	w.Counter("gc_bytes_reclaimed", n.used[usedGCBytes], rate(usedGCBytes))
	w.Counter("context_switches", n.used[usedSwitches], rate(usedSwitches))
	writeNoCounters(w, "io_read_count", "io_read_bytes", "io_write_count", "io_write_bytes", "io_sync_count", "io_seek_count", "io_reopen_count", "mnesia_ram_tx_count",
		"mnesia_disk_tx_count", "msg_store_read_count", "msg_store_write_count", "queue_index_read_count", "queue_index_write_count")
	for _, key := range [...]string{"io_read_avg_time", "io_write_avg_time", "io_sync_avg_time", "io_seek_avg_time"} {
		w.Float(key, 0)
		w.Rate(key+"_details", 0)
	}
}
