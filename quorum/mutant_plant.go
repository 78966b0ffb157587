//go:build quorummutants || plantedbug_early_confirm

package quorum

import "time"

// plantedDelay is how long a batch is kept from the log after it was answered.
const plantedDelay = 30 * time.Millisecond

// plant answers a batch before it is committed; unless it is proposed already, that comes later.
func (p *pipeline) plant(b *batch, proposed bool) {
	k := b.k
	go func() {
		for !p.first(k) {
			time.Sleep(time.Millisecond)
		}
		p.answered(k, nil)
	}()
	if proposed {
		return
	}
	t, buf := p.target, append([]byte(nil), b.buf...)
	time.AfterFunc(plantedDelay, func() {
		for range 100 {
			if _, _, err := t.propose(p.id, k, buf); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// first tells whether k is the first batch in flight: answers keep their order.
func (p *pipeline) first(k uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flight) == 0 || p.flight[0].k >= k
}
