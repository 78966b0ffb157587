package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/table"
)

// How often the line is shown.
const (
	terminalStep = 200 * time.Millisecond
	fileStep     = 5 * time.Second
)

// Meter shows a counter until it is stopped.
type Meter struct {
	out      io.Writer
	terminal bool
	count    func() uint64
	stop     chan struct{}
	ended    sync.WaitGroup
	began    time.Time

	last   uint64
	lastAt time.Time
}

// Start shows count() regularly. A nil out shows nothing.
func Start(out io.Writer, terminal bool, count func() uint64) *Meter {
	m := &Meter{out: out, terminal: terminal, count: count, stop: make(chan struct{}), began: time.Now()}
	m.lastAt = m.began
	if out == nil {
		return m
	}
	step := fileStep
	if terminal {
		step = terminalStep
	}
	m.ended.Go(func() {
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				m.show(now)
			case <-m.stop:
				if m.terminal {
					fmt.Fprint(m.out, "\r\x1b[K")
				}
				return
			}
		}
	})
	return m
}

// show prints the count and its rate since the last time.
func (m *Meter) show(now time.Time) {
	n := m.count()
	line := Line(n, float64(n-m.last)/max(now.Sub(m.lastAt).Seconds(), 1e-9))
	m.last, m.lastAt = n, now
	if m.terminal {
		fmt.Fprint(m.out, "\r\x1b[K"+line)
	} else {
		fmt.Fprintln(m.out, line)
	}
}

// Line is a count of messages and a rate.
func Line(n uint64, perSecond float64) string {
	unit := "messages"
	if n == 1 {
		unit = "message"
	}
	return fmt.Sprintf("%s %s confirmed, %s/s", table.Group(int64(n)), unit, table.Group(int64(perSecond)))
}

// Stop ends the display, takes the painted line away, and returns how long it all took.
func (m *Meter) Stop() time.Duration {
	close(m.stop)
	m.ended.Wait()
	return time.Since(m.began)
}
