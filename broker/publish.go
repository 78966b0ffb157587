package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// publishing is a message in the making. Its envelope grows with the frames that come; it is encoded once and shared by all queues.
type publishing struct {
	env                    *buffer
	properties             int // where the properties begin in env
	body                   int // where the body begins
	carriage               int // how much stands between the properties and the body
	size                   uint64
	mandatory, immediate   bool
	delay                  delay
	exchangeEnd, routeFrom int // env[1:exchangeEnd] is the exchange, env[routeFrom:properties-4] the key
}

// encodedProperties are those of the message.
func (p *publishing) encodedProperties() []byte { return p.env.b[p.properties : p.body-p.carriage] }

// publishCache keeps what the last publish found out, for the next one mostly goes to the same exchange.
type publishCache struct {
	catalogue *quorum.Catalogue
	router    *exchange.VHost
	exchange  []byte
	allowed   bool
	topic     topicGuard
	rate      *exchangeRate
	// What is not yet counted in rate and the broker's totals.
	in, out, toConfirm uint64
}

// count adds what was collected to the counters of the exchange.
func (p *publishCache) count(b *Broker) {
	if p.rate == nil || p.in == 0 {
		return
	}
	p.rate.in.Add(p.in)
	p.rate.out.Add(p.out)
	b.totals.published.Add(p.in)
	b.totals.routed.Add(p.out)
	b.totals.toConfirm.Add(p.toConfirm)
	p.in, p.out, p.toConfirm = 0, 0, 0
}

// BasicPublish handles the method: header and body follow.
func (ch *channel) BasicPublish(m amqp.BasicPublishView) error {
	p := &ch.publishing
	if p.env == nil {
		p.env = getBuffer(&envelopeBuffers, outBytesFirst)
	}
	p.env.b = appendEnvelopeNames(p.env.b[:0], m.Exchange, m.RoutingKey)
	p.exchangeEnd = 1 + len(m.Exchange)
	p.routeFrom = p.exchangeEnd + 1
	p.properties = len(p.env.b) + 4
	p.mandatory, p.immediate, p.carriage = m.Mandatory, m.Immediate, 0
	return nil
}

// publishHeader takes the content header. A body that is too large is refused here, before any of it comes.
func (ch *channel) publishHeader(payload []byte) error {
	h, err := amqp.ParseContentHeader(payload)
	if err != nil {
		return err
	}
	if most := ch.c.b.opt.BodyBytesMax; h.BodySize > uint64(most) {
		ch.dropPublishing()
		return errBodyTooLarge(h.BodySize, most)
	}
	p := &ch.publishing
	if edit := ch.c.b.opt.Intercept; edit != nil {
		h.Properties = edit(h.Properties)
	}
	p.env.b = binary.BigEndian.AppendUint32(p.env.b, uint32(len(h.Properties)))
	p.env.b = append(p.env.b, h.Properties...)
	p.body, p.size = len(p.env.b), h.BodySize
	if p.size > limits.PublishReserveBytes {
		ch.admitBody(int64(p.size))
		p.env.b = slices.Grow(p.env.b, int(p.size)) // it counts whole already: growing with what comes would copy it and leave as much garbage
	}
	return nil
}

// publishBody takes a piece of the body. Bodies that have begun are bounded per connection, but one alone may always end.
func (ch *channel) publishBody(payload []byte) error {
	p := &ch.publishing
	p.env.b = append(p.env.b, payload...)
	if p.size > limits.PublishReserveBytes {
		ch.c.bodyTick.Store(ch.c.b.tick.Load())
	}
	if got := len(p.env.b) - p.body; uint64(got) < p.size {
		total := ch.c.bodyBytes.Add(int64(len(payload)))
		if total > limits.InflightBodyBytesMax && total > int64(got) {
			return errBodiesInFlight(limits.InflightBodyBytesMax)
		}
	} else {
		ch.c.bodyBytes.Add(int64(len(payload)) - int64(got))
	}
	return nil
}

// dropPublishing forgets the message in the making.
func (ch *channel) dropPublishing() {
	ch.bodyEnded()
	p := &ch.publishing
	putBuffer(&envelopeBuffers, p.env, envelopeBytesPooled)
	*p = publishing{}
}

