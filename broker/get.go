package broker

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// got is the message of a basic.get between its delivery and its completion, which tells how many are left.
type got struct {
	src      *source
	delivery quorum.Delivery
}

// BasicGet takes one message.
func (ch *channel) BasicGet(m amqp.BasicGet) error {
	q, err := ch.openQueue(m.Queue, meta.Read)
	if err != nil {
		return err
	}
	ch.mu.Lock()
	ch.source(q)
	ch.mu.Unlock()
	cmd := queue.Command{Op: queue.OpGet}
	if m.NoAck {
		cmd.Flags |= queue.FlagNoAck
	}
	what := queueResource(q.VHost, q.Name)
	ch.ask(q, &cmd, func(op *operation, r queue.Reply) error {
		if r.Code == queue.CodeEmpty {
			ch.stats.gotEmpty++
			ch.c.b.totals.gotEmpty.Add(1)
			ch.c.send(ch.number, &amqp.BasicGetEmpty{})
			return nil
		}
		if e := errCode(r.Code, what); e != nil {
			return e
		}
		ch.showGot(&op.got, m.NoAck, r.B)
		return nil
	})
	return nil
}

// keepGot keeps the message of a basic.get. Called with ch.mu and outbox.mu held.
func (ch *channel) keepGot(src *source, d *quorum.Delivery) {
	if ch.op.done == nil {
		return // nobody waits any more; it returns when the session closes
	}
	ch.op.got.src, ch.op.got.delivery = src, *d
	src.held = d.D
	src.appended = d.D
}

// showGot appends get-ok with the message and how many are left. Called with ch.mu held.
func (ch *channel) showGot(g *got, noAck bool, left uint64) {
	if g.src == nil {
		return
	}
	c, o := ch.c, &ch.c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	g.src.held = 0
	e, err := ParseEnvelope(g.delivery.Envelope)
	if o.sealed || err != nil {
		return
	}
	m := amqp.BasicGetOk{
		DeliveryTag: ch.tag(g.src, &g.delivery, len(e.Body), noAck), Redelivered: g.delivery.Redelivered,
		Exchange: string(e.Exchange), RoutingKey: string(e.RoutingKey), MessageCount: count32(left),
	}
	c.appendReply(ch.number, &m)
	o.appendContent(ch.number, ch.shownProperties(g.src, e.Shown(), &g.delivery), e.Body, c.frameMax)
	if c.b.notices.traced.Load() != nil {
		ch.traceDelivery(g.src.queue, &e, g.delivery.Redelivered)
	}
	o.replies += len(e.Body)
	g.src.bytes += uint64(len(e.Body))
	if !g.src.touched {
		g.src.touched = true
		o.touched = append(o.touched, g.src)
	}
	if noAck {
		ch.stats.gotNoAck++
		c.b.totals.gotNoAck.Add(1)
	} else {
		ch.stats.got++
		c.b.totals.got.Add(1)
	}
	if g.delivery.Redelivered {
		ch.stats.redelivered++
		c.b.totals.redelivered.Add(1)
	}
	c.wakeLocked()
}

// count32 fits a count into the 32 bits that a method has for it.
func count32(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }
