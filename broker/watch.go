package broker

import (
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// The watch is one goroutine per Broker that looks after what depends on time alone: alarms, heartbeats, silent peers, half-sent frames, stalled writes,
// publishes and operations that are not answered, buffers of connections that became idle. Connections keep no timers of their own for it.

const (
	// tickPeriod is how often the watch looks.
	tickPeriod = 250 * time.Millisecond
	// idleTicks is after how many ticks without input a connection gives its read buffer back.
	idleTicks = 4
)

// ticks returns how many ticks d takes, at least one.
func ticks(d time.Duration) uint32 { return uint32(max((d+tickPeriod-1)/tickPeriod, 1)) }

func (b *Broker) watch() {
	t := time.NewTicker(tickPeriod)
	defer t.Stop()
	var conns []*conn
	for {
		select {
		case <-b.stop:
			return
		case <-t.C:
		}
		now := b.tick.Add(1)
		b.lookAtAlarms()
		b.tellUsage()
		b.mu.Lock()
		for _, c := range b.conns {
			conns = append(conns, c)
		}
		b.mu.Unlock()
		for _, c := range conns {
			c.look(now)
		}
		clear(conns)
		conns = conns[:0]
	}
}

// stallTicks is how long a started frame may take to arrive, and a write to make progress.
const stallTicks = limits.FrameStallMillis / uint32(tickPeriod/time.Millisecond)

// look is the watch's visit to a connection.
func (c *conn) look(now uint32) {
	defer c.guard()
	if due := c.cutDue.Load(); due != 0 && int32(now-due) >= 0 {
		c.cut()
		return
	}
	if since := c.partialSince.Load(); since != 0 && c.reading.Load() && now-since > stallTicks {
		c.b.log.Warn("a client did not finish a frame that it had begun", "connection", c.name())
		c.cut()
		return
	}
	if c.bodies.Load() > 0 && c.b.publishes.waiting.Load() > 0 && c.reading.Load() && now-c.bodyTick.Load() > stallTicks {
		c.b.log.Warn("a client did not finish a message that it had begun, and others wait for its memory", "connection", c.name())
		c.cut()
		return
	}
	if since := c.writeSince.Load(); since != 0 && now-since > stallTicks {
		c.b.log.Warn("a client does not read what is sent to it", "connection", c.name())
		c.cut()
		return
	}
	if !c.isOpen() {
		return
	}
	if c.heartbeat > 0 && !c.beat(now) {
		return
	}
	if c.blocked.Load() && !c.lookBlocked(now) {
		return
	}
	if c.lent.Load() && c.reading.Load() && c.partialSince.Load() == 0 && now-c.receivedTick.Load() >= idleTicks {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // the reader wakes, gives its buffer back and goes on
	}
	if c.waiters.Load() > 0 {
		c.signal() // somebody may wait for a lease, or for time to pass
	}
	if c.operations.Load() > 0 || c.inflightCount.Load() > 0 || c.credits.Load() > 0 {
		for _, ch := range c.channelList() {
			ch.look(now)
		}
	}
}

// beat sends a heartbeat if nothing was sent for half an interval and gives a peer up that was silent for two; false if it did.
func (c *conn) beat(now uint32) bool {
	if now-c.sentTick.Load() >= ticks(c.heartbeat/2) && c.writeSince.Load() == 0 {
		c.sentTick.Store(now)
		c.sendRaw(heartbeatFrame)
	}
	if !c.reading.Load() { // the broker holds the client back, it is not silent
		c.receivedTick.Store(now)
		return true
	}
	if now-c.receivedTick.Load() > 2*ticks(c.heartbeat) {
		c.b.log.Warn("missed heartbeats from client", "connection", c.name(), "timeout", c.heartbeat)
		c.cut()
		return false
	}
	return true
}

var heartbeatFrame = amqp.AppendHeartbeat(nil)
