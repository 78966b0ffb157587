package broker

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/guess"
	"github.com/warrenmq/warren/internal/tlsconf"
	"github.com/warrenmq/warren/meta"
)

// Options tells New what to run on. Zero values of bounds and times stand for the defaults in config/limits.
type Options struct {
	// Host runs queues and catalogue.
	Host Host
	// Log takes what operators should know; slog.Default if nil.
	Log *slog.Logger
	// Product, Version and Platform are what connection.start tells clients; some choose their behaviour by them. ClusterName is told, too; if empty
	// it is the catalogue's.
	Product, Version, Platform, ClusterName string
	// HandshakeTimeout bounds the time from accept to connection.open-ok.
	HandshakeTimeout time.Duration
	// Heartbeat is what connection.tune proposes, in whole seconds; negative proposes none.
	Heartbeat time.Duration
	// PublishTimeout is when a publish that not all of its queues have answered is nacked.
	PublishTimeout time.Duration
	// FrameBytesMax is the largest frame that connection.tune proposes, UntunedFrameBytesMax the largest before connection.tune-ok.
	FrameBytesMax, UntunedFrameBytesMax int
	// ChannelMax bounds the channels of a connection, ConsumersPerChannelMax the consumers of a channel, BodyBytesMax a message body.
	ChannelMax, ConsumersPerChannelMax, BodyBytesMax int
	// UnackedBytesMax bounds the bodies that a channel's consumers have to acknowledge: beyond it they get no more than what their windows have room for, limits.ConnectionWindowBytes at most;
	// 0 for no bound.
	UnackedBytesMax uint64
	// PublishBytesMax bounds the messages of all connections that begin to arrive or are not answered, WindowBytesMax the windows of all consumers, beyond the smallest for each; 0 for no bound.
	PublishBytesMax, WindowBytesMax int64
	// ConnectionMax bounds the connections that have opened a virtual host, ChannelsPerNodeMax the channels of all of them; 0 for no bound.
	ConnectionMax, ChannelsPerNodeMax int
	// ConnectionsPerSecondMax bounds how many connections are accepted within a second, ConnectionsPerAddressMax how many the peers of one address may have; 0 for no bound. The newest beyond
	// is closed without a word.
	ConnectionsPerSecondMax, ConnectionsPerAddressMax int
	// Intercept edits the properties of published messages, flags and values of a content header, before they are routed; nil for none. It returns what it got or a new slice.
	Intercept func(properties []byte) []byte
	// EventVHost is the virtual host of amq.rabbitmq.event; "/" if empty.
	EventVHost string
	// LoopbackUsers are the users that may connect from the loopback addresses only.
	LoopbackUsers []string
	// Mechanisms are the login mechanisms that clients are offered, sorted; AMQPLAIN and PLAIN if nil. EXTERNAL is offered to those that showed a certificate.
	Mechanisms []string
	// CertificateLogin says where in a client's certificate its user's name stands.
	CertificateLogin tlsconf.Login
	// Guesses slows down logins from where many have failed; nothing does if nil.
	Guesses *guess.Brake
	// AnonymousUser and AnonymousPass are what a client logs in as with ANONYMOUS.
	AnonymousUser, AnonymousPass string
}

// Broker serves AMQP clients. Make one with New; its methods may be called from several goroutines.
type Broker struct {
	opt    Options
	host   Host
	log    *slog.Logger
	totals totals
	rates  exchangeRates

	// tick counts the turns of the watch: the coarse clock of everything that is looked after there.
	tick atomic.Uint32

	notices *notices
	losses  losses

	leaser  leaser // nil: the host needs no lease
	replies replyConsumers

	teller teller // nil: there are no other nodes
	usage  usage

	lacking atomic.Uint32 // an alarm.Set: what the cluster is short of

	publishes  publishBudget
	windowLeft atomic.Int64 // what is left of Options.WindowBytesMax

	mu        sync.Mutex
	conns     map[uint64]*conn
	lastConn  uint64
	arrivals  arrivals
	untrusted int // connections that have not finished their handshake
	listeners map[net.Listener]struct{}
	closing   bool
	idle      chan struct{} // closed when closing and the last connection has ended

	ending   context.Context // over when the broker begins to close
	end      context.CancelFunc
	stop     chan struct{} // ends the watch
	stopping sync.Once
}

