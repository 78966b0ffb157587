package broker

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// consumer is a basic.consume of a channel. It is guarded by the channel's lock.
type consumer struct {
	id        queue.ConsumerID
	tag       string
	src       *source
	noAck     bool
	exclusive bool
	noWait    bool
	prefetch  uint16
	window    uint32
	arguments amqp.Table
	// announced says that consume-ok was sent or is not wanted. Deliveries may come before the queue's answer, and prove it.
	announced bool
	// active is false until the queue has answered.
	active bool
	// revoked says that the user may not read the queue any more and its cancel is on the way.
	revoked bool
	// prefix is the front of its deliver frames: frame header, method, consumer tag.
	prefix []byte
}

// consumer returns the consumer of that number, nil if there is none (any more). Called with ch.mu held.
func (ch *channel) consumer(id queue.ConsumerID) *consumer {
	if c := ch.recentConsumer; c != nil && c.id == id {
		return c
	}
	c := ch.consumers[id]
	if c != nil {
		ch.recentConsumer = c
	}
	return c
}

// serverName makes a name that nobody has.
func serverName(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return prefix + "-" + base64.RawURLEncoding.EncodeToString(b[:])
}

// BasicConsume starts a consumer.
func (ch *channel) BasicConsume(m amqp.BasicConsume) error {
	ch.mu.Lock()
	_, taken := ch.byTag[m.ConsumerTag]
	taken = taken || ch.replies != nil && ch.replies.tag == m.ConsumerTag
	count := len(ch.consumers)
	ch.mu.Unlock()
	if taken {
		return errTagReuse(m.ConsumerTag)
	}
	if most := ch.c.b.opt.ConsumersPerChannelMax; count >= most {
		return errConsumersMax(most)
	}
	if m.Queue == replyQueue {
		return ch.consumeReplies(&m)
	}
	q, err := ch.openQueue(m.Queue, meta.Read)
	if err != nil {
		return err
	}
	arguments := meta.NewArguments(m.Arguments)
	if r := meta.CheckConsumerArguments(q.Type, arguments); r.Reason != meta.ReasonOK {
		return errReason(&r, queueResource(q.VHost, q.Name))
	}
	if m.ConsumerTag == "" {
		m.ConsumerTag = serverName("amq.ctag")
	}
	cons := ch.addConsumer(&m, q)
	if err := ch.may(meta.Read, queueResource(q.VHost, q.Name)); err != nil { // a right that was taken away just before was not asked of this consumer
		ch.mu.Lock()
		defer ch.mu.Unlock()
		ch.removeConsumer(cons)
		return err
	}
	cmd := queue.Command{
		Op: queue.OpSubscribe, Consumer: cons.id, Prefetch: uint32(cons.prefetch), WindowBytes: cons.window, WindowCount: windowCount,
		ConsumerPriority: priorityOf(m.Arguments), Timeout: quorum.OwnTimeout(m.Arguments),
	}
	if m.NoAck {
		cmd.Flags |= queue.FlagNoAck
	}
	if m.Exclusive {
		cmd.Flags |= queue.FlagExclusive
	}
	if ch.isLimited(cons.src) {
		cmd.Flags |= queue.FlagLimited
	}
	ch.ask(q, &cmd, func(_ *operation, r queue.Reply) error {
		if e := errCode(r.Code, queueResource(q.VHost, q.Name)); e != nil {
			ch.removeConsumer(cons)
			return e
		}
		cons.active = true
		ch.joinShare(cons)
		ch.tellConsumer(cons)
		if cons.revoked {
			go ch.revoke(cons)
		}
		o := &ch.c.out
		o.mu.Lock()
		defer o.mu.Unlock()
		if !cons.announced && !o.sealed {
			ch.announce(cons)
			ch.c.wakeLocked()
		}
		return nil
	})
	return nil
}

// priorityOf reads x-priority, which is an integer of any width; the queue knows 32 bits.
func priorityOf(arguments amqp.Table) int32 {
	v, _ := arguments.Get("x-priority")
	n, _ := v.AsInt64()
	return int32(min(max(n, -1<<31), 1<<31-1))
}

// addConsumer registers a consumer whose queue has not answered yet.
func (ch *channel) addConsumer(m *amqp.BasicConsume, q *meta.Queue) *consumer {
	window := ch.c.takeWindow()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.lastConsumer++
	cons := &consumer{
		id: ch.lastConsumer, tag: m.ConsumerTag, src: ch.source(q), noAck: m.NoAck, exclusive: m.Exclusive, noWait: m.NoWait, window: window,
		arguments: m.Arguments, prefix: deliverPrefix(ch.number, m.ConsumerTag), prefetch: ch.prefetch,
	}
	if m.NoAck {
		cons.prefetch = 0
	} else {
		cons.src.part.takers++
	}
	if cons.src.windowBytes == 0 || window < cons.src.windowBytes {
		cons.src.windowBytes = window
	}
	if ch.consumers == nil {
		ch.consumers, ch.byTag = make(map[queue.ConsumerID]*consumer), make(map[string]*consumer)
	}
	ch.consumers[cons.id] = cons
	ch.byTag[cons.tag] = cons
	return cons
}

