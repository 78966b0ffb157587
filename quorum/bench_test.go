package quorum

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lni/dragonboat/v4/config"

	"github.com/warrenmq/warren/config/limits"
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

// libraryStore has the library use its own log store, on Pebble, as this broker did before it had its own log.
func libraryStore(cfg *Config) {
	cfg.expert = func(c *config.NodeHostConfig) {
		c.Expert.LogDBFactory = nil
		c.Expert.LogDB.Shards = 2
		c.Expert.LogDB.KVWriteBufferSize = 16 * limits.BatchBytesMax
		c.Expert.LogDB.KVMaxWriteBufferNumber = 4
	}
}

// workload is what publishers do: each has at most window unconfirmed messages of 1 KiB.
type workload struct {
	name               string
	queues, publishers int
	window             int64
}

// one is a queue under full load; pairs are publishers that wait for each confirm; many are publishers in a hurry.
var (
	one    = workload{"one", 1, 1, 1000}
	inTurn = workload{"inTurn", 1, 1, 1}
	pairs  = workload{"pairs", 64, 128, 1}
	many   = workload{"many", 64, 128, 50}
)

// BenchmarkLogStores is what the log store gives, ours beside the library's.
func BenchmarkLogStores(b *testing.B) {
	for _, w := range []workload{one, inTurn, pairs, many} {
		b.Run(w.name+"/wal", func(b *testing.B) { w.run(b, openHost(b, b.TempDir())) })
		b.Run(w.name+"/pebble", func(b *testing.B) { w.run(b, openHost(b, b.TempDir(), libraryStore)) })
	}
}

// BenchmarkStepWorkers is what the number of the library's step workers does: each waits for the log on its own.
func BenchmarkStepWorkers(b *testing.B) {
	for _, w := range []workload{one, inTurn, pairs, many} {
		for _, workers := range []uint64{1, 2, 4, 8} {
			set := func(cfg *Config) {
				cfg.expert = func(c *config.NodeHostConfig) { c.Expert.Engine.ExecShards = workers }
			}
			b.Run(fmt.Sprintf("%s/%d", w.name, workers), func(b *testing.B) { w.run(b, openHost(b, b.TempDir(), set)) })
		}
	}
}

// BenchmarkManyQueues is 64 durable queues, two publishers each with 50 unconfirmed 1 KiB messages at most: what group commit over groups gives.
func BenchmarkManyQueues(b *testing.B) { many.run(b, openHost(b, b.TempDir())) }

// run publishes b.N messages.
func (w workload) run(b *testing.B, h *Host) {
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{}, w.publishers)
	ids := make([]meta.QueueID, w.queues)
	for i := range ids {
		ids[i] = declare(b, h, fmt.Sprintf("q%d", i), true)
		c := newRecorder()
		publish(b, h.OpenSession(c), c, ids[i], 1, 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range w.publishers {
		go func() {
			k := &settler{room: make(chan struct{}, 1)}
			k.s = h.OpenSession(k)
			cmd := queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent, BodyBytes: 1024, Envelope: make([]byte, 1024)}
			sent := int64(0)
			for left.Add(-1) >= 0 {
				_ = k.s.Submit(ids[i%w.queues], &cmd, 1)
				sent++
				if sent-k.confirmed.Load() >= w.window {
					k.s.Flush()
					for sent-k.confirmed.Load() >= w.window {
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
	for range w.publishers {
		<-done
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	stats := h.LogStats()
	b.ReportMetric(float64(stats.Syncs)/b.Elapsed().Seconds(), "syncs/s")
	b.ReportMetric(stats.BytesPerSync(), "B/sync")
	stopHost(h)
}
