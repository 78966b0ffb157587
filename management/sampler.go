package management

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// The counters of a queue's series.
const (
	queuePublished = iota
	queueDelivered
	queueDeliveredNoAck
	queueGot
	queueGotNoAck
	queueGetEmpty
	queueAcked
	queueRedelivered
	queueMessages
	queueReady
	queueUnacked
	queueDuplicates
	queueRejected
	queueTimedOut
)

// queueSample is what is known of a queue since the last tick. It does not change once it is published.
type queueSample struct {
	queue  *meta.Queue
	status quorum.QueueStatus
	rates  *rates
	// idleSince is when the numbers moved last, as far as the process that counts them has seen; zero while they move.
	idleSince time.Time
	// utilisation is the share of the last samples in which there were consumers and nothing waited for them.
	utilisation float64
	// changed is the tick at which this node made the sample.
	changed uint64
}

// queueTotals are sums over queues.
type queueTotals struct {
	queues, ready, unacked, consumers uint64
	readyBytes, unackedBytes          uint64
	persistent, persistentBytes       uint64
	counts                            counters // as in a queue's series
}

func (t *queueTotals) add(st *quorum.QueueStatus) {
	c := &st.Counts
	t.queues++
	t.ready += c.Ready
	t.unacked += c.Unacked
	t.consumers += c.Consumers
	t.readyBytes += c.ReadyBytes
	t.unackedBytes += c.UnackedBytes
	t.persistent += c.Persistent
	t.persistentBytes += c.PersistentBytes
	counts := queueCounters(st)
	for i := range counts {
		t.counts[i] += counts[i]
	}
}

// replicaTotals are sums over what this node has of queues.
type replicaTotals struct {
	// running, starting, parked, minority and down count the replicas of durable queues by the state of their group.
	running, starting, parked, minority, down uint64
	bodyBytesInMemory, diskBytes              uint64
}

func (t *replicaTotals) add(q *meta.Queue, st *quorum.QueueStatus) {
	t.bodyBytesInMemory += uint64(max(st.BodyBytesInMemory, 0))
	t.diskBytes += uint64(max(st.DiskBytes, 0))
	if !q.Durable {
		return
	}
	switch st.State {
	case quorum.StateRunning:
		t.running++
	case quorum.StateStarting:
		t.starting++
	case quorum.StateParked:
		t.parked++
	case quorum.StateMinority:
		t.minority++
	default:
		t.down++
	}
}

// queueCounters are the numbers of a queue in the order of its series.
func queueCounters(st *quorum.QueueStatus) counters {
	c := &st.Counts
	return counters{
		queuePublished: c.Enqueued, queueDelivered: c.Delivered, queueDeliveredNoAck: c.DeliveredNoAck, queueGot: c.Got, queueGotNoAck: c.GotNoAck,
		queueGetEmpty: c.GetEmpty, queueAcked: c.Acked, queueRedelivered: c.Redelivered, queueMessages: c.Ready + c.Unacked, queueReady: c.Ready, queueUnacked: c.Unacked,
		queueDuplicates: c.Duplicates, queueRejected: c.Rejected, queueTimedOut: c.TimedOut,
	}
}

// snapshot is what a tick knew of the whole cluster.
type snapshot struct {
	at      time.Time
	started time.Time
	queues  []*queueSample // by id
	// totals and rates are sums over all queues; rates has the indexes of a queue's series. led are sums over the queues that this node leads.
	totals, led queueTotals
	rates       rates
	// node is this node, replicas what it has of queues, others the nodes that report, cluster the sums over all of them.
	node        nodeSample
	replicas    replicaTotals
	others      map[meta.NodeID]heardNode
	cluster     nodeSample
	replication replication
	// delays are those of the queues and relays that this node leads, relays how its relays are in which some wait.
	delays delayTotals
	relays map[meta.QueueID]quorum.QueueStatus
}

// delayTotals are sums over delayed messages.
type delayTotals struct {
	messages uint64
	// leftMillis is how long the first of them has to wait, less than 0 if it is overdue; 0 without any.
	leftMillis int64
}

