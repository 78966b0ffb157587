package quorum

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warrenmq/warren/queue"
)

// TestConsumerTimeout: a session that keeps deliveries is told that its consumer ended and what was taken back, by the queue's own timer; somebody else gets it. A node that attaches anew learns the same.
func TestConsumerTimeout(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprintf("durable=%t", durable), func(t *testing.T) {
			h := openHost(t, t.TempDir())
			q := declare(t, h, "q", durable)
			c, other := newRecorder(), newRecorder()
			s, o := h.OpenSession(c), h.OpenSession(other)
			publish(t, s, c, q, 1, 3)
			subscribe := func(s *Session, timeout queue.Limit) {
				if err := s.Submit(q, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, Timeout: timeout}, 100); err != nil {
					t.Fatal(err)
				}
				s.Flush()
			}
			subscribe(s, queue.LimitOf(300))
			c.await(t, "the time-out", func() bool { return len(c.timedOut) == 3 })
			if len(c.deliveries) != 3 || !slices.Equal(c.cancelled, []queue.ConsumerID{1}) || !slices.Equal(c.timedOut, []uint64{1, 2, 3}) {
				t.Fatalf("%d deliveries, cancelled %v, timed out %v", len(c.deliveries), c.cancelled, c.timedOut)
			}
			subscribe(o, 0)
			other.await(t, "deliveries to another", func() bool { return len(other.deliveries) == 3 })
			if d := other.deliveries[0]; !d.Redelivered || d.DeliveryCount != 0 || d.AcquiredCount != 1 {
				t.Fatalf("came again as %+v", d)
			}
			p, err := h.pipeline(q)
			if err != nil {
				t.Fatal(err)
			}
			c.await(t, "nothing", func() bool {
				c.synced = nil
				return true
			})
			p.attachAgain()
			c.await(t, "a sync", func() bool { return len(c.synced) > 0 })
			if st := &c.synced[0]; len(st.Consumers) != 0 || !st.LostSome || st.Seen != 3 || len(st.Kept) != 0 {
				t.Fatalf("synced %+v", st)
			}
		})
	}
}
