package quorum

import (
	"cmp"
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lni/vfs"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage/datadir"
	"github.com/warrenmq/warren/storage/storagetest"
)

// machineRoom is a node on a disk that forgets what was not synced.
type machineRoom struct {
	t    *testing.T
	raft *vfs.MemFS
	disk *storagetest.Mem
	h    *Host
	dir  *datadir.Dir
	log  int64 // checkpoint after so much log
	// logFile is the length of a file of the Raft log; 0 = 256 KiB.
	logFile int64
	// bodies is the budget for bodies in memory; 0 = 64 KiB.
	bodies int64
}

func (r *machineRoom) start() {
	r.t.Helper()
	dir, err := datadir.Open(r.disk, "/data")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r.h, err = Open(ctx, Config{
		Dir: dir, FS: r.disk, RaftFS: LibraryFS(r.raft), Name: "rabbit@test", Address: "127.0.0.1:1", Log: slog.New(slog.DiscardHandler), CheckpointLogBytes: r.log, BodiesInMemoryBytes: cmp.Or(r.bodies, 64<<10), LogFileBytes: cmp.Or(r.logFile, 256<<10),
		Founding: []meta.Command{{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.dir = dir
}

// stop stops the node in order.
func (r *machineRoom) stop() {
	r.t.Helper()
	r.h.Close()
	if err := r.dir.Close(); err != nil {
		r.t.Error(err)
	}
}

// powerLoss ends the node so that what it had not synced is gone. Whatever the node says after it began does not count.
func (r *machineRoom) powerLoss(rng *rand.Rand) {
	gate := make(chan struct{})
	r.disk.SetFault(func(storagetest.Op) error { <-gate; return nil })
	r.raft.SetIgnoreSyncs(true)
	after := r.disk.Clone()
	close(gate)
	r.h.Close()
	r.raft.ResetToSyncedState()
	r.raft.SetIgnoreSyncs(false)
	after.SetFault(nil)
	after.CrashTorn(rng)
	r.disk = after
}

// ledger is a Receiver that keeps the books of one publisher.
type ledger struct {
	mu        sync.Mutex
	wake      *sync.Cond
	answered  uint64
	confirmed map[uint64]bool
	closed    bool
}

func (l *ledger) Completed(_ meta.QueueID, done []Completion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered += uint64(len(done))
	l.wake.Broadcast()
	for _, d := range done {
		if d.Reply.Code == queue.CodeOK && !l.closed {
			l.confirmed[d.Token] = true
		}
	}
}

func (*ledger) Ready(meta.QueueID, uint64) {}

func (l *ledger) Deliver(meta.QueueID, []Delivery)         {}
func (l *ledger) Cancelled(meta.QueueID, queue.ConsumerID) {}

func (l *ledger) TimedOut(meta.QueueID, []uint64) {}

func (l *ledger) Synced(meta.QueueID, *queue.SessionSync) {}
func (l *ledger) Gone(meta.QueueID)                       {}

// await waits until at most window of sent commands are unanswered.
func (l *ledger) await(sent, window uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sent-l.answered > window {
		l.wake.Wait()
	}
}

// close ends the books and returns what was confirmed.
func (l *ledger) close() map[uint64]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.confirmed
}

// TestPowerLoss loses power under load again and again: every message confirmed before is there afterwards, once, in order, with its body; none is there that was not published.
func TestPowerLoss(t *testing.T) {
	const cycles = 10
	stdlog.SetOutput(io.Discard) // the log store's library complains that a disk in memory cannot tell its free space
	defer stdlog.SetOutput(os.Stderr)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	room := &machineRoom{t: t, raft: vfs.NewStrictMem(), disk: storagetest.New(), log: 32 << 10}
	room.start()
	q := declare(t, room.h, "q", true)
	next := uint64(1)
	must := map[uint64]bool{} // confirmed and not consumed
	for range cycles {
		books := &ledger{confirmed: map[uint64]bool{}}
		books.wake = sync.NewCond(&books.mu)
		s, first := room.h.OpenSession(books), next
		for stop := next + uint64(500+rng.IntN(3000)); next < stop; {
			for range 20 {
				body := fmt.Appendf(make([]byte, 0, 64), "message %d", next)
				if err := s.Submit(q, &queue.Command{Op: queue.OpEnqueue, BodyBytes: uint32(len(body)), Envelope: body}, next); err != nil {
					t.Fatal(err)
				}
				next++
			}
			s.Flush()
			books.await(next-first, uint64(rng.IntN(200)))
		}
		for token := range books.close() {
			must[token] = true
		}
		room.powerLoss(rng)
		room.start()
		room.drain(q, must, next)
	}
	room.h.Close()
}

// drain takes everything out of q and holds it against the books.
func (r *machineRoom) drain(q meta.QueueID, must map[uint64]bool, next uint64) {
	r.t.Helper()
	c := newRecorder()
	s := r.h.OpenSession(c)
	// Starts the queue. The machine's totals go on from before.
	if err := s.Submit(q, &queue.Command{Op: queue.OpQuery}, 3); err != nil {
		r.t.Fatal(err)
	}
	s.Flush()
	c.await(r.t, "the counts", func() bool { return len(c.replies) == 1 })
	before, _ := r.h.QueueStatus(q)
	total := before.Counts.DeliveredNoAck
	if err := s.Submit(q, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, Flags: queue.FlagNoAck, WindowBytes: 1 << 20, WindowCount: 4096}, 1); err != nil {
		r.t.Fatal(err)
	}
	s.Flush()
	c.await(r.t, "the consumer", func() bool { return len(c.replies) == 2 })
	last, seen := uint64(0), 0
	for {
		status, _ := r.h.QueueStatus(q)
		if total+uint64(seen) == status.Counts.DeliveredNoAck && status.Counts.Ready == 0 {
			break
		}
		c.await(r.t, "deliveries", func() bool { return len(c.deliveries) > seen })
		c.mu.Lock()
		fresh := append([]Delivery(nil), c.deliveries[seen:]...)
		c.mu.Unlock()
		for _, d := range fresh {
			var n uint64
			if _, err := fmt.Sscanf(string(d.Envelope), "message %d", &n); err != nil || n == 0 || n >= next {
				r.t.Fatalf("a message that nobody published: %q", d.Envelope)
			}
			if n <= last {
				r.t.Fatalf("message %d came after %d", n, last)
			}
			last = n
			seen++
			delete(must, n)
		}
		if err := s.Submit(q, &queue.Command{Op: queue.OpDrained, To: fresh[len(fresh)-1].D}, 0); err != nil {
			r.t.Fatal(err)
		}
		s.Flush()
	}
	if err := s.Submit(q, &queue.Command{Op: queue.OpQuery}, 2); err != nil {
		r.t.Fatal(err)
	}
	s.Flush()
	c.await(r.t, "the last drained", func() bool { return len(c.replies) == 3 })
	if len(must) != 0 {
		r.t.Fatalf("%d confirmed messages are lost, %d were found", len(must), seen)
	}
	status, _ := r.h.QueueStatus(q)
	r.t.Logf("%d messages after power loss, checkpoint at %d of %d", seen, status.Checkpoint, status.Applied)
}
