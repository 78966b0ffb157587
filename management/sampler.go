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
)

// queueSample is what is known of a queue since the last tick. It does not change once it is published.
type queueSample struct {
	queue  *meta.Queue
	status quorum.QueueStatus
	rates  *rates
	// idleSince is when the numbers moved last, as far as this process has seen; zero while they move.
	idleSince time.Time
	// utilisation is the share of the last samples in which there were consumers and nothing waited for them.
	utilisation float64
}

// queueTotals are sums over queues.
type queueTotals struct {
	queues, ready, unacked, consumers             uint64
	readyBytes, unackedBytes, persistent          uint64
	persistentBytes, bodyBytesInMemory, diskBytes uint64
	counts                                        counters // as in a queue's series
	// running, starting, parked and down count the Raft groups by state.
	running, starting, parked, down uint64
}

func (t *queueTotals) add(q *meta.Queue, st *quorum.QueueStatus) {
	c := &st.Counts
	t.queues++
	t.ready += c.Ready
	t.unacked += c.Unacked
	t.consumers += c.Consumers
	t.readyBytes += c.ReadyBytes
	t.unackedBytes += c.UnackedBytes
	t.persistent += c.Persistent
	t.persistentBytes += c.PersistentBytes
	t.bodyBytesInMemory += uint64(max(st.BodyBytesInMemory, 0))
	t.diskBytes += uint64(max(st.DiskBytes, 0))
	counts := queueCounters(st)
	for i := range counts {
		t.counts[i] += counts[i]
	}
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
	}
}

// snapshot is what the sampler saw at one tick.
type snapshot struct {
	at      time.Time
	started time.Time
	queues  []*queueSample // by id
	// totals and rates are sums over all queues; rates has the indexes of a queue's series.
	totals queueTotals
	rates  rates
	node   nodeSample
}

// queue returns the sample of a queue, nil if it is younger than the snapshot.
func (s *snapshot) queue(id meta.QueueID) *queueSample {
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
	latest   atomic.Pointer[snapshot]
	stop     chan struct{}
	stopping sync.Once
	stopped  chan struct{}

	// What follows belongs to the goroutine that ticks.
	queues     map[meta.QueueID]*queueState
	generation uint64
	node       nodeSeries

	mu                               sync.Mutex
	connections, channels, exchanges sampled
}

// queueState is what the sampler remembers of a queue.
type queueState struct {
	series     series
	generation uint64
	// busy has a bit per sample, newest last: there were consumers and no message waited. attended: there were consumers.
	busy, attended uint8
	last           *queueSample
}

func newSampler(s *Server) *sampler {
	p := &sampler{s: s, stop: make(chan struct{}), stopped: make(chan struct{}), queues: make(map[meta.QueueID]*queueState)}
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

func (p *sampler) tick(now time.Time) {
	snap := &snapshot{at: now, started: p.s.started}
	view := p.s.opt.Host.Catalogue().View
	p.generation++
	snap.queues = make([]*queueSample, 0, len(p.queues)+16)
	for q := range view.QueuesByID() {
		st, ok := p.s.opt.Host.QueueStatus(q.ID)
		if !ok {
			continue
		}
		sample := p.queue(now, q, &st)
		snap.queues = append(snap.queues, sample)
		snap.totals.add(q, &st)
		snap.rates.add(sample.rates)
	}
	if len(p.queues) > len(snap.queues) {
		for id, state := range p.queues {
			if state.generation != p.generation {
				delete(p.queues, id)
			}
		}
	}
	snap.node = p.node.tick(now, p.s)
	p.latest.Store(snap)
	p.lookedAt(now, view)
}

// queue notes one queue. As long as nothing changes the same sample is published again.
func (p *sampler) queue(now time.Time, q *meta.Queue, st *quorum.QueueStatus) *queueSample {
	state := p.queues[q.ID]
	if state == nil {
		state = new(queueState)
		p.queues[q.ID] = state
	}
	state.generation = p.generation
	if st.State == quorum.StateRunning { // a queue that is coming up has no counts, and they do not begin at 0
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
	old := state.last
	if old == nil || rates != nil || old.rates != nil || old.queue != q || !old.idleSince.Equal(idleSince) || old.utilisation != utilisation || !same(&old.status, st) {
		state.last = &queueSample{queue: q, status: *st, rates: rates, idleSince: idleSince, utilisation: utilisation}
	}
	return state.last
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
		a.Counts == b.Counts && a.BodyBytesInMemory == b.BodyBytesInMemory && a.DiskBytes == b.DiskBytes && slices.Equal(a.Members, b.Members) &&
		slices.Equal(a.Online, b.Online)
}

// look notes that somebody looks at a kind of things; their rates are known from the next tick on.
func (p *sampler) look(g *sampled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.wanted = time.Now()
}

// rates returns the rates of a thing that is sampled while it is looked at.
func (p *sampler) ratesOf(g *sampled, key string) *rates {
	p.mu.Lock()
	defer p.mu.Unlock()
	return g.rates(key)
}

// lookedAt samples connections, channels and exchanges while somebody looks at them.
func (p *sampler) lookedAt(now time.Time, view *meta.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	broker := p.s.opt.Broker
	if p.connections.due(now) {
		list := broker.Connections()
		p.connections.add(now, len(list), func(yield func(string, *counters)) {
			for i := range list {
				yield(list[i].Name, connectionCounters(&list[i]))
			}
		})
	}
	if p.channels.due(now) {
		list := broker.Channels()
		p.channels.add(now, len(list), func(yield func(string, *counters)) {
			for i := range list {
				yield(channelName(&list[i]), channelCounters(&list[i]))
			}
		})
	}
	if p.exchanges.due(now) {
		p.exchanges.add(now, 16, func(yield func(string, *counters)) {
			for h := range view.VHosts() {
				for x := range view.Exchanges(h.Name) {
					in, out := broker.ExchangeCounts(h.Name, x.Name)
					yield(exchangeKey(h.Name, x.Name), &counters{exchangeIn: in, exchangeOut: out})
				}
			}
		})
	}
}

// due tells whether to sample, and forgets what nobody looks at any more.
func (g *sampled) due(now time.Time) bool {
	if !g.wanted.IsZero() && now.Sub(g.wanted) < lookedAt {
		return true
	}
	g.series = nil
	return false
}

// close ends the sampler.
func (p *sampler) close() {
	p.stopping.Do(func() { close(p.stop) })
	<-p.stopped
}
