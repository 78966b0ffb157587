package quorum

import (
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// clock gives a node's proposers their stamps (PROTOCOL 7, Time): anchored to the wall clock once, it runs on monotonic time and is led towards the wall clock by at most a tenth of the time
// that passed. A clock that is set does not make queues jump.
type clock struct {
	start time.Time // monotonic base
	lease func() int64

	mu           sync.Mutex
	anchorMillis int64 // wall clock at start, corrected since
}

// newClock starts a clock. lease is the clock of leases, nil for the system's.
func newClock(lease func() int64) *clock {
	now := time.Now()
	c := &clock{start: now, anchorMillis: now.UnixMilli(), lease: lease}
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

// slew leads the clock towards the wall clock; it is called every limits.ClockSlewMillis.
func (c *clock) slew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	const step = limits.ClockSlewMillis / 10
	off := time.Now().Round(0).UnixMilli() - (c.anchorMillis + time.Since(c.start).Milliseconds())
	c.anchorMillis += min(max(off, -step), step)
}
