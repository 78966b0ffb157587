package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/histogram"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/lean"
)

// watchStep is how often a run looks whether it is finished; intervalStep how often it reports.
const (
	watchStep    = 5 * time.Millisecond
	intervalStep = time.Second
)

// The phases of a run, as Interval names them.
const (
	phaseWarmup  = "warm-up"
	phaseMeasure = "measure"
	phaseDrain   = "drain"
)

// run is one benchmark under way.
type run struct {
	cfg       Config
	clock     clock
	began     time.Time
	workAt    time.Time     // when the first worker started
	workCPU   time.Duration // and what this process had used until then
	tracker   *tracker
	queues    queues
	producers []*producer
	consumers []*consumer
	failed    chan error // one place for each worker
	publish   sync.WaitGroup
	receive   sync.WaitGroup

	interval struct {
		at      time.Time
		last    counters
		latency *histogram.Histogram
	}
	moved struct { // for the detection of a standstill
		at   time.Time
		last counters
	}
}

// counters are the totals at one moment.
type counters struct {
	published, confirmed, consumed uint64
}

// Run benchmarks a broker. It returns when the messages are drained and the queues it declared are deleted. When ctx ends, the run stops early,
// drains nothing, and the report covers what happened.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, exit.Errorf(exit.Usage, "%w", err)
	}
	runID := uint16(rand.Uint32())
	r := &run{
		cfg: cfg, clock: newClock(), began: time.Now(), tracker: newTracker(runID, cfg.Producers),
		failed: make(chan error, cfg.Producers+cfg.Consumers),
	}
	r.queues.cfg = &r.cfg
	r.resetInterval()
	defer r.queues.close()
	defer r.abort()
	if err := r.queues.open(ctx); err != nil {
		return nil, err
	}
	if err := r.connect(ctx, runID); err != nil {
		return nil, err
	}
	return r.measure(ctx)
}

// connect opens the workers' connections and starts them, consumers first.
func (r *run) connect(ctx context.Context, runID uint16) error {
	r.workAt, r.workCPU = time.Now(), processCPU()
	for i := range r.cfg.Consumers {
		conn, err := lean.Dial(ctx, r.cfg.Target)
		if err != nil {
			return err
		}
		c, err := newConsumer(conn, &r.cfg, r.clock, r.tracker, i)
		if err != nil {
			conn.Abort()
			return err
		}
		r.consumers = append(r.consumers, c)
		r.receive.Go(func() { r.report(c.receive()) })
	}
	for i := range r.cfg.Producers {
		conn, err := lean.Dial(ctx, r.cfg.Target)
		if err != nil {
			return err
		}
		p, err := newProducer(conn, &r.cfg, r.clock, runID, i)
		if err != nil {
			conn.Abort()
			return err
		}
		r.producers = append(r.producers, p)
	}
	for _, p := range r.producers { // all at once, when every connection stands
		go p.answers()
		r.publish.Go(func() { r.report(p.publish()) })
	}
	return nil
}

func (r *run) report(err error) {
	if err != nil {
		r.failed <- err
	}
}

// abort closes every connection; workers that still run end.
func (r *run) abort() {
	for _, p := range r.producers {
		p.stop()
		p.conn.Abort()
	}
	for _, c := range r.consumers {
		c.conn.Abort()
	}
	r.publish.Wait()
	r.receive.Wait()
}

// measure runs the phases and makes the report.
func (r *run) measure(ctx context.Context) (*Report, error) {
	if r.cfg.Warmup > 0 {
		if err := r.phase(ctx, phaseWarmup, r.cfg.Warmup); err != nil {
			return nil, err
		}
	}
	start, startCPU, startAt := counters{}, r.workCPU, r.workAt // without a warm-up everything counts, from the first message
	if r.cfg.Warmup > 0 {
		r.resetLatency()
		start, startCPU, startAt = r.counters(), processCPU(), time.Now()
	}
	if err := r.phase(ctx, phaseMeasure, r.cfg.Duration); err != nil {
		return nil, err
	}
	end, endCPU, elapsed := r.counters(), processCPU(), time.Since(startAt)
	report := newReport(&r.cfg, r.queues.conn.Server)
	report.measured(start, end, elapsed, endCPU-startCPU)
	report.latencies(r.deliveryLatency(), r.confirmLatency())
	if err := r.drain(ctx); err != nil {
		return nil, err
	}
	if err := r.check(ctx, report); err != nil {
		return nil, err
	}
	return report, nil
}

