package broker

import (
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/queue"
)

// Connection is what operators see of a connection.
type Connection struct {
	// Name is "ip:port -> ip:port".
	Name string
	// State is starting, running, flow (held back), blocking (it will be blocked at its next publish), blocked or closing.
	State       string
	User, VHost string
	// Mechanism is how the user logged in.
	Mechanism string
	// Channels is how many are open, ChannelMax how many may be; FrameMax is in bytes.
	Channels, ChannelMax int
	FrameMax             uint32
	Heartbeat            time.Duration
	ConnectedAt          time.Time
	// Properties are what the client tells of itself.
	Properties amqp.Table
	// Host and Port are this end, PeerHost and PeerPort the client's.
	Host, PeerHost string
	Port, PeerPort int
	// TLS is nil for a connection without.
	TLS *ConnectionTLS
	// ReceivedBytes, ReceivedFrames, SentBytes and SentWrites count what went over the socket.
	ReceivedBytes, ReceivedFrames, SentBytes, SentWrites uint64
	// PendingBytes wait to be written.
	PendingBytes int
}

// ConnectionTLS is what operators see of a connection's TLS, in RabbitMQ's words. It does not change.
type ConnectionTLS struct {
	Protocol, KeyExchange, Cipher, Hash string
	// PeerSubject, PeerIssuer and PeerValidity describe the client's certificate; empty if it showed none.
	PeerSubject, PeerIssuer, PeerValidity string
}

// Channel is what operators see of a channel.
type Channel struct {
	// Connection is the name of its connection; the channel's own is "Connection (Number)".
	Connection  string
	Number      int
	User, VHost string
	// State is running or closing.
	State                string
	PeerHost             string
	PeerPort             int
	Confirm              bool
	Consumers            int
	Unacked, Unconfirmed int
	// Transactional tells of tx.select. Uncommitted messages and UncommittedAcks wait for a commit; the latter are not in Unacked.
	Transactional                 bool
	Uncommitted, UncommittedAcks  int
	PrefetchCount, PrefetchGlobal int
	// Session is the channel as queues know it.
	Session queue.SessionID
	Counts  ChannelCounts
}

// ChannelCounts are what a channel has done.
type ChannelCounts struct {
	Published, Confirmed, Returned, Dropped                                uint64
	Delivered, DeliveredNoAck, Got, GotNoAck, GotEmpty, Acked, Redelivered uint64
}

// Consumer is what operators see of a consumer.
type Consumer struct {
	Tag         string
	Queue       string
	VHost       string
	AckRequired bool
	Exclusive   bool
	// Active says that the queue has accepted it.
	Active    bool
	Prefetch  int
	Arguments amqp.Table
	// TimeoutMillis is how long it may keep a delivery, 0: for ever.
	TimeoutMillis int64
	// Connection, Number, User and the peer say whose it is.
	Connection string
	Number     int
	User       string
	PeerHost   string
	PeerPort   int
	// Session and ID are the consumer as its queue knows it.
	Session queue.SessionID
	ID      queue.ConsumerID
}

// Connections lists the connections, oldest first.
func (b *Broker) Connections() []Connection {
	conns := b.connections()
	list := make([]Connection, 0, len(conns))
	for _, c := range conns {
		list = append(list, c.show())
	}
	return list
}

// show describes a connection. What the handshake learns is shown once it is over.
func (c *conn) show() Connection {
	out := Connection{
		Name: c.name(), State: "starting", ConnectedAt: c.connectedAt,
		ReceivedBytes: c.receivedBytes.Load(), ReceivedFrames: c.receivedFrames.Load(),
		SentBytes: c.sentBytes.Load(), SentWrites: c.sentWrites.Load(),
	}
	ends := c.ends.Load()
	out.Host, out.Port = splitAddr(ends.own)
	out.PeerHost, out.PeerPort = splitAddr(ends.peer)
	switch connState(c.state.Load()) {
	case connHandshake:
		return out
	case connOpen:
		switch {
		case c.blocked.Load():
			out.State = "blocked"
		case c.b.lack() != 0:
			out.State = "blocking"
		case c.waiters.Load() > 0:
			out.State = "flow"
		default:
			out.State = "running"
		}
	default:
		out.State = "closing"
		if !c.b.trusts(c) {
			return out
		}
	}
	out.User, out.VHost, out.Mechanism = c.user, c.vhost, c.mechanism
	out.ChannelMax, out.FrameMax, out.Heartbeat, out.Properties, out.TLS = c.channelMax, c.frameMax, c.heartbeat, c.properties, c.tls
	c.mu.Lock()
	out.Channels = len(c.channels)
	c.mu.Unlock()
	c.out.mu.Lock()
	if c.out.buf != nil {
		out.PendingBytes = len(c.out.buf.b) + c.out.bodyBytes
	}
	c.out.mu.Unlock()
	return out
}

