package quorum

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// settler is a Receiver that settles everything it gets, in ranges, and counts.
type settler struct {
	s         *Session
	confirmed atomic.Int64
	acked     atomic.Int64
	work      chan uint64
	room      chan struct{}
}

func (k *settler) Completed(_ meta.QueueID, done []Completion) {
	n := 0
	for _, d := range done {
		if d.Token == 1 {
			n++
		} else {
			k.acked.Add(int64(d.Reply.A))
		}
	}
	k.confirmed.Add(int64(n))
	select {
	case k.room <- struct{}{}:
	default:
	}
}

func (k *settler) Deliver(_ meta.QueueID, d []Delivery) { k.work <- d[len(d)-1].D }

func (*settler) Ready(meta.QueueID, uint64) {}

func (k *settler) Cancelled(meta.QueueID, queue.ConsumerID) {}

func (k *settler) TimedOut(meta.QueueID, []uint64) {}

func (k *settler) Synced(meta.QueueID, *queue.SessionSync) {}
func (k *settler) Gone(meta.QueueID)                       {}

// BenchmarkFlow is one queue, one publisher with 1,000 unconfirmed at most, one consumer that acknowledges in ranges: what the shell without the broker reaches.
func BenchmarkFlow(b *testing.B) {
	for _, bench := range []struct {
		name    string
		durable bool
		bytes   int
	}{{"durable/1KiB", true, 1024}, {"durable/100B", true, 100}, {"transient/1KiB", false, 1024}} {
		b.Run(bench.name, func(b *testing.B) {
			h := openHost(b, b.TempDir())
			q := declare(b, h, "q", bench.durable)
			k := &settler{work: make(chan uint64, 4096), room: make(chan struct{}, 1)}
			k.s = h.OpenSession(k)
			_ = k.s.Submit(q, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, WindowBytes: 8 << 20, WindowCount: 4096}, 0)
			k.s.Flush()
			go func() {
				from := uint64(1)
				for to := range k.work {
					if to < from {
						continue
					}
					_ = k.s.Submit(q, &queue.Command{Op: queue.OpSettle, Outcome: queue.OutcomeAck, From: from, To: to}, 2)
					_ = k.s.Submit(q, &queue.Command{Op: queue.OpDrained, To: to}, 0)
					k.s.Flush()
					from = to + 1
				}
			}()
			cmd := queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent, BodyBytes: uint32(bench.bytes), Envelope: make([]byte, bench.bytes)}
			b.SetBytes(int64(bench.bytes))
			b.ReportAllocs()
			b.ResetTimer()
			sent := int64(0)
			for sent < int64(b.N) {
				for sent < int64(b.N) && sent-k.confirmed.Load() < 1000 {
					_ = k.s.Submit(q, &cmd, 1)
					sent++
					if sent%100 == 0 {
						k.s.Flush()
					}
				}
				k.s.Flush()
				if sent-k.confirmed.Load() >= 1000 {
					<-k.room
				}
			}
			for k.acked.Load() < int64(b.N) {
				<-k.room
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			k.s.Close(func(meta.QueueID) uint64 { return 0 }, 0)
			stopHost(h)
			close(k.work)
		})
	}
}

// BenchmarkManyQueues is 64 durable queues, two publishers each with 50 unconfirmed 1 KiB messages at most: what group commit over groups gives.
func BenchmarkManyQueues(b *testing.B) {
	h := openHost(b, b.TempDir())
	const queues, publishers, window = 64, 128, 50
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{}, publishers)
	ids := make([]meta.QueueID, queues)
	for i := range ids {
		ids[i] = declare(b, h, fmt.Sprintf("q%d", i), true)
		c := newRecorder()
		publish(b, h.OpenSession(c), c, ids[i], 1, 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range publishers {
		go func() {
			k := &settler{room: make(chan struct{}, 1)}
			k.s = h.OpenSession(k)
			cmd := queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent, BodyBytes: 1024, Envelope: make([]byte, 1024)}
			sent := int64(0)
			for left.Add(-1) >= 0 {
				_ = k.s.Submit(ids[i%queues], &cmd, 1)
				sent++
				if sent-k.confirmed.Load() >= window {
					k.s.Flush()
					for sent-k.confirmed.Load() >= window {
						<-k.room
					}
				}
			}
			k.s.Flush()
			for k.confirmed.Load() < sent {
				<-k.room
			}
			done <- struct{}{}
		}()
	}
	for range publishers {
		<-done
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	stopHost(h)
}
