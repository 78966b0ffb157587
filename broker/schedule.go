package broker

import (
	"context"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// DelayedID names a message of a queue that is to be ready later: when, and its seq.
type DelayedID struct {
	UntilMillis int64
	Seq         queue.Seq
}

// Pick says which delayed messages to drop or, with Deliver, to make ready now: those of IDs, or all.
type Pick struct {
	Deliver, All bool
	IDs          []DelayedID
}

// pickAtOnce is how many messages one command asks for.
const pickAtOnce = 4096

// PickDelayed cancels delayed messages of a queue, which may be a relay, or makes them ready now, until there are none, and returns how many there were. Whether the caller may is for the caller to ask. The error is an *amqp.Error or
// that of ctx: then it is not known how many.
func (b *Broker) PickDelayed(ctx context.Context, q *meta.Queue, p Pick) (uint64, error) {
	cmd := queue.Command{Op: queue.OpUnschedule}
	if p.Deliver {
		cmd.Op = queue.OpExpedite
	}
	picked := uint64(0)
	for ids, done := p.IDs, false; !done; {
		cmd.To, cmd.Envelope = 0, nil
		n := min(len(ids), pickAtOnce)
		if p.All {
			cmd.To = pickAtOnce
		}
		for _, id := range ids[:n] {
			cmd.Envelope = queue.AppendDelayed(cmd.Envelope, id.UntilMillis, id.Seq)
		}
		ids = ids[n:]
		reply, err := b.ask(ctx, q, &cmd)
		if err != nil {
			return picked, err
		}
		picked += reply.A
		done = !p.All && len(ids) == 0 || p.All && reply.A == 0
	}
	return picked, nil
}

// ask submits one command and waits for its answer.
func (b *Broker) ask(ctx context.Context, q *meta.Queue, cmd *queue.Command) (queue.Reply, error) {
	c := b.newClient()
	defer c.close(0, 0)
	c.submit(q.ID, cmd, tokenOperation)
	if err := c.await(ctx); err != nil {
		return queue.Reply{}, err
	}
	if e := errCode(c.replies[0].Code, queueResource(q.VHost, q.Name)); e != nil {
		return queue.Reply{}, e
	}
	return c.replies[0], nil
}
