package broker

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/queue"
)

// BasicAck settles deliveries as done.
func (ch *channel) BasicAck(m amqp.BasicAck) error {
	return ch.settle(m.DeliveryTag, m.Multiple, queue.OutcomeAck)
}

// BasicNack returns or discards deliveries. A return by nack is no failure of the message, as in RabbitMQ 4.3.
func (ch *channel) BasicNack(m amqp.BasicNack) error {
	if m.Requeue {
		return ch.settle(m.DeliveryTag, m.Multiple, queue.OutcomeReturn)
	}
	return ch.settle(m.DeliveryTag, m.Multiple, queue.OutcomeDiscard)
}

// BasicReject returns or discards one delivery. A return by reject counts as a failure.
func (ch *channel) BasicReject(m amqp.BasicReject) error {
	if m.Requeue {
		return ch.settle(m.DeliveryTag, false, queue.OutcomeReturnCounted)
	}
	return ch.settle(m.DeliveryTag, false, queue.OutcomeDiscard)
}

// BasicRecover returns all unacked deliveries of the channel.
func (ch *channel) BasicRecover(m amqp.BasicRecover) error {
	if err := ch.recover(m.Requeue); err != nil {
		return err
	}
	ch.reply(&amqp.BasicRecoverOk{})
	return nil
}

// BasicRecoverAsync is BasicRecover without an answer.
func (ch *channel) BasicRecoverAsync(m amqp.BasicRecoverAsync) error { return ch.recover(m.Requeue) }

func (ch *channel) recover(requeue bool) error {
	if !requeue {
		return errUnimplemented("requeue=false")
	}
	ch.mu.Lock()
	if ch.state == chanOpen {
		ch.eachUnsettled(ch.unacked.last(), func(tag uint64) {
			ch.addToRun(*ch.unacked.at(tag), queue.OutcomeReturn)
			ch.unacked.drop(tag)
		})
	}
	ch.mu.Unlock()
	ch.touch()
	ch.submitRuns()
	return nil
}

// settle ends deliveries by tag: one, all up to it, or with multiple and tag 0 all there are. A tag that is not outstanding is an error, also with
// multiple, but that nothing is outstanding for tag 0 is none.
func (ch *channel) settle(tag uint64, multiple bool, outcome queue.Outcome) error {
	ch.mu.Lock()
	if ch.state != chanOpen {
		ch.mu.Unlock()
		return nil
	}
	count := uint64(0)
	switch {
	case multiple && tag == 0:
		tag = ch.unacked.last()
	case ch.unacked.at(tag) == nil || ch.tx.holds(tag):
		ch.mu.Unlock()
		return errUnknownTag(tag)
	}
	if ch.transactional.Load() {
		ch.holdSettlements(tag, multiple, outcome)
		ch.mu.Unlock()
		return nil
	}
	if multiple {
		ch.unacked.dropThrough(tag, func(u unacked) {
			count++
			ch.addToRun(u, outcome)
		})
	} else {
		u := *ch.unacked.at(tag)
		ch.unacked.drop(tag)
		count = 1
		ch.addToRun(u, outcome)
	}
	if outcome == queue.OutcomeAck {
		ch.stats.acked += count
		ch.c.b.totals.acked.Add(count)
	}
	ch.mu.Unlock()
	ch.touch()
	return nil
}

// addToRun makes a settled delivery part of its source's run: neighbours with one outcome become one command. Called with ch.mu held.
func (ch *channel) addToRun(u unacked, outcome queue.Outcome) {
	if u.isLate() {
		ch.late--
		return
	}
	s := u.src
	d := u.d &^ gotMark
	s.unsettled--
	ch.unackedBytes -= uint64(u.bytes)
	if ch.withheld && !s.isWithheld() {
		ch.withheld, ch.resumeDue = false, true
	}
	if d == u.d {
		ch.discharge(s)
	}
	if s.gone {
		return
	}
	if s.runFrom != 0 {
		if d == s.runTo+1 && outcome == s.runOutcome && d-s.runFrom < limits.SettleRangeMax {
			s.runTo = d
			return
		}
		ch.fullRuns = append(ch.fullRuns, settleRun{s, s.runFrom, s.runTo, s.runOutcome})
	} else {
		ch.runs = append(ch.runs, s)
	}
	s.runFrom, s.runTo, s.runOutcome = d, d, outcome
}

// settleRun is a range of delivery numbers with one outcome.
type settleRun struct {
	src      *source
	from, to uint64
	outcome  queue.Outcome
}

// submitRuns submits what was settled, oldest first. It is called by the executor without a lock.
func (ch *channel) submitRuns() {
	if len(ch.runs) > 0 {
		ch.submitAllRuns()
	}
	if ch.creditDue {
		ch.creditDue = false
		ch.mu.Lock()
		ch.wakeCredit()
		ch.mu.Unlock()
	}
	if ch.resumeDue {
		ch.resumeDue = false
		ch.resume()
	}
}

func (ch *channel) submitAllRuns() {
	for i := range ch.fullRuns {
		ch.submitRun(&ch.fullRuns[i])
	}
	clear(ch.fullRuns)
	ch.fullRuns = ch.fullRuns[:0]
	for i, s := range ch.runs {
		run := settleRun{s, s.runFrom, s.runTo, s.runOutcome}
		s.runFrom, s.runTo = 0, 0
		ch.runs[i] = nil
		ch.submitRun(&run)
	}
	ch.runs = ch.runs[:0]
}

func (ch *channel) submitRun(r *settleRun) {
	cmd := &ch.w.settling
	*cmd = queue.Command{Op: queue.OpSettle, Outcome: r.outcome, From: r.from, To: r.to}
	// An error means that the queue is gone or the session closed: there is nothing left to settle.
	_ = ch.session.Submit(r.src.queue.ID, cmd, 0)
}
