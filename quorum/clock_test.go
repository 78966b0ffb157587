package quorum

import (
	"testing"

	"github.com/warrenmq/warren/config/limits"
)

// wallAhead makes a clock whose wall clock can be set.
func wallAhead(t *testing.T) (c *clock, ahead *int64) {
	t.Helper()
	ahead = new(int64)
	c = newClock(nil, nil)
	wall := c.wall
	c.wall = func() int64 { return wall() + *ahead }
	return c, ahead
}

// TestOneClockIsAhead: a node whose clock was set to next year does not stamp so, neither at once nor later.
func TestOneClockIsAhead(t *testing.T) {
	c, ahead := wallAhead(t)
	before := c.nowMillis()
	*ahead = 365 * 86400 * 1000
	c.heard(2, c.wall()-*ahead)
	c.heard(3, c.wall()-*ahead)
	for range 100 {
		c.slew()
	}
	c.correct()
	if now := c.nowMillis(); now-before > 5_000 {
		t.Errorf("the clock went %d ms ahead", now-before)
	}
}

// TestClockIsLedSlowly: what most nodes say is followed by a tenth of the time that passes.
func TestClockIsLedSlowly(t *testing.T) {
	c, _ := wallAhead(t)
	before := c.nowMillis()
	c.heard(2, c.wall()+limits.ClockCorrectMillis/2)
	c.heard(3, c.wall()+limits.ClockCorrectMillis/2)
	c.correct()
	if now := c.nowMillis(); now-before > 1_000 {
		t.Errorf("the clock jumped by %d ms", now-before)
	}
	c.slew()
	if now := c.nowMillis(); now-before < limits.ClockSlewMillis/10 {
		t.Errorf("the clock was led by %d ms", now-before)
	}
}

// TestNewLeaderWithAWrongClock takes the others' time.
func TestNewLeaderWithAWrongClock(t *testing.T) {
	c, _ := wallAhead(t)
	before := c.nowMillis()
	const off = 10 * limits.ClockCorrectMillis
	c.heard(2, c.wall()+off)
	c.heard(3, c.wall()+off)
	c.correct()
	if now := c.nowMillis(); now-before < off || now-before > off+5_000 {
		t.Errorf("the clock was corrected by %d ms, want %d", now-before, off)
	}
}
