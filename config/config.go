package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/internal/tlsconf"
)

// Config is every setting of one node, read and checked. It does not change after Load.
type Config struct {
	// DataDir is the directory of all of the node's files, as given: relative to the working directory unless absolute.
	DataDir string
	// NodeName is the node's name as clients and tools see it, with an "@": rabbit@HOST.
	NodeName string
	// AMQP is what package broker needs.
	AMQP AMQP
	// Login is how AMQP clients say who they are.
	Login Login
	// Management is where the HTTP API and the web UI are served, Metrics where /metrics is.
	Management, Metrics HTTP
	// PathPrefix stands before the paths of the HTTP API and the web UI: empty, or with a slash in front and none at the end.
	PathPrefix string
	// LoginSession is how long a browser's login lasts unused.
	LoginSession time.Duration
	// Alarms say when publishers are blocked.
	Alarms Alarms
	// Cluster is what package quorum needs.
	Cluster Cluster
	// First is what an empty data directory is filled with.
	First First
	// LoopbackUsers are the users that may connect from the loopback addresses only, sorted.
	LoopbackUsers []string
	// LogLevel is the lowest level that is written.
	LogLevel slog.Level
	// Ignored are the settings that were read and do nothing here; the node reports each once at its start.
	Ignored []Notice

	settings []Setting
}

// AMQP is the part of Config for client connections.
type AMQP struct {
	// Listen are the addresses to listen on without TLS, ListenTLS those with it, as net.Listen takes them; at least one in all.
	Listen, ListenTLS []string
	// TLS is what ListenTLS serves with, TLSTimeout bounds its handshake.
	TLS        tlsconf.Options
	TLSTimeout time.Duration
	// ProxyProtocol says that every connection begins with a PROXY header and comes from Proxies.
	ProxyProtocol bool
	Proxies       []netip.Prefix
	// HandshakeTimeout is the time from accept to connection.open-ok.
	HandshakeTimeout time.Duration
	// Heartbeat is what connection.tune proposes, in whole seconds; 0 proposes none.
	Heartbeat time.Duration
	// FrameBytesMax is the largest frame that connection.tune proposes.
	FrameBytesMax int
	// UntunedFrameBytesMax is the largest frame accepted before connection.tune-ok.
	UntunedFrameBytesMax int
	// ChannelMax is how many channels connection.tune proposes.
	ChannelMax int
	// ConsumersPerChannelMax bounds the consumers of one channel.
	ConsumersPerChannelMax int
	// ConnectionMax bounds the connections of the node: 0 for what its open files allow, Infinite for none. ChannelsPerNodeMax bounds their channels, 0 for none.
	ConnectionMax, ChannelsPerNodeMax int
	// ConnectionsPerSecondMax bounds the connections that are accepted within a second, ConnectionsPerAddressMax those of one address; 0 for none.
	ConnectionsPerSecondMax, ConnectionsPerAddressMax int
	// StampTime and StampNode say which published messages get the time and the node's name.
	StampTime, StampNode Stamp
	// BodyBytesMax is the largest message body accepted.
	BodyBytesMax int
	// PublishTimeout is when a publish that its targets have not answered is nacked.
	PublishTimeout time.Duration

	proxies map[string]netip.Prefix // by what stands in the place of $name
}

// Alarms is the part of Config for memory and disk space. Zero values stand for the defaults of package alarm.
type Alarms struct {
	// MemoryHigh is above which memory is short, DiskFree below which disk space is.
	MemoryHigh, DiskFree alarm.Threshold
	// MemoryLimitBytes is what the process may take, instead of what the platform says.
	MemoryLimitBytes uint64
}

// Infinite stands for no bound where 0 is another one.
const Infinite = -1

// Stamp says what becomes of published messages that have a header, or have it not.
type Stamp uint8

// The values of Stamp. They are not persisted.
const (
	// StampNever: nothing.
	StampNever Stamp = 0
	// StampMissing: those without it get it.
	StampMissing Stamp = 1
	// StampAlways: all get it anew.
	StampAlways Stamp = 2
)

// Cluster is the part of Config for traffic between nodes.
type Cluster struct {
	// Name is the cluster's name as clients see it; the node's name unless configured.
	Name string
	// Listen is the address of the cluster port, as net.Listen takes it.
	Listen string
	// Advertise is the address, with a host, at which other nodes reach this one.
	Advertise string
	// Join are the addresses of nodes to join.
	Join []string
	// QueuesMax, ExchangesMax and VHostsMax bound what the cluster may have for this node to make another one; 0 for none.
	QueuesMax, ExchangesMax, VHostsMax int
	// Secret is what nodes prove to each other, empty if none is set.
	Secret string
	// TLS is what nodes speak among each other, mutual TLS 1.3; without a certificate they speak none.
	TLS tlsconf.Options
	// ParkAfter is how long nobody must use a durable queue before it is parked.
	ParkAfter time.Duration
}

// First is what the node makes once, in an empty data directory.
type First struct {
	// User and Pass are the administrator's name and password.
	User, Pass string
	// VHost is the first virtual host.
	VHost string
}

// Notice is a setting that was read and does nothing in this version.
type Notice struct {
	// Key is the setting's name and Source where it stands.
	Key, Source string
	// Reason says why it is ignored.
	Reason string
}

// Setting is one line of the effective configuration.
type Setting struct {
	// Key is the setting's name and Value its value in normal form; a secret's value is masked.
	Key, Value string
	// Source is "default", "FILE:LINE", "environment WARREN_X", or the flag.
	Source string
}

// Effective lists every key that has a value, sorted by name, with the value and where it came from.
func (c *Config) Effective() []Setting { return append([]Setting(nil), c.settings...) }
