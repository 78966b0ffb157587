package transport

import (
	"sync"
	"time"
)

// throttle lets bytes through at a rate. Who asks is served in order; streams that ask for small pieces share the rate evenly.
type throttle struct {
	perSecond int64

	mu   sync.Mutex
	free time.Time // when everything that was asked for so far will have gone
}

// burstBytes is what may go at once after a pause.
const burstBytes = writePieceBytes

// take waits until n more bytes may go. It returns false when stop closes first.
func (t *throttle) take(n int, stop <-chan struct{}) bool {
	wait := t.reserve(n)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

func (t *throttle) reserve(n int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if earliest := now.Add(-t.cost(burstBytes)); t.free.Before(earliest) {
		t.free = earliest
	}
	t.free = t.free.Add(t.cost(n))
	return t.free.Sub(now)
}

func (t *throttle) cost(n int) time.Duration {
	return time.Duration(int64(n) * int64(time.Second) / t.perSecond)
}
