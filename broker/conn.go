package broker

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// connState is where a connection stands.
type connState uint32

const (
	connHandshake connState = iota
	connOpen
	connClosing // connection.close was sent or received: frames are not acted on
	connEnded
)

// conn is one client connection.
type conn struct {
	b  *Broker
	id uint64
	// socket is what was accepted, nc what AMQP is spoken over: the socket, or TLS on it once the connection has arrived.
	socket, nc net.Conn
	by         *Entrance
	in         *amqp.Reader
	// ends are replaced once, by those of a PROXY header.
	ends atomic.Pointer[ends]
	// peer is fixed by the handshake.
	peer
	trusted bool // guarded by Broker.mu
	counted countedConn
	work    work // the reader's

	state atomic.Uint32
	isCut atomic.Bool // the socket was closed here
	out   outbox
	// flight belongs to the writer.
	flight flight
	lag    lag

	mu       sync.Mutex
	channels map[uint16]*channel

	windowLeft atomic.Int64 // what is left of limits.ConnectionWindowBytes

	bodies   atomic.Int32  // long bodies that have begun and not ended
	bodyTick atomic.Uint32 // when a piece of one came last

	last *channel // the channel of the last frame; the reader's

	// inflight is what was published and not answered, bodies what has begun to arrive and not ended, in bytes.
	inflightBytes, inflightCount, bodyBytes atomic.Int64
	// txBytes is what its channels hold for transactions that are not committed.
	txBytes atomic.Int64

	// operations is how many channels have an operation under way.
	operations atomic.Int32
	credits    atomic.Int64 // changes of parts of a prefetch that queues have not answered

	waitMu  sync.Mutex
	room    sync.Cond
	waiters atomic.Int32

	blocked     atomic.Bool   // the socket is not read, for the cluster is short of something; changed with waitMu held
	blockedTick atomic.Uint32 // since when

	// What follows is looked at by the watch. Ticks are those of Broker.tick.
	reading                        atomic.Bool
	receivedBytes, sentBytes       atomic.Uint64
	receivedFrames, sentWrites     atomic.Uint64
	receivedTick, sentTick, cutDue atomic.Uint32
	partialSince, writeSince       atomic.Uint32 // when a frame began to arrive, a write to be made; 0: none has
	lent                           atomic.Bool   // the reader holds a buffer
	connectedAt                    time.Time
}

// peer is what the handshake learnt of a client.
type peer struct {
	tls           *ConnectionTLS    // nil without TLS
	certificate   *x509.Certificate // the client's, verified; nil if it showed none
	user, vhost   string
	mechanism     string
	properties    amqp.Table
	cancelNotify  bool
	blockNotify   bool
	authFailClose bool
	channelMax    int
	frameMax      uint32
	heartbeat     time.Duration
	owner         meta.Owner
}

// work is what an executor of channels has of its own: scratch that keeps the path of a message free of allocations, and what it has to flush.
type work struct {
	only              *channel // the one channel that it is for, nil for the reader's
	view              amqp.PropertyView
	command, settling queue.Command
	message           exchange.Message // what is being routed
	targets           []meta.QueueID
	histories         []meta.QueueID // of the exchanges that the message passed
	replies           []replyAddress
	dirty             []*channel
}

func newConn(b *Broker, nc net.Conn, by *Entrance) *conn {
	c := &conn{b: b, socket: nc, nc: nc, by: by, connectedAt: time.Now()}
	c.ends.Store(newEnds(nc.RemoteAddr(), nc.LocalAddr()))
	c.out.broken = by.isGuarded() // until it has arrived
	c.windowLeft.Store(limits.ConnectionWindowBytes)
	c.in = amqp.NewReader(source0{c}, &sharedReadBuffers, uint32(b.opt.UntunedFrameBytesMax))
	c.room.L = &c.waitMu
	c.frameMax = uint32(b.opt.UntunedFrameBytesMax)
	c.receivedTick.Store(b.tick.Load())
	c.sentTick.Store(b.tick.Load())
	return c
}

// source0 reads from the socket and notes what the watch wants to know.
type source0 struct{ c *conn }

// Read implements io.Reader.
func (s source0) Read(p []byte) (int, error) {
	c := s.c
	c.lent.Store(len(p) > amqp.ReaderIdleBytes)
	c.reading.Store(true)
	n, err := c.nc.Read(p)
	c.reading.Store(false)
	if n > 0 {
		c.receivedBytes.Add(uint64(n))
		c.receivedTick.Store(c.b.tick.Load())
	}
	return n, err
}

func (c *conn) isOpen() bool { return connState(c.state.Load()) == connOpen }

// serve lets the connection arrive and runs the handshake. What comes after has a goroutine with a fresh, small stack.
func (c *conn) serve() {
	ok := false
	defer func() {
		if !ok {
			c.end()
		}
	}()
	defer c.guard()
	if ok = c.arrive(); ok {
		go c.greet()
	}
}

