package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
)

// elections finds out which nodes are silent and makes leaders where one was lost (PROTOCOL 8). The library's own election time-outs are the fallback. The decision to kick is each
// member's own; only one that knows of a majority may.
type elections struct {
	host *Host
	wake chan struct{}

	mu     sync.Mutex
	silent map[meta.NodeID]map[meta.NodeID]bool // node -> who does not hear it
	mine   []meta.NodeID                        // those that this node does not hear, sorted
}

func newElections(h *Host) *elections {
	return &elections{host: h, wake: make(chan struct{}, 1), silent: make(map[meta.NodeID]map[meta.NodeID]bool)}
}

// noticed has run look at once.
func (e *elections) noticed() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run watches the other nodes until the host closes.
func (e *elections) run() {
	defer e.host.workers.Done()
	tick := time.NewTicker(limits.ElectionCheckMillis * time.Millisecond)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-e.host.closed:
			return
		case <-e.wake:
		case <-tick.C:
		}
		changed := e.look()
		if changed || turn%(limits.LeaseRenewMillis/limits.ElectionCheckMillis) == 0 {
			e.tell()
		}
		if e.anySilent() {
			e.mend()
		}
	}
}

// look finds out whom this node does not hear.
func (e *elections) look() (changed bool) {
	var list []meta.NodeID
	for _, n := range e.host.peers.nodes() {
		if n.ID != e.host.node && !e.host.up(n.ID) {
			list = append(list, n.ID)
		}
	}
	slices.Sort(list)
	e.mu.Lock()
	defer e.mu.Unlock()
	changed = !slices.Equal(list, e.mine)
	e.mine = list
	e.note(e.host.node, list)
	return changed
}

// note replaces what one node reports. Called with e.mu held.
func (e *elections) note(reporter meta.NodeID, list []meta.NodeID) {
	for _, by := range e.silent {
		delete(by, reporter)
	}
	for _, n := range list {
		if e.silent[n] == nil {
			e.silent[n] = make(map[meta.NodeID]bool)
		}
		e.silent[n][reporter] = true
	}
}

// reported takes another node's report.
func (e *elections) reported(reporter meta.NodeID, list []meta.NodeID) {
	e.mu.Lock()
	e.note(reporter, list)
	e.mu.Unlock()
	if len(list) > 0 {
		e.noticed()
	}
}

// tell reports to the others.
func (e *elections) tell() {
	e.mu.Lock()
	payload := codec.AppendUvarint(nil, uint64(len(e.mine)))
	for _, n := range e.mine {
		payload = codec.AppendUvarint(payload, uint64(n))
	}
	e.mu.Unlock()
	for _, n := range e.host.peers.nodes() {
		if n.ID != e.host.node {
			e.host.send(n.ID, messageSilent, payload)
		}
	}
}

func (e *elections) anySilent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.mine) > 0
}

// lost tells whether a majority of members, this node among them, does not hear node.
func (e *elections) lost(node meta.NodeID, members []meta.NodeID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	by := e.silent[node]
	if !by[e.host.node] {
		return false
	}
	n := 0
	for _, m := range members {
		if by[m] {
			n++
		}
	}
	return n > len(members)/2 || mutant == mutantMinorityKicks
}

// silentFor tells whether a majority of all nodes does not hear node.
func (e *elections) silentTo(node meta.NodeID, all []meta.NodeID) bool { return e.lost(node, all) }

// mend kicks where the leader is on a node that a majority lost.
func (e *elections) mend() {
	h := e.host
	if c := h.cat; !c.leadsHere() {
		if leader := c.leaderNode(); leader != 0 && e.lost(leader, c.voters()) {
			e.kick(&c.kicks, catalogueShard, uint64(h.node), c.voters(), func() bool { return c.leaderNode() == leader })
		}
	}
	h.slots.Range(func(_, v any) bool {
		if g, ok := v.(*slot).runner().(*group); ok {
			leader := g.leaderNode()
			if members := g.memberNodes(); leader != 0 && leader != h.node && e.lost(leader, members) {
				e.kick(&g.kicks, uint64(g.id), g.replicaID, members, func() bool { return g.leaderNode() == leader })
			}
		}
		return true
	})
}

// kicks remembers one group's kicks on this node.
type kicks struct {
	mu      sync.Mutex
	waiting bool
	next    time.Time // not before
	pause   time.Duration
}

// kick makes the local replica campaign, later the lower its rank is, unless still stops being true.
func (e *elections) kick(k *kicks, shard, replica uint64, members []meta.NodeID, still func() bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.waiting || now.Before(k.next) {
		return
	}
	k.waiting = true
	k.pause = max(2*k.pause, limits.KickAgainMillis*time.Millisecond)
	k.next = now.Add(k.pause)
	rank := e.rank(shard, members)
	e.host.later(time.Duration(rank)*limits.KickRankMillis*time.Millisecond, func() {
		k.mu.Lock()
		k.waiting = false
		k.mu.Unlock()
		if still() {
			e.host.kickNow(shard, replica)
		}
	})
}

// calm is called when a leader is heard: the next kick need not wait.
func (k *kicks) calm() {
	k.mu.Lock()
	k.pause, k.next = 0, time.Time{}
	k.mu.Unlock()
}

// rank is this node's place among the members that are heard, counted from a place that differs from group to group so that leaders spread.
func (e *elections) rank(shard uint64, members []meta.NodeID) int {
	heard := make([]meta.NodeID, 0, len(members))
	for _, m := range members {
		if e.host.up(m) {
			heard = append(heard, m)
		}
	}
	slices.Sort(heard)
	at := slices.Index(heard, e.host.node)
	if at < 0 {
		return len(members)
	}
	return (at + len(heard) - int(shard)%len(heard)) % len(heard)
}

// candidacy decides when a member of a group without a leader kicks itself: in the order of rank, and after an election that brought nobody not before that election could have been heard of, the
// member that tried it last. Without it members kick each other out of office for ever, and one whose log is behind keeps the others from winning.
type candidacy struct {
	since  time.Time     // of the start, or of the last election seen
	term   uint64        // as last seen
	wait   time.Duration // after since
	own    time.Duration // what this member waits longer, for its elections in vain
	kicked bool
}

// seen is told that there is a leader.
func (c *candidacy) seen(term uint64) {
	*c = candidacy{since: time.Now(), term: term, wait: limits.KickHearMillis * time.Millisecond}
}

// due tells whether to kick now. The answer true is a kick.
func (c *candidacy) due(term uint64, rank int) bool {
	now := time.Now()
	if c.since.IsZero() {
		c.since = now
	}
	if term != c.term {
		if c.term != 0 { // somebody campaigned
			if c.kicked {
				c.own = min(2*c.own+limits.KickHearMillis*time.Millisecond, limits.KickAgainMillis*time.Millisecond)
			}
			c.since, c.wait, c.kicked = now, limits.KickHearMillis*time.Millisecond, false
		}
		c.term = term
	}
	if now.Sub(c.since) < c.wait+c.own+time.Duration(rank)*limits.KickStartMillis*time.Millisecond {
		return false
	}
	c.kicked = true
	return true
}