// New makes a Broker and starts its watch, which Shutdown ends.
func New(opt Options) *Broker {
	opt.fill()
	b := &Broker{
		opt: opt, host: opt.Host, log: opt.Log, conns: make(map[uint64]*conn), listeners: make(map[net.Listener]struct{}),
		idle: make(chan struct{}), stop: make(chan struct{}),
	}
	b.ending, b.end = context.WithCancel(context.Background())
	b.arrivals.perSecond, b.arrivals.perAddress = opt.ConnectionsPerSecondMax, opt.ConnectionsPerAddressMax
	b.tick.Store(1) // 0 stands for never
	var short func() bool
	if h, ok := opt.Host.(interface{ Pressed() bool }); ok {
		short = h.Pressed
	}
	b.publishes.init(opt.PublishBytesMax, short)
	b.windowLeft.Store(opt.WindowBytesMax)
	b.leaser, _ = opt.Host.(leaser)
	b.notices = newNotices(b)
	b.losses.b = b
	b.notices.declare()
	if b.teller, _ = opt.Host.(teller); b.teller != nil {
		b.teller.OnTold(b.told)
		b.teller.OnAsked(b.asked)
	}
	b.host.OnChange(b.changed)
	if h, ok := opt.Host.(interface {
		OnLettersLost(func(meta.QueueID, int))
	}); ok {
		h.OnLettersLost(b.losses.note)
	}
	b.notices.listen()
	b.lookAtAlarms()
	go b.watch()
	go b.notices.run()
	return b
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Mechanisms == nil {
		o.Mechanisms = []string{amqp.MechanismAMQPlain, amqp.MechanismPlain}
	}
	fillText(&o.Product, "RabbitMQ")
	fillText(&o.Version, "4.3.0")
	fillText(&o.Platform, "Warren")
	fillText(&o.EventVHost, "/")
	fillDuration(&o.HandshakeTimeout, limits.HandshakeTimeoutMillis*time.Millisecond)
	fillDuration(&o.Heartbeat, limits.HeartbeatSeconds*time.Second)
	fillDuration(&o.PublishTimeout, limits.PublishTimeoutMillis*time.Millisecond)
	fillInt(&o.FrameBytesMax, limits.FrameBytesMax)
	fillInt(&o.UntunedFrameBytesMax, limits.UntunedFrameBytesMax)
	fillInt(&o.ChannelMax, limits.ChannelMax)
	fillInt(&o.ConsumersPerChannelMax, limits.ConsumersPerChannelMax)
	fillInt(&o.BodyBytesMax, limits.BodyBytesMax)
}

func fillText(p *string, value string) {
	if *p == "" {
		*p = value
	}
}

func fillDuration(p *time.Duration, value time.Duration) {
	if *p == 0 {
		*p = value
	}
}

func fillInt(p *int, value int) {
	if *p == 0 {
		*p = value
	}
}

// owner names a connection to the catalogue.
func (b *Broker) owner(id uint64) meta.Owner {
	return meta.Owner{Node: b.host.Node(), Boot: b.host.Boot(), Connection: id}
}

// Shutdown stops listening and closes every connection with 320. It returns when all have ended, or with the error of ctx after it closed the
// sockets that were left. A Broker cannot serve again after it.
func (b *Broker) Shutdown(ctx context.Context) error {
	b.mu.Lock()
	if !b.closing {
		b.closing = true
		b.end()
		for l := range b.listeners {
			_ = l.Close()
		}
		if len(b.conns) == 0 {
			close(b.idle)
		}
	}
	b.mu.Unlock()
	for _, c := range b.connections() {
		c.fail(errShutdown())
	}
	var err error
	select {
	case <-b.idle:
	case <-ctx.Done():
		err = ctx.Err()
		for _, c := range b.connections() {
			c.cut()
		}
		<-b.idle
	}
	b.stopping.Do(func() { close(b.stop) })
	return err
}

// connections returns the present connections, oldest first.
func (b *Broker) connections() []*conn {
	b.mu.Lock()
	list := make([]*conn, 0, len(b.conns))
	for _, c := range b.conns {
		list = append(list, c)
	}
	b.mu.Unlock()
	slices.SortFunc(list, func(x, y *conn) int { return int(int64(x.id) - int64(y.id)) })
	return list
}

// admit registers a new connection; false if there is no room or the broker is closing.
func (b *Broker) admit(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := addressOf(c.socket.RemoteAddr())
	if b.closing || b.untrusted >= limits.UnauthenticatedConnectionsMax || !b.arrivals.take(from, c.connectedAt) {
		return false
	}
	b.lastConn++
	c.id = b.lastConn
	c.trusted = false
	b.untrusted++
	b.conns[c.id] = c
	b.totals.connectionsOpened.Add(1)
	return true
}

// trust notes that the connection has finished its handshake.
func (b *Broker) trust(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.trusted {
		c.trusted = true
		b.untrusted--
	}
}

// remove forgets a connection that has ended.
func (b *Broker) remove(c *conn) {
	b.uncountConnection(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.trusted {
		b.untrusted--
	}
	delete(b.conns, c.id)
	b.arrivals.leave(addressOf(c.socket.RemoteAddr()))
	b.totals.connectionsClosed.Add(1)
	if b.closing && len(b.conns) == 0 {
		close(b.idle)
	}
}

// closeAll closes open connections that match with 320.
func (b *Broker) closeAll(reason string, match func(*conn) bool) {
	for _, c := range b.connections() {
		if c.isOpen() && match(c) {
			c.fail(errForced(reason))
		}
	}
}
