package broker

import (
	"context"
	"sync"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// client is a session without a socket: what the management API publishes, gets and purges with. One serves one call.
type client struct {
	b       *Broker
	session Session

	mu         sync.Mutex
	waiting    int
	replies    []queue.Reply
	deliveries []quorum.Delivery
	answered   chan struct{}
}

// Message is a message that Get took.
type Message struct {
	Envelope
	Redelivered bool
	// DeliveryCount and AcquiredCount are how often consumers failed and how often it was acquired before.
	DeliveryCount, AcquiredCount uint32
	// Left is how many ready messages were left behind it.
	Left uint64
}

// Settlement is what Get does with the messages that it took.
type Settlement uint8

const (
	// Requeue puts them back, as RabbitMQ's ack_requeue_true: later they count as redelivered.
	Requeue Settlement = 1
	// Remove takes them out of the queue (ack_requeue_false).
	Remove Settlement = 2
	// RejectRequeue puts them back and counts a failure of each (reject_requeue_true).
	RejectRequeue Settlement = 3
	// RejectRemove rejects them (reject_requeue_false).
	RejectRemove Settlement = 4
)

func (s Settlement) outcome() queue.Outcome {
	switch s {
	case Remove:
		return queue.OutcomeAck
	case RejectRequeue:
		return queue.OutcomeReturnCounted
	case RejectRemove:
		return queue.OutcomeDiscard
	}
	return queue.OutcomeReturn
}

const (
	// getsAtOnce is how many messages Get asks for at a time.
	getsAtOnce = 16
	// getBytesMax bounds what one Get takes.
	getBytesMax = 64 << 20
)

func (b *Broker) newClient() *client {
	c := &client{b: b, answered: make(chan struct{}, 1)}
	c.session = b.host.OpenSession(c)
	return c
}

// Publish routes a message for a user and waits until all its queues have it. routed is false if no queue was meant. properties are flags and values of a
// content header. The error is an *amqp.Error (no such exchange, permission, a queue refused it), a *BlockedError, or that of ctx: then it is not known to be stored.
func (b *Broker) Publish(ctx context.Context, user, vhost, exchangeName, key string, properties, body []byte) (routed bool, err error) {
	cat := b.host.Catalogue()
	what := exchangeResource(vhost, exchangeName)
	rights, err := b.userMay(cat.View, user, meta.Write, what)
	if err != nil {
		return false, err
	}
	if edit := b.opt.Intercept; edit != nil {
		properties = edit(properties)
	}
	v, err := amqp.ScanProperties(properties)
	if err != nil {
		return false, err
	}
	if err := b.mayCome(&v, len(body)); err != nil {
		return false, err
	}
	headers, _ := v.Headers()
	copies, blind, err := carbonCopies(headers)
	if err != nil {
		return false, err
	}
	wait, err := delayOf(headers)
	if err != nil {
		return false, err
	}
	m := exchange.Message{Copies: copies, Properties: &v, Delayed: wait.isSet()}
	targets, reason := cat.Router.Route(vhost, []byte(exchangeName), []byte(key), &m, nil)
	switch reason {
	case exchange.OK:
	case exchange.Internal:
		return false, errInternalExchange(what)
	default:
		return false, errNotFound(what)
	}
	if e := authoriseKeys(&rights, user, cat.View.Exchange(vhost, exchangeName), key, copies); e != nil {
		return false, e
	}
	rate := b.rates.at(vhost, exchangeName)
	rate.in.Add(1)
	rate.out.Add(uint64(len(targets)))
	b.totals.published.Add(1)
	b.totals.routed.Add(uint64(len(targets)))
	if blind {
		properties = withoutBCC(&v)
		if err := v.Scan(properties); err != nil {
			return false, err
		}
	}
	if b.traces(vhost) {
		b.trace("publish", exchangeName, &traced{
			vhost: vhost, exchange: exchangeName, keys: append([]string{key}, copies...), properties: &v, body: body, user: user,
		}, amqp.Field{Key: "routed_queues", Value: amqp.Array(b.queueNames(targets)...)})
	}
	if len(targets)+len(m.Histories) == 0 {
		return false, nil
	}
	cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: uint32(len(body))}
	e := Envelope{Exchange: []byte(exchangeName), RoutingKey: []byte(key), Properties: properties, Body: body}
	if wait.isSet() || m.Relayed {
		e.Properties, e.Carriage = wait.properties(&v), wait.carriage(false, blind, copies)
		wait.addTo(&cmd)
	}
	cmd.Envelope = AppendEnvelope(nil, &e)
	quorum.Describe(&cmd, &v)
	return len(targets) > 0, b.enqueue(ctx, &cmd, targets, m.Histories)
}