// publish carries out a complete message.
func (ch *channel) publish() error {
	p := &ch.publishing
	if p.immediate && ch.transactional.Load() {
		return errUnimplemented("immediate=true")
	}
	w := ch.w
	if !ch.admitPublish(w) || p.immediate && !ch.c.admitReply(w) {
		return nil
	}
	env := p.env.b
	if err := w.view.Scan(env[p.properties:p.body]); err != nil {
		return err
	}
	exchangeName := env[1:p.exchangeEnd]
	if err := ch.aim(exchangeName); err != nil {
		return err
	}
	if w.view.Flags()&(amqp.FlagUserID|amqp.FlagExpiration|amqp.FlagReplyTo) != 0 {
		if err := ch.checkProperties(&w.view); err != nil {
			return err
		}
	}
	copies, blind, err := carbonCopies(ch.headers())
	if err == nil {
		p.delay, err = delayOf(ch.headers())
	}
	if err == nil {
		err = ch.route(exchangeName, copies)
	}
	if err != nil {
		return err
	}
	if !ch.c.b.leased() {
		if !ch.awaitLease() {
			ch.refuse()
			return nil
		}
		if err := errors.Join(ch.aim(exchangeName), ch.route(exchangeName, copies)); err != nil { // what was heard meanwhile counts
			return err
		}
	}
	if blind {
		ch.hideBCC()
	}
	if ch.c.b.lack()&alarm.DiskFull != 0 {
		ch.refuse()
		return nil
	}
	ch.findReplies(exchangeName, copies)
	return ch.dispatch(exchangeName, copies, blind)
}

// dispatch sends a message on its way that was routed, or holds it for its transaction.
func (ch *channel) dispatch(exchangeName []byte, copies []string, blind bool) error {
	p, w := &ch.publishing, ch.w
	if p.delay.isSet() || w.message.Relayed {
		ch.postpone(exchangeName, copies, blind)
	}
	targets := w.targets
	transactional := ch.transactional.Load()
	if !transactional && ch.c.b.notices.traced.Load() != nil {
		ch.tracePublish(p, copies, targets)
	}
	ch.publishTo.in++
	ch.publishTo.out += uint64(len(targets))
	if ch.confirming {
		ch.publishTo.toConfirm++
	}
	ch.touch()
	if transactional {
		if err := ch.hold(copies); err != nil {
			return err
		}
	} else {
		ch.send(p)
	}
	if cap(p.env.b) > envelopeBytesKept {
		ch.dropPublishing()
	}
	return nil
}

// send gives a message to those that ch.w has found for it, or holds it for its transaction.
func (ch *channel) send(p *publishing) {
	w := ch.w
	switch {
	case len(w.targets) > 0:
		ch.enqueue(w.targets, w.histories)
	case len(w.histories) > 0:
		if !ch.returnKept(p) {
			return
		}
		ch.enqueue(nil, w.histories)
	case len(w.replies) > 0:
		ch.sentDirectly()
	default:
		ch.unroutable(p)
	}
	ch.c.b.sendReplies(w.replies, p.env.b)
}

// returnKept returns a message that was mandatory and goes to a history only, or counts it as dropped. False: the connection has ended.
func (ch *channel) returnKept(p *publishing) bool {
	if !p.mandatory {
		ch.c.b.totals.dropped.Add(1)
	} else if !ch.c.admitReply(ch.w) {
		return false
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case ch.state != chanOpen:
	case p.mandatory:
		ch.appendReturn(amqp.ReplyNoRoute, bytes.Clone(p.env.b))
	default:
		ch.stats.dropped++
	}
	return true
}

// route finds the queues of the message in the making and leaves them in ch.w.targets and ch.w.histories. One that is for those who are there at once is not kept.
func (ch *channel) route(exchangeName []byte, copies []string) error {
	p, w := &ch.publishing, ch.w
	m := &w.message
	*m = exchange.Message{Copies: copies, Properties: &w.view, Histories: w.histories[:0], Delayed: p.delay.isSet()}
	targets, reason := ch.publishTo.router.Route(exchangeName, p.env.b[p.routeFrom:p.properties-4], m, w.targets[:0])
	w.targets, w.histories = targets, m.Histories
	if p.immediate {
		w.histories = w.histories[:0]
	}
	if ch.publishTo.topic.pattern != nil && reason == exchange.OK {
		if err := ch.mayPublish(exchangeName, p.env.b[p.routeFrom:p.properties-4], copies); err != nil {
			return err
		}
	}
	switch {
	case reason == exchange.NoExchange || reason == exchange.NoVHost:
		return errNotFound(exchangeResource(ch.c.vhost, string(exchangeName)))
	case reason == exchange.Internal:
		return errInternalExchange(exchangeResource(ch.c.vhost, string(exchangeName)))
	case len(targets) > limits.TargetsPerPublishMax:
		return errTargetsMax(len(targets), limits.TargetsPerPublishMax)
	}
	return nil
}

