package management

import (
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// histories are those of what every node knows of the whole cluster: queues, nodes, sums.
type histories struct {
	mu     sync.Mutex
	slot   int64 // of the last round
	bytes  int64 // of the queues' histories
	queues map[meta.QueueID]*history
	nodes  map[meta.NodeID]*nodeHistory
	// messages and churn are sums over nodes, totals over queues, with the indexes of a queue's series.
	messages, totals, churn history
}

// nodeHistory is that of one node.
type nodeHistory struct{ used, churn history }

func newHistories() histories {
	return histories{queues: make(map[meta.QueueID]*history), nodes: make(map[meta.NodeID]*nodeHistory)}
}

// remember notes what a tick saw, if it is time.
func (p *sampler) remember(now time.Time, snap *snapshot) {
	h := &p.histories
	h.mu.Lock()
	defer h.mu.Unlock()
	slot := now.Unix() / int64(historyPeriod/time.Second)
	if slot == h.slot {
		return
	}
	h.slot = slot
	unix := slot * int64(historyPeriod/time.Second)
	h.rememberQueues(unix, snap)
	if len(h.queues) > len(p.queues) {
		for id := range h.queues {
			if p.queues[id] == nil {
				delete(h.queues, id)
			}
		}
	}
	node := func(id meta.NodeID, n *nodeSample) {
		if h.nodes[id] == nil {
			h.nodes[id] = new(nodeHistory)
		}
		h.nodes[id].used.add(unix, &n.used, true)
		h.nodes[id].churn.add(unix, &n.churn, true)
	}
	self := p.s.opt.Host.Node()
	node(self, &snap.node)
	for id, other := range snap.others {
		node(id, &other.node)
	}
	for id := range h.nodes {
		if id != self && p.heard[id] == nil {
			delete(h.nodes, id)
		}
	}
	totals := counters{queueMessages: snap.totals.ready + snap.totals.unacked, queueReady: snap.totals.ready, queueUnacked: snap.totals.unacked}
	h.totals.add(unix, &totals, true)
	h.messages.add(unix, &snap.cluster.messages, true)
	h.churn.add(unix, &snap.cluster.churn, true)
}

// rememberQueues notes the queues. One that does not run has no numbers, and they do not begin at 0.
func (h *histories) rememberQueues(unix int64, snap *snapshot) {
	room := h.bytes < limits.HistoryBytesMax
	h.bytes = 0
	for _, s := range snap.queues {
		of := h.queues[s.queue.ID]
		if runs(&s.status) && s.status.State != quorum.StateStarting {
			if of == nil {
				of = new(history)
				h.queues[s.queue.ID] = of
			}
			c := queueCounters(&s.status)
			of.add(unix, &c, room)
		}
		if of != nil {
			h.bytes += of.bytes()
		}
	}
}

// trend returns the trend of what get finds among the histories; it is called with the lock held and may return nil.
func (c *call) trend(r *rates, s span, get func(*histories) *history) trend {
	return trendOf(r, s, func() []pastSample {
		h := &c.s.sampler.histories
		h.mu.Lock()
		defer h.mu.Unlock()
		return get(h).samples(s, time.Now())
	})
}

// queueTrend returns the trend of a queue.
func (c *call) queueTrend(r *queueRow, s span) trend {
	return c.trend(r.rates, s, func(h *histories) *history { return h.queues[r.queue.ID] })
}

// nodeTrend returns the trend of a node.
func (c *call) nodeTrend(id meta.NodeID, r *rates, s span, get func(*nodeHistory) *history) trend {
	return c.trend(r, s, func(h *histories) *history {
		if n := h.nodes[id]; n != nil {
			return get(n)
		}
		return nil
	})
}
