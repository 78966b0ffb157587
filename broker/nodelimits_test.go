package broker

import (
	"testing"

	"github.com/warrenmq/warren/amqp"
)

// TestConnectionMax: a connection beyond the node's limit is refused when it opens its virtual host, and one may come when another has gone.
func TestConnectionMax(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.ConnectionMax = 1 })
	first := b.open()
	second := b.raw()
	second.tuned("guest", allCapabilities, amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
	second.send(0, &amqp.ConnectionOpen{VirtualHost: "/"})
	second.dies("530 NOT_ALLOWED - connection refused: node connection limit (1) is reached")
	first.call(0, &amqp.ConnectionClose{ReplyCode: 200}, "connection.close-ok")
	_ = first.nc.Close()
	b.until(func() bool { return len(b.Connections()) == 0 })
	b.open()
}

// TestChannelsPerNodeMax: the channels of all connections count together.
func TestChannelsPerNodeMax(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.ChannelsPerNodeMax = 2 })
	first, second := b.open(), b.open()
	first.call(1, &amqp.ChannelClose{ReplyCode: 200}, "channel.close-ok")
	first.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	second.send(2, &amqp.ChannelOpen{})
	second.dies("530 NOT_ALLOWED - number of channels opened on node 'rabbit@test' has reached the maximum allowed limit of (2)")
	b.until(func() bool { return len(b.Connections()) == 1 })
	first.call(2, &amqp.ChannelOpen{}, "channel.open-ok")
}
