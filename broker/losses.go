package broker

import (
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// losses tells of dead letters that queues had to drop, which this node leads: each queue's at most once a minute, with how many there were since it was told last.
type losses struct {
	b *Broker

	mu     sync.Mutex
	queues map[meta.QueueID]*loss // those that lost some lately, at most limits.LossesMax
}

type loss struct {
	told   time.Time
	untold int
}

// note is called when a queue has dropped n dead letters. It does not block.
func (l *losses) note(id meta.QueueID, n int) {
	if !l.b.tells() {
		return
	}
	if lost := l.due(id, n, time.Now()); lost > 0 {
		if q := l.b.host.Catalogue().View.QueueByID(id); q != nil {
			l.b.event("queue.letters.lost", textField("name", q.KnownAs()), textField("vhost", q.VHost), textField("node", l.b.nodeName()), longField("lost", int64(lost)), byUser(""))
		}
	}
}

// due counts what a queue has lost and returns how many are to be told of now.
func (l *losses) due(id meta.QueueID, n int, now time.Time) (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.queues[id]
	if x == nil {
		if len(l.queues) >= limits.LossesMax && !l.forget(now) {
			return 0 // the log has it, and the metric
		}
		if l.queues == nil {
			l.queues = make(map[meta.QueueID]*loss)
		}
		x = new(loss)
		l.queues[id] = x
	}
	x.untold += n
	if now.Sub(x.told) < limits.LostTellMillis*time.Millisecond {
		return 0
	}
	lost, x.untold, x.told = x.untold, 0, now
	return lost
}

// forget makes room: queues that have been told of and have lost nothing for a while go. It reports whether there were some.
func (l *losses) forget(now time.Time) bool {
	some := false
	for id, x := range l.queues {
		if x.untold == 0 && now.Sub(x.told) >= limits.LostTellMillis*time.Millisecond {
			delete(l.queues, id)
			some = true
		}
	}
	return some
}