func (ch *channel) headers() amqp.RawTable {
	h, _ := ch.w.view.Headers()
	return h
}

// aim checks that the client may publish to the exchange, from memory where the catalogue is as it was.
func (ch *channel) aim(name []byte) error {
	p := &ch.publishTo
	if cat := ch.c.b.host.Catalogue(); cat != p.catalogue {
		p.catalogue, p.router, p.allowed = cat, cat.Router.VHost(ch.c.vhost), false
	}
	if p.allowed && bytes.Equal(name, p.exchange) {
		return nil
	}
	p.count(ch.c.b)
	p.allowed = false
	what := string(name)
	if p.router == nil {
		return errNotFound(exchangeResource(ch.c.vhost, what))
	}
	if err := ch.may(meta.Write, exchangeResource(ch.c.vhost, what)); err != nil {
		return err
	}
	x := p.catalogue.View.Exchange(ch.c.vhost, what)
	switch {
	case x == nil && ch.awaitsLease(): // as findQueue
		return ch.aim(name)
	case x == nil:
		return errNotFound(exchangeResource(ch.c.vhost, what))
	}
	p.topic = topicGuard{pattern: ch.access.current(ch.c).Topic(meta.Write, x), last: p.topic.last[:0]}
	p.exchange = append(p.exchange[:0], name...)
	p.rate = ch.c.b.rates.at(ch.c.vhost, what)
	p.allowed = true
	return nil
}

// checkProperties judges the properties that the broker answers for.
func (ch *channel) checkProperties(v *amqp.PropertyView) error {
	if id, ok := v.UserID(); ok && string(id) != ch.c.user && !ch.c.impersonates() {
		return errUserID(id, ch.c.user)
	}
	if text, ok := v.Expiration(); ok {
		if problem := expirationProblem(text); problem != "" {
			return errExpiration(text, problem)
		}
	}
	if v.Flags()&amqp.FlagReplyTo != 0 {
		return ch.nameReplies()
	}
	return nil
}

// impersonates tells whether the connection's user may publish in the name of others. It is asked rarely, so a changed tag counts at once.
func (c *conn) impersonates() bool {
	u := c.b.host.Catalogue().View.User(c.user)
	return u != nil && u.HasTag("impersonator")
}

// expirationMillisMax is the longest time to live, ten years.
const expirationMillisMax = 10 * 365 * 24 * 3600 * 1000

// expirationProblem tells in RabbitMQ's words what is wrong with an expiration, empty if nothing is.
func expirationProblem(text []byte) string {
	n, digits := 0, text
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	if n == 0 {
		return "no_integer"
	}
	if n < len(digits) {
		return `{leftover_string,"` + string(digits[n:]) + `"}`
	}
	millis, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case text[0] == '-' && string(digits) != "0" || millis < 0:
		return "{value_negative," + string(text) + "}"
	case err != nil || millis > expirationMillisMax:
		return "{value_too_large," + string(text) + "}"
	}
	return ""
}

// carbonCopies returns the further routing keys of a message, those in its headers CC and BCC, and whether it has a BCC, which nobody may see.
func carbonCopies(headers amqp.RawTable) (keys []string, blind bool, err error) {
	for _, name := range [...]string{"CC", "BCC"} {
		v, ok := headers.Lookup(name)
		if !ok {
			continue
		}
		array, isArray := v.Value().AsArray()
		if !isArray {
			return nil, false, errHeaderType(name, v.Tag().String())
		}
		for _, key := range array {
			if text, ok := key.AsString(); ok {
				keys = append(keys, text)
			}
		}
		blind = name == "BCC"
	}
	return keys, blind, nil
}

// withoutBCC returns the properties of a message without its header BCC.
func withoutBCC(v *amqp.PropertyView) []byte {
	headers, _ := v.Headers()
	left := headers.Table().Without("BCC")
	if left == nil {
		left = amqp.Table{} // an empty table stays one
	}
	return v.AppendEdited(nil, 0, left)
}

// hideBCC takes the header BCC out of the message in the making.
func (ch *channel) hideBCC() {
	ch.replaceProperties(withoutBCC(&ch.w.view), nil)
}

// replaceProperties gives the message in the making other properties and a carriage, if that is not nil.
func (ch *channel) replaceProperties(properties, carriage []byte) {
	p := &ch.publishing
	body := p.env.b[p.body:]
	env := append([]byte(nil), p.env.b[:p.properties-4]...)
	env = binary.BigEndian.AppendUint32(env, uint32(len(properties)))
	env = append(env, properties...)
	if p.carriage = 0; carriage != nil {
		env = appendCarriage(env, p.properties, carriage)
		p.carriage = 4 + len(carriage)
	}
	p.body = len(env)
	p.env.b = append(env, body...)
	_ = ch.w.view.Scan(p.encodedProperties())
}

