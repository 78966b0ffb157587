package quorum

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
)

// NodeAlarms is what a node is short of.
type NodeAlarms struct {
	Node meta.NodeID
	Lack alarm.Set
}

// alarms are what the nodes of the cluster are short of. Every node tells the others with its progress (progress.go).
type alarms struct {
	own atomic.Uint32

	mu    sync.Mutex
	heard map[meta.NodeID]alarm.Set // of the others, what is not empty
}

func (a *alarms) hear(node meta.NodeID, lack alarm.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case lack == 0:
		delete(a.heard, node)
	case a.heard == nil:
		a.heard = map[meta.NodeID]alarm.Set{node: lack}
	default:
		a.heard[node] = lack
	}
}

// SetAlarms tells the cluster what this node is short of.
func (h *Host) SetAlarms(lack alarm.Set) {
	if h.alarms.own.Swap(uint32(lack)) != uint32(lack) {
		h.tellProgress()
	}
}

// Alarms lists the nodes that are short of something, by their ids. A node that is not up does not count.
func (h *Host) Alarms() []NodeAlarms {
	var list []NodeAlarms
	if own := h.alarms.own.Load(); own != 0 {
		list = append(list, NodeAlarms{h.node, alarm.Set(own)})
	}
	h.alarms.mu.Lock()
	for node, lack := range h.alarms.heard {
		if h.up(node) {
			list = append(list, NodeAlarms{node, lack})
		}
	}
	h.alarms.mu.Unlock()
	slices.SortFunc(list, func(a, b NodeAlarms) int { return int(a.Node) - int(b.Node) })
	return list
}
