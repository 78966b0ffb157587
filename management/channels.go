package management

import (
	"net/http"
	"strconv"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
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

type locatedChannel = located[broker.Channel]

// showChannels answers with those that the user sees: one's own, all as monitoring.
func (c *call) showChannels(all []locatedChannel, keep func(*broker.Channel) bool) error {
	rows := all[:0]
	for _, x := range all {
		if c.mayTouch(x.thing.User, false) == nil && (keep == nil || keep(&x.thing)) {
			rows = append(rows, x)
		}
	}
	return list(c, rows, func(x locatedChannel) string { return channelName(&x.thing) }, c.writeChannel)
}

// allChannels lists the channels of all nodes.
func (s *Server) allChannels() []locatedChannel {
	return everywhere(s.opt.Host.Node(), s.ownChannels(&question{}), s.peers.channels.rows(s.peers))
}

// someChannels lists those of all nodes that a question names, as of now; missing is a node that did not answer.
func (c *call) someChannels(q question) (list []locatedChannel, missing meta.NodeID) {
	q.kind = askChannels
	replies, missing := c.s.peers.askAll(c.r.Context(), q)
	return everywhere(c.s.opt.Host.Node(), c.s.ownChannels(&q), readReplies(replies, packChannel)), missing
}

// listChannels is GET /channels.
func listChannels(c *call) error { return c.showChannels(c.s.allChannels(), nil) }

// listConnectionChannels is GET /connections/NAME/channels.
func listConnectionChannels(c *call) error {
	x, err := c.connection(c.params[0], false)
	if err != nil {
		return err
	}
	all, _ := c.someChannels(question{connection: x.thing.Name})
	return c.showChannels(all, nil)
}

// listVHostChannels is GET /vhosts/VHOST/channels.
func listVHostChannels(c *call) error {
	vhost := c.params[0]
	if err := c.readVHost(vhost); err != nil {
		return err
	}
	return c.showChannels(c.s.allChannels(), func(ch *broker.Channel) bool { return ch.VHost == vhost })
}

// getChannel is GET /channels/NAME.
func getChannel(c *call) error {
	found, missing := c.someChannels(question{channel: c.params[0], span: c.spans.messages})
	if len(found) == 0 {
		return c.notFoundUnless(missing)
	}
	x := found[0]
	if err := c.mayTouch(x.thing.User, false); err != nil {
		return err
	}
	return c.object(http.StatusOK, func(w *writer) {
		c.writeChannel(w, x)
		c.writeConsumerDetails(w, question{channel: channelName(&x.thing)})
		w.EmptyArray("publishes")
		w.EmptyArray("deliveries")
	})
}

func (c *call) writeChannel(w *writer, l locatedChannel) {
	x := &l.thing
	w.Str("name", channelName(x))
	w.Int("number", int64(x.Number))
	w.Str("node", nodeNamed(c.view, l.node))
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
	w.Bool("transactional", x.Transactional)
	w.Int("consumer_count", int64(x.Consumers))
	w.Int("messages_unacknowledged", int64(x.Unacked))
	w.Int("messages_unconfirmed", int64(x.Unconfirmed))
	w.Int("messages_uncommitted", int64(x.Uncommitted))
	w.Int("acks_uncommitted", int64(x.UncommittedAcks))
	w.Int("prefetch_count", int64(x.PrefetchCount))
	w.Int("global_prefetch_count", int64(x.PrefetchGlobal))
	w.Int("pending_raft_commands", 0)
	writeProcess(w)
	if w.Object("message_stats") {
		writeChannelCounters(w, channelCounters(x), l.trend())
		w.End()
	}
}

func writeChannelCounters(w *writer, v *counters, t trend) {
	for _, m := range [...]struct {
		key   string
		index int
	}{
		{"publish", channelPublished}, {"confirm", channelConfirmed}, {"return_unroutable", channelReturned}, {"drop_unroutable", channelDropped},
		{"deliver", channelDelivered}, {"deliver_no_ack", channelDeliveredNoAck}, {"get", channelGot}, {"get_no_ack", channelGotNoAck},
		{"get_empty", channelGetEmpty}, {"ack", channelAcked}, {"redeliver", channelRedelivered},
	} {
		w.Counter(m.key, v[m.index], t, m.index)
	}
	w.Counter("deliver_get", v[channelDelivered]+v[channelDeliveredNoAck]+v[channelGot]+v[channelGotNoAck], t, channelDelivered, channelDeliveredNoAck, channelGot, channelGotNoAck)
}