// mayCome tells what keeps a message from being published, wherever it goes.
func (b *Broker) mayCome(v *amqp.PropertyView, bodyBytes int) error {
	if bodyBytes > b.opt.BodyBytesMax {
		return errBodyTooLarge(uint64(bodyBytes), b.opt.BodyBytesMax)
	}
	if text, ok := v.Expiration(); ok {
		if problem := expirationProblem(text); problem != "" {
			return errExpiration(text, problem)
		}
	}
	if lack := b.lack(); lack != 0 {
		return &BlockedError{lack.Reason()}
	}
	return nil
}

// enqueue submits a message to queues and histories and waits until all of them have it.
func (b *Broker) enqueue(ctx context.Context, cmd *queue.Command, targets, histories []meta.QueueID) error {
	c := b.newClient()
	defer c.close(0, 0)
	for _, q := range targets {
		c.submit(q, cmd, tokenOperation)
	}
	forgetExpiration(cmd)
	for _, q := range histories {
		c.submit(q, cmd, tokenOperation)
	}
	if err := c.await(ctx); err != nil {
		return err
	}
	for _, r := range c.replies {
		if r.Code != queue.CodeOK && r.Code != queue.CodeGone {
			return amqp.Errorf(amqp.ReplyPreconditionFailed, "the message was refused by a queue")
		}
	}
	return nil
}

// Get takes up to count messages of a queue for a user and settles them. The error is an *amqp.Error or that of ctx.
func (b *Broker) Get(ctx context.Context, user, vhost, name string, count int, settlement Settlement) ([]Message, error) {
	q, err := b.userQueue(user, vhost, name, meta.Read)
	if err != nil {
		return nil, err
	}
	c := b.newClient()
	lastD := uint64(0)
	defer func() { c.close(q.ID, lastD) }()
	var out []Message
	for bytes := 0; len(out) < count && bytes < getBytesMax; {
		n := min(getsAtOnce, count-len(out))
		for range n {
			c.submit(q.ID, &queue.Command{Op: queue.OpGet}, tokenOperation)
		}
		if err := c.await(ctx); err != nil {
			return nil, err
		}
		got, replies := c.take()
		for i := range got {
			d := &got[i]
			e, err := ParseEnvelope(d.Envelope)
			if err != nil {
				return nil, errInternal()
			}
			e.Properties = e.Shown()
			bytes += len(d.Envelope)
			lastD = max(lastD, d.D)
			out = append(out, Message{Envelope: e, Redelivered: d.Redelivered, DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount, Left: replies[i].B})
		}
		if len(got) < n {
			if e := lastCode(replies, queueResource(vhost, name)); e != nil {
				return nil, e
			}
			break
		}
	}
	// Settled at the end: what is put back at once would be got again. All of the session is in one run of delivery numbers.
	for from := uint64(1); from <= lastD; from += limits.SettleRangeMax {
		to := min(from+limits.SettleRangeMax-1, lastD)
		c.submit(q.ID, &queue.Command{Op: queue.OpSettle, Outcome: settlement.outcome(), From: from, To: to}, tokenSettle)
	}
	if err := c.await(ctx); err != nil {
		return nil, err
	}
	b.totals.got.Add(uint64(len(out)))
	return out, nil
}

// lastCode is the error in the last answer, nil if it only says that the queue is empty.
func lastCode(replies []queue.Reply, what resource) error {
	if code := replies[len(replies)-1].Code; code != queue.CodeEmpty {
		if e := errCode(code, what); e != nil {
			return e
		}
	}
	return nil
}

// Purge drops the ready messages of a queue for a user and returns how many there were. The error is an *amqp.Error or that of ctx.
func (b *Broker) Purge(ctx context.Context, user, vhost, name string) (uint64, error) {
	q, err := b.userQueue(user, vhost, name, meta.Read)
	if err != nil {
		return 0, err
	}
	c := b.newClient()
	defer c.close(0, 0)
	c.submit(q.ID, &queue.Command{Op: queue.OpPurge}, tokenOperation)
	if err := c.await(ctx); err != nil {
		return 0, err
	}
	if e := errCode(c.replies[0].Code, queueResource(vhost, name)); e != nil {
		return 0, e
	}
	return c.replies[0].A, nil
}

// Move is what to move of one queue to another one of its virtual host.
type Move struct {
	VHost, From, To string
	// Back says that the messages go back to where they died last: they show the exchange and routing key that they had there.
	Back bool
	// Seqs are the messages, in ascending order, at most queue.MoveMax; who is not ready is passed over.
	Seqs []queue.Seq
}

