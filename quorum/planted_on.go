//go:build plantedbug_early_confirm

package quorum

import (
	"time"
)

// confirmEarly is a planted bug: batches are answered before they are proposed. The reliability tests must catch it.
const confirmEarly = true

// plantedDelay is how long a batch is kept from the log after it was answered.
const plantedDelay = 30 * time.Millisecond

func (p *pipeline) plant(b *batch) {
	t, k, buf := p.target, b.k, append([]byte(nil), b.buf...)
	time.AfterFunc(plantedDelay, func() {
		for range 100 {
			if _, _, err := t.propose(p.id, k, buf); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	go func() {
		for !p.first(k) {
			time.Sleep(time.Millisecond)
		}
		p.answered(k, nil)
	}()
}

// first tells whether k is the first batch in flight: answers keep their order.
func (p *pipeline) first(k uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flight) == 0 || p.flight[0].k >= k
}
