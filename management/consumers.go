package management

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
)

func (c *call) listConsumers(keep func(*broker.Consumer) bool) error {
	all := c.s.opt.Broker.Consumers()
	rows := make([]*broker.Consumer, 0, len(all))
	for i := range all {
		if x := &all[i]; keep(x) {
			rows = append(rows, x)
		}
	}
	slices.SortStableFunc(rows, func(a, b *broker.Consumer) int {
		return cmp.Or(cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.Queue, b.Queue))
	})
	return list(c, rows, func(x *broker.Consumer) string { return x.Tag }, c.writeConsumer)
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

// writeConsumerDetails writes the consumers that belong to a queue or channel.
func (c *call) writeConsumerDetails(w *writer, keep func(*broker.Consumer) bool) {
	if !w.Array("consumer_details") {
		return
	}
	all := c.s.opt.Broker.Consumers()
	for i := range all {
		if keep(&all[i]) {
			w.Object("")
			c.writeConsumer(w, &all[i])
			w.End()
		}
	}
	w.EndArray()
}

// consumerTimeoutMillis is what is told of the time within which a delivery must be acknowledged: RabbitMQ's default.
const consumerTimeoutMillis = 1_800_000

func (c *call) writeConsumer(w *writer, x *broker.Consumer) {
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
	w.Int("consumer_timeout", consumerTimeoutMillis)
	if w.Object("queue") {
		w.Str("name", x.Queue)
		w.Str("vhost", x.VHost)
		w.End()
	}
	if w.Object("channel_details") {
		w.Str("connection_name", x.Connection)
		w.Str("name", nameOfChannel(x.Connection, x.Number))
		w.Str("node", c.s.nodeName(c.view))
		w.Int("number", int64(x.Number))
		w.Str("peer_host", x.PeerHost)
		w.Int("peer_port", int64(x.PeerPort))
		w.Str("user", x.User)
		w.End()
	}
}

// consumesFrom tells the consumers of a queue.
func consumesFrom(q *meta.Queue) func(*broker.Consumer) bool {
	return func(x *broker.Consumer) bool { return x.Queue == q.Name && x.VHost == q.VHost }
}
