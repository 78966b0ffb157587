package quorum

import (
	"cmp"
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
// has ended. The leader holds one itself while a majority of voters answers it.
type leases struct {
	host *Host

	until atomic.Int64 // this node's own, on the lease clock

	heardOf atomic.Pointer[echo] // of the leader's last answer

	mu      sync.Mutex
	leading bool
	term    uint64
	since   int64 // when this node began to lead, or woke up while it led
	granted map[meta.NodeID]grant
	known   bool   // this leader knows what former ones answered
	must    uint64 // what a node must have applied to get a lease: every write that was or will be answered
	changed chan struct{}
}

type grant struct {
	until, asked int64
	echoed       int64  // the time that the node's last request carried: when this leader wrote the answer that came before
	index        uint64 // applied by the node
}

// echo is the time of a leader's answer on its own lease clock, which the next request to it carries. The leader counts its own lease from there: a request that lay in a buffer while its process
// was stopped says nothing of the time since.
type echo struct {
	term uint64
	at   int64
}

func newLeases(h *Host) *leases {
	return &leases{host: h, granted: make(map[meta.NodeID]grant), changed: make(chan struct{})}
}

// Leased tells whether this node may trust its view of the catalogue now: nothing was answered anywhere that it has not applied.
func (h *Host) Leased() bool {
	if h.mux == nil {
		return true // alone, it hears itself
	}
	if mutant == mutantLeaseKept {
		return h.clock.leaseMillis() < h.cat.leases.until.Load()+limits.LeaseMillis
	}
	return h.clock.leaseMillis() < h.cat.leases.until.Load()
}

// lead is told that this node begins or ends to lead the catalogue. A new leader does not know what the former one granted: every node may hold a lease.
func (l *leases) lead(here bool, term uint64, nodes []meta.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading, l.term, l.known, l.must = here, term, false, 0
	clear(l.granted)
	if here && mutant != mutantLeasesForgotten {
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

// ask grants or renews a lease: not to a node that is behind a write, nor while this leader has none itself. The answer's time is what the node's next request must carry.
func (l *leases) ask(node meta.NodeID, index uint64, e echo, voters []meta.NodeID) (answer echo, granted bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leading {
		return echo{}, false, errElsewhere
	}
	now := l.host.clock.leaseMillis()
	g := l.granted[node]
	g.asked, g.index = now, max(g.index, index)
	if e.term == l.term {
		g.echoed = max(g.echoed, e.at)
	}
	l.granted[node] = g
	l.own(voters, now)
	if granted = l.known && g.index >= l.must && now < l.until.Load(); granted {
		g.until = now + limits.LeaseGrantMillis
		l.granted[node] = g
	}
	l.broadcast()
	return echo{l.term, now}, granted, nil
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
		if next == 0 || mutant == mutantCatalogueUnheard {
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

// renewOwn renews the leader's own lease.
func (l *leases) renewOwn(voters []meta.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leading {
		l.own(voters, l.host.clock.leaseMillis())
	}
}

// own gives the leader a lease from the moment since which a majority of the voters, itself among them, has answered it. Called with l.mu held.
func (l *leases) own(voters []meta.NodeID, now int64) {
	if !l.known {
		return
	}
	echoed := make([]int64, 0, len(voters))
	for _, v := range voters {
		if v == l.host.node {
			echoed = append(echoed, now)
		} else {
			echoed = append(echoed, l.granted[v].echoed)
		}
	}
	slices.SortFunc(echoed, func(a, b int64) int { return cmp.Compare(b, a) })
	if quorum := len(echoed)/2 + 1; len(echoed) > 0 && echoed[quorum-1] > 0 {
		l.until.Store(echoed[quorum-1] + limits.LeaseMillis)
	}
}

// woke is told that this node did not run for a while: the silence of the others begins to count anew.
func (l *leases) woke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = l.host.clock.leaseMillis()
}

// heard notes that a node was heard without asking: it has registered itself or an incarnation.
func (l *leases) heard(node meta.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.granted[node]; l.leading {
		g.asked = l.host.clock.leaseMillis()
		l.granted[node] = g
	}
}

// silentSince tells since when a node has not asked, counted from this node's leadership or wake-up.
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
	e := echo{term: r.Uvarint(), at: int64(r.Uvarint())}
	if r.Err() != nil {
		return nil, r.Err()
	}
	n := c.state.Load().View.Node(node)
	if n == nil || n.Fences(boot) {
		return nil, errors.New("this incarnation of the node was declared dead")
	}
	answer, granted, err := c.leases.ask(node, index, e, c.voters())
	if err != nil {
		return nil, err
	}
	c.releaseHeld()
	return codec.AppendBool(codec.AppendUvarint(codec.AppendUvarint(nil, answer.term), uint64(answer.at)), granted), nil
}

// leaderlessMillis is after how long without a leader of the catalogue a node asks all others whether it is still one of them.
const leaderlessMillis = 10_000

// renew keeps this node's lease until the host closes.
func (c *catalogue) renew() {
	defer c.host.workers.Done()
	tick := time.NewTicker(limits.LeaseRenewMillis * time.Millisecond)
	defer tick.Stop()
	led := c.host.clock.leaseMillis()
	ran := led
	for {
		now := c.host.clock.leaseMillis()
		if now-ran > limits.LeaseMillis {
			c.leases.woke()
		}
		ran = now
		if c.leaderNode() != 0 {
			led = now
		}
		if c.leadsHere() {
			c.leases.renewOwn(c.voters())
			c.releaseHeld()
			c.govern()
		} else if leader := c.leaderNode(); leader != 0 {
			c.askLease(leader)
		} else if now-led > leaderlessMillis {
			// A node that was replaced while it was away is in no group any more and hears of no leader: any other node tells it so.
			for _, n := range c.host.peers.nodes() { // the catalogue may have nothing yet
				if n.ID != c.host.node {
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
	var last echo
	if e := c.leases.heardOf.Load(); e != nil {
		last = *e
	}
	sent := c.host.clock.leaseMillis()
	request := codec.AppendUint64(codec.AppendUint64(nil, boot.Counter), boot.Nonce)
	request = codec.AppendUvarint(request, c.appliedIndex())
	request = codec.AppendUvarint(codec.AppendUvarint(request, last.term), uint64(last.at))
	c.host.ask(leader, callLease, request, func(answer []byte, err error) {
		if err == nil {
			c.leaseAnswered(last, sent, answer)
			return
		}
		var told *link.RemoteError
		if errors.As(err, &told) && told.Text == ErrReplaced.Error() {
			c.host.report(ErrReplaced)
		}
	})
}

// leaseAnswered takes the leader's answer to a request that was sent then and carried the echo last.
func (c *catalogue) leaseAnswered(last echo, sent int64, answer []byte) {
	r := codec.NewReader(answer)
	e := echo{term: r.Uvarint(), at: int64(r.Uvarint())}
	granted := r.Bool()
	if r.Err() != nil {
		return
	}
	c.leases.heardOf.Store(&e)
	if granted {
		c.leases.until.Store(sent + limits.LeaseMillis)
		c.releaseHeld()
	} else if e.term != last.term {
		c.wake() // a leader that is new may get its own lease by the next request
	}
}
