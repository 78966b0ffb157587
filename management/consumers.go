package management

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/broker"
)

type locatedConsumer = located[broker.Consumer]

func (c *call) listConsumers(keep func(*broker.Consumer) bool) error {
	all := everywhere(c.s.opt.Host.Node(), c.s.ownConsumers(&question{}), c.s.peers.consumers.rows(c.s.peers))
	rows := all[:0]
	for _, x := range all {
		if keep(&x.thing) {
			rows = append(rows, x)
		}
	}
	slices.SortStableFunc(rows, func(a, b locatedConsumer) int {
		return cmp.Or(cmp.Compare(a.thing.VHost, b.thing.VHost), cmp.Compare(a.thing.Queue, b.thing.Queue))
	})
	return list(c, rows, func(x locatedConsumer) string { return x.thing.Tag }, c.writeConsumer)
}

// listConsumers is GET /consumers: those of the virtual hosts that the user sees.
func listConsumers(c *call) error {
	return c.listConsumers(func(x *broker.Consumer) bool { return c.sees(x.VHost) })
}

// listVHostConsumers is GET /consumers/VHOST.
func listVHostConsumers(c *call) error {
	vhost := c.params[0]
	if err := c.readVHost(vhost); err != nil {
		return err
	}
	return c.listConsumers(func(x *broker.Consumer) bool { return x.VHost == vhost })
}

// writeConsumerDetails writes the consumers of the queue or channel that a question names, on all nodes and as of now.
func (c *call) writeConsumerDetails(w *writer, q question) {
	if !w.Array("consumer_details") {
		return
	}
	q.kind = askConsumers
	replies, _ := c.s.peers.askAll(c.r.Context(), q)
	for _, x := range everywhere(c.s.opt.Host.Node(), c.s.ownConsumers(&q), readReplies(replies, packConsumer)) {
		w.Object("")
		c.writeConsumer(w, x)
		w.End()
	}
	w.EndArray()
}

func (c *call) writeConsumer(w *writer, l locatedConsumer) {
	x := &l.thing
	w.Str("consumer_tag", x.Tag)
	w.Bool("ack_required", x.AckRequired)
	w.Bool("active", x.Active)
	if x.Active {
		w.Str("activity_status", "up")
	} else {
		w.Str("activity_status", "waiting")
	}
	w.Bool("exclusive", x.Exclusive)
	w.Int("prefetch_count", int64(x.Prefetch))
	w.Table("arguments", x.Arguments)
	w.Int("consumer_timeout", x.TimeoutMillis)
	if w.Object("queue") {
		w.Str("name", x.Queue)
		w.Str("vhost", x.VHost)
		w.End()
	}
	if w.Object("channel_details") {
		w.Str("connection_name", x.Connection)
		w.Str("name", nameOfChannel(x.Connection, x.Number))
		w.Str("node", nodeNamed(c.view, l.node))
		w.Int("number", int64(x.Number))
		w.Str("peer_host", x.PeerHost)
		w.Int("peer_port", int64(x.PeerPort))
		w.Str("user", x.User)
		w.End()
	}
}
