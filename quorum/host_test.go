package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/datadir"
)

// recorder is a Receiver that records.
type recorder struct {
	mu         sync.Mutex
	wake       *sync.Cond
	replies    map[uint64]queue.Reply
	deliveries []Delivery
	cancelled  []queue.ConsumerID
	timedOut   []uint64
	synced     []queue.SessionSync
	gone       int
}

func newRecorder() *recorder {
	c := &recorder{replies: make(map[uint64]queue.Reply)}
	c.wake = sync.NewCond(&c.mu)
	return c
}

func (c *recorder) Completed(_ meta.QueueID, done []Completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range done {
		c.replies[d.Token] = d.Reply
	}
	c.wake.Broadcast()
}

func (c *recorder) Deliver(_ meta.QueueID, deliveries []Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deliveries = append(c.deliveries, deliveries...)
	c.wake.Broadcast()
}

func (c *recorder) Cancelled(_ meta.QueueID, consumer queue.ConsumerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = append(c.cancelled, consumer)
	c.wake.Broadcast()
}

func (c *recorder) TimedOut(_ meta.QueueID, ds []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timedOut = append(c.timedOut, ds...)
	c.wake.Broadcast()
}

func (c *recorder) Synced(_ meta.QueueID, st *queue.SessionSync) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = append(c.synced, *st)
	c.wake.Broadcast()
}

func (*recorder) Ready(meta.QueueID, uint64) {}

func (c *recorder) Gone(meta.QueueID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone++
	c.wake.Broadcast()
}

// await waits until ok says so; it is called with the lock held.
func (c *recorder) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.AfterFunc(60*time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wake.Broadcast()
	})
	defer late.Stop()
	deadline := time.Now().Add(20 * time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %d replies, %d deliveries", what, len(c.replies), len(c.deliveries))
		}
		c.wake.Wait()
	}
}

func openHost(t testing.TB, path string, change ...func(*Config)) *Host {
	t.Helper()
	dir, err := datadir.Open(storage.OS, path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cfg := Config{Dir: dir, Name: "rabbit@test", Address: "127.0.0.1:1", Log: slog.New(slog.DiscardHandler), Founding: []meta.Command{{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}}}}
	for _, f := range change {
		f(&cfg)
	}
	h, err := Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			h.Close()
			if err := dir.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	closers.Store(h, stop)
	return h
}

// closers has the full stop of each host: machines and data directory.
var closers sync.Map

func stopHost(h *Host) {
	f, _ := closers.Load(h)
	f.(func())()
}

func declare(t testing.TB, h *Host, name string, durable bool) meta.QueueID {
	t.Helper()
	q := meta.Queue{VHost: "/", Name: name, Durable: durable, Home: h.Node(), HomeBoot: h.Boot(), Replicas: []meta.NodeID{h.Node()}}
	replies, err := h.Do(context.Background(), meta.Command{Op: meta.OpDeclareQueue, Queue: q})
	if err != nil || replies[0].Reason != meta.ReasonOK {
		t.Fatalf("declare: %v %v", replies, err)
	}
	return meta.QueueID(replies[0].ID)
}

func publish(t testing.TB, s *Session, c *recorder, q meta.QueueID, from, n int) {
	t.Helper()
	for i := range n {
		cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: 8, Flags: queue.FlagPersistent, Envelope: fmt.Appendf(nil, "m%07d", from+i)}
		if err := s.Submit(q, &cmd, uint64(from+i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Flush()
	c.await(t, "confirms", func() bool {
		for i := range n {
			if _, ok := c.replies[uint64(from+i)]; !ok {
				return false
			}
		}
		return true
	})
}

func TestPublishAndConsume(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprintf("durable=%t", durable), func(t *testing.T) {
			h := openHost(t, t.TempDir())
			q := declare(t, h, "q", durable)
			c := newRecorder()
			s := h.OpenSession(c)
			const n = 4000
			publish(t, s, c, q, 1, n)
			if err := s.Submit(q, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, Prefetch: n, WindowBytes: 1 << 20, WindowCount: n}, n+1); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			c.await(t, "deliveries", func() bool { return len(c.deliveries) == n })
			for i, d := range c.deliveries {
				if want := fmt.Sprintf("m%07d", i+1); string(d.Envelope) != want || d.D != uint64(i+1) || d.Redelivered {
					t.Fatalf("delivery %d: %q d=%d redelivered=%t", i, d.Envelope, d.D, d.Redelivered)
				}
			}
			for from := uint64(1); from <= n; from += 1000 {
				if err := s.Submit(q, &queue.Command{Op: queue.OpSettle, Outcome: queue.OutcomeAck, From: from, To: from + 999}, n+1+from); err != nil {
					t.Fatal(err)
				}
			}
			s.Flush()
			c.await(t, "settles", func() bool { return c.replies[n+1+3001].A == 1000 })
			if st, ok := h.QueueStatus(q); !ok || st.Counts.Ready+st.Counts.Unacked != 0 || st.BodyBytesInMemory != 0 {
				t.Fatalf("the queue is not empty: %+v", st)
			}
		})
	}
}

// TestRestart stops a node and starts it again on the same directory: everything confirmed is there, what was delivered and not settled comes back flagged, also from checkpoints and
// from the message store.
func TestRestart(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"log only":    func(*Config) {},
		"checkpoints": func(c *Config) { c.CheckpointLogBytes = 64 << 10 },
		"bodies evicted": func(c *Config) {
			c.CheckpointLogBytes = 64 << 10
			c.BodiesInMemoryBytes = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			h := openHost(t, path, change)
			q := declare(t, h, "q", true)
			c := newRecorder()
			s := h.OpenSession(c)
			const n, acked = 4000, 1500
			for i := 0; i < n; i += 500 {
				publish(t, s, c, q, 1+i, 500)
			}
			if err := s.Submit(q, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, Prefetch: 3000, WindowBytes: 1 << 20, WindowCount: 4096}, n+1); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			c.await(t, "deliveries", func() bool { return len(c.deliveries) == 3000 })
			if err := s.Submit(q, &queue.Command{Op: queue.OpSettle, Outcome: queue.OutcomeAck, From: 1, To: acked}, n+2); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			c.await(t, "the settle", func() bool { return c.replies[n+2].A == acked })
			stopHost(h)

			h = openHost(t, path, change)
			c = newRecorder()
			s = h.OpenSession(c)
			if err := s.Submit(q, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, WindowBytes: 1 << 20, WindowCount: 4096}, 1); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			c.await(t, "deliveries after the restart", func() bool { return len(c.deliveries) == n-acked })
			for i, d := range c.deliveries {
				if want := fmt.Sprintf("m%07d", acked+i+1); string(d.Envelope) != want {
					t.Fatalf("delivery %d is %q, want %q", i, d.Envelope, want)
				}
				if was := acked+i < 4000; d.Redelivered != was && i < 100 {
					t.Fatalf("delivery %d of %q: redelivered=%t", i, d.Envelope, d.Redelivered)
				}
			}
		})
	}
}
