package bench

import (
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/histogram"
)

// tick reports an interval when one is over.
func (r *run) tick(phase string) {
	elapsed := time.Since(r.interval.at)
	if elapsed < intervalStep || r.cfg.Progress == nil {
		return
	}
	now, latency := r.counters(), r.shownLatency()
	last := r.interval.last
	since := latency.Since(r.interval.latency)
	perSecond := func(n, before uint64) float64 { return float64(n-before) / elapsed.Seconds() }
	r.cfg.Progress(Interval{
		Phase: phase, At: time.Since(r.began),
		Published: perSecond(now.published, last.published), Confirmed: perSecond(now.confirmed, last.confirmed),
		Consumed: perSecond(now.consumed, last.consumed),
		P50Nanos: since.Quantile(0.5), P99Nanos: since.Quantile(0.99),
	})
	r.interval.at, r.interval.last, r.interval.latency = time.Now(), now, latency
}

func (r *run) resetInterval() {
	r.interval.at, r.interval.last, r.interval.latency = time.Now(), r.counters(), new(histogram.Histogram)
}

// resetLatency forgets what the warm-up recorded.
func (r *run) resetLatency() {
	for _, p := range r.producers {
		p.mu.Lock()
		p.latency = histogram.Histogram{}
		p.mu.Unlock()
	}
	for _, c := range r.consumers {
		c.mu.Lock()
		c.latency = histogram.Histogram{}
		c.mu.Unlock()
	}
	r.resetInterval()
}

// deliveryLatency is the time from publish to delivery, over all consumers.
func (r *run) deliveryLatency() *histogram.Histogram {
	all := new(histogram.Histogram)
	for _, c := range r.consumers {
		c.mu.Lock()
		all.Merge(&c.latency)
		c.mu.Unlock()
	}
	return all
}

// confirmLatency is the time from publish to confirm, over all producers.
func (r *run) confirmLatency() *histogram.Histogram {
	all := new(histogram.Histogram)
	for _, p := range r.producers {
		p.mu.Lock()
		all.Merge(&p.latency)
		p.mu.Unlock()
	}
	return all
}

// shownLatency is the one that intervals show: of deliveries, without consumers of confirms.
func (r *run) shownLatency() *histogram.Histogram {
	if len(r.consumers) > 0 {
		return r.deliveryLatency()
	}
	return r.confirmLatency()
}