func (b *Broker) trusts(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.trusted
}

func splitAddr(a net.Addr) (host string, port int) {
	host, text, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String(), 0
	}
	port, _ = strconv.Atoi(text)
	return host, port
}

// Channels lists the channels of all connections, by connection and number.
func (b *Broker) Channels() []Channel {
	var list []Channel
	for _, c := range b.connections() {
		if !b.trusts(c) {
			continue
		}
		for _, ch := range c.sortedChannels() {
			list = append(list, ch.show())
		}
	}
	return list
}

func (c *conn) sortedChannels() []*channel {
	list := c.channelList()
	slices.SortFunc(list, func(a, b *channel) int { return int(a.number) - int(b.number) })
	return list
}

func (ch *channel) show() Channel {
	c := ch.c
	out := Channel{Connection: c.name(), Number: int(ch.number), User: c.user, VHost: c.vhost, State: "running"}
	out.PeerHost, out.PeerPort = splitAddr(c.ends.Load().peer)
	out.Session = ch.session.ID()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.state != chanOpen {
		out.State = "closing"
	}
	out.Confirm = ch.confirm.on
	out.Consumers = len(ch.consumers)
	out.Transactional, out.Uncommitted, out.UncommittedAcks = ch.transactional.Load(), len(ch.tx.messages), len(ch.tx.settlements)
	out.Unacked = max(0, ch.unacked.len()-out.UncommittedAcks-ch.late)
	if out.Confirm {
		out.Unconfirmed = ch.confirm.publishes.len()
	}
	out.PrefetchCount, out.PrefetchGlobal = int(ch.prefetch), ch.share.total
	s := &ch.stats
	out.Counts = ChannelCounts{
		Published: s.published, Confirmed: s.confirmed, Returned: s.returned, Dropped: s.dropped, Delivered: s.delivered, DeliveredNoAck: s.deliveredNoAck,
		Got: s.got, GotNoAck: s.gotNoAck, GotEmpty: s.gotEmpty, Acked: s.acked, Redelivered: s.redelivered,
	}
	return out
}

// Consumers lists the consumers of all channels, by connection, channel and age.
func (b *Broker) Consumers() []Consumer {
	var list []Consumer
	for _, c := range b.connections() {
		if !b.trusts(c) {
			continue
		}
		host, port := splitAddr(c.ends.Load().peer)
		for _, ch := range c.sortedChannels() {
			for _, cons := range ch.sortedConsumers() {
				cons.Connection, cons.Number, cons.User, cons.PeerHost, cons.PeerPort = c.name(), int(ch.number), c.user, host, port
				list = append(list, cons)
			}
		}
	}
	return list
}

func (ch *channel) sortedConsumers() []Consumer {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	all := make([]*consumer, 0, len(ch.consumers))
	for _, cons := range ch.consumers {
		all = append(all, cons)
	}
	slices.SortFunc(all, func(a, b *consumer) int { return int(a.id) - int(b.id) })
	list := make([]Consumer, 0, len(all))
	for _, cons := range all {
		list = append(list, Consumer{
			Tag: cons.tag, Queue: cons.src.queue.Name, VHost: cons.src.queue.VHost, AckRequired: !cons.noAck, Exclusive: cons.exclusive, Active: cons.active,
			Prefetch: int(cons.prefetch), Arguments: cons.arguments, TimeoutMillis: ch.timeoutMillis(cons), Session: ch.session.ID(), ID: cons.id,
		})
	}
	return list
}

// CloseConnection closes the connection of that name with 320 and the reason. It reports whether there was one.
func (b *Broker) CloseConnection(name, reason string) bool {
	for _, c := range b.connections() {
		if c.name() == name {
			c.fail(errForced(reason))
			return true
		}
	}
	return false
}