func (t *delayTotals) add(st *quorum.QueueStatus, nowMillis int64) {
	if st.Counts.Delayed == 0 {
		return
	}
	if left := st.NextDelayedMillis - nowMillis; t.messages == 0 || left < t.leftMillis {
		t.leftMillis = left
	}
	t.messages += st.Counts.Delayed
}

func (s *snapshot) addRelay(id meta.QueueID, st *quorum.QueueStatus, nowMillis int64) {
	s.delays.add(st, nowMillis)
	if s.relays == nil {
		s.relays = make(map[meta.QueueID]quorum.QueueStatus)
	}
	s.relays[id] = *st
}

// queue returns the sample of a queue, nil if it is younger than the snapshot.
func (s *snapshot) queue(id meta.QueueID) *queueSample {
	if len(s.queues) == 0 || id < s.queues[0].queue.ID {
		return nil
	}
	// Without deleted ones in between the place can be computed.
	if i := uint64(id - s.queues[0].queue.ID); i < uint64(len(s.queues)) && s.queues[i].queue.ID == id {
		return s.queues[i]
	}
	i, ok := slices.BinarySearchFunc(s.queues, id, func(q *queueSample, id meta.QueueID) int {
		switch {
		case q.queue.ID < id:
			return -1
		case q.queue.ID > id:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return s.queues[i]
}

// sampler visits everything that has numbers once a second.
type sampler struct {
	s        *Server
	own      atomic.Pointer[own]
	latest   atomic.Pointer[snapshot]
	stop     chan struct{}
	stopping sync.Once
	stopped  chan struct{}
	reports  reports

	// What follows belongs to the goroutine that ticks.
	queues            map[meta.QueueID]*queueState
	seen              []*queueState // of the queues of this tick, by id
	epoch, generation uint64
	node              nodeSeries
	left              []leftQueue
	claims            map[meta.QueueID]*claim
	heard             map[meta.NodeID]*heardNode
	up                map[meta.NodeID]bool // changes as a whole, and upVersion with it
	upVersion         uint64

	histories histories

	mu                               sync.Mutex
	connections, channels, exchanges sampled
}

// queueState is what the sampler remembers of a queue.
type queueState struct {
	queue      *meta.Queue
	series     series
	generation uint64
	// busy has a bit per sample, newest last: there were consumers and no message waited. attended: there were consumers.
	busy, attended uint8
	// last is what this node itself sees, nil if it has nothing of the queue; leads says that it leads it.
	last  *queueSample
	leads bool
	// shown is what another node said before it fell silent (of), or what is known without anybody's word, as it was when upVersion was up.
	shown *queueSample
	of    *claim
	up    uint64
	// parkedUp is the upVersion as of which last says that nothing wanted the queue yet.
	parkedUp uint64
	// wanted is how many replicas the queue should have on a cluster that is large enough; asked says that it was asked for.
	wanted int
	asked  bool
}

func newSampler(s *Server) *sampler {
	p := &sampler{
		s: s, stop: make(chan struct{}), stopped: make(chan struct{}), queues: make(map[meta.QueueID]*queueState), epoch: newEpoch(), claims: make(map[meta.QueueID]*claim),
		heard: make(map[meta.NodeID]*heardNode), reports: reports{asked: make(map[meta.NodeID]bool)}, histories: newHistories(),
	}
	p.tick(time.Now())
	return p
}

func (p *sampler) run() {
	defer close(p.stopped)
	t := time.NewTicker(samplePeriod)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-t.C:
			p.tick(now)
		}
	}
}

// snapshot returns the latest samples.
func (p *sampler) snapshot() *snapshot { return p.latest.Load() }

// tick looks at what is here, publishes it for the other nodes, hears what they have, and puts all of it together.
func (p *sampler) tick(now time.Time) {
	view := p.s.opt.Host.Catalogue().View
	p.lookUp(view)
	snap := &snapshot{at: now, started: p.s.started}
	p.sampleOwn(now, view, snap)
	for _, r := range p.ask() {
		p.hear(&r)
	}
	p.sampleAll(time.Now(), view, snap)
	p.remember(now, snap)
	p.latest.Store(snap)
	p.lookedAt(now, view)
	p.s.peers.forget(now)
}

// sampleOwn visits what this node has of queues, and the node itself.
func (p *sampler) sampleOwn(now time.Time, view *meta.View, snap *snapshot) {
	p.generation++
	p.seen = p.seen[:0]
	published := &own{epoch: p.epoch, generation: p.generation}
	waited := time.Duration(0)
	for q := range view.QueuesByID() {
		if q.IsHidden() {
			if st, ok := p.relay(q, waited > tickPatience, &waited); ok {
				snap.addRelay(q.ID, &st, p.s.opt.Host.NowMillis())
			}
			continue
		}
		state := p.state(q)
		p.seen = append(p.seen, state)
		led := state.leads
		state.leads = false
		switch {
		case !p.s.hasOwn(q):
			state.last, state.series = nil, series{}
		case waited > tickPatience: // a replica that only comes up may ask another node how the queue is
			if state.leads = led; state.last != nil {
				snap.replicas.add(q, &state.last.status)
			}
		default:
			began := time.Now()
			st, ok := p.ownStatus(state)
			waited += time.Since(began)
			if !ok { // deleted meanwhile
				state.last = nil
				break
			}
			p.queue(now, state, &st)
			snap.replicas.add(q, &st)
			state.leads = st.Leader == p.s.opt.Host.Node()
		}
		if state.leads {
			snap.delays.add(&state.last.status, p.s.opt.Host.NowMillis())
			published.led = append(published.led, state.last)
		} else if led {
			p.left = append(p.left, leftQueue{q.ID, p.generation})
		}
	}
	if len(p.queues) > len(p.seen) {
		for id, state := range p.queues {
			if state.generation != p.generation {
				delete(p.queues, id)
			}
		}
	}
	p.left = slices.DeleteFunc(p.left, func(l leftQueue) bool { return l.generation+leftKept < p.generation })
	snap.node = p.node.tick(now, p.s)
	published.node, published.left = snap.node, slices.Clone(p.left)
	p.own.Store(published)
}

// relay tells how the relay of an exchange is that this node leads, as it was at the last tick if this one has waited long enough.
func (p *sampler) relay(q *meta.Queue, asBefore bool, waited *time.Duration) (st quorum.QueueStatus, ok bool) {
	if _, ok := q.RelayOf(); !ok || !p.s.hasOwn(q) {
		return st, false
	}
	if asBefore {
		st, ok = p.latest.Load().relays[q.ID]
		return st, ok
	}
	began := time.Now()
	st, ok = p.s.opt.Host.QueueStatus(q.ID)
	*waited += time.Since(began)
	return st, ok && st.Leader == p.s.opt.Host.Node() && st.Counts.Delayed > 0
}

// ownStatus tells how a queue is here. Of one that nothing wanted yet the host says nothing that the catalogue does not.
func (p *sampler) ownStatus(state *queueState) (quorum.QueueStatus, bool) {
	q, last := state.queue, state.last
	st, ok := p.s.opt.Host.QueueStatus(q.ID)
	if !ok || !st.IsUnknown() {
		return st, ok
	}
	if last != nil && last.queue == q && last.status.IsUnknown() && state.parkedUp == p.upVersion {
		return last.status, true
	}
	state.parkedUp = p.upVersion
	return p.unclaimed(q), true
}

// state returns what is remembered of a queue, as it is in the catalogue now.
func (p *sampler) state(q *meta.Queue) *queueState {
	state := p.queues[q.ID]
	if state == nil {
		state = new(queueState)
		p.queues[q.ID] = state
	}
	state.generation = p.generation
	if state.queue != q {
		state.queue, state.shown = q, nil
		state.wanted, state.asked = replicasWanted(q)
	}
	return state
}

// hasOwn tells whether this node has something of a queue: its messages, or a replica.
func (s *Server) hasOwn(q *meta.Queue) bool {
	if !q.Durable {
		return q.Home == s.opt.Host.Node()
	}
	_, member := q.MemberOn(s.opt.Host.Node())
	return member
}

// queue notes what this node has of a queue. As long as nothing changes the same sample is published again.
func (p *sampler) queue(now time.Time, state *queueState, st *quorum.QueueStatus) {
	if st.State == quorum.StateRunning || st.State == quorum.StateParked && !st.IsUnknown() { // a queue that is coming up has no counts, and they do not begin at 0
		c := queueCounters(st)
		state.series.add(now, &c)
	}
	attended, busy := uint8(0), uint8(0)
	if st.Counts.Consumers > 0 {
		attended = 1
		if st.Counts.Ready == 0 {
			busy = 1
		}
	}
	state.attended = state.attended<<1 | attended
	state.busy = state.busy<<1 | busy
	rates, utilisation := state.series.rates(), share(state.busy, state.attended)
	var idleSince time.Time
	if rates == nil {
		if idleSince = state.series.changed; idleSince.IsZero() {
			idleSince = p.s.started
		}
	}
	old, q := state.last, state.queue
	if old == nil || rates != nil || old.rates != nil || old.queue != q || !old.idleSince.Equal(idleSince) || old.utilisation != utilisation || !same(&old.status, st) {
		state.last = &queueSample{queue: q, status: *st, rates: rates, idleSince: idleSince, utilisation: utilisation, changed: p.generation}
	}
}

// share is how many of the samples with consumers were busy.
func share(busy, attended uint8) float64 {
	if attended == 0 {
		return 0
	}
	return float64(bits.OnesCount8(busy)) / float64(bits.OnesCount8(attended))
}

func same(a, b *quorum.QueueStatus) bool {
	return a.State == b.State && a.Reason == b.Reason && a.Leader == b.Leader && a.Term == b.Term && a.Applied == b.Applied && a.Checkpoint == b.Checkpoint &&
		a.Counts == b.Counts && a.NextDelayedMillis == b.NextDelayedMillis && a.BodyBytesInMemory == b.BodyBytesInMemory && a.DiskBytes == b.DiskBytes && slices.Equal(a.Members, b.Members) &&
		slices.Equal(a.Online, b.Online)
}

// look calls f with what is remembered of things, with the lock held: what begins to be looked at is known from the next tick on.
func (p *sampler) look(g *sampled, f func(things map[string]*sampledThing)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.wanted = time.Now()
	f(g.things)
}

// lookedAt samples connections, channels and exchanges if that is due.
func (p *sampler) lookedAt(now time.Time, view *meta.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	broker := p.s.opt.Broker
	totals, exchanges := broker.Totals(), 0
	for h := range view.VHosts() {
		exchanges += view.ExchangeCount(h.Name)
	}
	if p.connections.due(now, int(totals.ConnectionsOpened-totals.ConnectionsClosed)) {
		list := broker.Connections()
		p.connections.add(now, len(list), func(yield func(string, *counters)) {
			for i := range list {
				yield(list[i].Name, connectionCounters(&list[i]))
			}
		})
	}
	if p.channels.due(now, int(totals.ChannelsOpened-totals.ChannelsClosed)) {
		list := broker.Channels()
		p.channels.add(now, len(list), func(yield func(string, *counters)) {
			for i := range list {
				yield(channelName(&list[i]), channelCounters(&list[i]))
			}
		})
	}
	if p.exchanges.due(now, exchanges) {
		p.exchanges.add(now, exchanges, func(yield func(string, *counters)) {
			for h := range view.VHosts() {
				for x := range view.Exchanges(h.Name) {
					in, out := broker.ExchangeCounts(h.Name, x.Name)
					yield(exchangeKey(h.Name, x.Name), &counters{exchangeIn: in, exchangeOut: out})
				}
			}
		})
	}
}

// close ends the sampler. A second time it does nothing.
func (p *sampler) close() {
	p.stopping.Do(func() { close(p.stop) })
	<-p.stopped
}
