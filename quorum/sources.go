package quorum

import (
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/queue"
)

// sources is since when the queues whose outboxes came to a queue are gone, in monotonic milliseconds, as its leader has seen it. Only the host's reporter uses it.
type sources struct {
	looked int64
	gone   map[queue.Source]int64
}

// forgetSources has a queue forget the outboxes of queues that are gone for limits.ForgetMillis: a run that was sent before cannot come any more (PROTOCOL 4).
func (h *Host) forgetSources(run runner, s *sources) {
	now := h.clock.monotonicMillis()
	if s.looked != 0 && now-s.looked < limits.ForgetLookMillis {
		return
	}
	s.looked = now
	r := run.core()
	r.mu.Lock()
	if !r.opened {
		r.mu.Unlock()
		return
	}
	known := r.m.Sources(nil)
	r.mu.Unlock()
	view, gone := h.Catalogue().View, make(map[queue.Source]int64)
	var due []queue.Source
	for _, source := range known {
		if !isGone(view, source.Queue) {
			continue
		}
		since, seen := s.gone[source]
		if !seen {
			since = now
		}
		gone[source] = since // until it is not known any more
		if now-since >= limits.ForgetMillis {
			due = append(due, source)
		}
	}
	s.gone = gone
	if len(due) == 0 {
		return
	}
	h.workers.Add(1)
	go func() {
		defer h.workers.Done()
		for _, source := range due {
			if _, err := run.command(&queue.Command{Op: queue.OpForget, Peer: source.Queue, PeerEpoch: source.Epoch}); err != nil {
				return // the next look tries again
			}
		}
	}()
}
