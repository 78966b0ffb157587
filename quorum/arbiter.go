package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// arbiter ends the transactions over several queues that their channels have left open in one queue, as long as this node leads it (docs/adr/0013): it asks the home of what is reserved, and tells
// others of what was decided here. What it does may be done twice or by two: the machines decide. It looks at all that is open again and again, so that no failure has to be remembered.
type arbiter struct {
	host  *Host
	run   runner
	leads func() bool

	mu   sync.Mutex
	busy map[queue.QueueID]bool // a goroutine speaks with that queue
}

func newArbiter(h *Host, run runner, leads func() bool) *arbiter {
	return &arbiter{host: h, run: run, leads: leads, busy: make(map[queue.QueueID]bool)}
}

// look is called every limits.ProgressMillis, and when a session left a transaction open. It returns at once.
func (a *arbiter) look() {
	r := a.run.core()
	r.mu.Lock()
	open := r.m.OpenTxs(nil)
	r.mu.Unlock()
	if len(open) == 0 || mutant == mutantOpenTxsForgotten {
		return
	}
	now := a.host.clock.nowMillis()
	with := make(map[queue.QueueID][]queue.OpenTx)
	for _, t := range open {
		if !t.Orphan && now-t.SinceMillis < limits.TxAskMillis {
			continue
		}
		if t.Home != 0 {
			with[t.Home] = append(with[t.Home], t)
		}
		for _, q := range t.Left {
			with[q] = append(with[q], t)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for q, list := range with {
		if a.busy[q] {
			continue
		}
		a.busy[q] = true
		a.host.workers.Add(1)
		go func() {
			defer a.host.workers.Done()
			a.settle(q, list)
			a.mu.Lock()
			delete(a.busy, q)
			a.mu.Unlock()
		}()
	}
}

// settle ends what can be ended with one other queue. The next look goes on where an error stops it.
func (a *arbiter) settle(with queue.QueueID, list []queue.OpenTx) {
	for i := range list {
		if !a.leads() {
			return
		}
		end := a.tell
		if list[i].Home != 0 {
			end = a.ask
		}
		if err := end(with, &list[i]); err != nil {
			a.host.log.Debug("an open transaction could not be ended yet", "queue", uint64(a.run.core().id), "with", uint64(with), "error", err)
			return
		}
	}
}

// about makes a command about a transaction.
func about(op queue.Op, t *queue.OpenTx) *queue.Command {
	return &queue.Command{Op: op, Node: t.ID.Node, Boot: t.ID.Boot, Session: t.ID.Session, Tx: t.ID.N}
}

// ask ends a reservation as its home says.
func (a *arbiter) ask(home queue.QueueID, t *queue.OpenTx) error {
	reply, _, err := a.host.commandTo(home, about(queue.OpTxAsk, t)) // a home that is gone has decided nothing
	if err != nil {
		return err
	}
	end := about(queue.OpTxEnd, t)
	end.To = reply.A
	_, err = a.run.command(end)
	return err
}

// tell has another queue carry out what was decided here. One that is gone needs not to.
func (a *arbiter) tell(other queue.QueueID, t *queue.OpenTx) error {
	end := about(queue.OpTxEnd, t)
	end.To = queue.TxCommitted
	if _, _, err := a.host.commandTo(other, end); err != nil {
		return err
	}
	done := about(queue.OpTxDone, t)
	done.Peer = other
	_, err := a.run.command(done)
	return err
}

// errRefusedTx says that the leader of another queue did not carry out a command.
var errRefusedTx = errors.New("quorum: the other queue of the transaction has stopped")

// commandTo has a queue of a transaction apply a command. gone says that the catalogue does not have it any more.
func (h *Host) commandTo(to queue.QueueID, cmd *queue.Command) (reply queue.Reply, gone bool, err error) {
	id, view := meta.QueueID(to), h.Catalogue().View
	if view.QueueByID(id) == nil {
		if id >= view.NextQueueID() {
			return reply, false, errUnknown
		}
		return reply, true, nil
	}
	ctx, cancel := context.WithTimeout(h.life, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	run, err := h.running(ctx, id)
	if err != nil {
		return reply, false, err
	}
	if reply, err = run.command(cmd); err == nil && reply.Code == queue.CodeUnavailable {
		err = errRefusedTx
	}
	return reply, false, err
}
