package broker

import (
	"encoding/binary"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// source is a queue as far as a channel gets messages from it. Deliveries of a queue to a session are numbered d = 1, 2, 3...
type source struct {
	ch    *channel
	queue *meta.Queue

	// Guarded by outbox.mu: the last d in the output, the bytes of all of them, and the d of a basic.get whose answer is not in the output yet, 0 if none.
	appended, bytes, held uint64
	touched               bool // stands in outbox.touched

	// Guarded by channel.mu.
	written, drained, drainedBytes uint64 // the last d in the socket, the last one that the queue was told of
	noAck                          uint64 // the last d that needs no acknowledgement
	unsettled                      int    // unacked deliveries
	part                           part   // of a prefetch for the whole channel
	open                           bool   // the queue has the session: it can be given credit
	windowBytes                    uint32 // the smallest of its consumers
	lagging                        bool   // stands in lag.sources
	gone                           bool   // the queue was deleted

	// Of the executor: settlements that are not submitted.
	runFrom, runTo uint64
	runOutcome     queue.Outcome
}

// complete is how far the output has the source's deliveries without a hole. Called with outbox.mu held.
func (s *source) complete() uint64 {
	if s.held != 0 && s.held <= s.appended {
		return s.held - 1
	}
	return s.appended
}

// unacked is a delivery that the client has to settle. The d of the answer to a basic.get has gotMark. Without a source it was taken back: see late.
type unacked struct {
	d     uint64
	src   *source
	bytes uint32 // of the body, 0 for basic.get
}

// gotMark tells apart in unacked.d what the prefetch of a channel does not count.
const gotMark = 1 << 63

// source returns the source for a queue, making it. Called with ch.mu held.
func (ch *channel) source(q *meta.Queue) *source {
	src := ch.sources[q.ID]
	if src == nil {
		src = &source{ch: ch, queue: q, part: part{queue: q.ID}}
		if ch.sources == nil {
			ch.sources = make(map[meta.QueueID]*source)
		}
		ch.sources[q.ID] = src
	}
	return src
}

// known returns the source for a queue that the channel consumes or gets from, nil if it does not. Called with ch.mu held.
func (ch *channel) known(q meta.QueueID) *source {
	if ch.recentSource == nil || ch.recentSource.queue.ID != q {
		ch.recentSource = ch.sources[q]
	}
	return ch.recentSource
}

// Deliver implements quorum.Receiver: messages for consumers become frames, the message of a basic.get is kept for its completion.
func (ch *channel) Deliver(q meta.QueueID, deliveries []quorum.Delivery) {
	defer ch.c.guard()
	c := ch.c
	ch.mu.Lock()
	defer ch.mu.Unlock()
	src := ch.known(q)
	if src == nil || ch.state != chanOpen {
		return // what is not written returns when the session closes
	}
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed {
		return
	}
	before := ch.stats
	for i := range deliveries {
		d := &deliveries[i]
		if d.Consumer == 0 {
			ch.keepGot(src, d)
			continue
		}
		cons := ch.consumer(d.Consumer)
		switch {
		case cons == nil:
		case !cons.noAck && ch.share.full():
			ch.returnSurplus(src, d)
		default:
			ch.deliver(cons, src, d)
		}
	}
	c.b.totals.deliveredSince(&before, &ch.stats)
	if !src.touched {
		src.touched = true
		o.touched = append(o.touched, src)
	}
	c.wakeLocked()
}

// deliver appends one message for a consumer. Called with ch.mu and outbox.mu held.
func (ch *channel) deliver(cons *consumer, src *source, d *quorum.Delivery) {
	e, err := ParseEnvelope(d.Envelope)
	if err != nil {
		ch.c.b.log.Error("a message cannot be delivered", "queue", src.queue.Name, "position", uint64(d.Seq), "error", err)
		return
	}
	if !cons.announced {
		ch.announce(cons)
	}
	tag := ch.tag(src, d, len(e.Body), cons.noAck)
	ch.appendDeliver(cons.prefix, tag, d.Redelivered, d.Envelope[:2+len(e.Exchange)+len(e.RoutingKey)])
	ch.c.out.appendContent(ch.number, ch.shownProperties(src, e.Shown(), d), e.Body, ch.c.frameMax)
	if ch.c.b.notices.traced.Load() != nil {
		ch.traceDelivery(src.queue, &e, d.Redelivered)
	}
	src.appended = d.D
	src.bytes += uint64(len(e.Body))
	if d.Redelivered {
		ch.stats.redelivered++
	}
	if cons.noAck {
		ch.stats.deliveredNoAck++
	} else {
		ch.stats.delivered++
	}
}

// appendDeliver appends the method frame of a delivery; names are exchange and routing key as short strings. Called with outbox.mu held.
func (ch *channel) appendDeliver(prefix []byte, tag uint64, redelivered bool, names []byte) {
	buf := ch.c.out.room()
	b := append(buf.b, prefix...)
	start := len(b) - len(prefix)
	b = binary.BigEndian.AppendUint64(b, tag)
	b = append(b, boolOctet(redelivered))
	b = append(b, names...)
	binary.BigEndian.PutUint32(b[start+3:], uint32(len(b)-start-7))
	buf.b = append(b, amqp.FrameEnd)
}

// tag gives a delivery its tag. Called with ch.mu held.
func (ch *channel) tag(src *source, d *quorum.Delivery, bytes int, noAck bool) uint64 {
	if noAck {
		src.noAck = d.D
		return ch.unacked.skip()
	}
	src.unsettled++
	if d.Consumer == 0 {
		return ch.unacked.put(unacked{d: d.D | gotMark, src: src})
	}
	src.part.charged++
	ch.share.charged++
	ch.unackedBytes += uint64(bytes)
	return ch.unacked.put(unacked{d.D, src, uint32(bytes)})
}

func boolOctet(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// headerFrameOverhead is what a content header frame has around the properties.
const headerFrameOverhead = amqp.FrameOverheadBytes + 12

// shownProperties are the properties as the client sees them: verbatim, unless the message was returned before or they do not fit the client's frames.
func (ch *channel) shownProperties(src *source, properties []byte, d *quorum.Delivery) []byte {
	acquired := src.queue.Type == meta.TypeQuorum && d.AcquiredCount > 0
	if d.DeliveryCount > 0 || acquired || d.Epoch > 0 {
		properties = withCounts(properties, d, acquired)
	}
	if len(properties)+headerFrameOverhead > int(ch.c.frameMax) {
		properties = ch.withoutHeaders(properties)
	}
	return properties
}

// withCounts adds how often its consumers failed before, for queues declared as quorum how often the message was acquired, and for those with a single active consumer the number of its take-over.
func withCounts(properties []byte, d *quorum.Delivery, acquired bool) []byte {
	v, err := amqp.ScanProperties(properties)
	if err != nil {
		return properties
	}
	var headers amqp.Table
	if raw, ok := v.Headers(); ok {
		headers = raw.Table()
	}
	if acquired {
		headers = headers.Set("x-acquired-count", amqp.Int64(int64(d.AcquiredCount)))
	}
	if d.DeliveryCount > 0 {
		headers = headers.Set("x-delivery-count", amqp.Int64(int64(d.DeliveryCount)))
	}
	if d.Epoch > 0 {
		headers = headers.Set("x-consumer-epoch", amqp.Int64(int64(d.Epoch)))
	}
	return v.AppendEdited(nil, 0, headers)
}

// withoutHeaders leaves the headers out: a content header cannot be split, and a frame that is larger than negotiated would end the connection, again and
// again. The client is told by a header of its own.
func (ch *channel) withoutHeaders(properties []byte) []byte {
	v, err := amqp.ScanProperties(properties)
	if err != nil {
		return properties
	}
	ch.c.b.log.Warn("headers of a message do not fit the client's frames and are left out", "connection", ch.c.name(), "frame_max", ch.c.frameMax, "bytes", len(properties))
	return v.AppendEdited(nil, 0, amqp.Table{{Key: "x-headers-omitted", Value: amqp.Int64(int64(len(properties)))}})
}

// Completed implements quorum.Receiver.
func (ch *channel) Completed(q meta.QueueID, done []quorum.Completion) {
	defer ch.c.guard()
	bytes, count, err, finished, revoked := ch.complete(q, done)
	if count > 0 {
		ch.c.answered(bytes, count)
	}
	if finished {
		ch.finish(err)
	}
	if revoked != nil {
		ch.fail(revoked)
	}
}

// complete takes answers: to publishes, whose bytes and number are returned, and to the operation that is under way, which finished says is answered. revoked is an error by which the channel ends.
func (ch *channel) complete(q meta.QueueID, done []quorum.Completion) (bytes, count int64, err error, finished bool, revoked *amqp.Error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for i := range done {
		d := &done[i]
		switch d.Token &^ tokenNumber {
		case tokenPublish:
			bytes += ch.publishAnsweredLocked(d.Token&tokenNumber, d.Reply.Code)
			count++
		case tokenOperation:
			if e, ok := ch.answerLocked(d.Token, d.Reply); ok {
				err, finished = e, true
			}
		case tokenCredit:
			ch.creditAnswered(q, d.Token&tokenNumber, d.Reply)
		case tokenCommit:
			b, n, e, ok := ch.commitAnsweredLocked(d.Reply.Code)
			bytes, count = bytes+b, count+n
			if ok {
				err, finished = e, true
			}
		case tokenAgree:
			b, n := ch.agreement.takeLocked(q, d.Token&tokenNumber, d.Reply.Code)
			bytes, count = bytes+b, count+n
		case tokenClose:
			ch.closeAnswered()
		case tokenRevoke:
			if e := ch.revoked(queue.ConsumerID(d.Token & tokenNumber)); e != nil {
				revoked = e
			}
		}
	}
	ch.wakeConfirms()
	return bytes, count, err, finished, revoked
}

// Gone implements quorum.Receiver.
func (ch *channel) Gone(q meta.QueueID) {
	defer ch.c.guard()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	src := ch.sources[q]
	if src == nil {
		return
	}
	src.gone = true
	delete(ch.sources, q)
	ch.recentSource = nil
	ch.dropShare(src)
	for _, cons := range ch.consumers {
		if cons.src == src {
			ch.cancelled(cons)
		}
	}
}
