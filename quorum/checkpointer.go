package quorum

import (
	"sync"

	"github.com/warrenmq/warren/config/limits"
)

// checkpointer writes checkpoints in the background, at most limits.CheckpointsAtOnce at a time, in the order in which they were asked for.
type checkpointer struct {
	host *Host

	mu      sync.Mutex
	waiting []*group
	running int
}

func newCheckpointer(h *Host) *checkpointer { return &checkpointer{host: h} }

// ask has g written soon. Whoever asks has marked g's disk busy.
func (c *checkpointer) ask(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, g)
	if c.running < limits.CheckpointsAtOnce {
		c.running++
		go c.work()
	}
}

func (c *checkpointer) work() {
	for {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.running--
			c.mu.Unlock()
			return
		}
		g := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		if err := g.checkpoint(); err != nil {
			c.failed(g, err)
		}
	}
}

// failed tells a full disk, which a later checkpoint may survive, from a disk that cannot be trusted any more.
func (c *checkpointer) failed(g *group, err error) {
	select {
	case <-c.host.closed:
		return
	case <-g.closed:
		return
	default:
	}
	if isFatal(err) {
		c.host.report(err)
		return
	}
	c.host.log.Warn("a checkpoint failed and will be tried again", "queue", uint64(g.id), "error", err)
}
