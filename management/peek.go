package management

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// A look at a queue's messages asks the replica that leads and changes nothing: no order, no flag, no count, no consumer.

const (
	// peekCountDefault and peekTruncateDefault hold for a look that does not say.
	peekCountDefault    = 50
	peekTruncateDefault = 50_000
	// peekTimeout bounds a look, with the start of a queue that sleeps.
	peekTimeout = 5 * time.Second
	// askPeekDelayed is the reason of an askPeek for delayed messages.
	askPeekDelayed = "delayed"
)

// look is what one request wants to see.
type look struct {
	unacked                 bool
	offset, count, truncate int
	auto                    bool // the payload as a string if it is UTF-8
	// delayed asks for the messages that are to be ready later, from one on, and not for an offset.
	delayed bool
	from    broker.DelayedID
}

// sighting is a message as a look shows it. The payload is cut; bodyBytes is its whole length.
type sighting struct {
	position                      uint64
	redelivered                   bool
	deliveryCount, bodyBytes      uint64
	node, boot, session, consumer uint64
	exchange, key                 string
	properties, payload           []byte
	messageID                     string // these two of a delayed one only
	delayed                       broker.DelayedID
}

// sight is what a look saw: of total messages in that state, as of the entry applied of the queue's log.
type sight struct {
	total, applied uint64
	messages       []sighting
}

func (x *sight) pack(p *pack) {
	p.uints(&x.total, &x.applied)
	packRows(p, &x.messages, func(p *pack, m *sighting) {
		p.uints(&m.position, &m.deliveryCount, &m.bodyBytes, &m.node, &m.boot, &m.session, &m.consumer)
		p.bool(&m.redelivered)
		p.text(&m.exchange)
		p.text(&m.key)
		p.bytes(&m.properties)
		p.bytes(&m.payload)
		p.text(&m.messageID)
		p.int64(&m.delayed.UntilMillis)
		p.uint((*uint64)(&m.delayed.Seq))
	})
}

// peek is POST /queues/VHOST/NAME/peek.
func peek(c *call) error {
	if err := c.changeVHost(c.params[0]); err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	state, err := b.text("state", "ready")
	if err != nil || state != "ready" && state != "unacked" {
		return badRequest("Unsupported state. Please use ready or unacked.")
	}
	return c.peek(b, state == "unacked")
}

// listUnacked is GET /queues/VHOST/NAME/unacked: a look at messages that wait for an acknowledgement, with its parameters in the query.
func listUnacked(c *call) error {
	if err := c.changeVHost(c.params[0]); err != nil {
		return err
	}
	b := make(body)
	for _, key := range [...]string{"offset", "count", "truncate", "encoding"} {
		if c.query.Has(key) {
			b[key], _ = json.Marshal(c.query.Get(key))
		}
	}
	return c.peek(b, true)
}

func (b body) look(unacked bool) (l look, err error) {
	l = look{unacked: unacked, count: peekCountDefault, truncate: peekTruncateDefault}
	for _, f := range [...]struct {
		key         string
		to          *int
		least, most int
	}{{"offset", &l.offset, 0, 1 << 40}, {"count", &l.count, 1, limits.PeekMessagesMax}, {"truncate", &l.truncate, 0, limits.PeekBytesMax}} {
		if !b.has(f.key) {
			continue
		}
		if *f.to, err = b.int(f.key, f.least, f.most); err != nil {
			return l, err
		}
	}
	encoding, err := b.text("encoding", "auto")
	if err != nil || encoding != "auto" && encoding != "base64" {
		return l, badRequest("Unsupported encoding. Please use auto or base64.")
	}
	l.auto = encoding == "auto"
	return l, nil
}

func (c *call) peek(b body, unacked bool) error {
	vhost, name := c.params[0], c.params[1]
	l, err := b.look(unacked)
	if err != nil {
		return err
	}
	q := c.view.Queue(vhost, name)
	if q == nil {
		return objectNotFound()
	}
	if err := c.may(meta.Read, queueResource(vhost, name)); err != nil {
		return err
	}
	seen, err := c.peekAnywhere(q, &l)
	if err != nil {
		return err
	}
	var holders holders
	if unacked {
		holders = c.holders(q, seen)
	}
	return c.object(http.StatusOK, func(w *writer) {
		if w.Array("items") {
			for i := range seen.messages {
				w.Object("")
				writeSighting(w, &seen.messages[i], &l, holders)
				w.End()
			}
			w.EndArray()
		}
		w.Uint("total", seen.total)
		w.Uint("applied", seen.applied)
	})
}

