package consume

import (
	"bufio"
	"context"
	"io"
	"math"
	"sync"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
)

// Limits of a consumer.
const (
	PrefetchMax    = math.MaxUint16
	bodyBytesMax   = amqp.ContentBodyBytesMax
	bodyBytesKept  = 1 << 20                // a larger buffer is not kept for the next message
	outBytes       = 64 << 10               // output is collected up to this size while further messages are there
	idleStep       = 100 * time.Millisecond // silence after which the queue is asked whether it is empty
	cancelTimeout  = 5 * time.Second        // for what is on its way when a consumer without acknowledgements ends
	consumerTag    = "amqpctl"
	zerosForEmpty  = 2
	acksRangeLimit = 4096 // messages that one acknowledgement covers at most
)

// Ack says when a message is acknowledged.
type Ack string

// The ways to acknowledge. Auto is when the broker sends it, Manual when it was written, Requeue never: all go back when the command ends.
const (
	AckAuto    Ack = "auto"
	AckManual  Ack = "manual"
	AckRequeue Ack = "requeue"
)

// Options say what to take and how.
type Options struct {
	Queue      string
	Count      uint64 // end after so many messages; 0 is no limit
	UntilEmpty bool   // end when the queue has no more ready messages
	Ack        Ack
	Prefetch   int // unacknowledged messages; Requeue and Count override it
	Format     Format
}

// consumer is one run.
type consumer struct {
	opt   Options
	conn  *lean.Conn
	out   *bufio.Writer
	gate  gate
	noAck bool
	hold  uint64 // with a count: so many of the last messages are acknowledged only in the end, so that no further ones come

	written    uint64 // messages
	settled    uint64 // tag up to which messages are acknowledged
	last       uint64 // tag of the last message written
	asked      bool   // the queue's count is being asked for
	zeros      int    // so many answers in a row were zero, with no delivery between
	cancelling bool
	cancelled  bool

	message   Message
	remaining uint64
	incoming  bool // a header came and its body is not complete
}

// gate lets the end of the context interrupt a read until it is shut; from then on the goroutine that reads sets its own deadlines.
type gate struct {
	conn   *lean.Conn
	mu     sync.Mutex
	closed bool
}

func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.conn.Wake()
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.conn.Unwake()
}

// Run consumes until the count is reached, the queue is empty, or ctx ends, and returns how many messages were written. When ctx ends the error is
// nil: what was written is settled as it should be, and the caller knows why it ended.
func Run(ctx context.Context, target amqplink.Target, opt Options, out io.Writer) (written uint64, err error) {
	conn, err := lean.Dial(ctx, target)
	if err != nil {
		return 0, err
	}
	defer conn.Abort()
	c := &consumer{opt: opt, conn: conn, out: bufio.NewWriterSize(out, outBytes), gate: gate{conn: conn}}
	if err := c.subscribe(); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, c.gate.wake)
	defer stop()
	err = c.loop(ctx)
	c.gate.shut()
	if endErr := c.end(err == nil); err == nil {
		err = endErr
	}
	return c.written, err
}

// subscribe sets the prefetch and starts the consumer. True automatic acknowledgement is used only when everything that comes is wanted: with it,
// what was sent beyond a count would be lost.
func (c *consumer) subscribe() error {
	c.noAck = c.opt.Ack == AckAuto && c.opt.Count == 0 && !c.opt.UntilEmpty
	prefetch := uint64(c.opt.Prefetch)
	if c.opt.Ack == AckRequeue {
		prefetch = 0
	}
	if c.opt.Count > 0 {
		if prefetch == 0 || c.opt.Count < prefetch {
			prefetch = min(c.opt.Count, PrefetchMax)
		}
		c.hold = prefetch
	}
	if prefetch > 0 && !c.noAck {
		qos := &amqp.BasicQos{PrefetchCount: uint16(prefetch)}
		if err := c.conn.Call(lean.Channel, qos, &amqp.BasicQosOk{}); err != nil {
			return err
		}
	}
	consume := &amqp.BasicConsume{Queue: c.opt.Queue, ConsumerTag: consumerTag, NoAck: c.noAck}
	return c.conn.Call(lean.Channel, consume, &amqp.BasicConsumeOk{})
}

