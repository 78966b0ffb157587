package quorum

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// allReplicas holds back what a pipeline has to say about publishes until every replica in sync has them, for a queue with x-confirm-replicas=all. What a replica has applied stands in its log on disk,
// so it is enough to ask how far each has come. One that does not come along within limits.ConfirmAllMillis, or whose node is not heard, counts as out of sync until it has caught up: it holds up nobody.
type allReplicas struct {
	p  *pipeline
	on atomic.Bool

	mu        sync.Mutex
	held      []heldConfirms // in order of index
	members   map[meta.NodeID]*memberMark
	releasing bool
}

// heldConfirms are the answers of one batch, due when all have index.
type heldConfirms struct {
	index    uint64
	since    int64 // monotonic milliseconds
	confirms []confirm
}

type confirm struct {
	session    *Session
	completion Completion
}

// memberMark is how far one replica is known to have come.
type memberMark struct {
	applied uint64
	asking  bool
	behind  bool
}

// follow takes over what the catalogue says about the queue.
func (a *allReplicas) follow(q *meta.Queue) {
	a.on.Store(textArgument(q, "x-confirm-replicas") == "all" && len(q.Members) > 1)
	a.mu.Lock()
	waits := len(a.held) > 0
	a.mu.Unlock()
	if waits {
		a.look()
	}
}

// hold takes the answers to the publishes of a batch that was applied by index.
func (a *allReplicas) hold(confirms []confirm, index uint64) {
	if len(confirms) == 0 {
		return
	}
	a.mu.Lock()
	a.held = append(a.held, heldConfirms{index: index, since: a.p.host.clock.monotonicMillis(), confirms: confirms})
	a.mu.Unlock()
	a.look()
}

// look asks the replicas that may have come further, and lets out what all have.
func (a *allReplicas) look() {
	h := a.p.host
	q := h.Catalogue().View.QueueByID(a.p.q)
	a.mu.Lock()
	if a.members == nil {
		a.members = make(map[meta.NodeID]*memberMark)
	}
	if len(a.held) > 0 && q != nil {
		last := a.held[len(a.held)-1].index
		for _, m := range q.Members {
			mark := a.members[m.Node]
			if mark == nil {
				mark = new(memberMark)
				a.members[m.Node] = mark
			}
			if mark.applied < last && !mark.asking && h.up(m.Node) {
				mark.asking = true
				go a.ask(m.Node, last)
			}
		}
	}
	if a.releasing {
		a.mu.Unlock()
		return
	}
	a.releasing = true
	for len(a.held) > 0 && (q == nil || a.allHave(q, a.held[0].index)) {
		confirms := a.held[0].confirms
		a.held = a.held[1:]
		a.mu.Unlock()
		tell(a.p.q, confirms)
		a.mu.Lock()
	}
	a.releasing = false
	a.mu.Unlock()
}

// allHave tells whether every replica in sync has applied index. Called with a.mu held.
func (a *allReplicas) allHave(q *meta.Queue, index uint64) bool {
	if !a.on.Load() || mutant == mutantConfirmMajority {
		return true
	}
	for _, m := range q.Members {
		if mark := a.members[m.Node]; (mark == nil || mark.applied < index && !mark.behind) && a.p.host.up(m.Node) {
			return false
		}
	}
	return true
}

// ask waits for the answer of one replica.
func (a *allReplicas) ask(node meta.NodeID, index uint64) {
	request := codec.AppendUvarint(codec.AppendUvarint(nil, uint64(a.p.q)), index)
	answered := func(answer []byte, err error) {
		r := codec.NewReader(answer)
		applied := r.Uvarint()
		reached := err == nil && r.Err() == nil && applied >= index
		a.mu.Lock()
		mark := a.members[node]
		mark.asking = false
		if reached {
			mark.behind = false
			mark.applied = max(mark.applied, applied)
		}
		a.mu.Unlock()
		if reached {
			a.look()
			return
		}
		a.p.host.later(limits.FindLeaderMillis*time.Millisecond, a.look)
	}
	if node == a.p.host.node {
		answered(a.p.host.serveReached(request))
		return
	}
	a.p.host.ask(node, callReached, request, answered)
}

// check is called by the host's ticker: who keeps others waiting for too long counts as out of sync.
func (a *allReplicas) check(nowMillis int64) {
	a.mu.Lock()
	if len(a.held) == 0 {
		a.mu.Unlock()
		return
	}
	if first := &a.held[0]; nowMillis-first.since >= limits.ConfirmAllMillis {
		for node, mark := range a.members {
			if mark.applied < first.index && !mark.behind {
				mark.behind = true
				a.p.host.log.Warn("a replica is out of sync: confirms do not wait for it until it has caught up", "queue", uint64(a.p.q), "node", uint64(node))
			}
		}
	}
	a.mu.Unlock()
	a.look()
}

// end answers all that is held back: with what became of it, or, if nothing may be taken for done any more, with the code.
func (a *allReplicas) end(code queue.Code) {
	a.mu.Lock()
	held := a.held
	a.held = nil
	a.mu.Unlock()
	for _, h := range held {
		for i := range h.confirms {
			if code != queue.CodeOK {
				h.confirms[i].completion.Reply = queue.Reply{Code: code}
			}
		}
		tell(a.p.q, h.confirms)
	}
}

// tell hands answers to their sessions, in runs of one session.
func tell(q meta.QueueID, confirms []confirm) {
	for i := 0; i < len(confirms); {
		session := confirms[i].session
		var run []Completion
		for ; i < len(confirms) && confirms[i].session == session; i++ {
			run = append(run, confirms[i].completion)
		}
		session.recv.Completed(q, run)
	}
}

// serveReached answers how far this node's replica of a queue has come, when it has reached an index or after a bounded wait.
func (h *Host) serveReached(request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	s, err := h.slot(meta.QueueID(r.Uvarint()))
	if err != nil {
		return nil, err
	}
	index := r.Uvarint()
	g, ok := s.runner().(*group)
	if !ok || !g.serves() {
		return nil, errElsewhere
	}
	g.reach(index)
	g.mu.Lock()
	defer g.mu.Unlock()
	return codec.AppendUvarint(nil, g.applied), nil
}