// peekAnywhere looks at the replica that leads; if its node does not answer, at another one.
func (c *call) peekAnywhere(q *meta.Queue, l *look) (seen *sight, err error) {
	err = c.s.lookAnywhere(c.r.Context(), q, func(ctx context.Context, node meta.NodeID) (err error) {
		if node == c.s.opt.Host.Node() {
			seen, err = c.s.peekOwn(ctx, q.ID, l)
		} else {
			seen, err = c.s.peekAt(ctx, node, q.ID, l)
		}
		return err
	})
	return seen, err
}

// lookAnywhere has f look at a queue on the node that leads it; if that does not answer, on another one. The error is a failure.
func (s *Server) lookAnywhere(ctx context.Context, q *meta.Queue, f func(context.Context, meta.NodeID) error) error {
	st, ok := s.exactStatus(ctx, q)
	if !ok {
		return objectNotFound()
	}
	nodes := append([]meta.NodeID{st.Leader}, st.Online...)
	if s.hasOwn(q) {
		nodes = slices.Insert(nodes, 1, s.opt.Host.Node())
	}
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	var failure error = quorum.ErrNoLeader
	for i, node := range nodes {
		if node == 0 || slices.Contains(nodes[:i], node) {
			continue
		}
		if failure = f(ctx, node); failure == nil {
			return nil
		}
	}
	s.log.Debug("nobody could look at a queue", "queue", q.Name, "vhost", q.VHost, "error", failure)
	if errors.Is(failure, quorum.ErrNoQueue) {
		return objectNotFound()
	}
	return unavailable(queueResource(q.VHost, q.Name).String() + " has no replica that answers now; try again")
}

// peekAt asks another node for a look.
func (s *Server) peekAt(ctx context.Context, node meta.NodeID, id meta.QueueID, l *look) (*sight, error) {
	q := question{kind: askPeek, id: uint64(id), unacked: l.unacked, offset: uint64(l.offset), count: uint64(l.count), truncate: uint64(l.truncate)}
	if l.delayed {
		q.reason, q.since, q.after = askPeekDelayed, uint64(l.from.UntilMillis), uint64(l.from.Seq)
	}
	body, err := s.peers.ask(ctx, node, q)
	if err != nil {
		return nil, err
	}
	in, seen := unpack(body), new(sight)
	seen.pack(in)
	return seen, in.in.Err()
}

// answerPeek looks for another node.
func (s *Server) answerPeek(p *pack, q *question) error {
	ctx, cancel := context.WithTimeout(s.peers.ctx, askTimeout)
	defer cancel()
	l := look{
		unacked: q.unacked, offset: int(q.offset & (1<<40 - 1)), count: int(min(q.count, limits.PeekMessagesMax)), truncate: int(min(q.truncate, limits.PeekBytesMax)),
	}
	if l.delayed = q.reason == askPeekDelayed; l.delayed {
		l.from = broker.DelayedID{UntilMillis: int64(q.since), Seq: queue.Seq(q.after)}
	}
	seen, err := s.peekOwn(ctx, meta.QueueID(q.id), &l)
	if err == nil {
		seen.pack(p)
	}
	return err
}

