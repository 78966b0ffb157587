package quorum

import "sync"

// crew does one kind of work for groups in the background, for a few at a time, in the order in which it was asked for.
type crew struct {
	work func(*group)
	size int

	mu      sync.Mutex
	waiting []*group
	running int
}

func (c *crew) add(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, g)
	if c.running < c.size {
		c.running++
		go c.run()
	}
}

func (c *crew) run() {
	for {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.running, c.waiting = c.running-1, nil
			c.mu.Unlock()
			return
		}
		g := c.waiting[0]
		c.waiting[0] = nil // it may be of no use any more before all have had their turn
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		c.work(g)
	}
}