// loop takes frames until there is a reason to end.
func (c *consumer) loop(ctx context.Context) error {
	for {
		if err := c.frames(); err != nil {
			return err
		}
		if err := c.out.Flush(); err != nil {
			return exit.Errorf(exit.Data, "output: %w", err)
		}
		if err := c.ackWritten(false); err != nil {
			return err
		}
		if c.reached() || c.empty() || c.cancelled {
			return nil
		}
		if ctx.Err() != nil && !c.cancelling {
			// Without acknowledgements what is on its way belongs to this consumer: take it all.
			if !c.noAck {
				return nil
			}
			if err := c.cancel(); err != nil {
				return err
			}
		}
		if err := c.fill(ctx); err != nil {
			return err
		}
	}
}

// fill waits for more. When the queue may be empty it asks.
func (c *consumer) fill(ctx context.Context) error {
	if c.opt.UntilEmpty && !c.asked && ctx.Err() == nil {
		c.conn.WakeAfter(idleStep)
		if ctx.Err() != nil { // ended in between: its wake may be overwritten
			return nil
		}
	}
	err := c.conn.Frames.Fill()
	switch {
	case err == nil:
		return nil
	case !lean.IsWake(err):
		return exit.Wrap(err, "connection lost")
	case c.cancelling: // the broker does not answer
		return exit.Errorf(exit.Timeout, "no answer to basic.cancel within %s", cancelTimeout)
	case ctx.Err() != nil:
		return nil
	}
	c.conn.Unwake()
	if ctx.Err() != nil || c.incoming {
		return nil
	}
	return c.ask()
}

// ask asks for the number of ready messages.
func (c *consumer) ask() error {
	c.asked = true
	return c.conn.Write((&amqp.QueueDeclare{Queue: c.opt.Queue, Passive: true}).AppendFrame(nil, lean.Channel))
}

// empty tells whether nothing more is there: the queue had no ready messages, and then none again without a delivery between the answers. One
// answer is not enough, for a broker may send it before deliveries that it had assigned earlier. (basic.get would not do at all: a broker may
// answer it before such deliveries, and so change the order of messages.)
func (c *consumer) empty() bool { return c.zeros >= zerosForEmpty }

func (c *consumer) reached() bool { return c.opt.Count > 0 && c.written >= c.opt.Count }

func (c *consumer) cancel() error {
	c.cancelling = true
	c.gate.shut()
	c.conn.WakeAfter(cancelTimeout)
	return c.conn.Write((&amqp.BasicCancel{ConsumerTag: consumerTag}).AppendFrame(nil, lean.Channel))
}

// frames handles what is there, up to the count.
func (c *consumer) frames() error {
	for !c.reached() && !c.empty() {
		f, ok, err := c.conn.Frames.Next()
		if !ok || err != nil {
			return err
		}
		if err := c.frame(f); err != nil {
			return err
		}
	}
	return nil
}

func (c *consumer) frame(f amqp.Frame) error {
	switch f.Type {
	case amqp.FrameMethod:
		return c.method(f)
	case amqp.FrameHeader:
		h, err := amqp.ParseContentHeader(f.Payload)
		if err != nil {
			return err
		}
		if h.BodySize > bodyBytesMax {
			return exit.Errorf(exit.Internal, "the broker announced a body of %d bytes", h.BodySize)
		}
		c.message.Properties = append(c.message.Properties[:0], h.Properties...)
		c.message.Body = c.message.Body[:0]
		c.remaining, c.incoming = h.BodySize, true
	case amqp.FrameBody:
		if uint64(len(f.Payload)) > c.remaining {
			return exit.Errorf(exit.Internal, "the broker sent more body than it announced")
		}
		c.message.Body = append(c.message.Body, f.Payload...)
		c.remaining -= uint64(len(f.Payload))
	default:
		return nil
	}
	if c.incoming && c.remaining == 0 {
		return c.complete()
	}
	return nil
}

