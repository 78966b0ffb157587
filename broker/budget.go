package broker

import (
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/config/limits"
)

// publishBudget is memory for messages that begin to arrive, or that their queues have not answered, which the connections of a node share. When it is used up executors wait; those that cannot do with
// what is left of it are told in turn when some is given back.
type publishBudget struct {
	bytesMax int64 // 0: no bound
	share    int64 // what one connection may have
	used     atomic.Int64
	isShort  func() bool // asks for memory elsewhere; nil: nobody does

	waiting atomic.Int32 // len(waiters)
	mu      sync.Mutex
	waiters []*conn // in the order in which they came; each once
}

func (b *publishBudget) init(bytesMax int64, isShort func() bool) {
	b.bytesMax, b.isShort, b.share = bytesMax, isShort, limits.UnconfirmedBytesMax
	if bytesMax > 0 {
		b.share = min(b.share, max(bytesMax/limits.PublishShare, 1))
	}
}

// hasRoom tells whether one more message may come. A connection that has none on its way is let through somewhat longer: who waits for a queue without a leader must not hold up all others.
func (b *publishBudget) hasRoom(first bool) bool {
	if b.isShort != nil && b.isShort() {
		return false
	}
	used := b.used.Load()
	return b.bytesMax == 0 || used < b.bytesMax || first && used < 2*b.bytesMax
}

func (b *publishBudget) take(bytes int64) { b.used.Add(bytes) }

// tryTake is take if there is room: the last one may exceed the bound.
func (b *publishBudget) tryTake(bytes int64) bool {
	for {
		used := b.used.Load()
		if b.bytesMax > 0 && used >= b.bytesMax || b.isShort != nil && b.isShort() {
			return false
		}
		if b.used.CompareAndSwap(used, used+bytes) {
			return true
		}
	}
}

// give gives bytes back, and tells some of those that wait.
func (b *publishBudget) give(bytes int64) {
	used := b.used.Add(-bytes)
	if b.waiting.Load() == 0 || used >= b.bytesMax {
		return
	}
	b.mu.Lock()
	n := min(len(b.waiters), limits.PublishWakes)
	woken := append([]*conn(nil), b.waiters[:n]...)
	b.waiters = append(b.waiters[:0], b.waiters[n:]...)
	b.waiting.Store(int32(len(b.waiters)))
	b.mu.Unlock()
	for _, c := range woken {
		c.signal()
	}
}

// enlist has a connection told when there is room. It returns true: who enlists looks once more.
func (b *publishBudget) enlist(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiters {
		if w == c {
			return true
		}
	}
	b.waiters = append(b.waiters, c)
	b.waiting.Store(int32(len(b.waiters)))
	return true
}

// leave forgets a connection.
func (b *publishBudget) leave(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.waiters {
		if w == c {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			b.waiting.Store(int32(len(b.waiters)))
			return
		}
	}
}
