package broker

import (
	"strings"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

const (
	locales = "en_US"
	// silentCloseDelay is how long a refused client that does not understand connection.close waits for its socket to close, as in RabbitMQ.
	silentCloseDelay = 3 * time.Second
)

// tlsHandshake begins every version of TLS that is in use.
const tlsHandshake = "\x16\x03"

// handshake takes the connection from its first byte to connection.open-ok. false: it is over.
func (c *conn) handshake() bool {
	start := c.connectedAt
	_ = c.nc.SetReadDeadline(earlier(time.Now().Add(limits.HeaderTimeoutMillis*time.Millisecond), start.Add(c.b.opt.HandshakeTimeout)))
	ok, err := c.in.ReadProtocolHeader()
	if err != nil {
		return false
	}
	if !ok {
		if c.by.TLS == nil && c.in.Begins(tlsHandshake) {
			c.b.log.Warn("a client began TLS on a port without", "connection", c.name())
		} else {
			c.b.log.Warn("a client speaks another protocol", "connection", c.name())
		}
		_ = c.nc.SetWriteDeadline(time.Now().Add(lingerMax))
		_, _ = c.nc.Write([]byte(amqp.ProtocolHeader))
		return false
	}
	_ = c.nc.SetReadDeadline(start.Add(c.b.opt.HandshakeTimeout))
	err = c.negotiate()
	if err == nil {
		_ = c.nc.SetReadDeadline(time.Time{})
		return true
	}
	if e, isProtocol := err.(*amqp.Error); isProtocol {
		c.refuse(e)
	}
	return false
}

// refuse tells the client why it is not let in, and waits for its close-ok.
func (c *conn) refuse(e *amqp.Error) {
	c.fail(e)
	c.awaitCloseOk(limits.CloseTimeoutMillis * time.Millisecond)
}

// expect reads frames until a method comes, which must be of the wanted kind. The client may close the connection instead.
func (c *conn) expect(want amqp.Method, state string) error {
	for {
		f, err := c.in.ReadFrame()
		if err != nil {
			return err
		}
		c.receivedFrames.Add(1)
		switch {
		case f.Type == amqp.FrameHeartbeat:
			continue
		case f.Type != amqp.FrameMethod || f.Channel != 0:
			return amqp.UnexpectedFrame(f)
		case f.Method() == want.ID():
			return want.Decode(f.Payload)
		case f.Method() == amqp.MethodConnectionClose:
			c.sendLast(&amqp.ConnectionCloseOk{})
			return errClosedEarly
		case f.Method() == amqp.MethodConnectionCloseOk: // the broker closes
			return errClosedEarly
		}
		return errState(state).At(f.Method())
	}
}

type earlyClose struct{}

// Error says what happened.
func (earlyClose) Error() string { return "broker: closed by the client during the handshake" }

var errClosedEarly error = earlyClose{}

func (c *conn) negotiate() error {
	c.send(0, &amqp.ConnectionStart{VersionMajor: 0, VersionMinor: 9, ServerProperties: c.b.serverProperties(), Mechanisms: strings.Join(c.mechanisms(), " "), Locales: locales})
	var startOk amqp.ConnectionStartOk
	if err := c.expect(&startOk, "starting"); err != nil {
		return err
	}
	c.takeProperties(startOk.ClientProperties)
	if err := c.login(&startOk); err != nil {
		return err
	}
	if err := c.tune(); err != nil {
		return err
	}
	var open amqp.ConnectionOpen
	if err := c.expect(&open, "opening"); err != nil {
		return err
	}
	if err := c.enter(open.VirtualHost); err != nil {
		return err
	}
	c.mu.Lock()
	opened := c.state.CompareAndSwap(uint32(connHandshake), uint32(connOpen))
	c.mu.Unlock()
	if !opened { // the broker closes
		return errClosedEarly
	}
	if view := c.b.host.Catalogue().View; view.User(c.user) == nil || view.Permission(c.user, c.vhost) == nil { // taken away meanwhile; from here on it is told
		return errVHostRefused(c.vhost, c.user).At(amqp.MethodConnectionOpen)
	}
	c.send(0, &amqp.ConnectionOpenOk{})
	c.tellOpened()
	c.b.log.Info("connection opened", "connection", c.name(), "user", c.user, "vhost", c.vhost)
	return nil
}

// serverProperties is what connection.start tells of the broker.
func (b *Broker) serverProperties() amqp.Table {
	capabilities := make(amqp.Table, 0, len(serverCapabilities))
	for _, name := range serverCapabilities {
		capabilities = append(capabilities, amqp.Field{Key: name, Value: amqp.Bool(true)})
	}
	cluster := b.opt.ClusterName
	if cluster == "" {
		cluster = b.host.Catalogue().View.ClusterName()
	}
	return amqp.Table{
		{Key: "capabilities", Value: amqp.Nested(capabilities)},
		{Key: "cluster_name", Value: amqp.Longstr(cluster)},
		{Key: "copyright", Value: amqp.Longstr("Copyright the Warren authors")},
		{Key: "information", Value: amqp.Longstr("Licensed under the Apache License 2.0")},
		{Key: "platform", Value: amqp.Longstr(b.opt.Platform)},
		{Key: "product", Value: amqp.Longstr(b.opt.Product)},
		{Key: "version", Value: amqp.Longstr(b.opt.Version)},
	}
}

var serverCapabilities = [...]string{
	"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked", "consumer_priorities",
	"authentication_failure_close", "per_consumer_qos", "direct_reply_to",
}

// takeProperties notes what the client tells of itself and is able to.
func (c *conn) takeProperties(properties amqp.Table) {
	c.properties = properties
	v, _ := properties.Get("capabilities")
	capabilities, _ := v.AsTable()
	has := func(name string) bool {
		v, _ := capabilities.Get(name)
		yes, ok := v.AsBool()
		return ok && yes
	}
	c.cancelNotify = has("consumer_cancel_notify")
	c.blockNotify = has("connection.blocked")
	c.authFailClose = has("authentication_failure_close")
}

// tune negotiates limits. The client's heartbeat holds both ways; its 0 for another limit stands for the broker's.
func (c *conn) tune() error {
	o := &c.b.opt
	seconds := uint16(max(o.Heartbeat, 0) / time.Second)
	c.send(0, &amqp.ConnectionTune{ChannelMax: uint16(o.ChannelMax), FrameMax: uint32(o.FrameBytesMax), Heartbeat: seconds})
	var m amqp.ConnectionTuneOk
	if err := c.expect(&m, "tuning"); err != nil {
		return err
	}
	frameMax, channelMax := int(m.FrameMax), int(m.ChannelMax)
	switch {
	case frameMax == 0:
		frameMax = o.FrameBytesMax
	case frameMax < limits.FrameBytesMin:
		return errNegotiatedLow("frame_max", frameMax, limits.FrameBytesMin)
	case frameMax > o.FrameBytesMax:
		return errNegotiatedHigh("frame_max", frameMax, o.FrameBytesMax)
	}
	switch {
	case channelMax == 0:
		channelMax = o.ChannelMax
	case channelMax > o.ChannelMax:
		return errNegotiatedHigh("channel_max", channelMax, o.ChannelMax)
	}
	c.frameMax, c.channelMax = uint32(frameMax), channelMax
	c.heartbeat = time.Duration(m.Heartbeat) * time.Second
	c.in.SetFrameMax(c.frameMax)
	return nil
}

// enter opens the virtual host.
func (c *conn) enter(vhost string) error {
	view := c.b.host.Catalogue().View
	if view.VHost(vhost) == nil {
		return errNoVHost(vhost).At(amqp.MethodConnectionOpen)
	}
	if e := c.b.countConnection(c, view, vhost); e != nil {
		return e.At(amqp.MethodConnectionOpen)
	}
	if view.Permission(c.user, vhost) == nil {
		c.b.uncountConnection(c) // who is refused must not take the place of others
		return errVHostRefused(vhost, c.user).At(amqp.MethodConnectionOpen)
	}
	c.vhost = vhost
	c.owner = c.b.owner(c.id)
	return nil
}
