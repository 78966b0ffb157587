package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// slot is what this node has of one queue.
type slot struct {
	host *Host
	pipe *pipeline

	mu      sync.Mutex
	q       *meta.Queue // as the catalogue last had it
	run     runner      // nil until the first touch
	touched bool
	gone    bool
	// rested is how the queue was parked, nil if it was not; it needs nothing to run before wakeAt, in milliseconds since the Unix epoch; 0: for ever. ended is closed when the replica that stopped has.
	rested *rested
	wakeAt int64
	ended  <-chan struct{}
	away   *remote // the leader's replica while the node's own is behind
	damage *damage // what is wrong with the files of this node's replica; nil if nothing is known to be
}

// goAway has the leader's replica serve this node instead of its own one, g, which is behind; nil ends that.
func (s *slot) goAway(g *group) {
	s.mu.Lock()
	old := s.away
	s.away = nil
	var away *remote
	if g != nil {
		if leader := g.leaderNode(); leader != 0 && leader != s.host.node {
			away = &remote{host: s.host, q: s.q, leader: leader, away: g}
			s.away = away
		}
	}
	s.mu.Unlock()
	if old != nil {
		old.close()
	}
	if away != nil {
		s.pipe.attachTo(away)
	}
}

func (s *slot) runner() runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// leader tells whether a machine runs here, and which node leads as far as is known.
func (s *slot) leader() (running bool, leader meta.NodeID) {
	switch run := s.runner().(type) {
	case *local:
		return true, s.host.node
	case *group:
		return run.core().serves(), run.leaderNode()
	case *remote:
		return false, run.known()
	}
	return false, 0
}

// check is called by the host's ticker.
func (s *slot) check(nowMillis int64) {
	switch g, ok := s.runner().(*group); {
	case ok:
		g.settleAwaited()
		g.seekLeader(nowMillis)
		g.lookIdle(nowMillis)
		if old := s.pipe.oldest.Load(); old != 0 && nowMillis-old > limits.AttachMillis && s.isHome() && s.host.up(g.leaderNode()) {
			s.leave(g) // what the leader applied does not arrive here
		}
	case s.isDue():
		s.host.starter.add(s.host, s, false)
	}
	s.pipe.check(nowMillis)
}

// isDue tells, once, that a parked queue has something to do.
func (s *slot) isDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.wakeAt != 0 && s.run == nil && !s.gone && s.host.clock.nowMillis() >= s.wakeAt
	if due {
		s.wakeAt = 0
	}
	return due
}

// followRested has a parked queue wake as its present configuration says. It reports whether the queue is parked.
func (s *slot) followRested(cfg *queue.Config) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil || s.rested == nil {
		return false
	}
	s.wakeAt = s.rested.wakesAt(cfg)
	return true
}

// queue returns the queue as the catalogue last had it.
func (s *slot) queue() *meta.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.q
}

// parked returns how the queue is parked here, nil if it is not.
func (s *slot) parked() *rested {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return nil
	}
	return s.rested
}

// leave has the leader's replica serve this node for a while (PROTOCOL 2, Behind).
func (s *slot) leave(g *group) {
	s.goAway(g)
	s.host.later(limits.AwayMillis*time.Millisecond, func() { s.host.serve(g.id, g) })
}

// isHome tells whether the node's own replica serves it.
func (s *slot) isHome() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away == nil
}

// peerUp is told that the connection to another node came: what was lost with the old one is sent again.
func (s *slot) peerUp(node meta.NodeID) {
	if s.pipe.oldest.Load() != 0 {
		go s.pipe.resend()
	}
	if g, ok := s.runner().(*group); ok {
		g.forgetPeer(node) // it may have been down
	}
}

// memberNodes returns the nodes that have a replica of q, sorted.
func memberNodes(q *meta.Queue) []meta.NodeID {
	nodes := make([]meta.NodeID, 0, len(q.Members))
	for _, m := range q.Members {
		nodes = append(nodes, m.Node)
	}
	slices.Sort(nodes)
	return nodes
}

func appendStatus(dst []byte, st *QueueStatus) []byte {
	dst = codec.AppendString(dst, string(st.State))
	dst = codec.AppendString(dst, st.Reason)
	dst = codec.AppendUvarint(dst, uint64(st.Leader))
	for _, list := range [][]meta.NodeID{st.Members, st.Online} {
		dst = codec.AppendUvarint(dst, uint64(len(list)))
		for _, n := range list {
			dst = codec.AppendUvarint(dst, uint64(n))
		}
	}
	c := &st.Counts
	for _, n := range []uint64{st.Term, st.Applied, st.Checkpoint, uint64(st.BodyBytesInMemory), uint64(st.DiskBytes), uint64(c.NextSeq)} {
		dst = codec.AppendUvarint(dst, n)
	}
	for _, n := range c.Numbers() {
		dst = codec.AppendUvarint(dst, *n)
	}
	return codec.AppendString(dst, st.PendingReason)
}

func readStatus(r *codec.Reader) QueueStatus {
	st := QueueStatus{State: State(r.String()), Reason: r.String(), Leader: meta.NodeID(r.Uvarint())}
	for _, list := range []*[]meta.NodeID{&st.Members, &st.Online} {
		for range r.Count(1) {
			*list = append(*list, meta.NodeID(r.Uvarint()))
		}
	}
	c := &st.Counts
	var memory, disk, nextSeq uint64
	for _, n := range []*uint64{&st.Term, &st.Applied, &st.Checkpoint, &memory, &disk, &nextSeq} {
		*n = r.Uvarint()
	}
	for _, n := range c.Numbers() {
		*n = r.Uvarint()
	}
	st.PendingReason = r.String()
	st.BodyBytesInMemory, st.DiskBytes = int64(memory), int64(disk)
	c.NextSeq = queue.Seq(nextSeq)
	return st
}
