package broker

import (
	"context"
	"slices"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// ChannelOpen on an open channel is an error of the connection.
func (ch *channel) ChannelOpen(amqp.ChannelOpen) error { return errChannelOpened() }

// ChannelClose ends the channel. close-ok comes when its queues have the unacked messages back.
func (ch *channel) ChannelClose(amqp.ChannelClose) error {
	ch.handOver()
	ch.touchSession()
	ch.startEnd(chanLeaving, true)
	return nil
}

// ChannelCloseOk answers nothing that was asked here, which is an error of the connection as in RabbitMQ.
func (ch *channel) ChannelCloseOk(amqp.ChannelCloseOk) error {
	return amqp.Errorf(amqp.ReplyCommandInvalid, "unimplemented method")
}

// ChannelFlow stops or starts deliveries: only starting is served, as in RabbitMQ.
func (ch *channel) ChannelFlow(m amqp.ChannelFlow) error {
	if !m.Active {
		return errUnimplemented("active=false")
	}
	ch.reply(&amqp.ChannelFlowOk{Active: true})
	return nil
}

// ChannelFlowOk answers nothing that was asked here.
func (ch *channel) ChannelFlowOk(amqp.ChannelFlowOk) error { return nil }

// AccessRequest is left from AMQP 0-8; every ticket is 1.
func (ch *channel) AccessRequest(amqp.AccessRequest) error {
	ch.reply(&amqp.AccessRequestOk{Ticket: 1})
	return nil
}

// fail closes the channel with an error. It may be called by anybody that holds no lock.
func (ch *channel) fail(e *amqp.Error) {
	ch.mu.Lock()
	if ch.state != chanOpen {
		ch.mu.Unlock()
		return
	}
	ch.appendConfirms() // what was stored before the error is confirmed
	ch.state = chanFailed
	ch.setGate()
	m := e.ChannelClose()
	ch.c.send(ch.number, &m)
	ch.mu.Unlock()
	ch.c.b.log.Info("closing a channel because of an error", "connection", ch.c.name(), "channel", ch.number, "error", e.Error())
	ch.startEnd(chanFailed, false)
}

// startEnd ends the channel's session, once: in the background, unless the caller is an executor and there is nothing to wait for. It may be called by
// anybody that holds no lock.
func (ch *channel) startEnd(state chanState, inline bool) {
	ch.mu.Lock()
	if ch.ending {
		if state == chanClosed && ch.state != chanClosed {
			ch.state = chanClosed
			ch.setGate()
		}
		ch.mu.Unlock()
		return
	}
	if state == chanLeaving && ch.state == chanOpen {
		ch.appendConfirms()
	}
	ch.ending = true
	ch.state = max(ch.state, state)
	ch.setGate()
	served := len(ch.sources) > 0
	ch.tx.clear(ch.c)
	ch.dropReplies()
	ch.backlog, ch.setAside = nil, 0
	ch.mu.Unlock()
	ch.c.signal()
	if inline && !served {
		ch.endSession()
		ch.afterEnd()
		return
	}
	go ch.end(served)
}

// end is startEnd's goroutine for a channel that got messages: what is in the output is written first, so that queues learn exactly what the client was
// sent, then they take back the rest.
func (ch *channel) end(served bool) {
	defer ch.c.guard()
	if served {
		ch.c.flushed(flushMax)
	}
	left := ch.endSession()
	if left != nil {
		t := time.NewTimer(settleDownMax)
		select {
		case <-left:
		case <-t.C:
		}
		t.Stop()
	}
	ch.retireLeft()
	ch.afterEnd()
}

// retireLeft is retire for the consumers that the channel had when it ended.
func (ch *channel) retireLeft() {
	var queues []meta.QueueID
	ch.mu.Lock()
	for _, cons := range ch.consumers {
		if q := cons.src.queue; q.AutoDelete && !q.Exclusive && !slices.Contains(queues, q.ID) {
			queues = append(queues, q.ID)
		}
	}
	ch.mu.Unlock()
	if len(queues) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), settleDownMax)
		defer cancel()
		ch.retire(ctx, queues...)
	}
}

// awaitLeaving waits until the end of the session is on the way to its queues.
func (ch *channel) awaitLeaving() {
	t := time.NewTimer(flushMax)
	defer t.Stop()
	select {
	case <-ch.leaving:
	case <-t.C:
	}
}

// flushMax is how long a channel that ends waits for its deliveries to be written. A client that does not read gets no longer.
const flushMax = 2 * time.Second

// endSession closes the session and returns what will be closed when all its queues have answered, nil if there is nothing to wait for.
func (ch *channel) endSession() chan struct{} {
	ch.session.Flush()
	written := make(map[meta.QueueID]uint64)
	ch.mu.Lock()
	for id, s := range ch.sources {
		written[id] = s.written
	}
	ch.mu.Unlock()
	queues := ch.session.Close(func(q meta.QueueID) uint64 { return written[q] }, tokenClose)
	close(ch.leaving)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.closesLeft += len(queues)
	ch.closesKnown = true
	if ch.closesLeft <= 0 {
		return nil
	}
	ch.closed = make(chan struct{})
	return ch.closed
}

// closeAnswered notes that one queue has ended the session. Called with ch.mu held.
func (ch *channel) closeAnswered() {
	ch.closesLeft--
	if ch.closesKnown && ch.closesLeft == 0 && ch.closed != nil {
		close(ch.closed)
	}
}

// afterEnd answers the client that closed the channel, and frees what it held.
func (ch *channel) afterEnd() {
	ch.mu.Lock()
	leaving := ch.state == chanLeaving
	ch.unacked = span[unacked]{}
	for _, cons := range ch.consumers {
		ch.c.giveWindow(cons.window)
		ch.tellConsumerGone(cons)
	}
	ch.sources, ch.recentSource, ch.consumers, ch.byTag, ch.recentConsumer = nil, nil, nil, nil, nil
	ch.mu.Unlock()
	ch.bodyEnded()
	ch.c.b.totals.channelsClosed.Add(1)
	ch.tellClosed()
	if leaving {
		ch.release()
		ch.c.send(ch.number, &amqp.ChannelCloseOk{})
	}
	close(ch.ended)
}
