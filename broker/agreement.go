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
)

// agreement is a commit over several queues while it is under way (docs/adr/0013). One of them, the home, decides, the others reserve their parts before that and carry them out afterwards. Where it
// stops, for whatever reason, the channel ends, and the queues find out among themselves what was decided.
type agreement struct {
	ch     *channel
	n      queue.TxNumber
	home   txPart
	others []txPart

	answers chan agreed
	serial  uint64 // of the present step; guarded by the channel's lock
}

// agreed is the answer of one queue.
type agreed struct {
	queue meta.QueueID
	code  queue.Code
}

// agree commits a transaction over several queues, in the background.
func (ch *channel) agree(messages []heldMessage, runs []settleRun, n queue.TxNumber, list []txPart, k committing) {
	a := &agreement{ch: ch, n: n, answers: make(chan agreed, len(list))}
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
		ch.agreement = nil
		ch.mu.Unlock()
		ch.c.answered(k.bytes, k.count)
		ch.finish(err)
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
	home := []txPart{a.home}
	if there, ok := a.step(ctx, home, func(txPart) queue.Command { return queue.Command{Op: queue.OpQuery} }); !ok || len(there) == 0 {
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
	code, answered := queue.CodeOK, false
	a.ask(ctx, []txPart{a.home}, func(txPart) queue.Command { return cmd }, func(x agreed) { code, answered = x.code, true })
	switch {
	case !answered || code == queue.CodeUnavailable || code == queue.CodeGone:
		return errUnknownTx()
	case code != queue.CodeOK:
		return errPartialTx()
	}
	return nil
}

// step has queues carry out a command each. left are those that did; ok is false if one refused, or has not answered in time. A queue that was deleted has its part, as with confirms.
func (a *agreement) step(ctx context.Context, list []txPart, command func(txPart) queue.Command) (left []txPart, ok bool) {
	ok = true
	gone := make(map[meta.QueueID]bool)
	all := a.ask(ctx, list, command, func(x agreed) {
		switch x.code {
		case queue.CodeOK:
		case queue.CodeGone:
			gone[x.queue] = true
		default:
			ok = false
		}
	})
	for _, p := range list {
		if !gone[p.queue] {
			left = append(left, p)
		}
	}
	return left, ok && all
}

// ask submits a command to each of the queues and takes the answers. It returns false if not all came in time.
func (a *agreement) ask(ctx context.Context, list []txPart, command func(txPart) queue.Command, took func(agreed)) bool {
	ch := a.ch
	ch.mu.Lock()
	a.serial++
	token := tokenAgree | a.serial
	ch.mu.Unlock()
	for i := range list {
		cmd := command(list[i])
		if err := ch.session.Submit(list[i].queue, &cmd, token); err != nil {
			a.answers <- agreed{list[i].queue, codeOf(err)}
		}
	}
	ch.session.Flush()
	for range list {
		select {
		case x := <-a.answers:
			took(x)
		case <-ctx.Done():
			return false
		case <-ch.leaving: // nobody waits for it any more
			return false
		}
	}
	return true
}

// take takes the answer of a queue to a step, unless the step is over. Called with ch.mu held.
func (a *agreement) take(q meta.QueueID, serial uint64, code queue.Code) {
	if a != nil && serial == a.serial {
		a.answers <- agreed{q, code} // each queue answers once
	}
}
