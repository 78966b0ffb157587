package broker

import (
	"slices"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// Transactions. A transactional channel holds its publishes and settlements until tx.commit. Then each queue gets its part of them under one number. In one queue all of it takes effect in one step, or
// nothing (queue/tx.go); several queues first agree (agreement.go). commit-ok is sent when all has taken effect; until then the channel is busy and later frames wait.

// tx is what a transactional channel holds. It is guarded by the channel's lock.
type tx struct {
	// n is the number of the present transaction, less one.
	n        queue.TxNumber
	messages []heldMessage
	commands int // of the messages
	// bytes is its share of conn.txBytes.
	bytes int64
	// settlements in order; held are their tags. Deliveries with a tag below floor are all held.
	settlements []heldSettlement
	held        map[uint64]struct{}
	floor       uint64
	// lost says that a message of it could not be taken.
	lost bool
}

// heldMessage is a routed publish.
type heldMessage struct {
	publishing publishing
	command    queue.Command
	targets    []meta.QueueID
	histories  []meta.QueueID
	copies     []string // its further routing keys
	replies    []replyAddress
}

// heldSettlement is an ack, nack or reject of one delivery.
type heldSettlement struct {
	tag     uint64
	outcome queue.Outcome
}

// committing is a commit that its queue has not answered.
type committing struct{ bytes, count int64 }

// TxSelect makes the channel transactional. Doing so again changes nothing.
func (ch *channel) TxSelect(amqp.TxSelect) error {
	if ch.confirming {
		return errConfirmToTx()
	}
	ch.transactional.Store(true)
	ch.reply(&amqp.TxSelectOk{})
	return nil
}

// TxRollback forgets what the channel holds. What was settled is unacked again under its tag.
func (ch *channel) TxRollback(amqp.TxRollback) error {
	if !ch.transactional.Load() {
		return errNotTransactional()
	}
	ch.mu.Lock()
	ch.tx.clear(ch.c)
	ch.mu.Unlock()
	ch.reply(&amqp.TxRollbackOk{})
	return nil
}

// TxCommit has the queues carry out what the channel holds.
func (ch *channel) TxCommit(amqp.TxCommit) error {
	if !ch.transactional.Load() {
		return errNotTransactional()
	}
	messages, runs, n, err := ch.takeTx()
	if err != nil {
		return err
	}
	ch.submitRuns() // what the settlements made room for
	view := ch.c.b.host.Catalogue().View
	left := messages[:0]
	for i := range messages {
		m := &messages[i]
		m.targets, m.histories = stillThere(view, m.targets), stillThere(view, m.histories)
		if p := &m.publishing; ch.c.b.notices.traced.Load() != nil && ch.w.view.Scan(p.encodedProperties()) == nil {
			ch.tracePublish(p, m.copies, m.targets)
		}
		switch {
		case len(m.targets) > 0:
			left = append(left, *m)
		case len(m.histories) > 0:
			if !ch.returnKept(&m.publishing) {
				return nil
			}
			left = append(left, *m)
		case len(m.replies) > 0:
			ch.sentDirectly()
		case !ch.unroutable(&m.publishing):
			return nil
		}
		ch.c.b.sendReplies(m.replies, m.command.Envelope)
	}
	return ch.commit(left, runs, n)
}

// stillThere leaves out the queues that were deleted since the publish.
func stillThere(view *meta.View, queues []meta.QueueID) []meta.QueueID {
	return slices.DeleteFunc(queues, func(q meta.QueueID) bool { return view.QueueByID(q) == nil })
}

// takeTx ends the present transaction and returns what it held.
func (ch *channel) takeTx() (messages []heldMessage, runs []settleRun, n queue.TxNumber, err error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	t := &ch.tx
	for _, s := range t.settlements {
		u := *ch.unacked.at(s.tag)
		ch.unacked.drop(s.tag)
		if u.isLate() && (s.outcome == queue.OutcomeAck || s.outcome == queue.OutcomeDiscard) {
			err = errPartialTx() // somebody else may have it: what is published for it would be there twice
		}
		ch.addToRun(u, s.outcome)
		if s.outcome == queue.OutcomeAck {
			ch.stats.acked++
			ch.c.b.totals.acked.Add(1)
		}
	}
	messages, runs = t.messages, ch.takeRuns()
	if t.lost {
		err = errPartialTx()
	}
	t.n++
	n = t.n
	t.clear(ch.c)
	return messages, runs, n, err
}

// takeRuns returns the settlements that are not submitted.
func (ch *channel) takeRuns() []settleRun {
	runs := append([]settleRun(nil), ch.fullRuns...)
	clear(ch.fullRuns)
	ch.fullRuns = ch.fullRuns[:0]
	for _, s := range ch.runs {
		runs = append(runs, settleRun{s, s.runFrom, s.runTo, s.runOutcome})
		s.runFrom, s.runTo = 0, 0
	}
	clear(ch.runs)
	ch.runs = ch.runs[:0]
	return runs
}

// clear forgets what is held.
func (t *tx) clear(c *conn) {
	c.txBytes.Add(-t.bytes)
	*t = tx{n: t.n}
}

// txPart is what one queue has of a transaction.
type txPart struct {
	queue    meta.QueueID
	commands uint64
}

// parts counts what each queue has of a transaction, those first in which something was settled, and what that is for the limits of the connection.
func parts(messages []heldMessage, runs []settleRun) (list []txPart, k committing) {
	places := make(map[meta.QueueID]int)
	add := func(q meta.QueueID) {
		i, ok := places[q]
		if !ok {
			i = len(list)
			places[q] = i
			list = append(list, txPart{queue: q})
		}
		list[i].commands++
	}
	for i := range runs {
		add(runs[i].src.queue.ID)
	}
	for i := range messages {
		m := &messages[i]
		for _, queues := range [...][]meta.QueueID{m.targets, m.histories} {
			k.count += int64(len(queues))
			k.bytes += int64(len(queues)) * int64(len(m.command.Envelope))
			for _, q := range queues {
				add(q)
			}
		}
	}
	return list, k
}

// commit submits a transaction to its queues.
func (ch *channel) commit(messages []heldMessage, runs []settleRun, n queue.TxNumber) error {
	list, k := parts(messages, runs)
	if len(list) > 1+limits.TxQueuesMax {
		return errTxQueues(1 + limits.TxQueuesMax)
	}
	ch.mu.Lock()
	ch.stats.published += uint64(len(messages))
	ch.mu.Unlock()
	ch.c.inflightBytes.Add(k.bytes)
	ch.c.b.publishes.take(k.bytes)
	ch.c.inflightCount.Add(k.count)
	switch {
	case len(list) == 0:
		ch.reply(&amqp.TxCommitOk{})
	case len(list) == 1:
		ch.commitAlone(messages, runs, n, list[0], k)
	default:
		ch.agree(messages, runs, n, list, k)
	}
	return nil
}

// commitAlone submits a transaction of one queue.
func (ch *channel) commitAlone(messages []heldMessage, runs []settleRun, n queue.TxNumber, part txPart, k committing) {
	ch.begin(resource{}, func(_ *operation, r queue.Reply) error {
		if r.Code != queue.CodeOK {
			return errPartialTx()
		}
		ch.c.send(ch.number, &amqp.TxCommitOk{})
		return nil
	})
	ch.mu.Lock()
	ch.committing = &k
	ch.op.late = errPartialTx()
	ch.mu.Unlock()
	ch.stage(messages, runs, n)
	if err := ch.session.Submit(part.queue, &queue.Command{Op: queue.OpTxCommit, Tx: n, To: part.commands}, tokenCommit); err != nil {
		ch.Completed(part.queue, []quorum.Completion{{Token: tokenCommit, Reply: queue.Reply{Code: codeOf(err)}}})
	}
}

// stage submits the parts of a transaction. An error means that the queue is gone or the session closed: then its commit does not succeed either, or there is nothing to commit to.
func (ch *channel) stage(messages []heldMessage, runs []settleRun, n queue.TxNumber) {
	for i := range messages {
		m := &messages[i]
		m.command.Tx = n
		for _, q := range m.targets {
			_ = ch.session.Submit(q, &m.command, 0)
		}
		forgetExpiration(&m.command)
		for _, q := range m.histories {
			_ = ch.session.Submit(q, &m.command, 0)
		}
	}
	for i := range runs {
		r := &runs[i]
		_ = ch.session.Submit(r.src.queue.ID, &queue.Command{Op: queue.OpTxSettle, Tx: n, Outcome: r.outcome, From: r.from, To: r.to}, 0)
	}
}

// commitAnsweredLocked takes the answer of the queue to a commit: the publishes that are not in flight any more are returned and the operation is answered. A queue that was deleted counts as one that has
// it, as with confirms. Called with ch.mu held; finish must follow if finished.
func (ch *channel) commitAnsweredLocked(code queue.Code) (bytes, count int64, err error, finished bool) {
	k := ch.committing
	ch.committing = nil
	reply := queue.Reply{}
	if code != queue.CodeOK && code != queue.CodeGone {
		reply.Code = queue.CodeRejected
	}
	err, finished = ch.answerLocked(tokenOperation|ch.op.serial, reply)
	return k.bytes, k.count, err, finished
}

// hold keeps the message in the making for the commit.
func (ch *channel) hold(copies []string) error {
	p := &ch.publishing
	m := heldMessage{publishing: *p, targets: slices.Clone(ch.w.targets), histories: slices.Clone(ch.w.histories), replies: slices.Clone(ch.w.replies), copies: copies}
	m.publishing.env = &buffer{b: append([]byte(nil), p.env.b...)}
	m.command = ch.enqueueCommand(&m.publishing)
	m.command.Op = queue.OpTxEnqueue
	commands := max(len(m.targets)+len(m.histories), 1)
	bytes := int64(commands) * int64(len(p.env.b))
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.state != chanOpen {
		return nil
	}
	t := &ch.tx
	if t.commands+commands > limits.TxCommandsMax {
		return errTxCommands(limits.TxCommandsMax)
	}
	if ch.c.txBytes.Add(bytes) > limits.TxBytesMax {
		ch.c.txBytes.Add(-bytes)
		return errTxBytes(limits.TxBytesMax)
	}
	t.bytes += bytes
	t.commands += commands
	t.messages = append(t.messages, m)
	return nil
}

// holds tells whether a delivery was settled in the transaction.
func (t *tx) holds(tag uint64) bool {
	_, ok := t.held[tag]
	return ok
}

// holdSettlements keeps settlements for the commit: of one delivery, or of all up to it. Called with ch.mu held.
func (ch *channel) holdSettlements(tag uint64, multiple bool, outcome queue.Outcome) {
	t := &ch.tx
	if t.held == nil {
		t.held = make(map[uint64]struct{})
	}
	hold := func(tag uint64) {
		t.held[tag] = struct{}{}
		t.settlements = append(t.settlements, heldSettlement{tag, outcome})
	}
	if !multiple {
		hold(tag)
		return
	}
	ch.eachUnsettled(tag, hold)
	t.floor = max(t.floor, tag+1)
}

// eachUnsettled calls f with the tags up to that one that were not settled. Called with ch.mu held.
func (ch *channel) eachUnsettled(tag uint64, f func(tag uint64)) {
	ch.unacked.between(ch.tx.floor, tag, func(n uint64) {
		if !ch.tx.holds(n) {
			f(n)
		}
	})
}
