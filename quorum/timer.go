package quorum

import (
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// timer calls a function at a time of the cluster's clock. It has at most one call ahead, the earliest that was asked for, or one after limits.TimerMillis; who is called looks whether it is time, and asks
// again.
type timer struct {
	mu      sync.Mutex
	pending bool
	due     int64
	round   uint64
	timer   *time.Timer
}

// set asks for a call of f at dueMillis. It changes nothing if there is an earlier one ahead.
func (a *timer) set(h *Host, dueMillis int64, f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending && a.due <= dueMillis {
		return
	}
	a.round++
	a.pending, a.due = true, dueMillis
	round := a.round
	delay := min(max(0, dueMillis-h.clock.nowMillis()), limits.TimerMillis)
	a.drop()
	a.timer = h.later(time.Duration(delay)*time.Millisecond, func() {
		a.mu.Lock()
		mine := a.pending && a.round == round
		if mine {
			a.pending = false
		}
		a.mu.Unlock()
		if mine {
			f()
		}
	})
}

// stop takes back what was asked for: nothing of the timer is left that keeps who is called in memory.
func (a *timer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.round++
	a.pending = false
	a.drop()
}

// drop is called with a.mu held.
func (a *timer) drop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
