package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// badLeader is a leader's gate that loses, refuses, repeats and delays batches, and whose term changes, in front of a machine that applies what gets through.
type badLeader struct {
	replica
	rng *rand.Rand

	pmu  sync.Mutex
	next map[queue.PipelineID]uint64
	log  chan []byte
	lost map[*lostTicket]bool
}

type lostTicket struct{ l *badLeader }

func (t *lostTicket) lost() bool {
	t.l.pmu.Lock()
	defer t.l.pmu.Unlock()
	return t.l.lost[t]
}

var errRefused = errors.New("refused")

func newBadLeader(seed uint64) *badLeader {
	l := &badLeader{rng: rand.New(rand.NewPCG(seed, 7)), next: map[queue.PipelineID]uint64{}, log: make(chan []byte, 1024), lost: map[*lostTicket]bool{}}
	l.id, l.replica.log = 1024, slog.New(slog.DiscardHandler)
	l.m = queue.New(queue.Config{Version: 1})
	return l
}

// run applies what stands in the log.
func (l *badLeader) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case entry := <-l.log:
			l.mu.Lock()
			l.apply(l.applied+1, entry)
			l.mu.Unlock()
			l.stream()
		}
	}
}

func (l *badLeader) propose(p queue.PipelineID, k uint64, buf []byte) (ticket, bool, error) {
	l.pmu.Lock()
	defer l.pmu.Unlock()
	if l.rng.IntN(40) == 0 {
		clear(l.next) // a new term
	}
	next, ok := l.next[p]
	if !ok {
		l.mu.Lock()
		next = l.m.LastK(p) + 1
		l.mu.Unlock()
	}
	t := &lostTicket{l}
	switch {
	case k < next:
		return nil, false, nil
	case k > next:
		return nil, false, errGap
	}
	entry := append([]byte(nil), buf...)
	switch l.rng.IntN(8) {
	case 0:
		return nil, false, errRefused
	case 1:
		l.next[p] = k + 1
		l.lost[t] = true // accepted, then dropped
		return t, false, nil
	case 2:
		l.log <- entry
		l.log <- entry // stands in the log twice
	case 3:
		l.log <- entry
		l.lost[t] = true // said to be lost, but it will be applied
	default:
		l.log <- entry
	}
	l.next[p] = k + 1
	return t, false, nil
}

func (l *badLeader) reset(p queue.PipelineID) {
	l.pmu.Lock()
	delete(l.next, p)
	l.pmu.Unlock()
}

// TestPipelineSurvivesLossRepeatAndNewTerms: whatever happens to batches between a node and the log, commands are applied exactly once and in order, and each is answered once.
func TestPipelineSurvivesLossRepeatAndNewTerms(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { t.Parallel(); pipelineSeed(t, uint64(seed)) })
	}
}

func pipelineSeed(t *testing.T, seed uint64) {
	h := &Host{clock: newClock(nil, nil), closed: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
	defer close(h.closed)
	h.life, h.end = context.WithCancel(context.Background())
	defer h.end()
	h.node, h.boot = 1, meta.Boot{Counter: 1, Nonce: 2}
	p := newPipeline(h, 1024)
	l := newBadLeader(seed)
	go l.run(h.closed)
	p.start(l)
	h.slots.Store(meta.QueueID(1024), &slot{host: h, pipe: p})
	h.workers.Add(1)
	go h.ticker()

	answers := &counter{}
	answers.wake = sync.NewCond(&answers.mu)
	s := &Session{host: h, id: 9, recv: answers}
	const n = 3000
	rng := rand.New(rand.NewPCG(seed, 8))
	for i := 1; i <= n; i++ {
		if err := s.Submit(1024, &queue.Command{Op: queue.OpEnqueue, BodyBytes: 1, Envelope: fmt.Appendf(nil, "%d", i)}, uint64(i)); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(10) == 0 {
			s.Flush()
		}
		if rng.IntN(300) == 0 {
			l.attach(p.attachment()) // the replica that serves restarts its stream
		}
	}
	s.Flush()
	answers.awaitCount(t, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.m.Check(); err != nil {
		t.Fatal(err)
	}
	if got := l.m.Counts().Ready; got != n {
		t.Fatalf("%d messages in the queue, want %d", got, n)
	}
	for i := 1; i <= n; i++ {
		if got := string(l.bodies.get(queue.Seq(i))); got != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, got)
		}
	}
}

// counter is a Receiver that wants its answers in order and once.
type counter struct {
	mu   sync.Mutex
	wake *sync.Cond
	last uint64
	bad  string
}

func (c *counter) Completed(_ meta.QueueID, done []Completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range done {
		if d.Token != c.last+1 || d.Reply.Code != queue.CodeOK {
			c.bad = fmt.Sprintf("answer %d (%v) after %d", d.Token, d.Reply, c.last)
		}
		c.last = d.Token
	}
	c.wake.Broadcast()
}

func (*counter) Ready(meta.QueueID, uint64) {}

func (c *counter) Deliver(meta.QueueID, []Delivery)         {}
func (c *counter) Cancelled(meta.QueueID, queue.ConsumerID) {}

func (c *counter) TimedOut(meta.QueueID, []uint64) {}

func (c *counter) Synced(meta.QueueID, *queue.SessionSync) {}
func (c *counter) Gone(meta.QueueID)                       {}

func (c *counter) awaitCount(t *testing.T, n uint64) {
	t.Helper()
	late := time.AfterFunc(60*time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bad = "answers are missing"
		c.wake.Broadcast()
	})
	defer late.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.last < n && c.bad == "" {
		c.wake.Wait()
	}
	if c.bad != "" {
		t.Fatalf("%s; the last was %d of %d", c.bad, c.last, n)
	}
}
