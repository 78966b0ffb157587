package bench

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/histogram"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
)

// batchMax bounds the stamps that are collected before they are counted.
const batchMax = 4096

// consumer receives from one queue in one goroutine, which also acknowledges.
type consumer struct {
	conn     *lean.Conn
	clock    clock
	tracker  *tracker
	autoAck  bool
	ackEvery int
	limit    uint64 // messages to take; 0 is no limit

	consumed    atomic.Uint64 // messages received, for the rate
	redelivered atomic.Uint64
	stopping    atomic.Bool
	finishing   bool // under mu: from now on the goroutine itself sets the deadlines of the connection

	// The delivery that is coming in.
	tag       uint64
	remaining uint64 // bytes of body to come
	begun     bool   // the first body frame was seen
	stamped   bool   // and it was long enough for a stamp

	taken   uint64 // messages, as consumed, but of this goroutine alone
	unacked int
	acks    []byte // frames to write
	stamps  []stamp
	plain   uint64 // messages without a stamp in this batch

	mu      sync.Mutex
	latency histogram.Histogram
}

// newConsumer sets the prefetch and subscribes.
func newConsumer(conn *lean.Conn, cfg *Config, clk clock, t *tracker, index int) (*consumer, error) {
	c := &consumer{
		conn: conn, clock: clk, tracker: t, autoAck: cfg.AutoAck, ackEvery: cfg.AckEvery, limit: cfg.ConsumerMessages,
		stamps: make([]stamp, 0, batchMax),
	}
	if cfg.Prefetch > 0 {
		qos := &amqp.BasicQos{PrefetchCount: uint16(cfg.Prefetch)}
		if err := conn.Call(lean.Channel, qos, &amqp.BasicQosOk{}); err != nil {
			return nil, err
		}
	}
	consume := &amqp.BasicConsume{Queue: cfg.queueName(index), ConsumerTag: "bench", NoAck: cfg.AutoAck}
	return c, conn.Call(lean.Channel, consume, &amqp.BasicConsumeOk{})
}

// receive runs until the consumer is stopped or has its limit; then everything taken is acknowledged.
func (c *consumer) receive() error {
	for {
		// One batch is what one read brought: one look at the clock, one lock, one write of acknowledgements.
		if err := c.batch(c.clock.now()); err != nil {
			return err
		}
		if c.stopping.Load() || c.full() {
			return c.finish()
		}
		if err := c.conn.Frames.Fill(); err != nil && !lean.IsWake(err) {
			return exit.Wrap(err, "connection of a consumer lost")
		}
	}
}

func (c *consumer) full() bool { return c.limit > 0 && c.taken >= c.limit }

func (c *consumer) batch(now int64) error {
	for !c.full() {
		f, ok, err := c.conn.Frames.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := c.frame(f); err != nil {
			return err
		}
		if len(c.stamps) == batchMax {
			c.count(now)
		}
	}
	c.count(now)
	return c.writeAcks()
}

// frame looks at one frame. A delivery is a method, a header, and body frames.
func (c *consumer) frame(f amqp.Frame) error {
	switch f.Type {
	case amqp.FrameMethod:
		return c.method(f)
	case amqp.FrameHeader:
		h, err := amqp.ParseContentHeader(f.Payload)
		if err != nil {
			return err
		}
		c.remaining, c.begun, c.stamped = h.BodySize, false, false
		if c.remaining == 0 {
			c.complete()
		}
	case amqp.FrameBody:
		if uint64(len(f.Payload)) > c.remaining {
			return exit.Errorf(exit.Internal, "the broker sent more body than it announced")
		}
		if !c.begun && len(f.Payload) >= stampBytes {
			c.stamps, c.stamped = append(c.stamps, readStamp(f.Payload)), true
		}
		c.begun = true
		if c.remaining -= uint64(len(f.Payload)); c.remaining == 0 {
			c.complete()
		}
	}
	return nil
}

// method reads the tag of a delivery without decoding the rest:
//
//	| method id 4 | tag of the consumer 1 + n | delivery tag 8 | bits 1 | ...
func (c *consumer) method(f amqp.Frame) error {
	switch f.Method() {
	case amqp.MethodBasicDeliver:
		p := f.Payload[4:]
		if len(p) < 1 || len(p) < 1+int(p[0])+9 {
			return exit.Errorf(exit.Internal, "the broker sent a delivery that cannot be read")
		}
		p = p[1+int(p[0]):]
		c.tag = binary.BigEndian.Uint64(p)
		if p[8]&1 != 0 {
			c.redelivered.Add(1)
		}
		return nil
	case amqp.MethodBasicCancel:
		return exit.Errorf(exit.Unavailable, "the broker cancelled a consumer; was the queue deleted?")
	}
	return lean.Closed(f)
}

// complete counts a whole message. A stamp that was read earlier is counted with its batch, which may be before the last part of a long body has
// come: the batch that completes it is the same or a later one, so count leaves the stamp of an incomplete message for then.
func (c *consumer) complete() {
	if !c.stamped {
		c.plain++
	}
	c.stamped, c.begun = false, false
	c.taken++
	if c.autoAck {
		return
	}
	if c.unacked++; c.unacked >= c.ackEvery {
		c.ack()
	}
}

func (c *consumer) ack() {
	m := amqp.BasicAck{DeliveryTag: c.tag, Multiple: true}
	c.acks = m.AppendFrame(c.acks, lean.Channel)
	c.unacked = 0
}

// count adds the batch to tracker and latencies.
func (c *consumer) count(now int64) {
	whole := c.stamps
	if c.stamped { // the last one is still coming in
		whole = whole[:len(whole)-1]
	}
	if len(whole) > 0 {
		c.tracker.add(whole)
		c.mu.Lock()
		for _, s := range whole {
			c.latency.Add(now-s.sentNanos, 1)
		}
		c.mu.Unlock()
	}
	c.stamps = append(c.stamps[:0], c.stamps[len(whole):]...)
	if c.plain > 0 {
		c.tracker.addForeign(c.plain)
		c.plain = 0
	}
	c.consumed.Store(c.taken)
}

func (c *consumer) writeAcks() error {
	if len(c.acks) == 0 {
		return nil
	}
	err := c.conn.Write(c.acks)
	c.acks = c.acks[:0]
	if err != nil {
		return exit.Wrap(err, "connection of a consumer lost")
	}
	return nil
}

// finish acknowledges what is left and says farewell, so that the broker has handled every acknowledgement before finish returns.
func (c *consumer) finish() error {
	if c.unacked > 0 {
		c.ack()
	}
	c.mu.Lock()
	c.finishing = true
	c.conn.Unwake()
	c.mu.Unlock()
	if err := c.writeAcks(); err != nil {
		return err
	}
	farewell := &amqp.ChannelClose{ReplyCode: amqp.ReplySuccess, ReplyText: "bye"}
	if err := c.conn.Call(lean.Channel, farewell, &amqp.ChannelCloseOk{}); err != nil {
		return err
	}
	c.conn.Close()
	return nil
}

// stop makes receive finish.
func (c *consumer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping.Store(true)
	if !c.finishing {
		c.conn.Wake()
	}
}
