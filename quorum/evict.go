package quorum

import (
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/invariant"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// A node that lives, but is not attached to a queue for long, is evicted from that queue: others get what its sessions had (PROTOCOL 3, Evict). The leader decides it by the attachments that it serves
// itself and those that the members report of themselves; the node starts over with its next gen when it attaches again.

// absence is since when nobody was attached for the sessions of a pipeline, in lease milliseconds.
type absence map[queue.PipelineID]int64

// missing returns those of the pipelines with sessions that nobody has been attached for since timeout.
func (a absence) missing(now, timeout int64, pipelines []queue.PipelineID, attached func(queue.PipelineID) bool) (evict []queue.PipelineID) {
	for id := range a {
		if !contains(pipelines, id) {
			delete(a, id)
		}
	}
	for _, id := range pipelines {
		since, away := a[id]
		switch {
		case attached(id):
			delete(a, id)
		case !away:
			a[id] = now
		case now-since >= timeout:
			evict = append(evict, id)
		}
	}
	return evict
}

func contains(list []queue.PipelineID, id queue.PipelineID) bool {
	for _, x := range list {
		if x == id {
			return true
		}
	}
	return false
}

// evictAbsent is called every limits.ProgressMillis for a queue that this node leads.
func (h *Host) evictAbsent(run runner, away absence, reported func(node queue.NodeID) bool) {
	if mutant == mutantNobodyEvicted {
		return
	}
	r := run.core()
	r.mu.Lock()
	var serving []queue.PipelineID
	for _, id := range r.m.Pipelines(nil) {
		if r.m.Serves(id) {
			serving = append(serving, id)
		}
	}
	served := r.served
	r.mu.Unlock()
	attached := func(id queue.PipelineID) bool {
		for _, a := range served {
			if a.node == id.Node && a.boot == id.Boot.Counter {
				return true
			}
		}
		return reported(id.Node)
	}
	for _, id := range away.missing(h.clock.leaseMillis(), evictMillis(h.Catalogue().View.QueueByID(r.id)), serving, attached) {
		h.log.Warn("a node that is not attached to a queue loses its consumers there", "queue", uint64(r.id), "node", uint64(id.Node))
		go func() {
			_, _ = run.command(&queue.Command{Op: queue.OpEvict, Node: id.Node, Boot: id.Boot, Gen: id.Gen})
		}() // tried again if it fails
	}
}

// evictMillis is how long a queue waits for the attachment of a node.
func evictMillis(q *meta.Queue) int64 {
	if q != nil {
		if v, ok := q.Effective("x-consumer-disconnected-timeout"); ok {
			if n, ok := v.AsInt64(); ok && n > 0 {
				return n
			}
		}
	}
	return limits.EvictMillis
}

// attachAgain has the node attach anew, soon.
func (p *pipeline) attachAgain() {
	p.host.later(limits.GapRetryMillis*time.Millisecond, func() {
		if v, ok := p.host.slots.Load(p.q); ok {
			if t, ok := v.(*slot).runner().(target); ok {
				p.host.serve(p.q, t)
			}
		}
	})
}

// startOver goes on with the next gen after this one was evicted and everything that had been applied was answered. What was not applied goes with it, except what speaks of sessions that the queue does
// not have any more: a settle, a cancel and a close are done, a subscribe, a get or a transaction that was not decided was not. Called with p.stream held.
func (p *pipeline) startOver() {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return
	}
	rest := p.takeAll()
	p.id.Gen++
	p.lastK = 0
	ended := make(map[queue.Code][]waiter)
	for _, b := range rest {
		if next := b.carryOver(ended); next != nil {
			p.full = append(p.full, next)
		}
	}
	p.mu.Unlock()
	p.streamN++ // nothing more of the old gen
	p.held = nil
	clear(p.lastD)
	for code, waiters := range ended {
		for _, w := range waiters {
			if w.token != 0 {
				w.session.recv.Completed(p.q, []Completion{{Token: w.token, Reply: queue.Reply{Code: code}}})
			}
		}
	}
	for _, s := range p.takeSessions() {
		s.recv.Gone(p.q)
	}
	p.attachAgain()
}

// carryOver returns a batch with those commands of b that make sense in the next gen, nil if there are none; who waits for the others is added to ended.
func (b *batch) carryOver(ended map[queue.Code][]waiter) *batch {
	var next *batch
	var cmd queue.Command
	rest := b.buf[queue.BatchHeaderBytes:]
	for _, w := range b.waiters {
		tail, err := queue.DecodeCommand(rest, &cmd)
		if err != nil {
			invariant.Failf("a command of this node does not decode: %v", err)
		}
		code := queue.CodeOK
		switch cmd.Op {
		case queue.OpEnqueue, queue.OpPurge, queue.OpQuery, queue.OpTxFinish:
			if next == nil {
				next = newBatch()
			}
			next.buf = append(next.buf, rest[:len(rest)-len(tail)]...)
			next.count++
			next.waiters = append(next.waiters, w)
			rest = tail
			continue
		case queue.OpSubscribe, queue.OpGet, queue.OpTxCommit, queue.OpTxPrepare, queue.OpTxDecide:
			code = queue.CodeUnavailable
		}
		ended[code] = append(ended[code], w)
		rest = tail
	}
	return next
}
