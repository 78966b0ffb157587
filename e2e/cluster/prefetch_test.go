package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// quietTime is how long nothing may come for it to count as nothing. It is longer than a queue may leave its part of a prefetch unanswered.
const quietTime = 1500 * time.Millisecond

// sharer is one channel with a prefetch for all of it that consumes several queues. It keeps what it gets until it is told to settle.
type sharer struct {
	ch *amqp.Channel

	mu    sync.Mutex
	kept  []taken
	limit int
	most  int // that it ever had while the limit was as it is
	seen  map[string]int
	over  int // queues whose consumer has ended
}

// taken is a delivery that is not settled.
type taken struct {
	queue string
	d     amqp.Delivery
}

func newSharer(t *testing.T, n *harness.Node, limit int, queues ...string) *sharer {
	t.Helper()
	s := &sharer{ch: n.Channel(t), seen: make(map[string]int)}
	s.qos(t, limit)
	for _, q := range queues {
		deliveries, err := s.ch.Consume(q, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range deliveries {
				s.mu.Lock()
				s.kept = append(s.kept, taken{q, d})
				s.most = max(s.most, len(s.kept))
				s.seen[q+" "+string(d.Body)]++
				s.mu.Unlock()
			}
			s.mu.Lock()
			s.over++
			s.mu.Unlock()
		}()
	}
	return s
}

// qos sets the limit. What the client has above a lower one stays.
func (s *sharer) qos(t *testing.T, limit int) {
	t.Helper()
	if err := s.ch.Qos(limit, 0, true); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit, s.most = limit, len(s.kept)
}

// settle acknowledges up to n of what it has, those of all queues in turn, and returns how many.
func (s *sharer) settle(t *testing.T, n int) int {
	t.Helper()
	s.mu.Lock()
	n = min(n, len(s.kept))
	list := slices.Clone(s.kept[:n])
	s.kept = slices.Clone(s.kept[n:])
	s.mu.Unlock()
	for _, k := range list {
		if err := k.d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (s *sharer) has() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

// awaits waits until it has n deliveries.
func (s *sharer) awaits(t *testing.T, n int) {
	t.Helper()
	harness.Eventually(t, serveTimeout, func() error {
		if got := s.has(); got < n {
			return fmt.Errorf("the channel has %d deliveries, want %d", got, n)
		}
		return nil
	})
}

// holds looks that the channel never had more than its limit, or than it had when that was set, and that no consumer ended.
func (s *sharer) holds(t *testing.T, most int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > most || s.over > 0 {
		t.Fatalf("with a limit of %d the channel had %d deliveries; %d consumers ended", s.limit, s.most, s.over)
	}
}

// leadEach has each queue led by another node.
func leadEach(t *testing.T, c *harness.Cluster, queues []string) {
	t.Helper()
	for i, q := range queues {
		n := c.Nodes[i%len(c.Nodes)]
		harness.Eventually(t, serveTimeout, func() error {
			leader, err := c.TryLeader(q)
			if err != nil || leader == n {
				return err
			}
			a, err := c.Nodes[0].TryAPI(http.MethodPost, harness.Path("queues", "quorum", "/", q, "leader"), map[string]string{"node": n.Name})
			return fmt.Errorf("%s is led by %s, not by %s: %d %s %v", q, leader.Name, n.Name, a.Status, a.Body, err)
		})
	}
}

// fill publishes n messages to each queue.
func fill(t *testing.T, n *harness.Node, queues []string, from, count int) {
	t.Helper()
	ch := n.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		bodies := make([][]byte, count)
		for i := range bodies {
			bodies[i] = fmt.Append(nil, from+i)
		}
		harness.PublishConfirmed(t, ch, "", q, bodies...)
	}
}

// TestSharedPrefetchOverLeaders: one channel consumes three queues, each led by another node, with a prefetch for all of them (K17). Raised and lowered it holds; when a node dies that leads one of them,
// and has a share of it, the others go on, and that queue does when it has a leader.
func TestSharedPrefetchOverLeaders(t *testing.T) {
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	queues := []string{"share-1", "share-2", "share-3"}
	setup := c.Nodes[0].Channel(t)
	for i, q := range queues {
		declareReplicated(t, setup, q, []string{harness.Quorum, harness.Classic}[i%2])
	}
	const each = 20
	fill(t, c.Nodes[0], queues, 0, each)
	leadEach(t, c, queues)

	s := newSharer(t, c.Nodes[0], 4, queues...)
	s.awaits(t, 4)
	time.Sleep(quietTime)
	s.holds(t, 4)
	s.qos(t, 6)
	s.awaits(t, 6) // without an acknowledgement
	s.holds(t, 6)
	s.qos(t, 2)
	s.settle(t, 4)
	time.Sleep(quietTime)
	s.holds(t, 6)
	if n := s.has(); n != 2 {
		t.Fatalf("lowered to 2 the channel has %d deliveries", n)
	}
	s.settle(t, 1)
	s.awaits(t, 2)

	// The death of a leader that has a share.
	for round := range pick(1, 6) {
		s.qos(t, 4)
		fill(t, c.Nodes[0], queues, each*(1+round), each)
		s.awaits(t, 4)
		q := queues[1+round%2]
		dead := c.Leader(t, q)
		if dead == c.Nodes[0] {
			t.Fatalf("%s is led by the node of the client", q)
		}
		dead.Kill9()
		s.drain(t, queues, each*(2+round))
		s.holds(t, 4)
		dead.Launch(t)
		if round+1 < pick(1, 6) {
			c.AwaitWhole(t)
			leadEach(t, c, queues)
		}
	}
	for _, q := range queues {
		c.Nodes[0].AwaitCount(t, q, 0)
	}
}

// drain acknowledges until messages 0 to n-1 of all queues have come.
func (s *sharer) drain(t *testing.T, queues []string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*serveTimeout)
	defer cancel()
	for {
		missing := 0
		s.mu.Lock()
		for _, q := range queues {
			for i := range n {
				if s.seen[fmt.Sprintf("%s %d", q, i)] == 0 {
					missing++
				}
			}
		}
		s.mu.Unlock()
		if missing == 0 {
			break
		}
		if s.settle(t, 2) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d messages did not come", missing)
		case <-time.After(time.Millisecond):
		}
	}
	for s.settle(t, 10) > 0 {
	}
}
