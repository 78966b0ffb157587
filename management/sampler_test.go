package management

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// many declares n queues, every tenth of which is in use.
func (f *fixture) many(n int) {
	for i := range n {
		id := f.declare("a", fmt.Sprintf("queue-%05d", i))
		if i%10 == 0 {
			st := quorum.QueueStatus{State: quorum.StateRunning, Leader: 1}
			st.Counts.Ready, st.Counts.Enqueued = uint64(i*7919%n), uint64(i)
			f.host.mu.Lock()
			f.host.status[id] = st
			f.host.mu.Unlock()
		}
	}
}

// TestListsAskNoMachine: the sampler asks every queue once a second, lists and scrapes ask none.
func TestListsAskNoMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.many(100)
		time.Sleep(samplePeriod + time.Millisecond)
		synctest.Wait()
		before := f.host.askedSoFar()
		for _, path := range []string{"/api/queues", "/api/queues/a?sort=messages&page=1", "/api/overview", "/api/vhosts", "/metrics"} {
			f.get(path)
		}
		if asked := f.host.askedSoFar(); asked != before {
			t.Errorf("lists asked %d machines", asked-before)
		}
		time.Sleep(samplePeriod)
		synctest.Wait()
		if asked := f.host.askedSoFar(); asked != before+100 {
			t.Errorf("a tick asked %d machines, want 100", asked-before)
		}
	})
}

// TestSamplerForgets: deleted queues, and things that nobody looks at any more, take no memory.
func TestSamplerForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.many(50)
		f.connect([]string{"c", "guest", "a"})
		f.get("/api/connections")
		f.get("/api/channels")
		f.get("/api/exchanges")
		time.Sleep(samplePeriod + time.Millisecond)
		synctest.Wait()
		p := f.s.sampler
		sizes := func() [3]int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return [3]int{len(p.connections.things), len(p.channels.things), len(p.exchanges.things)}
		}
		if got := sizes(); got != [3]int{1, 1, 14} {
			t.Fatalf("%v connections, channels and exchanges are sampled", got)
		}
		f.host.apply(meta.Command{Op: meta.OpDeleteVHost, VHost: meta.VHost{Name: "a"}})
		f.broker.mu.Lock()
		f.broker.connections, f.broker.channels = nil, nil
		f.broker.mu.Unlock()
		time.Sleep(samplePeriod)
		synctest.Wait()
		if got := sizes(); got != [3]int{0, 0, 7} {
			t.Errorf("after they went: %v", got)
		}
		many := broker.Totals{ConnectionsOpened: limits.SampledMax + 1, ChannelsOpened: limits.SampledMax + 1}
		f.broker.mu.Lock()
		f.broker.totals = many
		f.broker.mu.Unlock()
		f.connect([]string{"c", "guest", "a"})
		time.Sleep(samplePeriod)
		synctest.Wait()
		if got := sizes(); got != [3]int{1, 1, 7} {
			t.Errorf("of many that are looked at: %v", got)
		}
		time.Sleep(lookedAt)
		synctest.Wait()
		if got := sizes(); got != [3]int{0, 0, 7} {
			t.Errorf("%v are sampled though there are many and nobody looks", got)
		}
		f.s.Close()
		if len(p.queues) != 0 {
			t.Errorf("%d deleted queues are remembered", len(p.queues))
		}
	})
}

// TestConnectionRates: connections are sampled while they are looked at.
func TestConnectionRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.connect([]string{"c", "guest", "a"})
		const path = "/api/connections/c?columns=recv_oct_details"
		f.get(path)
		for i := range 7 {
			time.Sleep(samplePeriod)
			synctest.Wait()
			f.broker.mu.Lock()
			f.broker.connections[0].ReceivedBytes = uint64(100 + (i+1)*50)
			f.broker.mu.Unlock()
		}
		if got := f.get(path); got != `{"recv_oct_details":{"rate":50.0}}` {
			t.Error(got)
		}
		if got := f.get("/api/vhosts/a?columns=recv_oct,recv_oct_details"); got != `{"recv_oct":450,"recv_oct_details":{"rate":50.0}}` {
			t.Error(got)
		}
	})
}