// greet runs the handshake of AMQP.
func (c *conn) greet() {
	ok := false
	defer func() {
		if !ok {
			c.end()
		}
	}()
	defer c.guard()
	if ok = c.handshake(); ok {
		c.b.trust(c)
		c.in.Trust()
		c.in.Release()
		go c.run()
	}
}

// run is the reader of an open connection.
func (c *conn) run() {
	defer c.end()
	if c.contained(c.read) {
		c.awaitCloseOk(limits.CloseTimeoutMillis * time.Millisecond)
	}
}

// contained runs f; a panic in it is logged and closes the connection with 541. It reports whether there was one.
func (c *conn) contained(f func()) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			panicked = true
			c.panicked(v)
		}
	}()
	f()
	return false
}

// guard is deferred where code of the connection runs on its own goroutine or on one of a queue.
func (c *conn) guard() {
	if v := recover(); v != nil {
		c.panicked(v)
	}
}

func (c *conn) panicked(v any) {
	c.b.log.Error("a connection failed by a bug and is closed", "connection", c.name(), "panic", v, "stack", string(debug.Stack()))
	// A lock that the panic may have left behind must not hold up anybody.
	time.AfterFunc(lingerMax, c.cut)
	go c.fail(errInternal())
}

// read handles frames until the stream ends.
func (c *conn) read() {
	for whole := true; ; {
		if c.blocked.Load() {
			c.awaitUnblock()
		}
		f, ok, err := c.in.Next()
		if ok {
			whole = true
			c.receivedFrames.Add(1)
			if c.frame(f) {
				return
			}
			continue
		}
		c.work.flush()
		if err != nil {
			c.fail(asError(err))
			c.discard(limits.CloseTimeoutMillis * time.Millisecond)
			return
		}
		switch {
		case c.in.Buffered() == 0:
			c.partialSince.Store(0)
		case whole || c.partialSince.Load() == 0:
			c.partialSince.Store(c.b.tick.Load())
		}
		whole = false
		if err = c.in.Fill(); err != nil && !c.resume(err) {
			return
		}
	}
}

// resume tells whether reading goes on after an error of the socket: after the time-out by which the watch asks for the buffer back.
func (c *conn) resume(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || c.cutDue.Load() != 0 {
		return false
	}
	if c.nc.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	c.in.Release()
	return true
}

// frame handles one frame and reports whether the connection is at its end.
func (c *conn) frame(f amqp.Frame) (ended bool) {
	if !c.isOpen() {
		return c.closingFrame(f)
	}
	var err error
	switch {
	case f.Type == amqp.FrameHeartbeat:
		return false
	case f.Channel != 0:
		err = c.channelFrame(f)
	case f.Type != amqp.FrameMethod:
		err = amqp.UnexpectedFrame(f)
	default:
		return c.connectionMethod(f)
	}
	if err != nil {
		c.fail(asError(err))
	}
	return false
}

// closingFrame looks for the two methods that still count once connection.close was sent.
func (c *conn) closingFrame(f amqp.Frame) (ended bool) {
	if f.Channel != 0 {
		return false
	}
	switch f.Method() {
	case amqp.MethodConnectionCloseOk:
		return true
	case amqp.MethodConnectionClose:
		c.sendLast(&amqp.ConnectionCloseOk{})
	}
	return false
}

// connectionMethod handles a method on channel 0 of an open connection.
func (c *conn) connectionMethod(f amqp.Frame) (ended bool) {
	m, err := amqp.DecodeMethod(f.Payload)
	if err != nil {
		c.fail(asError(err))
		return false
	}
	switch m := m.(type) {
	case *amqp.ConnectionClose:
		c.closedByClient()
		return true
	case *amqp.ConnectionUpdateSecret:
		c.updateSecret(m)
	default:
		c.fail(errState("running").At(m.ID()))
	}
	return false
}

// channelFrame hands a frame to its channel, or sets it aside if the channel is busy.
func (c *conn) channelFrame(f amqp.Frame) error {
	ch := c.last
	if ch == nil || ch.number != f.Channel || ch.gate.Load() == gateClosed {
		ch = c.channel(f.Channel)
		if ch == nil {
			return c.openChannel(f)
		}
		c.last = ch
	}
	if ch.gate.Load() != gateOpen {
		return c.gated(ch, f)
	}
	return ch.handle(f, &c.work)
}

// channel returns the channel of a number, nil if it is not open.
func (c *conn) channel(number uint16) *channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channels[number]
}

func (c *conn) channelList() []*channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*channel, 0, len(c.channels))
	for _, ch := range c.channels {
		list = append(list, ch)
	}
	return list
}

