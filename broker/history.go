package broker

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// Histories of x-recent-history exchanges (meta/history.go). A publish enqueues in them as in any queue, so that a confirm says that the message is kept, too. A bind copies what stands there to the
// new destination before it is answered. The copy is made where the history is led: a look there sees all that was confirmed, changes nothing, and disturbs no other bind; and a message of any size
// need not come as an answer. A message that is published while the bind goes on may come twice, none is missed.

// peeker looks at the messages of a queue: a Host that has real queues is one.
type peeker interface {
	Peek(ctx context.Context, id meta.QueueID, look quorum.Look, visit func(position int, m *queue.Peeked, envelope []byte) bool) (quorum.Seen, error)
}

const (
	// recalledAtOnce and recalledBytesAtOnce bound what of a copy is on its way.
	recalledAtOnce      = 64
	recalledBytesAtOnce = 1 << 20
)

// ExchangeCommands are what makes an exchange: itself, and its history and its relay if the type has them.
func ExchangeCommands(h interface{ Node() meta.NodeID }, x *meta.Exchange) []meta.Command {
	cmds := []meta.Command{{Op: meta.OpDeclareExchange, Exchange: *x}}
	if x.RoutingType() == meta.TypeRecentHistory {
		cmds = append(cmds, meta.HistoryCommand(x, ReplicasFor(h, meta.Arguments{})))
	}
	if x.HasRelay() {
		cmds = append(cmds, meta.RelayCommand(x, ReplicasFor(h, meta.Arguments{})))
	}
	return cmds
}

// forgetExpiration makes the command of a message one for a history: a message does not expire there, only where it is copied to.
func forgetExpiration(cmd *queue.Command) {
	cmd.Flags, cmd.Expiration = cmd.Flags&^queue.FlagHasExpiration, 0
}

// recall is a copy of a history that is to be made.
type recall struct {
	history            meta.QueueID
	vhost, destination string
	kind               meta.DestinationKind
}

// Recall copies the last messages of a new binding's source to its destination, if the source has a history. It waits until they are there. With an error some of them may be.
func (b *Broker) Recall(ctx context.Context, x *meta.Binding) error {
	history := b.host.Catalogue().View.History(x.VHost, x.Source)
	if history == nil {
		return nil
	}
	r := recall{history.ID, x.VHost, x.Destination, x.Kind}
	if err := b.settle(ctx, r.history); err != nil {
		return err
	}
	st, _ := b.host.QueueStatus(r.history)
	nodes := append([]meta.NodeID{st.Leader}, st.Online...)
	failure := error(quorum.ErrNoLeader)
	for i, node := range nodes {
		switch {
		case node == 0 || slices.Contains(nodes[:i], node):
			continue
		case node == b.host.Node():
			failure = b.copyHistory(ctx, &r)
		case b.teller != nil:
			failure = b.recallAt(ctx, node, &r)
		}
		if failure == nil {
			break
		}
	}
	return failure
}

// recalled is Recall for a bind that has succeeded: it stands, whatever becomes of the history.
func (b *Broker) recalled(ctx context.Context, x *meta.Binding) {
	if err := b.Recall(ctx, x); err != nil {
		b.log.Warn("a binding did not get all of the exchange's history", "vhost", x.VHost, "exchange", x.Source, "destination", x.Destination, "error", err)
	}
}

// recallAt has another node make the copy.
func (b *Broker) recallAt(ctx context.Context, node meta.NodeID, r *recall) error {
	question := codec.AppendUvarint([]byte{toldRecall}, uint64(r.history))
	question = codec.AppendString(codec.AppendUint8(question, uint8(r.kind)), r.vhost)
	answer, err := b.teller.AskTold(ctx, node, codec.AppendString(question, r.destination))
	if err == nil && (len(answer) != 1 || answer[0] == 0) {
		err = errors.New("the node could not do it")
	}
	return err
}

// askedToRecall makes a copy for another node.
func (b *Broker) askedToRecall(question []byte) bool {
	in := codec.NewReader(question)
	r := recall{history: meta.QueueID(in.Uvarint()), kind: meta.DestinationKind(in.Uint8()), vhost: in.String(), destination: in.String()}
	if in.Err() != nil || in.Len() > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(b.ending, limits.QueueStartWaitMillis*time.Millisecond)
	defer cancel()
	if err := b.settle(ctx, r.history); err != nil {
		return false
	}
	return b.copyHistory(ctx, &r) == nil
}

// copyHistory copies what this node's replica of a history has, in order.
func (b *Broker) copyHistory(ctx context.Context, r *recall) error {
	p, ok := b.host.(peeker)
	if !ok {
		return quorum.ErrNotHere
	}
	c := b.newClient()
	defer c.close(0, 0)
	cat := b.host.Catalogue()
	var failure error
	count, bytes := 0, 0
	_, err := p.Peek(ctx, r.history, quorum.Look{Count: math.MaxInt32}, func(_ int, _ *queue.Peeked, envelope []byte) bool {
		count, bytes = count+1, bytes+len(envelope)
		if failure = c.copyTo(cat, r, envelope); failure == nil && (count >= recalledAtOnce || bytes >= recalledBytesAtOnce) {
			failure, count, bytes = c.await(ctx), 0, 0
		}
		return failure == nil
	})
	return errors.Join(err, failure, c.await(ctx))
}

// copyTo submits a kept message to the destination of a binding.
func (c *client) copyTo(cat *quorum.Catalogue, r *recall, envelope []byte) error {
	e, err := ParseEnvelope(envelope)
	if err != nil {
		return err
	}
	v, err := amqp.ScanProperties(e.Properties)
	if err != nil {
		return err
	}
	cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: uint32(len(e.Body)), Envelope: envelope}
	quorum.Describe(&cmd, &v)
	if r.kind == meta.ToQueue {
		if q := cat.View.Queue(r.vhost, r.destination); q != nil {
			c.submit(q.ID, &cmd, tokenSettle)
		}
		return nil
	}
	headers, _ := v.Headers()
	copies, _, _ := carbonCopies(headers)
	m := exchange.Message{Copies: copies, Properties: &v}
	targets, _ := cat.Router.Route(r.vhost, []byte(r.destination), e.RoutingKey, &m, nil)
	for _, q := range targets {
		c.submit(q, &cmd, tokenSettle)
	}
	forgetExpiration(&cmd)
	for _, q := range m.Histories {
		c.submit(q, &cmd, tokenSettle)
	}
	return nil
}