// TestIdleQueuesAreShared: while a queue rests its sample is published again, not copied.
func TestIdleQueuesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		id := f.declare("a", "q")
		f.host.set("a", "q", func(st *quorum.QueueStatus) { st.Counts.Ready = 1 })
		sample := func() *queueSample {
			time.Sleep(samplePeriod)
			synctest.Wait()
			return f.s.sampler.snapshot().queue(id)
		}
		sample()
		first := sample()
		if second := sample(); first != second {
			t.Error("a resting queue was copied")
		}
		f.host.set("a", "q", func(st *quorum.QueueStatus) { st.Counts.Ready = 2 })
		if third := sample(); third == first || third.rates.of(queueReady) != 1 {
			t.Errorf("a queue that moved has the rate %v", third.rates.of(queueReady))
		}
		for range samplesKept {
			sample()
		}
		f.s.Close()
		if f.s.sampler.queues[id].series.ring != nil {
			t.Error("a resting queue keeps its samples")
		}
	})
}

// discard is a ResponseWriter that keeps nothing.
type discard struct {
	header http.Header
	n      int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { d.n += len(b); return len(b), nil }
func (d *discard) WriteString(s string) (int, error) {
	d.n += len(s)
	return io.Discard.Write([]byte(s))
}

const benchQueues = 10_000

func benchmarkGet(b *testing.B, path string) {
	f := newFixture(b)
	f.many(benchQueues)
	f.s.sampler.tick(time.Now())
	b.ReportAllocs()
	w := &discard{header: make(http.Header)}
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, path, strings.NewReader(""))
		r.RemoteAddr = "127.0.0.1:1"
		r.SetBasicAuth("guest", password)
		w.n = 0
		f.handler.ServeHTTP(w, r)
	}
	b.ReportMetric(float64(w.n), "answer-bytes")
}

func BenchmarkPageSorted(b *testing.B) {
	benchmarkGet(b, "/api/queues?page=1&page_size=100&sort=messages_ready&sort_reverse=true")
}

func BenchmarkPageSortedByRate(b *testing.B) {
	benchmarkGet(b, "/api/queues?page=1&page_size=100&sort=message_stats.publish_details.rate&sort_reverse=true")
}

func BenchmarkListPlain(b *testing.B) {
	benchmarkGet(b, "/api/queues?disable_stats=true&enable_queue_totals=true")
}

func BenchmarkListAll(b *testing.B) { benchmarkGet(b, "/api/queues") }

func BenchmarkOneQueue(b *testing.B) { benchmarkGet(b, "/api/queues/a/queue-00000") }

func BenchmarkOverview(b *testing.B) { benchmarkGet(b, "/api/overview") }

func BenchmarkScrape(b *testing.B) { benchmarkGet(b, "/metrics") }

func BenchmarkTick(b *testing.B) {
	f := newFixture(b)
	f.s.Close() // it ticks no more by itself
	f.many(benchQueues)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(samplePeriod)
		f.s.sampler.tick(now)
	}
}

// BenchmarkTickOfCluster is a tick of a node that has nothing of ten thousand queues, all of which changed at the other node since the last tick.
func BenchmarkTickOfCluster(b *testing.B) {
	f := cluster(b, 2)
	two := f.nodes[1]
	f.s.Close()
	two.s.Close()
	f.s.sampler.stop, f.s.peers.ctx = make(chan struct{}), b.Context() // ticks from here on come from this loop
	two.host.OnAsk(two.s.answer)
	for i := range benchQueues {
		id := f.declare("a", fmt.Sprintf("queue-%05d", i), 2)
		two.host.status[id] = quorum.QueueStatus{State: quorum.StateRunning, Leader: 2, Term: 1}
	}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		now = now.Add(samplePeriod)
		for id, st := range two.host.status {
			st.Counts.Enqueued++
			two.host.status[id] = st
		}
		two.s.sampler.tick(now)
		b.StartTimer()
		f.s.sampler.tick(now)
	}
	if claims := len(f.s.sampler.claims); claims != benchQueues {
		b.Fatalf("%d queues were told", claims)
	}
}