// fail closes the connection with an error: connection.close goes out, and all but its answer is ignored from now on. It may be called by anybody that
// holds no lock.
func (c *conn) fail(e *amqp.Error) {
	c.mu.Lock()
	was := connState(c.state.Load())
	if was >= connClosing {
		c.mu.Unlock()
		return
	}
	c.state.Store(uint32(connClosing))
	c.mu.Unlock()
	if e.Code == amqp.ReplyConnectionForced {
		c.b.log.Info("closing a connection", "connection", c.name(), "reason", e.ReplyText())
	} else {
		c.b.log.Warn("closing a connection because of an error", "connection", c.name(), "error", e.Error())
	}
	m := e.ConnectionClose()
	if !c.sendLast(&m) {
		c.cut()
	}
	c.cutAfter(c.closeTimeout(was))
	c.signal()
	go func() {
		defer c.guard()
		c.endChannels()
	}()
}

// closeTimeout is how long the answer to connection.close is waited for.
func (c *conn) closeTimeout(was connState) time.Duration {
	d := limits.CloseTimeoutMillis * time.Millisecond
	if was == connOpen && c.heartbeat > 0 {
		d = min(d, c.heartbeat)
	}
	return d
}

// closedByClient carries out connection.close: what was received before is done, channels end, exclusive queues go, then close-ok is sent.
func (c *conn) closedByClient() {
	c.work.flush()
	c.settleDown()
	c.mu.Lock()
	if connState(c.state.Load()) < connClosing {
		c.state.Store(uint32(connClosing))
	}
	c.mu.Unlock()
	c.cutAfter(limits.CloseTimeoutMillis * time.Millisecond)
	c.endChannels()
	c.dropOwned()
	c.sendLast(&amqp.ConnectionCloseOk{})
	c.linger()
}

// linger lets the peer read what was written last: closing a socket with unread input would throw that away.
func (c *conn) linger() {
	if !c.flushed(lingerMax) {
		return
	}
	if c.nc != c.socket { // says in TLS that nothing follows
		_ = c.nc.(closeWriter).CloseWrite()
	}
	if tcp, ok := c.socket.(closeWriter); ok {
		_ = tcp.CloseWrite()
		c.discard(lingerMax)
	}
}

// closeWriter is a connection of which one half can be closed: TCP, TLS.
type closeWriter interface{ CloseWrite() error }

const (
	// lingerMax is how long a closed connection waits for its peer to close, too.
	lingerMax = time.Second
	// settleDownMax is how long a connection that ends waits for operations that are under way, and then for its sessions to end.
	settleDownMax = 5 * time.Second
)

// awaitCloseOk waits for the answer to connection.close, or the end of the stream, at most d. Everything else is forgotten.
func (c *conn) awaitCloseOk(d time.Duration) {
	_ = c.nc.SetReadDeadline(time.Now().Add(d))
	for {
		f, err := c.in.ReadFrame()
		if _, broken := err.(*amqp.Error); broken {
			c.discard(d)
			return
		}
		if err != nil || c.closingFrame(f) {
			return
		}
	}
}

// discard forgets what comes until the stream ends, a close-ok frame stands in it, or d has passed.
func (c *conn) discard(d time.Duration) {
	_ = c.nc.SetReadDeadline(time.Now().Add(d))
	buf := make([]byte, discardBytes)
	kept := 0
	for total := 0; total < discardBytesMax; {
		n, err := c.nc.Read(buf[kept:])
		if err != nil || bytes.Contains(buf[:kept+n], closeOkFrame) {
			return
		}
		total += n
		end := buf[:kept+n]
		kept = copy(buf, end[max(len(end)-len(closeOkFrame)+1, 0):])
	}
}

var closeOkFrame = (&amqp.ConnectionCloseOk{}).AppendFrame(nil, 0)

const (
	// discardBytes is the buffer for it, discardBytesMax bounds what is read of a client after its connection has failed.
	discardBytes    = 512
	discardBytesMax = 64 << 20
)

// end releases what the connection holds. It runs once, when its reader has come to its end.
func (c *conn) end() {
	defer c.guard()
	c.contained(c.work.flush)
	if c.isOpen() {
		c.settleDown()
	}
	c.state.Store(uint32(connEnded))
	c.signal()
	c.endChannels()
	if c.flushed(lingerMax) {
		c.linger()
	}
	c.cut()
	c.lag.stop()
	if !c.dropOwned() {
		go c.dropOwnedLater()
	}
	c.b.publishes.leave(c)
	c.tellClosed()
	c.b.remove(c)
}

// cut closes the socket, without a farewell: TLS would wait for a peer that does not read. An executor that waits for room need not go on. It must not be called with a lock held.
func (c *conn) cut() {
	c.isCut.Store(true)
	_ = c.socket.Close()
	c.signal()
}

// cutAfter has the watch close the socket after d.
func (c *conn) cutAfter(d time.Duration) { c.cutDue.Store(c.b.tick.Load() + ticks(d)) }

// name is how operators know the connection.
func (c *conn) name() string { return c.ends.Load().label }
