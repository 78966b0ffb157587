package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Direct reply-to. A channel that consumes from replyQueue gets an address of its own; messages that it publishes with reply-to replyQueue carry the address instead. What anybody publishes to the
// default exchange with an address as routing key goes straight to that channel, on whatever node it is, without a queue: at most once.

const (
	// replyQueue is the pseudo queue, replyPrefix begins every address.
	replyQueue  = "amq.rabbitmq.reply-to"
	replyPrefix = replyQueue + "."
	// replyBytes is an address without prefix before it is encoded: node, boot counter, session, token.
	replyBytes      = 24 + replyTokenBytes
	replyTokenBytes = 16
	// replyTextBytes is the same encoded.
	replyTextBytes = (replyBytes*8 + 5) / 6
)

// replyAddress names a channel to which replies go. Nobody can guess the token.
type replyAddress struct {
	node    meta.NodeID
	boot    uint64
	session queue.SessionID
	token   [replyTokenBytes]byte
}

func (a *replyAddress) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.node))
	dst = binary.BigEndian.AppendUint64(dst, a.boot)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.session))
	return append(dst, a.token[:]...)
}

// String is the address as clients see it.
func (a *replyAddress) String() string {
	return replyPrefix + base64.RawURLEncoding.EncodeToString(a.append(nil))
}

func readReplyAddress(src []byte) (a replyAddress) {
	a.node, a.boot = meta.NodeID(binary.BigEndian.Uint64(src)), binary.BigEndian.Uint64(src[8:])
	a.session = queue.SessionID(binary.BigEndian.Uint64(src[16:]))
	copy(a.token[:], src[24:])
	return a
}

// parseReplyAddress reads an address; false if name is none.
func parseReplyAddress(name []byte) (a replyAddress, ok bool) {
	if len(name) != len(replyPrefix)+replyTextBytes || string(name[:len(replyPrefix)]) != replyPrefix {
		return a, false
	}
	var raw [replyBytes]byte
	if n, err := base64.RawURLEncoding.Strict().Decode(raw[:], name[len(replyPrefix):]); err != nil || n != replyBytes {
		return a, false
	}
	return readReplyAddress(raw[:]), true
}

// isReplyName tells whether a queue's name stands for the pseudo queue or an address.
func isReplyName(name string) bool { return name == replyQueue || strings.HasPrefix(name, replyPrefix) }

// replyConsumer is the consumer of replies of a channel. It does not change.
type replyConsumer struct {
	tag     string
	address replyAddress
	// text is the address, prefix the front of its deliver frames.
	text   string
	prefix []byte
}

// replyConsumers finds the channels of this node that take replies.
type replyConsumers struct {
	mu       sync.Mutex
	channels map[queue.SessionID]*channel
}

func (r *replyConsumers) put(id queue.SessionID, ch *channel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.channels == nil {
		r.channels = make(map[queue.SessionID]*channel)
	}
	r.channels[id] = ch
}

func (r *replyConsumers) remove(id queue.SessionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.channels, id)
}

func (r *replyConsumers) at(id queue.SessionID) *channel {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.channels[id]
}

// consumeReplies makes the channel take replies.
func (ch *channel) consumeReplies(m *amqp.BasicConsume) error {
	b := ch.c.b
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case ch.state != chanOpen:
		return nil
	case !m.NoAck:
		return errReplyAck()
	case ch.replies != nil:
		return errReplyTwice()
	}
	if m.ConsumerTag == "" {
		m.ConsumerTag = serverName("amq.ctag")
	}
	r := &replyConsumer{tag: m.ConsumerTag, prefix: deliverPrefix(ch.number, m.ConsumerTag)}
	r.address = replyAddress{node: b.host.Node(), boot: b.host.Boot().Counter, session: ch.session.ID()}
	_, _ = rand.Read(r.address.token[:])
	r.text = r.address.String()
	ch.replies = r
	b.replies.put(r.address.session, ch)
	if !m.NoWait {
		ch.c.send(ch.number, &amqp.BasicConsumeOk{ConsumerTag: r.tag})
	}
	return nil
}

// dropReplies ends the consumer of replies, if there is one. Called with ch.mu held.
func (ch *channel) dropReplies() {
	if ch.replies != nil {
		ch.c.b.replies.remove(ch.replies.address.session)
		ch.replies = nil
	}
}

// nameReplies puts the channel's address in the place of the pseudo queue in reply-to of the message in the making. All other octets of the properties stay.
func (ch *channel) nameReplies() error {
	if name, _ := ch.w.view.ReplyTo(); string(name) != replyQueue {
		return nil
	}
	ch.mu.Lock()
	r := ch.replies
	ch.mu.Unlock()
	if r == nil {
		return errNoReplyConsumer()
	}
	ch.replaceProperties(ch.w.view.AppendReplyTo(nil, r.text), nil)
	return nil
}

