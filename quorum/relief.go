package quorum

import (
	"slices"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/alarm"
)

// relieve brings bodies out of memory if all queues together have more of them there than the node's budget: those that hold most write a checkpoint and then give back what it wrote.
func (h *Host) relieve() {
	if h.bodyBytes.Load() > h.cfg.BodiesInMemoryBytes && h.relieving.CompareAndSwap(false, true) {
		go h.relieveAll()
	}
}

func (h *Host) relieveAll() {
	defer h.relieving.Store(false)
	const first, most = limits.BodiesLookMillis * time.Millisecond, limits.BodiesLookMillisMax * time.Millisecond
	for pause := first; h.bodyBytes.Load() > h.cfg.BodiesInMemoryBytes; pause = min(2*pause, most) {
		if h.relieveMost() {
			pause = first
		}
		if h.wait(pause, nil) != nil {
			return
		}
	}
}

// relieveMost asks for checkpoints until what they can give back is enough, of the queues that hold most first. A queue with little is let alone as long as the node is only a little beyond its budget. It
// reports whether it asked for any.
func (h *Host) relieveMost() (asked bool) {
	type holder struct {
		g     *group
		bytes int64
	}
	excess := h.bodyBytes.Load() - h.cfg.BodiesInMemoryBytes
	least := int64(limits.BodiesCheckpointBytes)
	if excess > limits.BodiesExcessBytes {
		least = 1
	}
	var list []holder
	h.slots.Range(func(_, v any) bool {
		if g, ok := v.(*slot).runner().(*group); ok {
			g.mu.Lock()
			if n := g.accounted; g.opened && g.failure == nil && n >= least {
				list = append(list, holder{g, n})
			}
			g.mu.Unlock()
		}
		return true
	})
	slices.SortFunc(list, func(a, b holder) int { return int(b.bytes - a.bytes) })
	for need := excess + h.cfg.BodiesInMemoryBytes/2; len(list) > 0 && need > 0; list = list[1:] {
		g := list[0].g
		need -= list[0].bytes
		g.mu.Lock()
		ask := !g.disk.busy && g.bodies.count > 0
		g.disk.busy = g.disk.busy || ask
		g.mu.Unlock()
		if ask {
			h.checkpoints.add(g)
			asked = true
		}
	}
	return asked
}

// Pressed tells whether bodies in memory are so far beyond their budget that no more should come until checkpoints have brought some out.
func (h *Host) Pressed() bool {
	budget := h.cfg.BodiesInMemoryBytes
	return h.bodyBytes.Load() > budget+max(budget/2, limits.BodiesExcessBytes)
}

// reclaim has the queues write checkpoints whose message stores hold much of messages that are gone: files go with a checkpoint only, and who acknowledges a long queue writes little log.
func (h *Host) reclaim() {
	short := alarm.Set(h.alarms.own.Load())&alarm.Disk != 0
	if !short {
		h.reserve.look()
	}
	h.slots.Range(func(_, v any) bool {
		g, ok := v.(*slot).runner().(*group)
		if !ok {
			return true
		}
		g.mu.Lock()
		ask := g.opened && g.failure == nil && !g.disk.busy && g.disk.holdsDead(short)
		g.disk.busy = g.disk.busy || ask
		g.mu.Unlock()
		if ask {
			h.checkpoints.add(g)
		}
		return true
	})
}

// holdsDead tells whether a checkpoint would give back much space. Called with the replica's mu held, while no checkpoint is under way.
func (d *disk) holdsDead(short bool) bool {
	_, all := d.sizes()
	st := d.store.Stats()
	live := st.LiveBytes - st.ReleasedBytes
	dead, least := all-live, int64(limits.StoreDeadBytesShort)
	if !short {
		least = limits.StoreDeadBytes
		if dead < least+live {
			return false
		}
	}
	return dead-d.deadLeft >= least
}
