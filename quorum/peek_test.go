package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// looker looks at a queue again and again and checks that it sees messages in order, each with its own body. It closes begun when it has seen one.
func looker(t *testing.T, h *Host, q meta.QueueID, unacked bool, begun chan<- struct{}, stop <-chan struct{}) {
	looks, saw := 0, 0
	for {
		last := queue.Seq(0)
		_, err := h.Peek(context.Background(), q, Look{Unacked: unacked, Count: 1000}, func(position int, m *queue.Peeked, env []byte) bool {
			if string(env) != fmt.Sprintf("m%07d", m.Seq) || m.Seq <= last {
				t.Errorf("position %d: message %d behind %d, envelope %q", position, m.Seq, last, env)
			}
			last = m.Seq
			if saw++; saw == 1 {
				close(begun)
			}
			return true
		})
		if err != nil {
			t.Error(err)
		}
		looks++
		select {
		case <-stop:
			t.Log("unacked", unacked, "looks", looks, "messages seen", saw)
			return
		default:
		}
	}
}

// TestPeekBesideConsumers: looks at 1,000 messages while consumers run change nothing that these see: order, redelivered flags, numbers and counts are those of a queue that nobody looks at.
func TestPeekBesideConsumers(t *testing.T) {
	const messages = 5000
	evicting := func(c *Config) { c.CheckpointLogBytes, c.BodiesInMemoryBytes = 4<<10, 1 }
	for name, durable := range map[string]bool{"durable": true, "transient": false} {
		t.Run(name, func(t *testing.T) {
			h := openHost(t, t.TempDir(), evicting)
			q := declare(t, h, "q", durable)
			c := newRecorder()
			s := h.OpenSession(c)
			publish(t, s, c, q, 1, messages)
			if durable {
				until(t, "bodies are on disk alone", func() bool { st, _ := h.QueueStatus(q); return st.BodyBytesInMemory < 8*messages })
			}
			stop, ready, unacked := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var lookers sync.WaitGroup
			lookers.Go(func() { looker(t, h, q, false, ready, stop) })
			lookers.Go(func() { looker(t, h, q, true, unacked, stop) })
			<-ready
			cmd := subscribe(1)
			if err := s.Submit(q, &cmd, 1<<20); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			for acked := uint64(0); acked < messages; {
				c.await(t, "deliveries", func() bool { return uint64(len(c.deliveries)) > acked })
				c.mu.Lock()
				to := uint64(len(c.deliveries))
				c.mu.Unlock()
				<-unacked
				for _, cmd := range []queue.Command{{Op: queue.OpSettle, From: acked + 1, To: to, Outcome: queue.OutcomeAck}, {Op: queue.OpDrained, To: to}} {
					if err := s.Submit(q, &cmd, 1<<21+2*to+uint64(cmd.Op)%2); err != nil {
						t.Fatal(err)
					}
				}
				s.Flush()
				acked = to
			}
			close(stop)
			lookers.Wait()
			until(t, "all is acknowledged", func() bool { st, _ := h.QueueStatus(q); return st.Counts.Acked == messages })
			for i, d := range c.deliveries {
				if d.D != uint64(i+1) || d.Redelivered || d.DeliveryCount != 0 || string(d.Envelope) != fmt.Sprintf("m%07d", i+1) {
					t.Fatalf("delivery %d is %+v", i, d)
				}
			}
			st, _ := h.QueueStatus(q)
			if n := st.Counts; n.Ready != 0 || n.Unacked != 0 || n.Delivered != messages || n.Got != 0 || n.Redelivered != 0 || n.Consumers != 1 {
				t.Errorf("counts %+v", n)
			}
		})
	}
}

func TestPeekShowsWhoHasAMessage(t *testing.T) {
	h := openHost(t, t.TempDir())
	q := declare(t, h, "q", true)
	c := newRecorder()
	s := h.OpenSession(c)
	publish(t, s, c, q, 1, 10)
	do(t, s, c, q, 100, queue.Command{Op: queue.OpGet})
	do(t, s, c, q, 101, queue.Command{Op: queue.OpSettle, From: 1, To: 1, Outcome: queue.OutcomeReturnCounted})
	do(t, s, c, q, 102, queue.Command{Op: queue.OpGet})
	do(t, s, c, q, 103, queue.Command{Op: queue.OpGet})
	var got []string
	see := func(position int, m *queue.Peeked, env []byte) bool {
		got = append(got, fmt.Sprintf("%d:%s redelivered=%t count=%d mine=%t", position, env, m.Redelivered, m.DeliveryCount, m.Session == s.ID() && m.Node == queue.NodeID(h.Node())))
		return len(got) < 3
	}
	seen, err := h.Peek(context.Background(), q, Look{Unacked: true, Count: 10}, see)
	if err != nil || seen.Total != 2 || seen.Applied == 0 {
		t.Errorf("%+v %v", seen, err)
	}
	if seen, err = h.Peek(context.Background(), q, Look{Offset: 6, Count: 10}, see); err != nil || seen.Total != 8 {
		t.Errorf("%+v %v", seen, err)
	}
	want := "[0:m0000001 redelivered=true count=1 mine=true 1:m0000002 redelivered=false count=0 mine=true 6:m0000009 redelivered=false count=0 mine=false]"
	if fmt.Sprint(got) != want {
		t.Errorf("saw %v\nwant %s", got, want)
	}
	if _, err := h.Peek(context.Background(), q+1, Look{Count: 1}, see); !errors.Is(err, ErrNoQueue) {
		t.Error("a queue that is not there:", err)
	}
}
