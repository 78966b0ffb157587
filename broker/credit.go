package broker

import (
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// What share decides is carried out here: by one goroutine per channel, which lives as long as there is something to tell its queues, so that what they are told comes in the order in which it was decided.

// silentTicks is after how many ticks without an answer a part is lent to others.
const silentTicks = limits.CreditSilentMillis / uint32(tickPeriod/time.Millisecond)

// isLimited tells whether a consumer that starts has nothing of the queue until it is given credit. What the queue has of the session already has its part.
func (ch *channel) isLimited(src *source) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.share.total > 0 && !src.open
}

// joinShare gives a consumer that its queue accepted its part. Called with ch.mu held.
func (ch *channel) joinShare(cons *consumer) {
	src, s := cons.src, &ch.share
	switch {
	case src.open:
		src.part.ask = true // what it said to consumers that are gone it does not say again
	case !src.gone:
		src.open = true
		if s.total == 0 {
			src.part.limit, src.part.held = noLimit, noLimit
		}
		s.parts = append(s.parts, &src.part)
	}
	if s.total > 0 {
		ch.wakeCredit()
	}
}

// leaveShare is joinShare undone. Called with ch.mu held.
func (ch *channel) leaveShare(cons *consumer) {
	if cons.noAck {
		return
	}
	p := &cons.src.part
	if p.takers--; p.takers == 0 {
		ch.share.want(p, 0)
	}
}

// dropShare forgets the part of a queue that is gone. Called with ch.mu held.
func (ch *channel) dropShare(src *source) {
	ch.share.drop(&src.part)
	if ch.share.total > 0 {
		ch.wakeCredit()
	}
}

// discharge takes a delivery off what the prefetch of the channel counts. Called with ch.mu held.
func (ch *channel) discharge(src *source) {
	s := &ch.share
	src.part.charged--
	s.charged--
	if s.total > 0 && (src.gone || s.hungry > 0 && len(s.parts) > 1) {
		ch.creditDue = true
	}
}

// returnSurplus notes that a delivery is to go back unseen: the prefetch was lowered while it was under way, or its queue did not answer for long. Called with ch.mu and outbox.mu held.
func (ch *channel) returnSurplus(src *source, d *quorum.Delivery) {
	src.appended = d.D
	ch.surplus = append(ch.surplus, unacked{d: d.D, src: src})
	ch.wakeCredit()
}

// Ready implements quorum.Receiver.
func (ch *channel) Ready(q meta.QueueID, messages uint64) {
	defer ch.c.guard()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if src := ch.sources[q]; src != nil {
		ch.share.want(&src.part, int(min(messages, noLimit)))
		ch.wakeCredit()
	}
}

// creditAnswered takes the answer to an OpCredit. Called with ch.mu held.
func (ch *channel) creditAnswered(q meta.QueueID, serial uint64, reply queue.Reply) {
	ch.c.credits.Add(-1)
	if src := ch.sources[q]; src != nil {
		ch.share.answered(&src.part, serial, int(min(reply.B, noLimit)))
		ch.wakeCredit()
	}
}

// lookAtShare is the watch's visit. Called with ch.mu held.
func (ch *channel) lookAtShare(now uint32) {
	for _, p := range ch.share.parts {
		if ch.share.isSilent(p, now) {
			ch.wakeCredit()
			return
		}
	}
}

// wakeCredit has a goroutine look at the channel's share. Called with ch.mu held.
func (ch *channel) wakeCredit() {
	if !ch.crediting && ch.state == chanOpen {
		ch.crediting = true
		go ch.giveCredit()
	}
}

// giveCredit tells queues their limits until all know theirs.
func (ch *channel) giveCredit() {
	defer ch.c.guard()
	var cmds []creditCommand
	for {
		if cmds = ch.nextCredits(cmds[:0]); len(cmds) == 0 {
			return
		}
		for i := range cmds {
			if cmds[i].token != 0 {
				ch.c.credits.Add(1)
			}
			// An error means that the queue is gone or the session closed.
			if err := ch.session.Submit(cmds[i].q, &cmds[i].cmd, cmds[i].token); err != nil && cmds[i].token != 0 {
				ch.c.credits.Add(-1)
			}
		}
		ch.session.Flush()
	}
}

// creditCommand is something that a queue is to be told.
type creditCommand struct {
	q     meta.QueueID
	cmd   queue.Command
	token uint64
}

// nextCredits appends what queues are to be told now. If there is nothing the goroutine that asks ends.
func (ch *channel) nextCredits(cmds []creditCommand) []creditCommand {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.state != chanOpen {
		ch.crediting = false
		return nil
	}
	for _, p := range ch.share.changes(ch.c.b.tick.Load()) {
		cmds = append(cmds, creditCommand{p.queue, queue.Command{Op: queue.OpCredit, Limit: uint32(p.limit)}, tokenCredit | p.told})
	}
	if len(ch.surplus) > 0 && ch.share.settled() { // the queues know, so it does not come again
		for _, u := range ch.surplus {
			if !u.src.gone {
				cmds = append(cmds, creditCommand{u.src.queue.ID, queue.Command{Op: queue.OpSettle, Outcome: queue.OutcomeReturnFresh, From: u.d, To: u.d}, 0})
			}
		}
		ch.surplus = nil
	}
	ch.crediting = len(cmds) > 0
	return cmds
}