// peekOwn looks at this node's replica. It ends early when the messages take limits.PeekBytesMax.
func (s *Server) peekOwn(ctx context.Context, id meta.QueueID, l *look) (*sight, error) {
	seen, room := new(sight), limits.PeekBytesMax
	at := quorum.Look{Unacked: l.unacked, Offset: l.offset, Count: l.count}
	if l.delayed {
		at.Delayed = &quorum.Due{UntilMillis: l.from.UntilMillis, Seq: l.from.Seq}
	}
	now, err := s.opt.Host.Peek(ctx, id, at, func(position int, m *queue.Peeked, envelope []byte) bool {
		e, err := broker.ParseEnvelope(envelope)
		e.Properties = e.Shown()
		if err != nil {
			s.log.Error("a message cannot be shown", "queue", uint64(id), "seq", uint64(m.Seq), "error", err)
			return true
		}
		payload := e.Body[:min(len(e.Body), l.truncate)]
		if room -= len(e.Exchange) + len(e.RoutingKey) + len(e.Properties) + len(payload); room < 0 && len(seen.messages) > 0 {
			return false
		}
		x := sighting{
			position: uint64(position), redelivered: m.Redelivered, deliveryCount: uint64(m.DeliveryCount), bodyBytes: uint64(len(e.Body)),
			node: uint64(m.Node), boot: m.BootCounter, session: uint64(m.Session), consumer: uint64(m.Consumer),
			exchange: string(e.Exchange), key: string(e.RoutingKey), properties: slices.Clone(e.Properties), payload: slices.Clone(payload),
		}
		if l.delayed {
			x.delayed = broker.DelayedID{UntilMillis: m.UntilMillis, Seq: m.Seq}
			if v, err := amqp.ScanProperties(e.Properties); err == nil {
				id, _ := v.MessageID()
				x.messageID = string(id)
			}
		}
		seen.messages = append(seen.messages, x)
		return true
	})
	seen.total, seen.applied = now.Total, now.Applied
	return seen, err
}

// holder is who has a message: a session, and in it a consumer.
type holder struct{ node, session, consumer uint64 }

// shownHolder is a holder as people know it.
type shownHolder struct{ tag, channel string }

// holders are those of a look's messages.
type holders map[holder]shownHolder

// holders finds out who has the messages: consumers of the queue, and if any message was got the channels, on all nodes.
func (c *call) holders(q *meta.Queue, seen *sight) holders {
	all := make(holders)
	if len(seen.messages) == 0 {
		return all
	}
	self, ask := c.s.opt.Host.Node(), question{kind: askConsumers, vhost: q.VHost, queue: q.Name}
	replies, _ := c.s.peers.askAll(c.r.Context(), ask)
	for _, l := range everywhere(self, c.s.ownConsumers(&ask), readReplies(replies, packConsumer)) {
		x := &l.thing
		all[holder{uint64(l.node), uint64(x.Session), uint64(x.ID)}] = shownHolder{x.Tag, nameOfChannel(x.Connection, x.Number)}
	}
	if slices.ContainsFunc(seen.messages, func(m sighting) bool { return m.session != 0 && m.consumer == 0 }) {
		for _, l := range everywhere(self, c.s.ownChannels(&question{}), c.s.peers.channels.rows(c.s.peers)) {
			all[holder{uint64(l.node), uint64(l.thing.Session), 0}] = shownHolder{"", channelName(&l.thing)}
		}
	}
	for i := range seen.messages { // the numbers of sessions begin anew with each incarnation of a node
		m := &seen.messages[i]
		if n := c.view.Node(meta.NodeID(m.node)); n == nil || n.Boot.Counter != m.boot {
			m.session = 0
		}
	}
	return all
}

func writeSighting(w *writer, m *sighting, l *look, holders holders) {
	w.Uint("position", m.position)
	if l.unacked {
		w.Str("state", "unacked")
	} else {
		w.Str("state", "ready")
	}
	w.Bool("redelivered", m.redelivered)
	w.Uint("delivery_count", m.deliveryCount)
	w.Str("exchange", m.exchange)
	w.Str("routing_key", m.key)
	writeProperties(w, m.properties)
	cut := uint64(len(m.payload)) < m.bodyBytes
	payload := m.payload
	if cut && l.auto {
		payload = wholeRunes(payload)
	}
	writePayload(w, payload, l.auto)
	w.Uint("payload_bytes", m.bodyBytes)
	w.Bool("truncated", cut)
	w.Null("enqueued_at") // queues do not keep it
	if !l.unacked {
		return
	}
	who, known := holders[holder{m.node, m.session, m.consumer}]
	if m.session == 0 || !known {
		w.Null("consumer_tag")
		w.Null("channel")
		return
	}
	w.Str("consumer_tag", who.tag)
	w.Str("channel", who.channel)
}

// wholeRunes cuts off the beginning of a character at the end, which would make a text look binary.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