// findReplies leaves the addresses in ch.w.replies that a message to the default exchange goes to.
func (ch *channel) findReplies(exchangeName []byte, copies []string) {
	w := ch.w
	w.replies = w.replies[:0]
	if len(exchangeName) > 0 {
		return
	}
	p := &ch.publishing
	if a, ok := parseReplyAddress(p.env.b[p.routeFrom : p.properties-4]); ok {
		w.replies = append(w.replies, a)
	}
	for _, key := range copies {
		if a, ok := parseReplyAddress([]byte(key)); ok && !slices.Contains(w.replies, a) {
			w.replies = append(w.replies, a)
		}
	}
}

// sendReplies sends a message to addresses. Whether it arrives nobody knows.
func (b *Broker) sendReplies(to []replyAddress, env []byte) {
	for i := range to {
		a := &to[i]
		switch {
		case a.node == b.host.Node():
			b.takeReply(a, env)
		case b.teller != nil && len(env) <= limits.ReplyBetweenNodesBytesMax:
			payload := a.append(append(make([]byte, 0, 1+replyBytes+len(env)), toldReply))
			b.teller.TellNode(a.node, append(payload, env...))
		default:
			b.log.Warn("a reply is too large to go to another node and is dropped", "bytes", len(env))
		}
	}
}

// takeReply hands a reply to the channel that it is for, if that takes it. env is copied as far as it is kept.
func (b *Broker) takeReply(a *replyAddress, env []byte) {
	if ch := b.replyChannel(a); ch != nil {
		ch.deliverReply(a, env)
	}
}

// replyChannel returns the channel of this node that an address may name, nil if there is none.
func (b *Broker) replyChannel(a *replyAddress) *channel {
	if a.boot != b.host.Boot().Counter {
		return nil
	}
	return b.replies.at(a.session)
}

// takes tells whether the channel has the address. Called with ch.mu held.
func (ch *channel) takes(a *replyAddress) bool {
	return ch.state == chanOpen && ch.replies != nil && subtle.ConstantTimeCompare(ch.replies.address.token[:], a.token[:]) == 1
}

// deliverReply appends a reply to the output, unless too much waits there.
func (ch *channel) deliverReply(a *replyAddress, env []byte) {
	defer ch.c.guard()
	e, err := ParseEnvelope(env)
	if err != nil {
		return
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.takes(a) {
		return
	}
	o := &ch.c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed || o.replies > 0 && o.replies+len(env) > limits.ReplyBacklogBytesMax {
		return
	}
	before := ch.stats
	body := e.Body
	if len(body) > bodyCopyMax {
		body = bytes.Clone(body) // the output keeps a reference
	}
	properties := e.Properties
	if len(properties)+headerFrameOverhead > int(ch.c.frameMax) {
		properties = ch.withoutHeaders(properties)
	}
	ch.appendDeliver(ch.replies.prefix, ch.unacked.skip(), false, env[:2+len(e.Exchange)+len(e.RoutingKey)])
	o.appendContent(ch.number, properties, body, ch.c.frameMax)
	o.replies += len(env)
	ch.stats.deliveredNoAck++
	ch.c.b.totals.deliveredSince(&before, &ch.stats)
	ch.c.wakeLocked()
}

// declareReplies answers a declaration of the pseudo queue or an address: there is one consumer, or nothing.
func (ch *channel) declareReplies(m *amqp.QueueDeclare) error {
	ok := amqp.QueueDeclareOk{Queue: m.Queue, ConsumerCount: 1}
	notFound := errNotFound(queueResource(ch.c.vhost, m.Queue))
	a, isAddress := parseReplyAddress([]byte(m.Queue))
	b := ch.c.b
	switch {
	case m.Queue == replyQueue || isAddress && a.node == b.host.Node() && b.hasReplies(&a):
		ch.replyUnless(m.NoWait, &ok)
		return nil
	case !isAddress || b.teller == nil || a.node == b.host.Node():
		return notFound
	}
	ch.async(func(ctx context.Context) error {
		answer, err := b.teller.AskTold(ctx, a.node, a.append([]byte{toldReply}))
		if err != nil || len(answer) != 1 || answer[0] == 0 {
			return notFound
		}
		ch.replyUnless(m.NoWait, &ok)
		return nil
	})
	return nil
}

// hasReplies tells whether an address of this node is one of a channel that takes replies.
func (b *Broker) hasReplies(a *replyAddress) bool {
	ch := b.replyChannel(a)
	if ch == nil {
		return false
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.takes(a)
}

// toldOfReply takes a reply from another node.
func (b *Broker) toldOfReply(payload []byte) {
	if len(payload) > replyBytes {
		a := readReplyAddress(payload)
		b.takeReply(&a, payload[replyBytes:])
	}
}

// asked answers another node's question for a channel that takes replies, or for a copy of a history.
func (b *Broker) asked(question []byte) []byte {
	if len(question) > 0 && question[0] == toldRecall {
		return codec.AppendBool(nil, b.askedToRecall(question[1:]))
	}
	if len(question) != 1+replyBytes || question[0] != toldReply {
		return nil
	}
	a := readReplyAddress(question[1:])
	return codec.AppendBool(nil, b.hasReplies(&a))
}
