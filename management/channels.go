package management

import (
	"net/http"
	"strconv"

	"github.com/warrenmq/warren/broker"
)

// The counters of a channel's series.
const (
	channelPublished = iota
	channelConfirmed
	channelReturned
	channelDropped
	channelDelivered
	channelDeliveredNoAck
	channelGot
	channelGotNoAck
	channelGetEmpty
	channelAcked
	channelRedelivered
)

func channelCounters(x *broker.Channel) *counters {
	c := &x.Counts
	return &counters{
		channelPublished: c.Published, channelConfirmed: c.Confirmed, channelReturned: c.Returned, channelDropped: c.Dropped, channelDelivered: c.Delivered,
		channelDeliveredNoAck: c.DeliveredNoAck, channelGot: c.Got, channelGotNoAck: c.GotNoAck, channelGetEmpty: c.GotEmpty, channelAcked: c.Acked,
		channelRedelivered: c.Redelivered,
	}
}

func channelName(x *broker.Channel) string { return nameOfChannel(x.Connection, x.Number) }

func nameOfChannel(connection string, number int) string {
	return connection + " (" + strconv.Itoa(number) + ")"
}

func (c *call) listChannels(keep func(*broker.Channel) bool) error {
	c.s.sampler.look(&c.s.sampler.channels)
	all := c.s.opt.Broker.Channels()
	rows := make([]*broker.Channel, 0, len(all))
	for i := range all {
		if x := &all[i]; c.mayTouch(x.User, false) == nil && (keep == nil || keep(x)) {
			rows = append(rows, x)
		}
	}
	return list(c, rows, channelName, c.writeChannel)
}

// listChannels is GET /channels.
func listChannels(c *call) error { return c.listChannels(nil) }

// listConnectionChannels is GET /connections/NAME/channels.
func listConnectionChannels(c *call) error {
	x, err := c.connection(c.params[0], false)
	if err != nil {
		return err
	}
	return c.listChannels(func(ch *broker.Channel) bool { return ch.Connection == x.Name })
}

// listVHostChannels is GET /vhosts/VHOST/channels.
func listVHostChannels(c *call) error {
	vhost := c.params[0]
	if err := c.readVHost(vhost); err != nil {
		return err
	}
	return c.listChannels(func(ch *broker.Channel) bool { return ch.VHost == vhost })
}

// getChannel is GET /channels/NAME.
func getChannel(c *call) error {
	c.s.sampler.look(&c.s.sampler.channels)
	all := c.s.opt.Broker.Channels()
	for i := range all {
		x := &all[i]
		if channelName(x) != c.params[0] {
			continue
		}
		if err := c.mayTouch(x.User, false); err != nil {
			return err
		}
		return c.object(http.StatusOK, func(w *writer) {
			c.writeChannel(w, x)
			c.writeConsumerDetails(w, func(k *broker.Consumer) bool { return k.Connection == x.Connection && k.Number == x.Number })
			w.EmptyArray("publishes")
			w.EmptyArray("deliveries")
		})
	}
	return objectNotFound()
}

func (c *call) writeChannel(w *writer, x *broker.Channel) {
	name := channelName(x)
	w.Str("name", name)
	w.Int("number", int64(x.Number))
	w.Str("node", c.s.nodeName(c.view))
	w.Str("user", x.User)
	w.Str("user_who_performed_action", x.User)
	w.Str("vhost", x.VHost)
	w.Str("state", x.State)
	if w.Object("connection_details") {
		w.Str("name", x.Connection)
		w.Str("peer_host", x.PeerHost)
		w.Int("peer_port", int64(x.PeerPort))
		w.End()
	}
	w.Bool("confirm", x.Confirm)
	w.Bool("transactional", false)
	w.Int("consumer_count", int64(x.Consumers))
	w.Int("messages_unacknowledged", int64(x.Unacked))
	w.Int("messages_unconfirmed", int64(x.Unconfirmed))
	w.Int("messages_uncommitted", 0)
	w.Int("acks_uncommitted", 0)
	w.Int("prefetch_count", int64(x.PrefetchCount))
	w.Int("global_prefetch_count", int64(x.PrefetchGlobal))
	w.Int("pending_raft_commands", 0)
	writeProcess(w)
	if w.Object("message_stats") {
		writeChannelCounters(w, channelCounters(x), c.s.sampler.ratesOf(&c.s.sampler.channels, name))
		w.End()
	}
}

func writeChannelCounters(w *writer, v *counters, r *rates) {
	for _, m := range [...]struct {
		key   string
		index int
	}{
		{"publish", channelPublished}, {"confirm", channelConfirmed}, {"return_unroutable", channelReturned}, {"drop_unroutable", channelDropped},
		{"deliver", channelDelivered}, {"deliver_no_ack", channelDeliveredNoAck}, {"get", channelGot}, {"get_no_ack", channelGotNoAck},
		{"get_empty", channelGetEmpty}, {"ack", channelAcked}, {"redeliver", channelRedelivered},
	} {
		w.Counter(m.key, v[m.index], r.of(m.index))
	}
	w.Counter("deliver_get", v[channelDelivered]+v[channelDeliveredNoAck]+v[channelGot]+v[channelGotNoAck],
		r.of(channelDelivered)+r.of(channelDeliveredNoAck)+r.of(channelGot)+r.of(channelGotNoAck))
}
