package broker

import (
	"context"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// await blocks an executor until ready returns true; false if the connection ends first. What the executor has collected is flushed before, or what it
// waits for might never come.
func (c *conn) await(w *work, ready func() bool) bool {
	if ready() {
		return true
	}
	w.flush()
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	c.waiters.Add(1)
	defer c.waiters.Add(-1)
	for !ready() {
		if !c.isOpen() || c.isCut.Load() {
			return false
		}
		c.room.Wait()
	}
	return true
}

// signal wakes those that await. It must not be called with a lock held.
func (c *conn) signal() {
	if c.waiters.Load() > 0 {
		c.waitMu.Lock()
		c.room.Broadcast()
		c.waitMu.Unlock()
	}
}

// admitPublish holds a publish back while too much of the connection, or of all of them, is not answered. Confirms and completions make room. A body that was let in is there already, and may be what
// takes the room.
func (ch *channel) admitPublish(w *work) bool {
	if ch.publishRoom() {
		return true
	}
	return ch.c.await(w, func() bool { return ch.publishRoom() || ch.c.b.publishes.enlist(ch.c) && ch.publishRoom() })
}

func (ch *channel) publishRoom() bool {
	c := ch.c
	own := c.inflightBytes.Load()
	return own < c.b.publishes.share && c.inflightCount.Load() < limits.UnconfirmedPublishesMax && (ch.reserved.Load() > 0 || c.b.publishes.hasRoom(own == 0))
}

// admitBody holds a message with a long body back, before that comes, until the node has memory for it, and takes that. A connection that has begun another body is let through: what holds it up must
// not hold up the end of that.
func (ch *channel) admitBody(bytes int64) {
	c, all := ch.c, &ch.c.b.publishes
	if c.bodies.Load() > 0 {
		all.take(bytes)
	} else if !all.tryTake(bytes) && !c.await(ch.w, func() bool { return all.tryTake(bytes) || all.enlist(c) && all.tryTake(bytes) }) {
		return // the connection ends
	}
	c.bodies.Add(1)
	c.bodyTick.Store(c.b.tick.Load())
	ch.reserved.Store(bytes)
	ch.mu.Lock()
	ended := ch.ending
	ch.mu.Unlock()
	if ended {
		ch.bodyEnded()
	}
}

// bodyEnded gives back what admitBody took, if anything.
func (ch *channel) bodyEnded() {
	if n := ch.reserved.Swap(0); n > 0 {
		ch.c.bodies.Add(-1)
		ch.c.b.publishes.give(n)
	}
}

// admitReply holds an operation back that will be answered while the client does not read the answers it has.
func (c *conn) admitReply(w *work) bool {
	if c.replyRoom() {
		return true
	}
	return c.await(w, c.replyRoom)
}

func (c *conn) replyRoom() bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.replies < repliesBytesMax
}

// answered takes publishes off what is in flight.
func (c *conn) answered(bytes, count int64) {
	c.inflightBytes.Add(-bytes)
	c.inflightCount.Add(-count)
	c.b.publishes.give(bytes)
	c.signal()
}

// takeWindow gives a consumer its share of the connection's and of the node's byte budget: half, and a small part, of what is left, so that the sums stay bounded and one alone has room for some large
// messages while what it said of the last ones is on its way.
func (c *conn) takeWindow() uint32 {
	n := c.windowLeft.Load() / 2
	if c.b.opt.WindowBytesMax > 0 {
		n = min(n, c.b.windowLeft.Load()/limits.WindowShare)
	}
	n = min(max(n, windowBytesMin), windowBytesMax)
	c.windowLeft.Add(-n)
	c.b.windowLeft.Add(-n)
	return uint32(n)
}

// giveWindow takes back the share of a consumer that is gone.
func (c *conn) giveWindow(n uint32) {
	c.windowLeft.Add(int64(n))
	c.b.windowLeft.Add(int64(n))
}

const (
	// windowBytesMin and windowBytesMax bound the byte window of one consumer.
	windowBytesMin = 16 << 10
	windowBytesMax = limits.ConnectionWindowBytes / 2
	// windowCount bounds the deliveries of one consumer that are not drained.
	windowCount = 4096
)

// settleDown waits until the channels have done what was received for them.
func (c *conn) settleDown() {
	deadline := time.Now().Add(settleDownMax)
	t := time.AfterFunc(settleDownMax, c.signal)
	defer t.Stop()
	for _, ch := range c.channelList() {
		c.await(&c.work, func() bool { return !ch.isBusy() || !time.Now().Before(deadline) })
	}
}

// endChannels ends every channel and waits, a bounded time, until their queues have what was unacked back.
func (c *conn) endChannels() {
	for _, ch := range c.channelList() {
		ch.startEnd(chanClosed, false)
	}
	t := time.NewTimer(settleDownMax)
	defer t.Stop()
	for _, ch := range c.channelList() {
		select {
		case <-ch.ended:
		case <-t.C:
			return
		}
	}
}

// dropOwned deletes the exclusive queues of the connection; false if the catalogue did not do it.
func (c *conn) dropOwned() bool {
	ctx, cancel := context.WithTimeout(context.Background(), settleDownMax)
	defer cancel()
	for c.owns() {
		replies, err := c.b.host.Do(ctx, meta.Command{Op: meta.OpDropOwned, Owner: c.owner})
		if err != nil {
			return false
		}
		if !replies[0].More {
			break
		}
	}
	return true
}

func (c *conn) owns() bool {
	if c.owner == (meta.Owner{}) {
		return false
	}
	for range c.b.host.Catalogue().View.OwnedBy(c.owner) {
		return true
	}
	return false
}

// dropOwnedLater goes on until the catalogue has dropped the connection's queues or the broker stops: then they end with this incarnation of the node.
func (c *conn) dropOwnedLater() {
	defer c.guard()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for !c.dropOwned() {
		select {
		case <-t.C:
		case <-c.b.stop:
			return
		}
	}
}
