package quorum

import (
	"sync"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage/wal"
)

// shortener has groups cut their logs that keep the node's log from becoming shorter.
type shortener struct {
	host *Host

	mu      sync.Mutex
	pinning map[wal.Group]uint64 // groups that keep an old file of the log up to an entry, to be looked at; no more than the log has
	looking bool
}

// need is the log's word that a group keeps an old file of it up to an entry. It only takes a note: the log calls it, again and again while that is so.
func (s *shortener) need(id wal.Group, index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinning == nil {
		s.pinning = make(map[wal.Group]uint64)
	}
	s.pinning[id] = index
	if !s.looking {
		s.looking = true
		go s.look()
	}
}

// look has the groups that keep old files cut their logs.
func (s *shortener) look() {
	for {
		s.mu.Lock()
		list := s.pinning
		s.pinning = nil
		s.looking = len(list) > 0
		s.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for id, index := range list {
			if s.host.started.Load() { // else the log says so again
				s.host.shorten(id, index)
			}
		}
	}
}

// shorten has one group cut its log up to an entry.
func (h *Host) shorten(id wal.Group, index uint64) {
	if id.Shard == catalogueShard {
		h.cat.cutLog(index)
		return
	}
	s, err := h.slot(meta.QueueID(id.Shard))
	if err != nil {
		return // it is deleted, and its log is about to go
	}
	switch run := s.runner().(type) {
	case *group:
		if run.replicaID == id.Replica {
			run.shorten(index)
		}
	case nil:
		h.touch(meta.QueueID(id.Shard)) // it sleeps on a log that it can only cut awake
	}
}

// shorten has the group take a checkpoint and cut its log up to an entry.
func (g *group) shorten(index uint64) {
	g.mu.Lock()
	if !g.opened || g.failure != nil {
		g.mu.Unlock()
		return
	}
	g.disk.pinned = max(g.disk.pinned, index)
	still := g.applied <= max(g.disk.cutAt, index)
	ask := !still && !g.disk.busy
	g.disk.busy = g.disk.busy || ask
	g.mu.Unlock()
	if still {
		// The library cuts the log before its last entry, and once per entry: another one lets it do so. The log asks again.
		_, _ = g.command(&queue.Command{Op: queue.OpTick})
	}
	if ask {
		g.host.checkpoints.add(g)
	}
}