// enqueue submits the message to its queues and to the histories that keep it.
func (ch *channel) enqueue(targets, histories []meta.QueueID) {
	p, w := &ch.publishing, ch.w
	cmd := &w.command
	*cmd = ch.enqueueCommand(p)
	var kept []byte // to be returned, if need be
	if p.immediate {
		cmd.Flags |= queue.FlagImmediate
		kept = bytes.Clone(p.env.b)
	}
	if cmd.Flags&queue.FlagDedup != 0 {
		w.submitSettled()
	}
	token := tokenPublish | ch.expectAnswers(len(p.env.b), len(targets)+len(histories), kept)
	for i := range len(targets) + len(histories) {
		var q meta.QueueID
		if i < len(targets) {
			q = targets[i]
		} else {
			q = histories[i-len(targets)]
			forgetExpiration(cmd)
		}
		if i > 0 && !ch.publishRoom() { // a message may go to many queues
			ch.touch()
			if !ch.admitPublish(w) {
				return
			}
		}
		ch.c.inflightBytes.Add(int64(len(p.env.b)))
		ch.c.b.publishes.take(int64(len(p.env.b)))
		ch.c.inflightCount.Add(1)
		if err := ch.session.Submit(q, cmd, token); err != nil {
			ch.publishAnswered(token&tokenNumber, codeOf(err))
		}
	}
	cmd.Envelope = nil
	ch.touch()
}

// enqueueCommand is the command for a message whose properties are in ch.w.view.
func (ch *channel) enqueueCommand(p *publishing) queue.Command {
	cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: uint32(p.size), Envelope: p.env.b}
	quorum.Describe(&cmd, &ch.w.view)
	p.delay.addTo(&cmd)
	return cmd
}

// awaitLease holds a publish back while the node may not trust its view of the catalogue (PROTOCOL 5); false: for longer than a publish may take.
func (ch *channel) awaitLease() bool {
	b := ch.c.b
	deadline := b.tick.Load() + ticks(b.opt.PublishTimeout)
	ch.c.await(ch.w, func() bool { return b.leased() || int32(b.tick.Load()-deadline) >= 0 })
	return b.leased()
}

// refuse nacks the message in the making: it is not known to be stored.
func (ch *channel) refuse() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.stats.published++
	if ch.state == chanOpen {
		ch.tx.lost = ch.transactional.Load()
		ch.confirmed(ch.confirm.publishes.skip(), false)
		ch.wakeConfirms()
	}
}

// unroutable returns or drops a message that no queue gets; either way it is confirmed. False: the connection has ended.
func (ch *channel) unroutable(p *publishing) bool {
	c := ch.c
	if !p.mandatory && !p.immediate {
		c.b.totals.dropped.Add(1)
	} else if !c.admitReply(ch.w) {
		return false
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.stats.published++
	if ch.state != chanOpen {
		return false
	}
	switch {
	case p.mandatory:
		ch.appendReturn(amqp.ReplyNoRoute, bytes.Clone(p.env.b))
	case p.immediate:
		ch.appendReturn(amqp.ReplyNoConsumers, bytes.Clone(p.env.b))
	default:
		ch.stats.dropped++
	}
	ch.confirmed(ch.confirm.publishes.skip(), true)
	ch.wakeConfirms()
	return true
}

// sentDirectly confirms a message that goes to replies and to no queue.
func (ch *channel) sentDirectly() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.stats.published++
	if ch.state == chanOpen {
		ch.confirmed(ch.confirm.publishes.skip(), true)
		ch.wakeConfirms()
	}
}

// appendReturn appends a message to the output as basic.return. The output may keep a reference to it. Called with ch.mu held.
func (ch *channel) appendReturn(code uint16, envelope []byte) {
	c := ch.c
	ch.stats.returned++
	c.b.totals.returned.Add(1)
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	e, err := ParseEnvelope(envelope)
	if err != nil || o.sealed {
		return
	}
	m := amqp.BasicReturn{ReplyCode: code, ReplyText: amqp.ReplyName(code), Exchange: string(e.Exchange), RoutingKey: string(e.RoutingKey)}
	buf := o.room()
	buf.b = m.AppendFrame(buf.b, ch.number)
	before := len(buf.b)
	o.appendContent(ch.number, e.Properties, e.Body, c.frameMax)
	o.replies += len(o.buf.b) - before + len(e.Body)
	c.wakeLocked()
}
