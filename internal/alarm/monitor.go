package alarm

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// Options tells Start what to watch.
type Options struct {
	// Dir is on the file system whose free space counts.
	Dir string
	// MemoryHigh is above which memory is short, limits.MemoryHighPercent of the limit if zero.
	MemoryHigh Threshold
	// DiskFree is below which disk space is short, if zero a tenth of the file system, at most limits.DiskFreeBytes.
	DiskFree Threshold
	// MemoryLimitBytes is what the process may take; if 0 what the platform says.
	MemoryLimitBytes uint64
	// Changed is told what the node is short of, from the first look on. It must not block.
	Changed func(Set)
	// Log takes what operators should know; slog.Default if nil.
	Log *slog.Logger
}

// Monitor watches a node. Make one with Start; its methods may be called from several goroutines.
type Monitor struct {
	opt     Options
	log     *slog.Logger
	measure func() Usage
	collect func()

	mu     sync.Mutex // held while looking
	status Status
	told   bool
	// collected is when garbage was last collected for an alarm, pause how long after that it is not done again.
	collected time.Time
	pause     time.Duration

	stop    chan struct{}
	stopped chan struct{}
	closing sync.Once
}

// Status is what a Monitor saw last.
type Status struct {
	Usage
	Bounds
	Alarms Set
}

// lookPeriod is how often a Monitor looks.
const lookPeriod = 250 * time.Millisecond

// Collecting garbage for an alarm takes a tenth of the time at most.
const (
	collectPause = time.Second
	collectShare = 10
)

// Start looks for the first time and then four times a second until Close.
func Start(opt Options) *Monitor {
	m := newMonitor(opt)
	m.measure = func() Usage { return measure(opt.Dir) }
	m.tick(time.Now())
	go m.run()
	return m
}

func newMonitor(opt Options) *Monitor {
	if opt.MemoryLimitBytes == 0 {
		opt.MemoryLimitBytes = MemoryLimit()
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Changed == nil {
		opt.Changed = func(Set) {}
	}
	return &Monitor{opt: opt, log: opt.Log, collect: debug.FreeOSMemory, stop: make(chan struct{}), stopped: make(chan struct{})}
}

func (m *Monitor) run() {
	defer close(m.stopped)
	t := time.NewTicker(lookPeriod)
	defer t.Stop()
	for {
		select {
		case <-m.stop:
			return
		case now := <-t.C:
			m.tick(now)
		}
	}
}

// Close ends the watch. A second time it does nothing.
func (m *Monitor) Close() {
	m.closing.Do(func() { close(m.stop) })
	<-m.stopped
}

// Status returns what was seen last.
func (m *Monitor) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// SetMemoryHigh sets from now on above which memory is short, until the process ends.
func (m *Monitor) SetMemoryHigh(t Threshold) { m.set(&m.opt.MemoryHigh, t) }

// SetDiskFree sets from now on below which disk space is short, until the process ends.
func (m *Monitor) SetDiskFree(t Threshold) { m.set(&m.opt.DiskFree, t) }

func (m *Monitor) set(which *Threshold, t Threshold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*which = t
	m.look(time.Now(), 0) // the margin is for usage that moves, not for bounds
}

func (m *Monitor) tick(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.look(now, m.status.Alarms)
}

// look measures, judges and tells. Called with m.mu held.
func (m *Monitor) look(now time.Time, was Set) {
	u := m.measure()
	b := m.bounds(u)
	if u.MemoryBytes > b.MemoryHighBytes {
		if now.Sub(m.collected) >= m.pause {
			start := time.Now()
			m.collect()
			m.collected, m.pause = now, max(collectPause, collectShare*time.Since(start))
			u = m.measure()
		} else if was&Memory == 0 && !isPressing(u.MemoryBytes, b) {
			u.MemoryBytes = min(u.MemoryBytes, b.MemoryHighBytes) // it may be garbage, and was shown to be a moment ago
		}
	}
	before := m.status.Alarms
	m.status = Status{Usage: u, Bounds: b, Alarms: Judge(was, u, b)}
	if m.status.Alarms != before || !m.told {
		m.told = true
		m.report(before)
		m.opt.Changed(m.status.Alarms)
	}
}

func (m *Monitor) bounds(u Usage) Bounds {
	b := Bounds{MemoryLimitBytes: m.opt.MemoryLimitBytes}
	var ok bool
	if b.MemoryHighBytes, ok = m.opt.MemoryHigh.of(b.MemoryLimitBytes); !ok {
		b.MemoryHighBytes = b.MemoryLimitBytes / 100 * limits.MemoryHighPercent
	}
	if b.DiskLimitBytes, ok = m.opt.DiskFree.of(b.MemoryLimitBytes); !ok {
		b.DiskLimitBytes = min(limits.DiskFreeBytes, u.DiskBytes/limits.DiskFreeShare)
	}
	return b
}

// report logs what changed.
func (m *Monitor) report(before Set) {
	s := &m.status
	for _, what := range [...]struct {
		bit          Set
		name, used   string
		value, limit uint64
	}{
		{Memory, "memory", "used", s.MemoryBytes, s.MemoryHighBytes},
		{Disk, "disk space", "free", s.DiskFreeBytes, s.DiskLimitBytes},
	} {
		switch {
		case s.Alarms&what.bit != 0 && before&what.bit == 0:
			m.log.Warn(what.name+" alarm is raised: publishers are blocked until it is cleared", what.used, what.value, "limit", what.limit)
		case s.Alarms&what.bit == 0 && before&what.bit != 0:
			m.log.Info(what.name+" alarm is cleared", what.used, what.value, "limit", what.limit)
		}
	}
	if s.Alarms&DiskFull != 0 && before&DiskFull == 0 {
		m.log.Error("there is hardly any disk space left: publishes are refused", "free", s.DiskFreeBytes)
	}
}
