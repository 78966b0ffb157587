package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum/link"
)

// leases make the catalogue's reads local and its writes heard (PROTOCOL 5). The leader grants from memory; a write is answered when every node with a lease has applied it or its lease
// has ended. The leader holds one itself while a majority of voters asks it.
type leases struct {
	host *Host

	until atomic.Int64 // this node's own, on the lease clock

	mu      sync.Mutex
	leading bool
	since   int64 // when this node began to lead
	granted map[meta.NodeID]grant
	known   bool   // this leader knows what former ones answered
	must    uint64 // what a node must have applied to get a lease: every write that was or will be answered
	changed chan struct{}
}

type grant struct {
	until, asked int64
	index        uint64 // applied by the node
}

func newLeases(h *Host) *leases {
	return &leases{host: h, granted: make(map[meta.NodeID]grant), changed: make(chan struct{})}
}

// Leased tells whether this node may trust its view of the catalogue now: nothing was answered anywhere that it has not applied.
func (h *Host) Leased() bool {
	if h.mux == nil {
		return true // alone, it hears itself
	}
	return h.clock.leaseMillis() < h.cat.leases.until.Load()
}

// lead is told that this node begins or ends to lead the catalogue. A new leader does not know what the former one granted: every node may hold a lease.
func (l *leases) lead(here bool, nodes []meta.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading, l.known, l.must = here, false, 0
	clear(l.granted)
	if here {
		now := l.host.clock.leaseMillis()
		l.since = now
		for _, n := range nodes {
			if n != l.host.node {
				l.granted[n] = grant{until: now + limits.LeaseGrantMillis}
			}
		}
	}
	l.broadcast()
}

// inaugurated tells a new leader the index of the first entry of its term: everything that former leaders answered is before it.
func (l *leases) inaugurated(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leading {
		l.known, l.must = true, max(l.must, index)
	}
}

// broadcast wakes the waiters. Called with l.mu held.
func (l *leases) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// ask grants or renews a lease; one that is behind what a write waits for is not renewed.
func (l *leases) ask(node meta.NodeID, index uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leading {
		return errElsewhere
	}
	now := l.host.clock.leaseMillis()
	g := l.granted[node]
	g.asked, g.index = now, max(g.index, index)
	behind := !l.known || g.index < l.must
	if !behind {
		g.until = now + limits.LeaseGrantMillis
	}
	l.granted[node] = g
	l.broadcast()
	if behind {
		return errors.New("the node is behind a write that waits for it")
	}
	return nil
}

// applied notes how far a node has applied.
func (l *leases) applied(node meta.NodeID, index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g, ok := l.granted[node]; ok && index > g.index {
		g.index = index
		l.granted[node] = g
		l.broadcast()
	}
}

// end ends a node's lease at once: nothing listens at its address any more.
func (l *leases) end(node meta.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g, ok := l.granted[node]; ok {
		g.until = 0
		l.granted[node] = g
		l.broadcast()
	}
}

// wait returns when every lease holder has applied index or its lease has ended.
func (l *leases) wait(ctx context.Context, index uint64) error {
	l.mu.Lock()
	l.must = max(l.must, index)
	l.mu.Unlock()
	for {
		l.mu.Lock()
		if !l.leading {
			l.mu.Unlock()
			return errElsewhere // what was granted is forgotten: the next leader knows
		}
		now, next := l.host.clock.leaseMillis(), int64(0)
		for _, g := range l.granted {
			if g.index < index && g.until > now && (next == 0 || g.until < next) {
				next = g.until
			}
		}
		changed := l.changed
		l.mu.Unlock()
		if next == 0 {
			return nil
		}
		t := time.NewTimer(time.Duration(next-now) * time.Millisecond)
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-l.host.closed:
			t.Stop()
			return ErrClosed
		}
		t.Stop()
	}
}

// own renews the leader's own lease: it has one while a majority of the voters has asked it lately.
func (l *leases) own(voters []meta.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leading || !l.known {
		return
	}
	now := l.host.clock.leaseMillis()
	asked := make([]int64, 0, len(voters))
	for _, v := range voters {
		if v == l.host.node {
			asked = append(asked, now)
		} else {
			asked = append(asked, l.granted[v].asked)
		}
	}
	slices.SortFunc(asked, func(a, b int64) int { return int(b - a) })
	if quorum := len(asked)/2 + 1; len(asked) > 0 && asked[quorum-1] > 0 {
		l.until.Store(asked[quorum-1] + limits.LeaseMillis)
	}
}

// heard notes that a node was heard without asking: it has registered an incarnation.
func (l *leases) heard(node meta.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.granted[node]; l.leading {
		g.asked = l.host.clock.leaseMillis()
		l.granted[node] = g
	}
}

// silentSince tells since when a node has not asked, counted from this node's leadership.
func (l *leases) silentSince(node meta.NodeID) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.granted[node].asked, l.since)
}

// serveLease answers a node's request.
func (c *catalogue) serveLease(node meta.NodeID, request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	boot := meta.Boot{Counter: r.Uint64(), Nonce: r.Uint64()}
	index := r.Uvarint()
	if r.Err() != nil {
		return nil, r.Err()
	}
	n := c.state.Load().View.Node(node)
	if n == nil || n.Fences(boot) {
		return nil, errors.New("this incarnation of the node was declared dead")
	}
	return nil, c.leases.ask(node, index)
}

// leaderlessMillis is after how long without a leader of the catalogue a node asks all others whether it is still one of them.
const leaderlessMillis = 10_000

// renew keeps this node's lease until the host closes.
func (c *catalogue) renew() {
	defer c.host.workers.Done()
	tick := time.NewTicker(limits.LeaseRenewMillis * time.Millisecond)
	defer tick.Stop()
	led := c.host.clock.leaseMillis()
	for {
		if c.leaderNode() != 0 {
			led = c.host.clock.leaseMillis()
		}
		if c.leadsHere() {
			c.leases.own(c.voters())
			c.releaseHeld()
			c.govern()
		} else if leader := c.leaderNode(); leader != 0 {
			c.askLease(leader)
		} else if c.host.clock.leaseMillis()-led > leaderlessMillis {
			// A node that was replaced while it was away is in no group any more and hears of no leader: any other node tells it so. Earlier, the questions would pile up
			// in front of a leader that is paused, which would take them for fresh ones when it wakes up.
			for n := range c.state.Load().View.Nodes() {
				if n.Alive() && !n.Replaced && n.ID != c.host.node {
					c.askLease(n.ID)
				}
			}
		}
		select {
		case <-c.host.closed:
			return
		case <-tick.C:
		case <-c.news:
		}
	}
}

// releaseHeld lets through what pipelines held back while there was no lease.
func (c *catalogue) releaseHeld() {
	if !c.host.Leased() || !c.held.Swap(false) {
		return
	}
	c.host.slots.Range(func(_, v any) bool {
		v.(*slot).pipe.release()
		return true
	})
}

// askLease asks the leader for a lease, counted from now.
func (c *catalogue) askLease(leader meta.NodeID) {
	boot := c.host.Boot()
	sent := c.host.clock.leaseMillis()
	request := codec.AppendUint64(codec.AppendUint64(nil, boot.Counter), boot.Nonce)
	request = codec.AppendUvarint(request, c.appliedIndex())
	c.host.ask(leader, callLease, request, func(_ []byte, err error) {
		if err == nil {
			c.leases.until.Store(sent + limits.LeaseMillis)
			c.releaseHeld()
			return
		}
		var told *link.RemoteError
		if errors.As(err, &told) && told.Text == ErrReplaced.Error() {
			c.host.report(ErrReplaced)
		}
	})
}
