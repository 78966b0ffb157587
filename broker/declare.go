package broker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// crlf takes CR and LF out of names, as RabbitMQ does.
var crlf = strings.NewReplacer("\r", "", "\n", "")

func plainName(name string) string {
	if strings.ContainsAny(name, "\r\n") {
		return crlf.Replace(name)
	}
	return name
}

func (ch *channel) view() *meta.View { return ch.c.b.host.Catalogue().View }

// findQueue looks for a queue. A node without a lease may not have heard of one that others were told of: then it waits for a lease and looks again before it says that there is none (PROTOCOL 5).
func (ch *channel) findQueue(name string) *meta.Queue {
	q := ch.view().Queue(ch.c.vhost, name)
	if q == nil && ch.awaitsLease() {
		q = ch.view().Queue(ch.c.vhost, name)
	}
	return q
}

// findExchange looks for an exchange, as findQueue does.
func (ch *channel) findExchange(name string) *meta.Exchange {
	x := ch.view().Exchange(ch.c.vhost, name)
	if x == nil && ch.awaitsLease() {
		x = ch.view().Exchange(ch.c.vhost, name)
	}
	return x
}

// awaitsLease tells whether the node had no lease and has one now, so that it pays to look again.
func (ch *channel) awaitsLease() bool { return !ch.c.b.leased() && ch.awaitLease() }

// queueName resolves an empty name: the last queue declared on the channel.
func (ch *channel) queueName(name string) (string, error) {
	if name != "" {
		return plainName(name), nil
	}
	if ch.lastQueue == "" {
		return "", errNoPreviousQueue()
	}
	return ch.lastQueue, nil
}

// openQueue finds a queue that the client may use in the way: it has the permission, the queue is there and is not another connection's own.
func (ch *channel) openQueue(name string, access meta.Access) (*meta.Queue, error) {
	name, err := ch.queueName(name)
	if err != nil {
		return nil, err
	}
	what := queueResource(ch.c.vhost, name)
	if err := ch.may(access, what); err != nil {
		return nil, err
	}
	q := ch.findQueue(name)
	switch {
	case q == nil:
		return nil, errNotFound(what)
	case q.LockedFor(ch.c.owner):
		return nil, errLocked(what)
	}
	return q, nil
}

// propose writes one command to the catalogue while the channel waits, then calls done with its reply. A refusal becomes an error about what.
func (ch *channel) propose(cmd meta.Command, what resource, done func(*meta.Reply) error) {
	ch.proposeAll([]meta.Command{cmd}, what, func(_ context.Context, r *meta.Reply) error { return done(r) })
}

// proposeAll is propose for commands of one entry; done gets the reply to the first.
func (ch *channel) proposeAll(cmds []meta.Command, what resource, done func(context.Context, *meta.Reply) error) {
	ch.async(func(ctx context.Context) error {
		replies, err := ch.c.b.host.Do(ctx, cmds...)
		if err != nil {
			return errHost(err, what)
		}
		for i := range replies {
			if r := &replies[i]; r.Reason != meta.ReasonOK {
				return errReason(r, what)
			}
		}
		return done(ctx, &replies[0])
	})
}

// QueueDeclare makes a queue, or with passive looks whether it is there, and answers its counts.
func (ch *channel) QueueDeclare(m amqp.QueueDeclare) error {
	m.Queue = plainName(m.Queue)
	if isReplyName(m.Queue) {
		return ch.declareReplies(&m)
	}
	if m.Passive {
		return ch.declarePassive(&m)
	}
	named := m.Queue != ""
	if !named {
		m.Queue = serverName("amq.gen")
	}
	what := queueResource(ch.c.vhost, m.Queue)
	if err := ch.may(meta.Configure, what); err != nil {
		return err
	}
	ch.c.b.totals.queuesDeclared.Add(1)
	cmd := meta.Command{Op: meta.OpDeclareQueue, Queue: ch.newQueue(&m)}
	r := ch.view().Check(&cmd)
	switch {
	case r.Reason != meta.ReasonOK:
		return errReason(&r, what)
	case r.Existed:
		ch.lastQueue = m.Queue
		return ch.declared(ch.view().QueueByID(meta.QueueID(r.ID)), what, m.NoWait)
	case named && meta.ReservedName(m.Queue):
		return errReserved(what)
	}
	if err := ch.mayDeadLetter(&cmd.Queue, what); err != nil {
		return err
	}
	ch.lastQueue = m.Queue
	ch.propose(cmd, what, func(r *meta.Reply) error {
		if !r.Existed {
			ch.c.b.totals.queuesCreated.Add(1)
		}
		if !m.NoWait {
			ch.reply(&amqp.QueueDeclareOk{Queue: m.Queue})
		}
		return nil
	})
	return nil
}

// newQueue is the queue of a declaration. A durable one lives on the nodes that the cluster chooses, another one on this incarnation of this node.
func (ch *channel) newQueue(m *amqp.QueueDeclare) meta.Queue {
	h := ch.c.b.host
	q := meta.Queue{
		VHost: ch.c.vhost, Name: m.Queue, Durable: m.Durable, AutoDelete: m.AutoDelete, Exclusive: m.Exclusive, Arguments: meta.NewArguments(m.Arguments),
		Home: h.Node(), HomeBoot: h.Boot(),
	}
	if m.Durable && !m.Exclusive {
		q.Replicas = ReplicasFor(h, q.Arguments)
	}
	if m.Exclusive {
		q.Owner = ch.c.owner
	}
	return q
}

