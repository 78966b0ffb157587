package config

import (
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/alarm"
)

// table is the one list of settings.
var table = slices.Concat(generalKeys, clusterTLSKeys, arrivalKeys)

// generalKeys are its rows but for those of arrival.go. To add a setting: a field in Config and a row here, then `go test ./config -rewrite` for the reference.
var generalKeys = []Key{
	{
		Name: "data_dir", Type: String, Default: "./data", ShortFlag: "data-dir",
		Doc:   "Directory of all of the node's files. One process at a time may use it.",
		apply: func(c *Config, _ string, v value) { c.DataDir = v.text },
	},
	{
		Name: "node.name", Type: String, ShortFlag: "name",
		Doc:   "The node's name as clients and tools see it. Without an `@` it is completed with the short host name. Unset: `rabbit@` and the short host name.",
		apply: func(c *Config, _ string, v value) { c.NodeName = v.text },
	},
	{
		Name: "listeners.tcp.default", Type: Address, Default: ":5672", ShortFlag: "amqp",
		Doc: "Address for AMQP clients. A source (file, environment, flags) that names a listener replaces the listeners of the sources before it.",
		apply: func(c *Config, _ string, v value) {
			c.AMQP.Listen = append(c.AMQP.Listen, v.address)
		},
	},
	{
		Name: "listeners.tcp.$name", Type: Address,
		Doc: "Further addresses for AMQP clients, under any name or number.",
		apply: func(c *Config, _ string, v value) {
			c.AMQP.Listen = append(c.AMQP.Listen, v.address)
		},
	},
	{
		Name: "handshake_timeout", Type: Duration, Unit: time.Millisecond, Default: strconv.Itoa(limits.HandshakeTimeoutMillis), Min: 100, Max: 600_000,
		Doc:   "Time from accept to connection.open-ok; a plain number is milliseconds. Beyond it the socket is closed.",
		apply: func(c *Config, _ string, v value) { c.AMQP.HandshakeTimeout = v.duration },
	},
	{
		Name: "heartbeat", Type: Duration, Unit: time.Second, Default: strconv.Itoa(limits.HeartbeatSeconds), Max: 65_535_000,
		Doc: "Heartbeat interval that the broker proposes, rounded up to whole seconds; a plain number is seconds. The client's answer holds both ways; 0 proposes none.",
		apply: func(c *Config, _ string, v value) {
			c.AMQP.Heartbeat = (v.duration + time.Second - 1).Truncate(time.Second)
		},
	},
	{
		Name: "frame_max", Type: Bytes, Default: strconv.Itoa(limits.FrameBytesMax), Min: limits.FrameBytesMin, Max: limits.FrameBytesCeiling,
		Doc:   "Largest frame that the broker proposes. A client may ask for less, down to 4096.",
		apply: func(c *Config, _ string, v value) { c.AMQP.FrameBytesMax = int(v.number) },
	},
	{
		Name: "initial_frame_max", Type: Bytes, Default: strconv.Itoa(limits.UntunedFrameBytesMax), Min: limits.FrameBytesMin, Max: limits.FrameBytesCeiling,
		Doc:   "Largest frame accepted before the connection is tuned.",
		apply: func(c *Config, _ string, v value) { c.AMQP.UntunedFrameBytesMax = int(v.number) },
	},
	{
		Name: "channel_max", Type: Int, Default: strconv.Itoa(limits.ChannelMax), Min: 1, Max: limits.ChannelCeiling,
		Doc:   "Channels that one connection may open.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ChannelMax = int(v.number) },
	},
	{
		Name: "consumer_max_per_channel", Type: Int, Default: strconv.Itoa(limits.ConsumersPerChannelMax), Min: 1, Max: limits.ConsumersPerQueueMax,
		Doc:   "Consumers that one channel may have.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ConsumersPerChannelMax = int(v.number) },
	},
	{
		Name: "connection_max", Type: Count, Min: 1, Max: 1 << 30,
		Doc:   "Connections that the node serves; beyond it connection.open is refused with 530 NOT_ALLOWED. Unset: what the limit of open files allows.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ConnectionMax = countOf(v) },
	},
	{
		Name: "connection_max_per_second", Type: Count, Min: 1, Max: 1 << 30,
		Doc:   "Connections that the node accepts within a second; those beyond it are closed without a word, before TLS.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ConnectionsPerSecondMax = int(v.number) },
	},
	{
		Name: "connection_max_per_address", Type: Count, Min: 1, Max: 1 << 30,
		Doc:   "The same for connections that one address (of IPv6: a network of 64 bits) may have; behind a proxy that is the proxy's.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ConnectionsPerAddressMax = int(v.number) },
	},
	{
		Name: "channel_max_per_node", Type: Count, Min: 1, Max: 1 << 30,
		Doc:   "Channels that all connections of the node may have open; beyond it channel.open is refused with 530 NOT_ALLOWED.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ChannelsPerNodeMax = int(v.number) },
	},
	{
		Name: "cluster_queue_limit", Type: Count, Min: 1, Max: 1 << 30,
		Doc:   "Queues that the cluster may have for this node to declare another one; beyond it 406 PRECONDITION_FAILED.",
		apply: func(c *Config, _ string, v value) { c.Cluster.QueuesMax = int(v.number) },
	},
	{
		Name: "cluster_exchange_limit", Type: Count, Min: 1, Max: 1 << 30,
		Doc:   "The same for exchanges, the predeclared ones among them.",
		apply: func(c *Config, _ string, v value) { c.Cluster.ExchangesMax = int(v.number) },
	},
	{
		Name: "vhost_max", Type: Count, Min: 1, Max: 1 << 30,
		Doc:   "The same for virtual hosts.",
		apply: func(c *Config, _ string, v value) { c.Cluster.VHostsMax = int(v.number) },
	},
	{
		Name: "message_interceptors.incoming.set_header_timestamp.overwrite", Type: Bool,
		Doc:   "Published messages get the header `timestamp_in_ms` and the property timestamp: where they have none, with `true` in any case.",
		apply: func(c *Config, _ string, v value) { c.AMQP.StampTime = stampOf(v.on) },
	},
	{
		Name: "message_interceptors.incoming.set_header_routing_node.overwrite", Type: Bool,
		Doc:   "Published messages get the header `x-routed-by` with the name of the node that routes them: where they have none, with `true` in any case.",
		apply: func(c *Config, _ string, v value) { c.AMQP.StampNode = stampOf(v.on) },
	},
	{
		Name: "max_message_size", Type: Bytes, Default: strconv.Itoa(limits.BodyBytesMax), Min: 1, Max: limits.BodyBytesCeiling,
		Doc:   "Largest message body. A larger one is refused at its content header with 406 PRECONDITION_FAILED.",
		apply: func(c *Config, _ string, v value) { c.AMQP.BodyBytesMax = int(v.number) },
	},
	{
		Name: "publish_timeout", Type: Duration, Unit: time.Millisecond, Default: strconv.Itoa(limits.PublishTimeoutMillis), Min: 100, Max: 600_000,
		Doc:   "A publish that not all of its queues have answered by then is nacked; a plain number is milliseconds. A nack says \"not known to be stored\".",
		apply: func(c *Config, _ string, v value) { c.AMQP.PublishTimeout = v.duration },
	},
	{
		Name: "queue_park_timeout", Type: Duration, Unit: time.Millisecond, Default: strconv.Itoa(limits.ParkMillis), Min: 100, Max: 86_400_000,
		Doc:   "A durable queue that nobody uses for that long is parked: its replicas take neither memory nor processor until somebody wants it again; a plain number is milliseconds.",
		apply: func(c *Config, _ string, v value) { c.Cluster.ParkAfter = v.duration },
	},
	{
		Name: "vm_memory_high_watermark.relative", Type: Fraction, Default: strconv.FormatFloat(limits.MemoryHighPercent/100.0, 'g', -1, 64), Max: 1, Reloadable: true,
		Doc:   "Part of the memory limit above which publishers are blocked; 0 blocks them always. The limit is the least of what the control group, the machine and `GOMEMLIMIT` give.",
		apply: func(c *Config, _ string, v value) { c.Alarms.MemoryHigh = alarm.Relative(v.fraction) },
	},
	{
		Name: "vm_memory_high_watermark.absolute", Type: Bytes, Reloadable: true,
		Doc:   "The same in bytes of memory that the process takes.",
		apply: func(c *Config, _ string, v value) { c.Alarms.MemoryHigh = alarm.Absolute(uint64(v.number)) },
	},
	{
		Name: "total_memory_available_override_value", Type: Bytes, Min: 1, Max: 1 << 60,
		Doc:   "The memory limit, where what the platform says is wrong.",
		apply: func(c *Config, _ string, v value) { c.Alarms.MemoryLimitBytes = uint64(v.number) },
	},
	{
		Name: "disk_free_limit.absolute", Type: Bytes, Reloadable: true,
		Doc:   "Free bytes, on the file system of `data_dir`, below which publishers are blocked. Unset: a tenth of the file system, at most 1GiB. Below half of it, at most 32MiB, publishes are refused.",
		apply: func(c *Config, _ string, v value) { c.Alarms.DiskFree = alarm.Absolute(uint64(v.number)) },
	},
	{
		Name: "disk_free_limit.relative", Type: Fraction, Reloadable: true,
		Doc:   "The same as a part of the memory limit.",
		apply: func(c *Config, _ string, v value) { c.Alarms.DiskFree = alarm.Relative(v.fraction) },
	},
	{
		Name: "default_user", Type: String, Default: "guest",
		Doc:   "Administrator that is made once, in an empty data directory.",
		apply: func(c *Config, _ string, v value) { c.First.User = v.text },
	},
	{
		Name: "default_pass", Type: String, Default: "guest", Secret: true,
		Doc:   "Password of `default_user`.",
		apply: func(c *Config, _ string, v value) { c.First.Pass = v.text },
	},
	{
		Name: "default_vhost", Type: String, Default: "/",
		Doc:   "Virtual host that is made once, in an empty data directory.",
		apply: func(c *Config, _ string, v value) { c.First.VHost = v.text },
	},
	{
		Name: "loopback_users", Type: Enum, Choices: []string{"none"},
		Doc:   "`none` lets every user connect from everywhere.",
		apply: func(c *Config, _ string, _ value) { c.LoopbackUsers = nil },
	},
	{
		Name: "loopback_users.guest", Type: Bool, Default: "true",
		Doc:   "The user `guest` may connect from the loopback addresses only.",
		apply: func(c *Config, _ string, v value) { c.restrict("guest", v.on) },
	},
	{
		Name: "loopback_users.$name", Type: Bool,
		Doc:   "The user of that name may connect from the loopback addresses only.",
		apply: func(c *Config, user string, v value) { c.restrict(user, v.on) },
	},
	{
		Name: "management.listen", Type: Address, Default: ":15672", ShortFlag: "http",
		Doc:   "Address of the HTTP API.",
		apply: func(c *Config, _ string, v value) { c.Management.Listen = v.address },
	},
	{
		Name: "management.tcp.ip", Type: Host, PartOf: "management.listen",
		Doc:   "Host part of `management.listen`.",
		apply: func(c *Config, _ string, v value) { setHost(&c.Management.Listen, v.text) },
	},
	{
		Name: "management.tcp.port", Type: Int, Max: 65_535, PartOf: "management.listen",
		Doc:   "Port part of `management.listen`.",
		apply: func(c *Config, _ string, v value) { setPort(&c.Management.Listen, v.number) },
	},
	{
		Name: "management.path_prefix", Type: Path,
		Doc:   "Path before `/api` and the web UI, as in `/warren`; for a proxy that passes a part of its paths on.",
		apply: func(c *Config, _ string, v value) { c.PathPrefix = v.text },
	},
	{
		Name: "management.login_session_timeout", Type: Duration, Unit: time.Minute, Default: strconv.Itoa(limits.LoginSessionMinutes), Min: 60_000, Max: 365 * 24 * 3600_000,
		Doc:   "How long a login in the web UI lasts unused; a plain number is minutes.",
		apply: func(c *Config, _ string, v value) { c.LoginSession = v.duration },
	},
	{
		Name: "prometheus.listen", Type: Address, Default: ":15692", ShortFlag: "metrics",
		Doc:   "Address of `/metrics`, which needs no password.",
		apply: func(c *Config, _ string, v value) { c.Metrics.Listen = v.address },
	},
	{
		Name: "prometheus.tcp.ip", Type: Host, PartOf: "prometheus.listen",
		Doc:   "Host part of `prometheus.listen`.",
		apply: func(c *Config, _ string, v value) { setHost(&c.Metrics.Listen, v.text) },
	},
	{
		Name: "prometheus.tcp.port", Type: Int, Max: 65_535, PartOf: "prometheus.listen",
		Doc:   "Port part of `prometheus.listen`.",
		apply: func(c *Config, _ string, v value) { setPort(&c.Metrics.Listen, v.number) },
	},
	{
		Name: "cluster_name", Type: String,
		Doc:   "The cluster's name as clients and tools see it. Unset: the node's name.",
		apply: func(c *Config, _ string, v value) { c.Cluster.Name = v.text },
	},
	{
		Name: "cluster.listen", Type: Address, Default: "127.0.0.1:25672", ShortFlag: "cluster",
		Doc:   "Address of the port between nodes.",
		apply: func(c *Config, _ string, v value) { c.Cluster.Listen = v.address },
	},
	{
		Name: "cluster.advertise", Type: Address, ShortFlag: "cluster-advertise",
		Doc:   "Address at which other nodes reach this one. Unset: `cluster.listen`, with the short host name if that has no host.",
		apply: func(c *Config, _ string, v value) { c.Cluster.Advertise = v.address },
	},
	{
		Name: "cluster.join", Type: AddressList, ShortFlag: "join",
		Doc:   "Nodes to join. It counts in an empty data directory only; afterwards the node knows its cluster.",
		apply: func(c *Config, _ string, v value) { c.Cluster.Join = v.list },
	},
	{
		Name: "cluster.secret", Type: String, ShortFlag: "cluster-secret", Secret: true,
		Doc:   "What the nodes of a cluster prove to each other. Unset: the node makes one in its data directory, so that nobody can join until all have the same. It replaces `cluster.secret_file` of a source before it.",
		apply: func(c *Config, _ string, v value) { c.Cluster.Secret = v.text },
	},
	{
		Name: "cluster.secret_file", Type: String, ShortFlag: "cluster-secret-file",
		Doc:   "File that holds `cluster.secret`; white space at its end is cut. It replaces `cluster.secret` of a source before it.",
		apply: func(_ *Config, _ string, _ value) {}, // Load reads the file once it knows which source won
	},
	{
		Name: "log.console.level", Type: Enum, Default: "info", Choices: []string{"debug", "info", "notice", "warning", "error", "critical", "none"},
		Doc:   "Lowest level that is written to standard error.",
		apply: func(c *Config, _ string, v value) { c.LogLevel = logLevels[v.text] },
	},
}

// countOf is a Count of which the default is not infinity.
func countOf(v value) int {
	if v.number == 0 {
		return Infinite
	}
	return int(v.number)
}

func stampOf(overwrite bool) Stamp {
	if overwrite {
		return StampAlways
	}
	return StampMissing
}

// levelNone is above every level that is logged.
const levelNone = slog.Level(100)

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "notice": slog.LevelInfo, "warning": slog.LevelWarn,
	"error": slog.LevelError, "critical": slog.LevelError, "none": levelNone,
}

func setHost(address *string, host string) {
	_, port, _ := net.SplitHostPort(*address)
	*address = net.JoinHostPort(host, port)
}

func setPort(address *string, port int64) {
	host, _, _ := net.SplitHostPort(*address)
	*address = net.JoinHostPort(host, strconv.FormatInt(port, 10))
}
