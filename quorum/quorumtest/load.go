package quorumtest

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// LoadPlan is the clients of a Load.
type LoadPlan struct {
	// Queues are what they use, Publishers and Consumers how many there are for each queue.
	Queues                []meta.QueueID
	Publishers, Consumers int
	// NoAck has some of the consumers take messages without acknowledgement.
	NoAck bool
	// BodyBytesMax is the size of the largest message; most are small.
	BodyBytesMax int
	Seed         uint64
}

// Load is clients that connect to whatever node runs, work until their session ends, and connect again.
type Load struct {
	c    *Cluster
	plan LoadPlan
	quit chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	mu         sync.Mutex
	publishers map[*Publisher]bool
	consumers  map[*Consumer]bool
}

// StartLoad starts clients.
func (c *Cluster) StartLoad(plan LoadPlan) *Load {
	l := &Load{c: c, plan: plan, quit: make(chan struct{}), publishers: make(map[*Publisher]bool), consumers: make(map[*Consumer]bool)}
	c.add(l)
	no := uint64(0)
	for _, q := range plan.Queues {
		for range plan.Publishers {
			no++
			l.spawn(no, func(rng *rand.Rand) { l.publish(q, rng) })
		}
		for range plan.Consumers {
			no++
			l.spawn(no, func(rng *rand.Rand) { l.consume(q, rng) })
		}
	}
	return l
}

func (l *Load) spawn(no uint64, f func(*rand.Rand)) {
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		f(rand.New(rand.NewPCG(l.plan.Seed, no)))
	}()
}

// Quit ends the publishers and has no client connect again. Consumers that are open stay.
func (l *Load) Quit() {
	l.once.Do(func() { close(l.quit) })
	l.wg.Wait()
}

func (l *Load) stop() { l.Quit() }

// pause waits a random time up to limit. It says false when the load ends.
func (l *Load) pause(rng *rand.Rand, limit time.Duration) bool {
	t := time.NewTimer(time.Duration(rng.Int64N(int64(limit))) + time.Microsecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.quit:
		return false
	}
}

// anyNode is a random node that runs, nil if there is none.
func (l *Load) anyNode(rng *rand.Rand) *Node {
	live := l.c.Live()
	if len(live) == 0 {
		return nil
	}
	return live[rng.IntN(len(live))]
}

// Limits of a load's publishers.
const (
	burstMax      = 8
	openMax       = 100
	publishPause  = 200 * time.Millisecond
	connectPause  = 300 * time.Millisecond
	consumerLives = 8 * time.Second
)

func (l *Load) publish(q meta.QueueID, rng *rand.Rand) {
	for l.pause(rng, connectPause) {
		n := l.anyNode(rng)
		if n == nil {
			continue
		}
		p, ok := l.c.openPublisher(n, q)
		if !ok {
			continue
		}
		l.mu.Lock()
		l.publishers[p] = true
		l.mu.Unlock()
		for !p.ended() && l.pause(rng, publishPause) {
			if p.Open() >= openMax {
				continue
			}
			bytes := rng.IntN(200)
			if l.plan.BodyBytesMax > 0 && rng.IntN(30) == 0 {
				bytes = rng.IntN(l.plan.BodyBytesMax)
			}
			if rng.IntN(4) == 0 {
				l.transact(p, rng, bytes)
			} else if p.Send(1+rng.IntN(burstMax), bytes) == 0 {
				break
			}
		}
		p.stop()
	}
}

// transact publishes in a transaction, which now and then is given up.
func (l *Load) transact(p *Publisher, rng *rand.Rand, bytes int) {
	p.Stage(1+rng.IntN(burstMax), bytes)
	if rng.IntN(2) == 0 {
		l.pause(rng, publishPause)
	}
	if rng.IntN(6) == 0 {
		p.Abandon()
	} else {
		p.Commit()
	}
}

func (l *Load) consume(q meta.QueueID, rng *rand.Rand) {
	for l.pause(rng, connectPause) {
		n := l.anyNode(rng)
		if n == nil {
			continue
		}
		plan := ConsumerPlan{Seed: rng.Uint64(), Window: 1 + rng.Uint32N(100), NoAck: l.plan.NoAck && rng.IntN(3) == 0}
		if !plan.NoAck {
			plan.Hold = rng.IntN(20)
			if rng.IntN(2) == 0 {
				plan.Prefetch = uint32(plan.Hold) + 1 + rng.Uint32N(50)
			}
			if rng.IntN(3) == 0 {
				plan.Return = 0.2
			}
		}
		k, ok := l.c.openConsumer(n, q, plan)
		if !ok {
			continue
		}
		l.mu.Lock()
		l.consumers[k] = true
		l.mu.Unlock()
		lives := time.Now().Add(time.Duration(rng.Int64N(int64(consumerLives))))
		for !k.ended() && l.pause(rng, connectPause) {
			if time.Now().After(lives) && rng.IntN(2) == 0 {
				k.Close()
			}
		}
	}
}

