package quorum

import (
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Once a second, and when its alarms change, every node tells every other what time it has, what it is short of and, to each leader, how far its replicas are that serve it (PROTOCOL 2, Progress). The leader tells a node whose replica is behind to
// let itself be served elsewhere, and knows from it which nodes are attached.

// progress is what the leader of a queue keeps of the members' reports.
type progress struct {
	serving map[meta.NodeID]int64 // node that its own replica serves -> when it last said so, lease milliseconds
	// applied by this replica at the last look and at the one before.
	applied, before uint64
	away            absence
}

func newProgress() *progress {
	return &progress{serving: make(map[meta.NodeID]int64), away: make(absence)}
}

// reporter does so until the host closes.
func (h *Host) reporter() {
	defer h.workers.Done()
	for h.wait(limits.ProgressMillis*time.Millisecond, nil) == nil {
		h.tellProgress()
		h.slots.Range(func(_, v any) bool {
			switch run := v.(*slot).runner().(type) {
			case *group:
				if run.leads() {
					run.tend()
					h.forgetSources(run, &run.sources)
				}
			case *local:
				if run.away == nil {
					run.away = make(absence)
				}
				h.evictAbsent(run, run.away, func(queue.NodeID) bool { return false })
				run.txs.look()
				h.forgetSources(run, &run.sources)
			}
			return true
		})
	}
}

// reports collects what this node has to say to each leader: queue and applied index of every replica that serves it.
func (h *Host) reports() map[meta.NodeID][]uint64 {
	list := make(map[meta.NodeID][]uint64)
	h.slots.Range(func(_, v any) bool {
		s := v.(*slot)
		g, ok := s.runner().(*group)
		if !ok || !s.isHome() {
			return true
		}
		leader := g.leaderNode()
		if leader == 0 || leader == h.node || !s.pipe.inUse() {
			return true
		}
		g.mu.Lock()
		applied := g.applied
		g.mu.Unlock()
		list[leader] = append(list[leader], uint64(g.id), applied)
		return true
	})
	return list
}

// tellProgress sends them.
func (h *Host) tellProgress() {
	list := h.reports()
	wall := uint64(h.clock.wallMillis())
	for _, n := range h.peers.nodes() {
		if n.ID == h.node || !h.up(n.ID) {
			continue
		}
		facts := list[n.ID]
		payload := codec.AppendUvarint(codec.AppendUint64(nil, wall), uint64(len(facts)/2))
		for _, f := range facts {
			payload = codec.AppendUvarint(payload, f)
		}
		payload = codec.AppendUvarint(payload, uint64(h.alarms.own.Load()))
		h.send(n.ID, messageProgress, payload)
	}
}

// progressed takes the report of another node.
func (h *Host) progressed(node meta.NodeID, r *codec.Reader) {
	h.clock.heard(uint64(node), int64(r.Uint64()))
	for range r.Count(2) {
		id, applied := meta.QueueID(r.Uvarint()), r.Uvarint()
		if r.Err() != nil {
			return
		}
		if v, ok := h.slots.Load(id); ok {
			if g, ok := v.(*slot).runner().(*group); ok && g.reported(node, applied) && mutant != mutantBehindNotTold {
				h.send(node, messageBehind, codec.AppendUvarint(nil, uint64(id)))
			}
		}
	}
	if r.Len() > 0 { // nodes of older versions do not tell
		if lacks := r.Uvarint(); r.Err() == nil {
			h.alarms.hear(node, alarm.Set(lacks))
		}
	}
}

// reported notes that a member's replica serves its node, and tells whether that replica is behind: it has not what this leader had applied a second ago.
func (g *group) reported(node meta.NodeID, applied uint64) (behind bool) {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	if !g.ready || g.progress == nil {
		return false
	}
	g.progress.serving[node] = g.host.clock.leaseMillis()
	return applied < g.progress.before
}

// tend is the leader's look at the nodes that its queue serves, and at what is open.
func (g *group) tend() {
	g.txs.look()
	g.startOthers()
	g.mu.Lock()
	applied := g.applied
	g.mu.Unlock()
	g.lmu.Lock()
	if g.progress == nil {
		g.progress = newProgress()
	}
	p := g.progress
	p.applied, p.before = applied, p.applied
	g.lmu.Unlock()
	g.host.evictAbsent(g, p.away, func(node queue.NodeID) bool {
		g.lmu.Lock()
		defer g.lmu.Unlock()
		at, ok := p.serving[meta.NodeID(node)]
		return ok && g.host.clock.leaseMillis()-at < 3*limits.ProgressMillis
	})
}

// leftBehind is told by the leader that this node's own replica of a queue is behind.
func (h *Host) leftBehind(id meta.QueueID) {
	v, ok := h.slots.Load(id)
	if !ok {
		return
	}
	s := v.(*slot)
	if g, ok := s.runner().(*group); ok && s.isHome() {
		s.leave(g)
	}
}
