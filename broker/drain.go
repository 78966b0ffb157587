package broker

import (
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/queue"
)

// Queues are told how far deliveries were written (OpDrained): it opens the windows of consumers and settles deliveries that need no acknowledgement. It
// is told when half a window was written, and a little after the last delivery. As long as a channel has as many bytes to acknowledge as it may, its queues are
// told nothing: its consumers' windows stay closed.

// lag is the sources of a connection that have written more than they told, and the timer that will tell it.
type lag struct {
	mu      sync.Mutex
	sources []*source
	timer   *time.Timer
	armed   bool
	last    time.Time // of the last write with deliveries
}

const drainedIdle = limits.DrainedIdleMillis * time.Millisecond

// wrote is called by the writer after a flight is in the socket.
func (c *conn) wrote(f *flight) {
	if len(f.marks) == 0 {
		return
	}
	idle := false
	for i := range f.marks {
		m := &f.marks[i]
		due, lags := m.src.wrote(m)
		if due {
			m.src.tell(m.d)
		}
		if lags {
			c.lag.mu.Lock()
			c.lag.sources = append(c.lag.sources, m.src)
			c.lag.mu.Unlock()
			idle = true
		}
		m.src = nil
	}
	c.lag.mu.Lock()
	c.lag.last = time.Now()
	if idle && !c.lag.armed {
		c.lag.arm(c, drainedIdle)
	}
	c.lag.mu.Unlock()
}

// arm starts the timer. Called with l.mu held.
func (l *lag) arm(c *conn, d time.Duration) {
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(d, c.tellIdle)
	} else {
		l.timer.Reset(d)
	}
}

func (l *lag) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// wrote notes that the source's deliveries up to the mark are written. due: the queue should be told now; lags: it should be told later.
func (s *source) wrote(m *mark) (due, lags bool) {
	s.ch.mu.Lock()
	defer s.ch.mu.Unlock()
	s.written = max(s.written, m.d)
	if !s.untold() {
		return false, false
	}
	fresh := m.d - s.drained
	open := uint64(s.unsettled)
	if s.noAck > s.drained {
		open = fresh // as many as there may be
	}
	open = min(open, fresh)
	bytes := (m.bytes - s.drainedBytes) / fresh * open
	if open >= windowCount/2 || bytes >= uint64(s.windowBytes)/2 {
		s.drained, s.drainedBytes = m.d, m.bytes
		return true, false
	}
	if s.lagging {
		return false, false
	}
	s.lagging = true
	return false, true
}

// untold tells whether something was written that the queue wants to know: what was settled since needs no mention. Called with ch.mu held.
func (s *source) untold() bool {
	if s.written <= s.drained || s.gone || s.ch.state != chanOpen || s.unsettled == 0 && s.noAck <= s.drained {
		return false
	}
	if s.isWithheld() {
		s.ch.withheld = true
		return false
	}
	return true
}

// isWithheld tells whether the queue may not know what was written, for the client has to acknowledge first. Called with ch.mu held.
func (s *source) isWithheld() bool {
	most := s.ch.c.b.opt.UnackedBytesMax
	return most > 0 && s.ch.unackedBytes >= most && s.unsettled > 0
}

// resume has the channel's queues told what was withheld. It is called by the executor without a lock.
func (ch *channel) resume() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	l := &ch.c.lag
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range ch.sources {
		if s.untold() && !s.lagging {
			s.lagging = true
			l.sources = append(l.sources, s)
		}
	}
	if len(l.sources) > 0 && !l.armed {
		l.arm(ch.c, drainedIdle)
	}
}

// tell tells the queue.
func (s *source) tell(d uint64) {
	if s.ch.session.Submit(s.queue.ID, &queue.Command{Op: queue.OpDrained, To: d}, 0) == nil {
		s.ch.session.Flush()
	}
}

// tellIdle is the timer: it tells all that is untold once the connection was idle for a moment.
func (c *conn) tellIdle() {
	defer c.guard()
	l := &c.lag
	l.mu.Lock()
	if rest := drainedIdle - time.Since(l.last); rest > time.Millisecond && c.isOpen() {
		l.arm(c, rest)
		l.mu.Unlock()
		return
	}
	sources := l.sources
	l.sources, l.armed = nil, false
	l.mu.Unlock()
	for _, s := range sources {
		s.ch.mu.Lock()
		s.lagging = false
		tell, d := s.untold(), s.written
		if tell {
			s.drained = d
			c.out.mu.Lock()
			s.drainedBytes = s.bytes
			c.out.mu.Unlock()
		}
		s.ch.mu.Unlock()
		if tell {
			s.tell(d)
		}
	}
}
