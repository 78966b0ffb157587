package fakebroker

import "github.com/warrenmq/warren/amqp"

// channelMethod answers a method of the channel. The caller holds the broker's lock.
func (c *conn) channelMethod(m amqp.Method) error {
	switch m := m.(type) {
	case *amqp.ChannelOpen:
		c.number, c.tag, c.confirm = 0, 0, false
		c.send(&amqp.ChannelOpenOk{}, channel)
	case *amqp.ChannelClose:
		c.broker.closeChannel(c)
		c.send(&amqp.ChannelCloseOk{}, channel)
	case *amqp.ConfirmSelect:
		c.confirm = true
		c.send(&amqp.ConfirmSelectOk{}, channel)
	case *amqp.BasicQos:
		c.prefetch = int(m.PrefetchCount)
		c.send(&amqp.BasicQosOk{}, channel)
	case *amqp.BasicPublish:
		c.publish, c.incoming = m, message{exchange: m.Exchange, key: m.RoutingKey}
	case *amqp.BasicConsume:
		return c.consume(m)
	case *amqp.BasicCancel:
		c.broker.cancel(c)
		c.send(&amqp.BasicCancelOk{ConsumerTag: m.ConsumerTag}, channel)
	case *amqp.BasicAck:
		c.settle(m.DeliveryTag, m.Multiple, false)
	case *amqp.BasicNack:
		c.settle(m.DeliveryTag, m.Multiple, m.Requeue)
	default:
		return c.queueMethod(m)
	}
	return nil
}

func (c *conn) queueMethod(m amqp.Method) error {
	queues := c.broker.queues
	switch m := m.(type) {
	case *amqp.QueueDeclare:
		if m.Passive && queues[m.Queue] == nil {
			c.notFound(m.Queue)
			return nil
		}
		q := c.broker.ensure(m.Queue)
		c.send(&amqp.QueueDeclareOk{Queue: m.Queue, MessageCount: uint32(len(q.ready)), ConsumerCount: uint32(len(q.consumers))}, channel)
	case *amqp.QueueDelete:
		n := 0
		if q := queues[m.Queue]; q != nil {
			n = len(q.ready)
		}
		delete(queues, m.Queue)
		c.send(&amqp.QueueDeleteOk{MessageCount: uint32(n)}, channel)
	case *amqp.QueuePurge:
		q := queues[m.Queue]
		if q == nil {
			c.notFound(m.Queue)
			return nil
		}
		n := len(q.ready)
		q.ready = nil
		c.send(&amqp.QueuePurgeOk{MessageCount: uint32(n)}, channel)
	}
	return nil
}

func (c *conn) notFound(name string) {
	c.send(&amqp.ChannelClose{ReplyCode: amqp.ReplyNotFound, ReplyText: "NOT_FOUND - no queue '" + name + "' in vhost '/'"}, channel)
}

func (c *conn) consume(m *amqp.BasicConsume) error {
	q := c.broker.queues[m.Queue]
	if q == nil {
		c.notFound(m.Queue)
		return nil
	}
	c.queue, c.consumer, c.noAck = m.Queue, m.ConsumerTag, m.NoAck
	c.send(&amqp.BasicConsumeOk{ConsumerTag: m.ConsumerTag}, channel)
	q.consumers = append(q.consumers, c)
	c.broker.pump(q)
	return nil
}

// settle takes deliveries out, or gives them back.
func (c *conn) settle(tag uint64, multiple, requeue bool) {
	q := c.broker.queues[c.queue]
	if q == nil {
		return
	}
	n := 0
	for n < len(c.unacked) && (tag == 0 || c.unacked[n].tag <= tag) {
		n++
	}
	switch {
	case !multiple && (n == 0 || c.unacked[n-1].tag != tag):
	case !multiple:
		c.unacked = append(c.unacked[:n-1], c.unacked[n:]...)
	case requeue:
		c.broker.giveBack(q, c, n)
		return
	default:
		c.unacked = c.unacked[n:]
	}
	c.broker.pump(q)
}

// published handles a whole message.
func (c *conn) published() error {
	c.number++
	fault := None
	if c.broker.cfg.OnPub != nil {
		fault = c.broker.cfg.OnPub(c.number)
	}
	q := c.broker.queues[c.publish.RoutingKey]
	switch {
	case c.blocked:
		return nil
	case fault == Block:
		c.confirmBatch()
		c.blocked = true
		c.send(&amqp.ConnectionBlocked{Reason: "low on memory"}, 0)
		return nil
	case fault == Hangup:
		c.confirmBatch()
		return errHangup
	case fault == Refuse:
		c.confirmBatch()
		c.send(&amqp.BasicNack{DeliveryTag: c.number}, channel)
		return nil
	case q == nil && c.publish.Mandatory:
		c.confirmBatch()
		r := amqp.BasicReturn{ReplyCode: amqp.ReplyNoRoute, ReplyText: "NO_ROUTE", Exchange: c.publish.Exchange, RoutingKey: c.publish.RoutingKey}
		c.write(c.content(r.AppendFrame(nil, channel), c.incoming))
	case q != nil && fault != Lose:
		q.ready = append(q.ready, c.incoming)
		if fault == Double {
			q.ready = append(q.ready, c.incoming)
		}
		c.broker.pump(q)
	}
	if fault == Silent {
		c.confirmBatch()
		return nil
	}
	if c.acked != c.number-1 {
		c.confirmBatch()
		c.send(&amqp.BasicAck{DeliveryTag: c.number}, channel) // behind a silent one a multiple ack would answer that, too
		return nil
	}
	c.acked = c.number
	return nil
}

// confirmBatch confirms all that was published since the last time.
func (c *conn) confirmBatch() {
	if c.confirm && c.acked > c.answered {
		c.send(&amqp.BasicAck{DeliveryTag: c.acked, Multiple: true}, channel)
	}
	c.answered = c.acked
}
