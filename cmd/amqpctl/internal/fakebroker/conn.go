package fakebroker

import (
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/warrenmq/warren/amqp"
)

const channel = 1

type delivery struct {
	tag     uint64
	message message
}

// conn is one connection with its channel. Fields of the channel are guarded by the broker's lock, out by mu.
type conn struct {
	broker *Broker
	net    net.Conn
	frames *amqp.Reader

	confirm  bool
	number   uint64 // of publishes
	acked    uint64 // numbers up to this one may be confirmed
	answered uint64 // and up to this one are
	publish  *amqp.BasicPublish
	incoming message
	missing  uint64 // bytes of body to come
	blocked  bool

	queue    string // of the consumer
	consumer string
	noAck    bool
	prefetch int
	tag      uint64
	unacked  []delivery

	mu     sync.Mutex
	more   sync.Cond
	out    []byte
	closed bool
}

var errHangup = errors.New("hang up")

func (c *conn) send(m amqp.Method, ch uint16) { c.write(m.AppendFrame(nil, ch)) }

func (c *conn) write(frames []byte) {
	c.mu.Lock()
	c.out = append(c.out, frames...)
	c.mu.Unlock()
	c.more.Signal()
}

// end lets the writer write what is there and close.
func (c *conn) end() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.more.Signal()
}

func (c *conn) writeLoop() {
	defer c.net.Close()
	var spare []byte
	for {
		c.mu.Lock()
		for len(c.out) == 0 && !c.closed {
			c.more.Wait()
		}
		out := c.out
		c.out = spare[:0]
		c.mu.Unlock()
		if len(out) == 0 {
			return
		}
		if _, err := c.net.Write(out); err != nil {
			return
		}
		spare = out
	}
}

func (c *conn) deliver(m message) {
	d := amqp.BasicDeliver{ConsumerTag: c.consumer, DeliveryTag: c.tag, Redelivered: m.redelivered, Exchange: m.exchange, RoutingKey: m.key}
	c.write(c.content(d.AppendFrame(nil, channel), m))
}

func (c *conn) content(frames []byte, m message) []byte {
	frames = amqp.AppendHeaderFrame(frames, channel, amqp.ClassBasic, uint64(len(m.body)), m.properties)
	return amqp.AppendBodyFrames(frames, channel, m.body, c.broker.cfg.FrameMax)
}

// serve reads until the connection ends. The end of a batch of frames confirms what was published in it.
func (c *conn) serve() {
	if ok, err := c.frames.ReadProtocolHeader(); !ok || err != nil {
		return
	}
	c.send(&amqp.ConnectionStart{VersionMinor: 9, Mechanisms: "PLAIN AMQPLAIN", Locales: "en_US", ServerProperties: amqp.Table{
		{Key: "product", Value: amqp.Longstr("Fake")}, {Key: "version", Value: amqp.Longstr("1.0")},
	}}, 0)
	for {
		f, ok, err := c.frames.Next()
		if err == nil && ok {
			c.broker.mu.Lock()
			err = c.frame(f)
			c.broker.mu.Unlock()
		} else if err == nil {
			c.broker.mu.Lock()
			c.confirmBatch()
			c.broker.mu.Unlock()
			err = c.frames.Fill()
		}
		if err != nil {
			return
		}
	}
}

func (c *conn) frame(f amqp.Frame) error {
	switch f.Type {
	case amqp.FrameMethod:
		m, err := amqp.DecodeMethod(f.Payload)
		if err != nil {
			return err
		}
		if c.broker.cfg.OnCall != nil {
			var reason *amqp.Error
			if err := c.broker.cfg.OnCall(m.ID()); errors.As(err, &reason) {
				failure := reason.ChannelClose()
				c.send(&failure, channel)
				return nil
			}
		}
		if f.Channel == 0 {
			return c.connectionMethod(m)
		}
		return c.channelMethod(m)
	case amqp.FrameHeader:
		h, err := amqp.ParseContentHeader(f.Payload)
		if err != nil {
			return err
		}
		c.incoming.properties = append([]byte(nil), h.Properties...)
		c.missing = h.BodySize
		if c.missing == 0 {
			return c.published()
		}
	case amqp.FrameBody:
		c.incoming.body = append(c.incoming.body, f.Payload...)
		if c.missing -= uint64(len(f.Payload)); c.missing == 0 {
			return c.published()
		}
	}
	return nil
}

func (c *conn) connectionMethod(m amqp.Method) error {
	switch m := m.(type) {
	case *amqp.ConnectionStartOk:
		if !strings.HasSuffix(m.Response, "\x00"+c.broker.cfg.Password) {
			c.send(&amqp.ConnectionClose{ReplyCode: amqp.ReplyAccessRefused, ReplyText: "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."}, 0)
			return errHangup
		}
		c.send(&amqp.ConnectionTune{ChannelMax: 2047, FrameMax: c.broker.cfg.FrameMax, Heartbeat: 60}, 0)
	case *amqp.ConnectionOpen:
		if m.VirtualHost != "/" {
			c.send(&amqp.ConnectionClose{ReplyCode: amqp.ReplyNotAllowed, ReplyText: "NOT_ALLOWED - vhost " + m.VirtualHost + " not found"}, 0)
			return errHangup
		}
		c.send(&amqp.ConnectionOpenOk{}, 0)
	case *amqp.ConnectionClose:
		c.confirmBatch()
		c.send(&amqp.ConnectionCloseOk{}, 0)
		return errHangup
	}
	return nil
}
