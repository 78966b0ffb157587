package quorum

import (
	"sync"

	"github.com/warrenmq/warren/config/limits"
)

// starter starts replicas, at most limits.StartsAtOnce at a time: first those that somebody wants something of. Of the others only limits.StartsUnasked start at once, so that who wants something does not wait
// behind them.
type starter struct {
	mu       sync.Mutex
	wanted   []*slot
	waiting  []*slot
	running  int
	unwanted int // of those that are running
}

func (st *starter) add(h *Host, s *slot, wanted bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if wanted {
		st.wanted = append(st.wanted, s)
	} else {
		st.waiting = append(st.waiting, s)
	}
	if st.running < limits.StartsAtOnce {
		st.running++
		go st.work(h)
	}
}

func (st *starter) work(h *Host) {
	for {
		s, wanted := st.take()
		if s == nil {
			return
		}
		h.startGroup(s)
		if !wanted {
			st.mu.Lock()
			st.unwanted--
			st.mu.Unlock()
		}
	}
}

// take returns what is to start next; nil ends the worker.
func (st *starter) take() (s *slot, wanted bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case len(st.wanted) > 0:
		s, wanted = pop(&st.wanted), true
	case len(st.waiting) > 0 && st.unwanted < limits.StartsUnasked:
		s = pop(&st.waiting)
		st.unwanted++
	default:
		st.running--
	}
	return s, wanted
}

// pop takes the first one.
func pop(list *[]*slot) *slot {
	s := (*list)[0]
	(*list)[0] = nil
	if *list = (*list)[1:]; len(*list) == 0 {
		*list = nil
	}
	return s
}