// open counts publishes that are not answered and sessions whose end is not.
func (l *Load) open() (publishes, closes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.publishers {
		publishes += p.Open()
	}
	for k := range l.consumers {
		if k.ended() && !k.Closed() {
			closes++
		}
	}
	return publishes, closes
}

// held counts what the consumers of a queue hold.
func (l *Load) held(q meta.QueueID) (held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.consumers {
		if k.queue == q {
			held += k.Held()
		}
	}
	return held
}

// LivenessMillis is how long a healed cluster may take to answer everything that was asked.
const LivenessMillis = 30_000

// Finish holds a healed cluster whose nodes all run to what must be true at rest: every publish and every end of a session is answered, what counts as unacked is what consumers
// hold, every consumer is served, and when the queues have been emptied no confirmed message was lost and the replicas are equal.
func (l *Load) Finish() {
	c := l.c
	c.T.Helper()
	l.Quit()
	const within = LivenessMillis * time.Millisecond
	c.Until(within, "no node has to learn its death any more", c.incarnationsAgree)
	c.Until(within, "every publish is answered", func() bool { n, _ := l.open(); return n == 0 })
	c.Until(within, "every end of a session is answered", func() bool { _, n := l.open(); return n == 0 })
	for _, q := range l.plan.Queues {
		c.Until(within, "what is unacked is what consumers hold", func() bool {
			held := l.held(q)
			return c.Leader(q) != nil && c.Counts(q).Unacked == uint64(held)
		})
		for _, n := range c.Live() {
			k := c.NewConsumer(n, q, ConsumerPlan{Window: 10})
			l.mu.Lock()
			l.consumers[k] = true
			l.mu.Unlock()
			p := c.NewPublisher(n, q)
			p.Confirm(within, 1)
		}
	}
	l.mu.Lock()
	for k := range l.consumers {
		k.Release()
	}
	l.mu.Unlock()
	for _, q := range l.plan.Queues {
		c.Until(within, "the queue is drained", func() bool {
			n := c.Counts(q)
			return n.NextSeq > 1 && n.Ready+n.Unacked == 0 && l.held(q) == 0
		})
		l.serves(q, within)
		if n := c.Counts(q); n.Acked > n.Enqueued {
			c.T.Errorf("queue %d counts %d acknowledgements of %d messages", q, n.Acked, n.Enqueued)
		}
		c.Until(within, "the replicas are equal", func() bool { return c.equalReplicas(q) })
	}
	c.Books.CheckDrained(l.plan.Queues...)
	c.sound()
}

// incarnationsAgree tells whether every node that runs has the present incarnations of all for alive.
func (c *Cluster) incarnationsAgree() bool {
	for _, n := range c.Live() {
		v := n.Host().Catalogue().View
		for _, other := range c.Live() {
			if m := v.Node(other.ID); m == nil || !m.Alive() || m.Boot != other.Host().Boot() || !n.Host().Leased() {
				return false
			}
		}
	}
	return true
}

// serves publishes until every consumer that is open has got a message: none is silent.
func (l *Load) serves(q meta.QueueID, within time.Duration) {
	l.mu.Lock()
	before := make(map[*Consumer]int)
	for k := range l.consumers {
		if k.queue == q && !k.ended() && !k.WasCancelled() {
			before[k] = k.Got()
		}
	}
	l.mu.Unlock()
	p := l.c.NewPublisher(l.c.Live()[0], q)
	l.c.Until(within, "every consumer gets a message", func() bool {
		for k, n := range before {
			if k.Got() > n {
				delete(before, k)
			}
		}
		if len(before) > 0 && p.Open() == 0 {
			p.Send(2*len(before), 0)
		}
		return len(before) == 0
	})
	l.c.Until(within, "the queue is drained again", func() bool {
		n := l.c.Counts(q)
		return p.Open() == 0 && n.Ready+n.Unacked == 0 && l.held(q) == 0
	})
}

// equalReplicas tells whether all replicas have applied the same and have the same counts.
func (c *Cluster) equalReplicas(q meta.QueueID) bool {
	var first *queue.Counts
	var applied uint64
	for _, n := range c.Live() {
		v := n.Host().Catalogue().View.QueueByID(q)
		if v == nil {
			return false
		}
		if _, member := v.MemberOn(n.ID); !member {
			continue
		}
		st, _ := n.Host().QueueStatus(q)
		if first == nil {
			first, applied = &st.Counts, st.Applied
			continue
		}
		if st.Applied != applied || st.Counts != *first {
			return false
		}
	}
	return first != nil
}
