package broker

import (
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// chanState is where a channel stands.
type chanState uint8

const (
	chanOpen    chanState = iota
	chanFailed            // channel.close was sent: all but the client's close and close-ok is ignored
	chanLeaving           // channel.close was received and will be answered
	chanClosed            // over; the number is free
)

// gates tell the reader without a lock what to do with a frame.
const (
	gateOpen   uint32 = iota // handle it
	gateBusy                 // look closer
	gateClosed               // there is no such channel any more
)

// channel is one AMQP channel: a session of this node's queues.
type channel struct {
	c       *conn
	number  uint16
	session Session
	gate    atomic.Uint32
	// leaving is closed when its session's end is on the way to its queues, ended when it has ended there.
	leaving, ended chan struct{}

	// What follows belongs to the executor.
	w          *work
	assembler  amqp.Assembler
	publishing publishing
	lastQueue  string
	access     accessCache
	publishTo  publishCache
	runs       []*source // with settlements that are not submitted
	fullRuns   []settleRun
	dirty      bool          // stands in w.dirty
	creditDue  bool          // what was settled may be of use to other queues
	resumeDue  bool          // what was settled made room for what is withheld
	current    amqp.MethodID // what is being handled
	confirming bool          // as confirm.on
	// transactional is set by tx.select and stays so.
	transactional atomic.Bool

	mu       sync.Mutex
	state    chanState
	ending   bool
	waiting  bool // an operation is under way
	draining bool // a goroutine catches up with the backlog
	backlog  []setAside
	setAside int // bytes in backlog
	op       operation
	opSerial uint64

	prefetch       uint16
	share          share
	surplus        []unacked // deliveries beyond the share, to be returned
	crediting      bool      // a goroutine gives credit
	confirm        confirm
	tx             tx
	replies        *replyConsumer // nil: it takes no replies
	committing     *committing    // the commit that is under way, or nil
	agreement      *agreement     // it is one over several queues, or nil
	reserved       atomic.Int64   // of Broker.publishes, for a long body that has begun
	unacked        span[unacked]
	unackedBytes   uint64 // the bodies of those that consumers got
	late           int    // how many of unacked were taken back
	withheld       bool   // a queue was not told of what was written, for unackedBytes is at its limit
	sources        map[meta.QueueID]*source
	recentSource   *source
	consumers      map[queue.ConsumerID]*consumer
	recentConsumer *consumer
	byTag          map[string]*consumer
	lastConsumer   queue.ConsumerID
	closesLeft     int
	closesKnown    bool
	closed         chan struct{} // closed when closesLeft is 0
	stats          channelStats
}

// setAside is a frame that waits for the channel's operation to end.
type setAside struct {
	typ     uint8
	payload []byte
}

// backlogBytesMax is how much of one channel is set aside before its connection is not read.
const backlogBytesMax = 256 << 10

var _ amqp.ChannelHandler = (*channel)(nil)
var _ quorum.Receiver = (*channel)(nil)

// openChannel handles the first frame on a number, which must be channel.open.
func (c *conn) openChannel(f amqp.Frame) error {
	if f.Method() != amqp.MethodChannelOpen {
		return errChannelUnopened().At(f.Method())
	}
	var m amqp.ChannelOpen
	if err := m.Decode(f.Payload); err != nil {
		return err
	}
	c.mu.Lock()
	open := len(c.channels) // only the reader adds to them
	c.mu.Unlock()
	if open >= c.channelMax {
		return errChannelsMax(open, c.channelMax) // blames no method, as RabbitMQ
	}
	if e := c.b.countChannel(c); e != nil {
		return e // blames no method, as RabbitMQ
	}
	ch := &channel{c: c, number: f.Channel, leaving: make(chan struct{}), ended: make(chan struct{})}
	ch.session = c.b.host.OpenSession(ch)
	c.mu.Lock()
	if c.channels == nil {
		c.channels = make(map[uint16]*channel)
	}
	c.channels[f.Channel] = ch
	c.mu.Unlock()
	c.b.totals.channelsOpened.Add(1)
	ch.tellOpened()
	c.send(f.Channel, &amqp.ChannelOpenOk{})
	return nil
}

// isBusy tells whether frames of the channel wait.
func (ch *channel) isBusy() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.state == chanOpen && (ch.waiting || ch.draining)
}

// setGate follows the state. Called with ch.mu held.
func (ch *channel) setGate() {
	switch {
	case ch.state == chanClosed:
		ch.gate.Store(gateClosed)
	case ch.state != chanOpen || ch.waiting || ch.draining:
		ch.gate.Store(gateBusy)
	default:
		ch.gate.Store(gateOpen)
	}
}

