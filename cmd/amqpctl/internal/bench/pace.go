package bench

import "time"

// precise is the span below which a producer sleeps in the kernel instead of on a Go timer, which wakes up to a millisecond late.
const precise = 2 * time.Millisecond

// pacer says when messages are due. Without a rate every message is due now.
type pacer struct {
	start    int64
	interval float64 // nanoseconds between two messages; 0 is no rate
	clock    clock
}

func newPacer(rate float64, clk clock) *pacer {
	p := &pacer{start: clk.now(), clock: clk}
	if rate > 0 {
		p.interval = 1e9 / rate
	}
	return p
}

// due returns how many of n further messages are due after `published` ones, or how long it takes until one is.
func (p *pacer) due(published uint64, n int) (int, time.Duration) {
	if p.interval == 0 {
		return n, 0
	}
	now := p.clock.now()
	if next := p.dueNanos(published+1, now); next > now {
		return 0, time.Duration(next - now)
	}
	ready := uint64(float64(now-p.start)/p.interval) + 1 - published
	return int(min(uint64(n), max(ready, 1))), 0
}

// dueNanos returns when message seq (from 1) is due: now without a rate.
func (p *pacer) dueNanos(seq uint64, now int64) int64 {
	if p.interval == 0 {
		return now
	}
	return p.start + int64(float64(seq-1)*p.interval)
}
