package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// clock gives a node's proposers their stamps (PROTOCOL 7, Time): anchored to the wall clock once, it runs on monotonic time and is led towards the median of the nodes' wall clocks by at most a tenth
// of the time that passed. A clock that is set does not make queues jump.
type clock struct {
	start time.Time // monotonic base
	lease func() int64
	wall  func() int64

	mu           sync.Mutex
	anchorMillis int64 // wall clock at start, corrected since
	others       map[uint64]clockReport
}

// clockReport is how far another node's wall clock is ahead of this one's, and when it was heard (monotonic).
type clockReport struct{ aheadMillis, atMillis int64 }

// newClock starts a clock. lease is the clock of leases, wall the wall clock; nil for the system's.
func newClock(lease, wall func() int64) *clock {
	now := time.Now()
	c := &clock{start: now, lease: lease, wall: wall, others: make(map[uint64]clockReport)}
	if c.wall == nil {
		c.wall = func() int64 { return time.Now().UnixMilli() }
	}
	c.anchorMillis = c.wall()
	if c.lease == nil {
		c.lease = bootMillis
	}
	if c.lease == nil {
		c.lease = c.monotonicMillis
	}
	return c
}

// nowMillis is the time for stamps, in milliseconds since the Unix epoch.
func (c *clock) nowMillis() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.anchorMillis + time.Since(c.start).Milliseconds()
}

// monotonicMillis only ever rises; it starts at 1.
func (c *clock) monotonicMillis() int64 { return time.Since(c.start).Milliseconds() + 1 }

// leaseMillis is the clock of leases: it rises also while the machine sleeps.
func (c *clock) leaseMillis() int64 { return c.lease() }

// wallMillis is what the system says, in milliseconds since the Unix epoch: for people and for other nodes, never for stamps.
func (c *clock) wallMillis() int64 { return c.wall() }

// heard notes another node's wall clock.
func (c *clock) heard(node uint64, wallMillis int64) {
	ahead := wallMillis - c.wall()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others[node] = clockReport{ahead, c.monotonicMillis()}
}

// slew leads the clock towards the median of the wall clocks; it is called every limits.ClockSlewMillis.
func (c *clock) slew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	const step = limits.ClockSlewMillis / 10
	c.anchorMillis += min(max(c.off(), -step), step)
}

// correct sets a clock that is far off. It is called by a leader that takes office, before its first stamp counts.
func (c *clock) correct() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if off := c.off(); off > limits.ClockCorrectMillis || off < -limits.ClockCorrectMillis {
		c.anchorMillis += off
	}
}

// off is how far the median of the nodes that were heard lately, this one among them, is ahead of this clock. Of an even number the lower of the middle two counts. Called with c.mu held.
func (c *clock) off() int64 {
	now := c.monotonicMillis()
	ahead := []int64{0}
	for _, r := range c.others {
		if now-r.atMillis < 5*limits.ProgressMillis {
			ahead = append(ahead, r.aheadMillis)
		}
	}
	slices.Sort(ahead)
	return c.wall() + ahead[(len(ahead)-1)/2] - (c.anchorMillis + time.Since(c.start).Milliseconds())
}