// phase waits until a phase is over: by time, by the limits of messages, or because ctx ended. A failed worker ends the run.
// Length 0 is no limit in time.
func (r *run) phase(ctx context.Context, name string, length time.Duration) error {
	var over <-chan time.Time
	if length > 0 {
		timer := time.NewTimer(length)
		defer timer.Stop()
		over = timer.C
	}
	watch := time.NewTicker(watchStep)
	defer watch.Stop()
	r.resetMoved()
	for {
		select {
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return nil
		case <-over:
			return nil
		case <-watch.C:
			r.tick(name)
			if r.limitsReached() {
				return nil
			}
			if length == 0 && r.stalled() {
				return r.stallError()
			}
		}
	}
}

// limitsReached tells whether message limits, where there are any, leave nothing more to happen.
func (r *run) limitsReached() bool {
	now := r.counters()
	if r.cfg.ConsumerMessages > 0 && len(r.consumers) > 0 && now.consumed >= r.cfg.ConsumerMessages*uint64(len(r.consumers)) {
		return true
	}
	if r.cfg.ProducerMessages == 0 || len(r.producers) == 0 || now.published < r.cfg.ProducerMessages*uint64(len(r.producers)) {
		return false
	}
	for _, p := range r.producers {
		if r.cfg.Window > 0 && p.answered.Load() < p.published.Load() {
			return false
		}
	}
	return len(r.consumers) == 0 || r.drained()
}

// drain stops the producers, waits for their last confirms, lets the consumers take what is left, and stops them.
func (r *run) drain(ctx context.Context) error {
	for _, p := range r.producers {
		p.stop()
	}
	if err := r.until(r.publish.Wait, nil); err != nil {
		return err
	}
	for _, p := range r.producers {
		p.conn.SendClose()
		<-p.done
	}
	if len(r.consumers) > 0 && r.cfg.ConsumerMessages == 0 && len(r.producers) > 0 && ctx.Err() == nil {
		if err := r.until(nil, r.drained); err != nil && exit.Of(err) != exit.Timeout {
			return err
		} // a time-out is what the check reports, with numbers
	}
	for _, c := range r.consumers {
		c.stop()
	}
	return r.until(r.receive.Wait, nil)
}

// until waits for a blocking call to return, or a condition to hold, as long as something moves. It has no context: also an interrupted run
// finishes what is under way.
func (r *run) until(call func(), condition func() bool) error {
	done := make(chan struct{})
	if call != nil {
		go func() { call(); close(done) }()
	}
	watch := time.NewTicker(watchStep)
	defer watch.Stop()
	r.resetMoved()
	for {
		select {
		case err := <-r.failed:
			return err
		case <-done:
			select {
			case err := <-r.failed:
				return err
			default:
				return nil
			}
		case <-watch.C:
			r.tick(phaseDrain)
			if condition != nil && condition() {
				return nil
			}
			if r.stalled() {
				return r.stallError()
			}
		}
	}
}

// drained tells whether every message that was published and not refused has been consumed.
func (r *run) drained() bool {
	unique, _, _ := r.tracker.counts()
	return unique >= r.expected()
}

// expected is how many messages must be in the queues or consumed.
func (r *run) expected() uint64 {
	var n uint64
	for _, p := range r.producers {
		n += p.published.Load() - p.nacked.Load() - p.returned.Load()
	}
	return n
}

func (r *run) counters() counters {
	var now counters
	for _, p := range r.producers {
		now.published += p.published.Load()
		now.confirmed += p.confirmed.Load()
	}
	for _, c := range r.consumers {
		now.consumed += c.consumed.Load()
	}
	return now
}

func (r *run) resetMoved() { r.moved.at, r.moved.last = time.Now(), r.counters() }

// stalled tells whether nothing has moved for the time-out.
func (r *run) stalled() bool {
	now := r.counters()
	if now != r.moved.last {
		r.moved.at, r.moved.last = time.Now(), now
	}
	return time.Since(r.moved.at) > r.cfg.Target.Timeout
}

func (r *run) stallError() error {
	now := r.counters()
	for _, p := range r.producers {
		if p.blocked.Load() {
			return exit.Errorf(exit.Timeout, "the broker blocks publishers (connection.blocked): nothing moved for %s after %d messages published, %d confirmed, %d consumed",
				r.cfg.Target.Timeout, now.published, now.confirmed, now.consumed)
		}
	}
	return exit.Errorf(exit.Timeout, "nothing moved for %s after %d messages published, %d confirmed, %d consumed",
		r.cfg.Target.Timeout, now.published, now.confirmed, now.consumed)
}