// Move moves ready messages for a user who may read the one queue and write to the other, and returns how many. They are on their way then, and arrive, once, whatever fails: at once or when the target
// has room. The error is an *amqp.Error, a *BlockedError, or that of ctx: then it is not known whether they moved.
func (b *Broker) Move(ctx context.Context, user string, m *Move) (uint64, error) {
	from, err := b.userQueue(user, m.VHost, m.From, meta.Read)
	if err != nil {
		return 0, err
	}
	to, err := b.userQueue(user, m.VHost, m.To, meta.Write)
	if err != nil {
		return 0, err
	}
	if lack := b.lack(); lack != 0 {
		return 0, &BlockedError{lack.Reason()}
	}
	c := b.newClient()
	defer c.close(0, 0)
	cmd := queue.Command{Op: queue.OpMove, Peer: queue.QueueID(to.ID), Reason: queue.ReasonMoved, Envelope: queue.AppendSeqs(nil, m.Seqs)}
	if m.Back {
		cmd.Reason = queue.ReasonRedriven
	}
	c.submit(from.ID, &cmd, tokenOperation)
	if err := c.await(ctx); err != nil {
		return 0, err
	}
	what := queueResource(m.VHost, m.From)
	switch code := c.replies[0].Code; code {
	case queue.CodeOK:
		return c.replies[0].A, nil
	case queue.CodeLimit:
		return 0, amqp.Errorf(amqp.ReplyPreconditionFailed, "messages of %s are on their way to too many queues", what)
	case queue.CodeUnavailable:
		return 0, context.DeadlineExceeded
	default:
		return 0, errCode(code, what)
	}
}

// settle waits until the queue has carried out what this node has submitted to it so far.
func (b *Broker) settle(ctx context.Context, q meta.QueueID) error {
	c := b.newClient()
	defer c.close(0, 0)
	c.submit(q, &queue.Command{Op: queue.OpQuery}, tokenOperation)
	return c.await(ctx)
}

// userMay checks a user's permission without a channel's memory, and returns what else the user may do in the virtual host.
func (b *Broker) userMay(view *meta.View, user string, access meta.Access, what resource) (meta.Rights, error) {
	if view.VHost(what.VHost) == nil {
		return meta.Rights{}, errNoVHost(what.VHost)
	}
	rights := view.Rights(user, what.VHost)
	if e := Authorise(&rights, user, access, what); e != nil {
		return meta.Rights{}, e
	}
	return rights, nil
}

// userQueue finds a queue that a user may use in the way. Exclusive queues are their connection's.
func (b *Broker) userQueue(user, vhost, name string, access meta.Access) (*meta.Queue, error) {
	view := b.host.Catalogue().View
	what := queueResource(vhost, name)
	if _, err := b.userMay(view, user, access, what); err != nil {
		return nil, err
	}
	q := view.Queue(vhost, name)
	switch {
	case q == nil:
		return nil, errNotFound(what)
	case q.Exclusive:
		return nil, errLocked(what)
	}
	return q, nil
}

// tokenSettle marks commands whose answer is waited for and not kept.
const tokenSettle = tokenPublish

// submit submits a command whose answer await waits for.
func (c *client) submit(q meta.QueueID, cmd *queue.Command, token uint64) {
	c.mu.Lock()
	c.waiting++
	c.mu.Unlock()
	if err := c.session.Submit(q, cmd, token); err != nil {
		c.Completed(q, []quorum.Completion{{Token: token, Reply: queue.Reply{Code: codeOf(err)}}})
	}
}

// await flushes and waits for all answers, at most as long as any operation waits for a queue.
func (c *client) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limits.QueueStartWaitMillis*time.Millisecond)
	defer cancel()
	c.session.Flush()
	for {
		c.mu.Lock()
		done := c.waiting == 0
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-c.answered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take returns what came since the last take.
func (c *client) take() (deliveries []quorum.Delivery, replies []queue.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deliveries, replies = c.deliveries, c.replies
	c.deliveries, c.replies = nil, nil
	return deliveries, replies
}

// close ends the session; what was not settled returns.
func (c *client) close(q meta.QueueID, lastD uint64) {
	c.session.Flush()
	c.session.Close(func(id meta.QueueID) uint64 {
		if id == q {
			return lastD
		}
		return 0
	}, tokenClose)
}

// Completed implements quorum.Receiver.
func (c *client) Completed(_ meta.QueueID, done []quorum.Completion) {
	c.mu.Lock()
	for i := range done {
		switch done[i].Token {
		case tokenOperation:
			c.replies = append(c.replies, done[i].Reply)
			c.waiting--
		case tokenSettle:
			c.waiting--
		}
	}
	c.mu.Unlock()
	select {
	case c.answered <- struct{}{}:
	default:
	}
}

// Deliver implements quorum.Receiver.
func (c *client) Deliver(_ meta.QueueID, deliveries []quorum.Delivery) {
	c.mu.Lock()
	c.deliveries = append(c.deliveries, deliveries...)
	c.mu.Unlock()
}

// Cancelled implements quorum.Receiver: a client has no consumers.
func (c *client) Cancelled(meta.QueueID, queue.ConsumerID) {}

// TimedOut implements quorum.Receiver: what a client gets it settles at once.
func (c *client) TimedOut(meta.QueueID, []uint64) {}

// Synced implements quorum.Receiver.
func (c *client) Synced(meta.QueueID, *queue.SessionSync) {}

// Ready implements quorum.Receiver.
func (c *client) Ready(meta.QueueID, uint64) {}

// Gone implements quorum.Receiver: what waited was answered before.
func (c *client) Gone(meta.QueueID) {}