// gated takes a frame of a channel that is not simply open.
func (c *conn) gated(ch *channel, f amqp.Frame) error {
	for {
		ch.mu.Lock()
		switch {
		case ch.state == chanClosed:
			ch.mu.Unlock()
			return c.openChannel(f)
		case ch.state != chanOpen:
			ch.mu.Unlock()
			ch.ignore(f)
			return nil
		case !ch.waiting && !ch.draining:
			ch.mu.Unlock()
			return ch.handle(f, &c.work)
		case len(ch.backlog) == 0 || ch.setAside+len(f.Payload) <= backlogBytesMax:
			ch.backlog = append(ch.backlog, setAside{f.Type, append([]byte(nil), f.Payload...)})
			ch.setAside += len(f.Payload)
			ch.mu.Unlock()
			return nil
		}
		ch.mu.Unlock()
		if !c.await(&c.work, func() bool { return ch.hasRoom(len(f.Payload)) }) {
			return nil
		}
	}
}

func (ch *channel) hasRoom(n int) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.state != chanOpen || len(ch.backlog) == 0 || ch.setAside+n <= backlogBytesMax
}

// ignore drops a frame of a channel that is closing, but for the methods of closing.
func (ch *channel) ignore(f amqp.Frame) {
	switch f.Method() {
	case amqp.MethodChannelClose:
		ch.c.send(ch.number, &amqp.ChannelCloseOk{})
	case amqp.MethodChannelCloseOk:
		ch.mu.Lock()
		failed := ch.state == chanFailed
		ch.mu.Unlock()
		if failed {
			// The close was written, so this takes no time: what the client does next finds the messages back in their queues.
			ch.awaitLeaving()
			ch.release()
		}
	}
}

// release frees the channel's number.
func (ch *channel) release() {
	ch.mu.Lock()
	ch.state = chanClosed
	ch.setGate()
	ch.mu.Unlock()
	c := ch.c
	c.mu.Lock()
	held := c.channels[ch.number] == ch
	if held {
		delete(c.channels, ch.number)
	}
	c.mu.Unlock()
	if held {
		c.b.uncountChannel(c)
	}
}

// handle is the executor's step: one frame. An error of connection scope is returned, one of channel scope closes the channel here.
func (ch *channel) handle(f amqp.Frame, w *work) error {
	part, done, err := ch.assembler.Accept(f)
	if err != nil {
		return err
	}
	ch.w = w
	switch part {
	case amqp.PartMethod:
		ch.current = f.Method()
		err = ch.method(f.Payload)
	case amqp.PartHeader:
		err = ch.publishHeader(f.Payload)
	default:
		err = ch.publishBody(f.Payload)
	}
	if err == nil && done && part != amqp.PartMethod {
		err = ch.publish()
		ch.bodyEnded()
		if ch.c.b.lack() != 0 {
			ch.c.block()
		}
	}
	if err == nil {
		return nil
	}
	e := errAt(err, ch.current)
	if e.Scope() == amqp.ScopeConnection {
		return e
	}
	ch.handOver()
	ch.touchSession()
	ch.fail(e)
	return nil
}

// method handles a method. All but the methods of a message's path first submit the settlements that were collected, for order counts from there on,
// and wait for a client that does not read its answers.
func (ch *channel) method(payload []byte) error {
	switch amqp.MethodIDOf(payload) {
	case amqp.MethodBasicPublish, amqp.MethodBasicAck, amqp.MethodBasicNack, amqp.MethodBasicReject:
	default:
		ch.submitRuns()
		if !ch.c.admitReply(ch.w) {
			return nil
		}
	}
	return amqp.DispatchChannel(ch, payload)
}

// reply appends the answer to a method, unless the channel is closing.
func (ch *channel) reply(m amqp.Method) {
	ch.mu.Lock()
	if ch.state == chanOpen {
		ch.c.send(ch.number, m)
	}
	ch.mu.Unlock()
}

// replyUnless is reply where the client may have asked for no answer.
func (ch *channel) replyUnless(noWait bool, m amqp.Method) {
	if !noWait {
		ch.reply(m)
	}
}

// touch notes that the executor's work on the channel must be flushed.
func (ch *channel) touch() {
	if !ch.dirty {
		ch.dirty = true
		ch.w.dirty = append(ch.w.dirty, ch)
	}
}

// flush submits what the executor has collected. Of a channel that somebody else executes by now only the session is flushed: it was handed over without
// anything else to do.
func (w *work) flush() {
	for i, ch := range w.dirty {
		if w.only == ch || w.only == nil && ch.gate.Load() == gateOpen {
			ch.handOver()
		}
		ch.session.Flush()
		w.dirty[i] = nil
	}
	w.dirty = w.dirty[:0]
}

// submitSettled submits what the channels of the executor have settled: an acknowledgement may free the id of the message that comes after it.
func (w *work) submitSettled() {
	for _, ch := range w.dirty {
		if w.only == ch || w.only == nil && ch.gate.Load() == gateOpen {
			ch.submitRuns()
		}
	}
}

// handOver leaves nothing with the executor but a session to flush.
func (ch *channel) handOver() {
	ch.dirty = false
	ch.submitRuns()
	ch.publishTo.count(ch.c.b)
}
