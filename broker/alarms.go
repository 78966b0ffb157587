package broker

import (
	"net"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/quorum"
)

// While any node of the cluster is short of memory or disk space, a connection that publishes is blocked: from its first publish on its socket is not read. It goes on to be written:
// deliveries, confirms, heartbeats. Who only consumes is not touched.
//
// What of a blocked client cannot be read is known from the socket itself (socketState): that it closed it or is gone, or that its machine acknowledges nothing any more. So a dead client
// is found as fast as with a heartbeat; one that merely sends none is not given up, for it may wait for the broker.

// alarmed tells what the nodes of the cluster are short of: a Host that is part of a cluster is one.
type alarmed interface {
	// Alarms lists the nodes that lack something.
	Alarms() []quorum.NodeAlarms
}

// lookAtAlarms is the watch's look at what the cluster is short of.
func (b *Broker) lookAtAlarms() {
	a, ok := b.host.(alarmed)
	if !ok {
		return
	}
	now, own := alarm.Set(0), alarm.Set(0)
	for _, n := range a.Alarms() {
		now |= n.Lack
		if n.Node == b.host.Node() {
			own = n.Lack
		}
	}
	b.tellAlarms(own)
	was := b.lack()
	if now == was {
		return
	}
	b.lacking.Store(uint32(now))
	switch before, after := was.Reason(), now.Reason(); {
	case after == before: // the floor alone
	case after == "":
		b.log.Info("publishers are unblocked", "before", before)
	default:
		b.log.Warn("publishers are blocked", "reason", after)
	}
}

// lack is what the cluster is short of, as of the watch's last look.
func (b *Broker) lack() alarm.Set { return alarm.Set(b.lacking.Load()) }

// BlockedError refuses a publish while publishers are blocked.
type BlockedError struct {
	// Reason is what the cluster is short of: low on memory, low on disk.
	Reason string
}

// Error says why.
func (e *BlockedError) Error() string { return "publishers are blocked: the cluster is " + e.Reason }

// block stops the reading of the connection after a publish, if there still is a reason.
func (c *conn) block() {
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	lack := c.b.lack()
	if lack == 0 || c.blocked.Load() {
		return
	}
	c.blocked.Store(true)
	c.blockedTick.Store(c.b.tick.Load())
	if c.blockNotify {
		c.send(0, &amqp.ConnectionBlocked{Reason: lack.Reason()})
	}
}

// awaitUnblock holds the reader until the connection is not blocked any more, or ends.
func (c *conn) awaitUnblock() {
	c.await(&c.work, func() bool { return !c.blocked.Load() })
}

// lookBlocked is the watch's visit to a blocked connection; false if it was given up.
func (c *conn) lookBlocked(now uint32) bool {
	if c.b.lack() == 0 {
		c.waitMu.Lock()
		c.blocked.Store(false)
		if c.blockNotify {
			c.send(0, &amqp.ConnectionUnblocked{})
		}
		c.waitMu.Unlock()
		return true // what waits is woken by the watch
	}
	closed, silentMillis, ok := socketState(c.nc)
	switch {
	case !ok:
	case closed:
		c.b.log.Warn("a blocked client closed its connection abruptly", "connection", c.name())
		c.cut()
		return false
	case c.heartbeat > 0 && silentMillis > 2*uint64(c.heartbeat.Milliseconds()) && now-c.blockedTick.Load() > 2*ticks(c.heartbeat):
		c.b.log.Warn("missed heartbeats from client", "connection", c.name(), "timeout", c.heartbeat)
		c.cut()
		return false
	}
	return true
}

// innermost returns the connection below TLS and the like.
func innermost(nc net.Conn) net.Conn {
	for {
		w, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = w.NetConn()
	}
}
