package broker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// agreement is a commit over several queues while it is under way (docs/adr/0013). One of them, the home, decides, the others reserve their parts before that and carry them out afterwards. Where it
// stops, for whatever reason, the channel ends, and the queues find out among themselves what was decided.
type agreement struct {
	ch     *channel
	n      queue.TxNumber
	home   txPart
	others []txPart

	answers chan agreed

	// Guarded by the channel's lock: the present step, how many answers to steps are to come, and what is in flight until then. over says that run has ended.
	serial   uint64
	open     int
	inflight committing
	over     bool
}

// agreed is the answer of one queue to a step.
type agreed struct {
	queue  meta.QueueID
	serial uint64
	code   queue.Code
}

// answersPerQueue is how often a queue is asked at most.
const answersPerQueue = 3

// agree commits a transaction over several queues, in the background.
func (ch *channel) agree(messages []heldMessage, runs []settleRun, n queue.TxNumber, list []txPart, k committing) {
	a := &agreement{ch: ch, n: n, answers: make(chan agreed, answersPerQueue*len(list)), inflight: k}
	home := chooseHome(ch.c.b.host.Catalogue().View, list)
	for i := range list {
		if i == home {
			a.home = list[i]
		} else {
			a.others = append(a.others, list[i])
		}
	}
	ch.begin(resource{}, nil)
	ch.mu.Lock()
	ch.agreement = a
	ch.mu.Unlock()
	go func() {
		defer ch.c.guard()
		err := a.run(messages, runs)
		ch.mu.Lock()
		a.over = true
		bytes, count := a.releaseLocked()
		ch.mu.Unlock()
		ch.c.answered(bytes, count)
		if err != nil {
			ch.fail(errAt(err, amqp.MethodTxCommit)) // also with 541, which by itself is for connections: others of its channels have nothing to do with it
		}
		ch.finish(nil)
	}()
}

// chooseHome returns the place of the queue that decides: the first durable one, so one in which something was settled if there is such a one.
func chooseHome(view *meta.View, list []txPart) int {
	for i := range list {
		if q := view.QueueByID(list[i].queue); q != nil && q.Durable {
			return i
		}
	}
	return 0
}

// run takes the steps and answers the client. The error closes the channel.
func (a *agreement) run(messages []heldMessage, runs []settleRun) error {
	ctx, cancel := context.WithTimeout(context.Background(), limits.TxAgreeMillis*time.Millisecond)
	defer cancel()
	ch := a.ch
	ch.stage(messages, runs, a.n)
	// What is staged in the home is there before others reserve anything: after that no more of it is under way, so a home that has neither that nor a decision never decides.
	a.send(append([]txPart{a.home}, a.others...), func(txPart) queue.Command { return queue.Command{Op: queue.OpQuery} })
	if x, ok := a.await(ctx, func(x agreed) bool { return x.queue == a.home.queue }); !ok || x.code != queue.CodeOK {
		return errPartialTx()
	}
	left, ok := a.step(ctx, a.others, func(p txPart) queue.Command {
		return queue.Command{Op: queue.OpTxPrepare, Tx: a.n, To: p.commands, Peer: queue.QueueID(a.home.queue)}
	})
	if !ok {
		return errPartialTx()
	}
	if err := a.decide(ctx, left); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(context.Background(), limits.TxHiddenMillis*time.Millisecond)
	defer cancel()
	finish := func(txPart) queue.Command { return queue.Command{Op: queue.OpTxFinish, Tx: a.n} }
	if _, ok := a.step(ctx, left, finish); !ok {
		return errHiddenTx()
	}
	forget := finish(a.home)
	_ = ch.session.Submit(a.home.queue, &forget, 0) // else the home finds out that the others know
	ch.session.Flush()
	ch.reply(&amqp.TxCommitOk{})
	return nil
}

// decide has the home commit, if it has anything left to agree about with others.
func (a *agreement) decide(ctx context.Context, others []txPart) error {
	cmd := queue.Command{Op: queue.OpTxCommit, Tx: a.n, To: a.home.commands}
	if len(others) > 0 {
		cmd.Op = queue.OpTxDecide
		slices.SortFunc(others, func(a, b txPart) int { return cmp.Compare(a.queue, b.queue) })
		for _, p := range others {
			cmd.Envelope = queue.AppendQueue(cmd.Envelope, queue.QueueID(p.queue))
		}
	}
	a.send([]txPart{a.home}, func(txPart) queue.Command { return cmd })
	x, ok := a.await(ctx, func(agreed) bool { return true })
	committed := x.code == queue.CodeOK
	if ok && x.code == queue.CodeGone { // deleted, before or after: it answers those who ask
		var err error
		committed, err = a.ch.session.AskTx(a.home.queue, a.n)
		ok = err == nil
	}
	switch {
	case !ok || x.code == queue.CodeUnavailable:
		return errUnknownTx()
	case !committed:
		return errPartialTx()
	}
	return nil
}

// step has queues carry out a command each. left are those that did; ok is false if one refused, or has not answered in time. A queue that was deleted has its part, as with confirms.
func (a *agreement) step(ctx context.Context, list []txPart, command func(txPart) queue.Command) (left []txPart, ok bool) {
	a.send(list, command)
	codes := make(map[meta.QueueID]queue.Code, len(list))
	for range list {
		x, ok := a.await(ctx, func(agreed) bool { return true })
		if !ok || x.code != queue.CodeOK && x.code != queue.CodeGone {
			return nil, false
		}
		codes[x.queue] = x.code
	}
	for _, p := range list {
		if codes[p.queue] == queue.CodeOK {
			left = append(left, p)
		}
	}
	return left, true
}

// send begins a step: a command to each of the queues.
func (a *agreement) send(list []txPart, command func(txPart) queue.Command) {
	ch := a.ch
	ch.mu.Lock()
	a.serial++
	a.open += len(list)
	serial := a.serial
	ch.mu.Unlock()
	for i := range list {
		cmd := command(list[i])
		if err := ch.session.Submit(list[i].queue, &cmd, tokenAgree|serial); err != nil {
			ch.Completed(list[i].queue, []quorum.Completion{{Token: tokenAgree | serial, Reply: queue.Reply{Code: codeOf(err)}}})
		}
	}
	ch.session.Flush()
}

// await takes answers to the present step until one is wanted. It returns false if that does not come in time.
func (a *agreement) await(ctx context.Context, wanted func(agreed) bool) (agreed, bool) {
	for {
		select {
		case x := <-a.answers:
			if x.serial == a.serial && wanted(x) {
				return x, true
			}
		case <-ctx.Done():
			return agreed{}, false
		case <-a.ch.leaving: // nobody waits for it any more
			return agreed{}, false
		}
	}
}

// takeLocked takes the answer of a queue to a step and returns what is not in flight any more. Called with ch.mu held.
func (a *agreement) takeLocked(q meta.QueueID, serial uint64, code queue.Code) (bytes, count int64) {
	a.open--
	a.answers <- agreed{q, serial, code} // there is room: each queue answers each step once
	return a.releaseLocked()
}

// releaseLocked returns what was in flight once the agreement is over and all queues have answered: until then they may hold its messages. Called with ch.mu held.
func (a *agreement) releaseLocked() (bytes, count int64) {
	if !a.over || a.open > 0 {
		return 0, 0
	}
	a.ch.agreement = nil
	return a.inflight.bytes, a.inflight.count
}
