package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/histogram"
)

// Report is the result of a run. Its JSON form is an interface for scripts: keys are only added.
type Report struct {
	Broker    string `json:"broker"`
	Producers int    `json:"producers"`
	Consumers int    `json:"consumers"`
	BodyBytes int    `json:"body_bytes"`
	Window    int    `json:"confirm_window"`
	Prefetch  int    `json:"prefetch"`
	AckEvery  int    `json:"multi_ack_every"`
	AutoAck   bool   `json:"auto_ack"`
	Queue     string `json:"queue"`
	Queues    int    `json:"queues"`
	QueueType string `json:"queue_type"`

	Seconds       float64  `json:"seconds"` // measured time
	Published     uint64   `json:"published"`
	Confirmed     uint64   `json:"confirmed"`
	Consumed      uint64   `json:"consumed"`
	PublishRate   float64  `json:"publish_rate"`
	ConfirmRate   float64  `json:"confirm_rate"`
	ConsumeRate   float64  `json:"consume_rate"`
	Latency       *Latency `json:"latency_ms,omitempty"`         // from publish to delivery
	ConfirmedIn   *Latency `json:"confirm_latency_ms,omitempty"` // from publish to confirm
	GeneratorCPUs float64  `json:"generator_cpus"`               // processors that this program kept busy while measuring
	Check         Check    `json:"check"`
}

// Latency holds milliseconds.
type Latency struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// Check accounts for every message of the whole run, warm-up included.
type Check struct {
	OK          bool     `json:"ok"`
	Published   uint64   `json:"published"`
	Confirmed   uint64   `json:"confirmed"`
	Nacked      uint64   `json:"nacked"`
	Returned    uint64   `json:"returned"`
	Consumed    uint64   `json:"consumed"`   // different messages of the run
	Missing     uint64   `json:"missing"`    // published and never consumed
	Duplicates  uint64   `json:"duplicates"` // consumed more than once
	Redelivered uint64   `json:"redelivered"`
	Foreign     uint64   `json:"foreign"`       // messages of somebody else
	Left        uint64   `json:"left_in_queue"` // at the end
	Differences []string `json:"differences"`   // what is wrong, for people
}

func newReport(cfg *Config, broker string) *Report {
	return &Report{
		Broker: broker, Producers: cfg.Producers, Consumers: cfg.Consumers, BodyBytes: cfg.BodyBytes, Window: cfg.Window, Prefetch: cfg.Prefetch,
		AckEvery: cfg.AckEvery, AutoAck: cfg.AutoAck, Queue: cfg.Queue, Queues: cfg.QueueCount, QueueType: cfg.QueueType,
		Check: Check{Differences: []string{}},
	}
}

func (r *Report) measured(start, end counters, elapsed, cpu time.Duration) {
	r.Seconds = elapsed.Seconds()
	r.Published, r.Confirmed, r.Consumed = end.published-start.published, end.confirmed-start.confirmed, end.consumed-start.consumed
	r.PublishRate = float64(r.Published) / r.Seconds
	r.ConfirmRate = float64(r.Confirmed) / r.Seconds
	r.ConsumeRate = float64(r.Consumed) / r.Seconds
	r.GeneratorCPUs = cpu.Seconds() / r.Seconds
}

func (r *Report) latencies(delivery, confirm *histogram.Histogram) {
	r.Latency, r.ConfirmedIn = newLatency(delivery), newLatency(confirm)
}

func newLatency(h *histogram.Histogram) *Latency {
	if h.Count() == 0 {
		return nil
	}
	ms := func(nanos int64) float64 { return float64(nanos) / 1e6 }
	return &Latency{
		Min: ms(h.Min()), Mean: ms(h.Mean()), P50: ms(h.Quantile(0.5)), P95: ms(h.Quantile(0.95)), P99: ms(h.Quantile(0.99)),
		P999: ms(h.Quantile(0.999)), Max: ms(h.Max()),
	}
}

// check accounts for every message once all workers have ended.
func (r *run) check(ctx context.Context, report *Report) error {
	c := &report.Check
	for _, p := range r.producers {
		c.Published += p.published.Load()
		c.Confirmed += p.confirmed.Load()
		c.Nacked += p.nacked.Load()
		c.Returned += p.returned.Load()
	}
	for _, w := range r.consumers {
		c.Redelivered += w.redelivered.Load()
	}
	c.Consumed, c.Duplicates, c.Foreign = r.tracker.counts()
	for i, p := range r.producers {
		n, _ := r.tracker.sets[i].missing(p.published.Load())
		c.Missing += n
	}
	// What was not consumed should be in the queue, unless it was refused.
	var rest uint64
	if len(r.producers) > 0 {
		rest = c.Missing - min(c.Missing, c.Nacked+c.Returned)
	}
	if len(r.producers) > 0 && ctx.Err() == nil {
		left, err := r.queues.left(rest)
		if err != nil {
			return err
		}
		c.Left = left
	}
	c.judge(&r.cfg, ctx.Err() != nil)
	return nil
}

// judge finds the differences. A run that was interrupted or whose consumers had a limit leaves messages behind on purpose.
func (c *Check) judge(cfg *Config, interrupted bool) {
	differ := func(n uint64, format string) {
		if n > 0 {
			c.Differences = append(c.Differences, fmt.Sprintf(format, n))
		}
	}
	if cfg.Producers > 0 {
		if cfg.Window > 0 {
			differ(c.Published-min(c.Published, c.Confirmed+c.Nacked), "never confirmed: %d")
		}
		differ(c.Nacked, "refused (nack): %d")
		differ(c.Returned, "returned as unroutable: %d")
		refused := c.Nacked + c.Returned
		switch lost := c.Missing - min(c.Missing, refused); {
		case interrupted:
		case cfg.Consumers > 0 && cfg.ConsumerMessages == 0:
			differ(lost, "published and never consumed: %d")
			differ(c.Left, "left in the queue: %d")
		case lost > c.Left:
			differ(lost-c.Left, "neither consumed nor in the queue: %d")
		case lost < c.Left:
			differ(c.Left-lost, "too many in the queue: %d")
		}
		differ(c.Duplicates, "consumed more than once: %d")
	}
	c.OK = len(c.Differences) == 0
}