// mayDeadLetter checks what a dead-letter exchange asks for: to read the queue and to write to the exchange.
func (ch *channel) mayDeadLetter(q *meta.Queue, what resource) error {
	v, ok := q.Arguments.Get("x-dead-letter-exchange")
	if !ok {
		return nil
	}
	if err := ch.may(meta.Read, what); err != nil {
		return err
	}
	name, _ := v.AsString()
	return ch.may(meta.Write, exchangeResource(ch.c.vhost, name))
}

// declarePassive looks whether a queue is there. Unlike elsewhere an empty name stands for no other, as in RabbitMQ.
func (ch *channel) declarePassive(m *amqp.QueueDeclare) error {
	name := m.Queue
	what := queueResource(ch.c.vhost, name)
	if err := ch.mayAny(what); err != nil {
		return err
	}
	q := ch.findQueue(name)
	switch {
	case q == nil:
		return errNotFound(what)
	case q.LockedFor(ch.c.owner):
		return errLocked(what)
	}
	ch.c.b.totals.queuesDeclared.Add(1)
	ch.lastQueue = name
	return ch.declared(q, what, m.NoWait)
}

// mayAny checks that the user has any permission for a queue or exchange, as passive declarations ask for.
func (ch *channel) mayAny(what resource) error {
	if ch.may(meta.Read, what) == nil || ch.may(meta.Write, what) == nil {
		return nil
	}
	return ch.may(meta.Configure, what)
}

// declared answers the declaration of a queue that is there. Its counts come through its pipeline, behind what the client has published, but a queue that
// sleeps and that nothing is on the way to is not woken for them.
func (ch *channel) declared(q *meta.Queue, what resource, noWait bool) error {
	if noWait {
		return nil
	}
	if q == nil {
		return errNotFound(what)
	}
	st, ok := ch.c.b.host.QueueStatus(q.ID)
	_, expires := q.Effective("x-expires") // then the declaration counts as a use
	if ok && st.State == quorum.StateParked && !expires && !ch.c.b.clustered() && ch.c.inflightCount.Load() == 0 {
		ch.reply(&amqp.QueueDeclareOk{Queue: q.Name, MessageCount: count32(st.Counts.Ready), ConsumerCount: count32(st.Counts.Consumers)})
		return nil
	}
	ch.ask(q, &queue.Command{Op: queue.OpTouch}, func(_ *operation, r queue.Reply) error {
		if e := errCode(r.Code, what); e != nil {
			return e
		}
		ch.c.send(ch.number, &amqp.QueueDeclareOk{Queue: q.Name, MessageCount: count32(r.A), ConsumerCount: count32(r.B)})
		return nil
	})
	return nil
}

// QueueDelete deletes a queue. One that is not there is no error.
func (ch *channel) QueueDelete(m amqp.QueueDelete) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	what := queueResource(ch.c.vhost, name)
	if err := ch.may(meta.Configure, what); err != nil {
		return err
	}
	q := ch.findQueue(name)
	if q == nil {
		ch.replyUnless(m.NoWait, &amqp.QueueDeleteOk{})
		return nil
	}
	if q.LockedFor(ch.c.owner) {
		return errLocked(what)
	}
	cond := queue.Condition(0)
	if m.IfUnused {
		cond |= queue.IfUnused
	}
	if m.IfEmpty {
		cond |= queue.IfEmpty
	}
	ch.async(func(ctx context.Context) error {
		if err := ch.settleBefore(ctx, q.ID, cond); err != nil {
			return errTimeout(what)
		}
		res, err := ch.c.b.host.DeleteQueue(ctx, q.ID, cond)
		if err != nil && !errors.Is(err, quorum.ErrNoQueue) {
			return errHost(err, what)
		}
		if e := errCode(res.Code, what); e != nil {
			return e
		}
		if err == nil {
			ch.c.b.totals.queuesDeleted.Add(1)
		}
		ch.replyUnless(m.NoWait, &amqp.QueueDeleteOk{MessageCount: count32(res.Messages)})
		return nil
	})
	return nil
}

// deleteSettleMax is how long a delete without a condition waits for what the client sent before it, which only its count depends on.
const deleteSettleMax = time.Second

// settleBefore has what the client sent to the queue before a delete carried out first, for the delete does not travel in the queue's pipeline. A queue that does not answer can be deleted, but
// not under a condition; one that was never started has nothing on its way.
func (ch *channel) settleBefore(ctx context.Context, q meta.QueueID, cond queue.Condition) error {
	b := ch.c.b
	if cond != 0 {
		return b.settle(ctx, q)
	}
	if st, ok := b.host.QueueStatus(q); !ok || st.State == quorum.StateParked && !b.clustered() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deleteSettleMax)
	defer cancel()
	_ = b.settle(ctx, q) // in vain on a stuck queue
	return nil
}

// QueuePurge drops the ready messages of a queue.
func (ch *channel) QueuePurge(m amqp.QueuePurge) error {
	q, err := ch.openQueue(m.Queue, meta.Read)
	if err != nil {
		return err
	}
	what := queueResource(q.VHost, q.Name)
	ch.ask(q, &queue.Command{Op: queue.OpPurge}, func(_ *operation, r queue.Reply) error {
		if e := errCode(r.Code, what); e != nil {
			return e
		}
		if !m.NoWait {
			ch.c.send(ch.number, &amqp.QueuePurgeOk{MessageCount: count32(r.A)})
		}
		return nil
	})
	return nil
}