// deliverPrefix is a deliver frame up to the consumer tag, its length to be filled in.
func deliverPrefix(channel uint16, tag string) []byte {
	b := []byte{amqp.FrameMethod, byte(channel >> 8), byte(channel), 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, uint32(amqp.MethodBasicDeliver))
	b = append(b, byte(len(tag)))
	return append(b, tag...)
}

// announce sends consume-ok. Called with ch.mu and outbox.mu held.
func (ch *channel) announce(cons *consumer) {
	cons.announced = true
	if !cons.noWait {
		ch.c.appendReply(ch.number, &amqp.BasicConsumeOk{ConsumerTag: cons.tag})
	}
}

// retire deletes auto-delete queues that a consumer of the channel has left, unless others are there. The host does so by itself; who waits for it has the
// queue gone when the client is answered, so that its next declaration makes a new one.
func (ch *channel) retire(ctx context.Context, queues ...meta.QueueID) {
	for _, id := range queues {
		_, _ = ch.c.b.host.DeleteQueue(ctx, id, queue.IfAutoDelete) // in vain on a stuck queue
	}
}

// removeConsumer forgets a consumer. Called with ch.mu held.
func (ch *channel) removeConsumer(cons *consumer) {
	if ch.consumers[cons.id] != cons {
		return
	}
	ch.tellConsumerGone(cons)
	delete(ch.consumers, cons.id)
	delete(ch.byTag, cons.tag)
	ch.leaveShare(cons)
	if ch.recentConsumer == cons {
		ch.recentConsumer = nil
	}
	ch.c.giveWindow(cons.window)
}

// cancelled ends a consumer by the queue's decision and tells the client if it can take that. Called with ch.mu held.
func (ch *channel) cancelled(cons *consumer) {
	ch.removeConsumer(cons)
	if ch.c.cancelNotify && ch.state == chanOpen {
		ch.c.send(ch.number, &amqp.BasicCancel{ConsumerTag: cons.tag, NoWait: true})
	}
}

// BasicCancel ends a consumer. cancel-ok comes behind its last delivery. A tag that is not there is no error.
func (ch *channel) BasicCancel(m amqp.BasicCancel) error {
	ch.mu.Lock()
	cons := ch.byTag[m.ConsumerTag]
	if ch.replies != nil && ch.replies.tag == m.ConsumerTag {
		ch.dropReplies()
	}
	ch.mu.Unlock()
	if cons == nil {
		ch.replyUnless(m.NoWait, &amqp.BasicCancelOk{ConsumerTag: m.ConsumerTag})
		return nil
	}
	ch.ask(cons.src.queue, &queue.Command{Op: queue.OpCancel, Consumer: cons.id}, func(*operation, queue.Reply) error {
		ch.removeConsumer(cons)
		if q := cons.src.queue; q.AutoDelete {
			ch.op.then = func(ctx context.Context) error {
				ch.retire(ctx, q.ID)
				ch.replyUnless(m.NoWait, &amqp.BasicCancelOk{ConsumerTag: m.ConsumerTag})
				return nil
			}
			return nil
		}
		if !m.NoWait {
			ch.c.send(ch.number, &amqp.BasicCancelOk{ConsumerTag: m.ConsumerTag})
		}
		return nil
	})
	return nil
}

// BasicCancelOk answers our basic.cancel, which asks for no answer.
func (ch *channel) BasicCancelOk(amqp.BasicCancelOk) error { return nil }

// BasicQos sets how many unacked deliveries consumers that start from now on may have each, or with global how many all consumers of the channel may have together, at once. A limit for each takes
// one for all away, the other way round both hold, as in RabbitMQ.
func (ch *channel) BasicQos(m amqp.BasicQos) error {
	if m.PrefetchSize != 0 {
		return amqp.Errorf(amqp.ReplyNotImplemented, "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	ch.mu.Lock()
	total := int(m.PrefetchCount)
	if !m.Global {
		ch.prefetch, total = m.PrefetchCount, 0
	}
	if total != ch.share.total {
		ch.share.total = total
		ch.wakeCredit()
	}
	ch.mu.Unlock()
	ch.reply(&amqp.BasicQosOk{})
	return nil
}