func (c *consumer) method(f amqp.Frame) error {
	m := &c.message
	switch f.Method() {
	case amqp.MethodBasicDeliver:
		var d amqp.BasicDeliver
		if err := d.Decode(f.Payload); err != nil {
			return err
		}
		m.tag, m.Redelivered, m.Exchange, m.RoutingKey = d.DeliveryTag, d.Redelivered, d.Exchange, d.RoutingKey
		c.zeros = 0
	case amqp.MethodQueueDeclareOk:
		var ok amqp.QueueDeclareOk
		if err := ok.Decode(f.Payload); err != nil {
			return err
		}
		c.asked = false
		if ok.MessageCount > 0 {
			c.zeros = 0
			return nil
		}
		if c.zeros++; !c.empty() {
			return c.ask()
		}
		return nil
	case amqp.MethodBasicCancelOk:
		c.cancelled = true
	case amqp.MethodBasicCancel:
		return exit.Errorf(exit.Unavailable, "the broker cancelled the consumer; was the queue deleted?")
	}
	return lean.Closed(f)
}

// complete writes a whole message.
func (c *consumer) complete() error {
	c.incoming = false
	m := &c.message
	if err := c.opt.Format(c.out, m); err != nil {
		return exit.Errorf(exit.Data, "output: %w", err)
	}
	c.written++
	c.last = m.tag
	if cap(m.Body) > bodyBytesKept {
		m.Body = nil
	}
	if c.last-c.settled < acksRangeLimit {
		return nil
	}
	if err := c.out.Flush(); err != nil {
		return exit.Errorf(exit.Data, "output: %w", err)
	}
	return c.ackWritten(false)
}

// ackWritten acknowledges what the output has taken. Tags of a channel are 1, 2, 3, ... in the order of delivery, so with a count the last
// messages are known: they stay open until the end, and the broker sends no more than the count.
func (c *consumer) ackWritten(end bool) error {
	if c.noAck || c.opt.Ack == AckRequeue {
		return nil
	}
	tag := c.last
	if c.opt.Count > 0 && !end {
		tag = min(tag, c.opt.Count-min(c.opt.Count, c.hold))
	}
	if tag <= c.settled {
		return nil
	}
	c.settled = tag
	return c.conn.Write((&amqp.BasicAck{DeliveryTag: tag, Multiple: true}).AppendFrame(nil, lean.Channel))
}

// end settles the rest and closes the channel, which the broker answers when it has handled every settlement. After a failure there is nothing
// to settle: what is not acknowledged goes back to the queue with the connection.
func (c *consumer) end(good bool) error {
	if !good {
		return nil
	}
	// First of all no further messages: a place that an acknowledgement frees, or a message that goes back, would be delivered here again.
	if !c.cancelled {
		cancel := &amqp.BasicCancel{ConsumerTag: consumerTag}
		if err := c.conn.Call(lean.Channel, cancel, &amqp.BasicCancelOk{}); err != nil {
			return err
		}
	}
	if err := c.ackWritten(true); err != nil {
		return err
	}
	if c.opt.Ack == AckRequeue && c.last > 0 {
		nack := &amqp.BasicNack{DeliveryTag: 0, Multiple: true, Requeue: true} // all: in one go, so that they keep their order
		if err := c.conn.Write(nack.AppendFrame(nil, lean.Channel)); err != nil {
			return err
		}
	}
	farewell := &amqp.ChannelClose{ReplyCode: amqp.ReplySuccess, ReplyText: "bye"}
	if err := c.conn.Call(lean.Channel, farewell, &amqp.ChannelCloseOk{}); err != nil {
		return err
	}
	c.conn.Close()
	return nil
}
