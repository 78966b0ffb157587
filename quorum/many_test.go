package quorum

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// heapPerQueueMax is the bar of one durable queue that holds a message: the library's defaults take six times as much (see settings.go).
const heapPerQueueMax = 200 << 10

// manyQueues is how many queues TestReplicaMemory makes; WARREN_MANY_QUEUES asks for more.
func manyQueues() int {
	if n, err := strconv.Atoi(os.Getenv("WARREN_MANY_QUEUES")); err == nil {
		return n
	}
	return 100
}

func heapInuse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// TestReplicaMemory guards that a durable queue with a message stays small and that all of them come back after a restart.
func TestReplicaMemory(t *testing.T) {
	n := manyQueues()
	path := t.TempDir()
	h := openHost(t, path)
	queues := make([]meta.QueueID, n)
	began := time.Now()
	for i := range queues {
		queues[i] = declare(t, h, fmt.Sprintf("q%d", i), true)
	}
	t.Logf("%d declares: %v each", n, time.Since(began)/time.Duration(n))
	before := heapInuse()
	c := newRecorder()
	s := h.OpenSession(c)
	began = time.Now()
	for i, q := range queues {
		cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: 8, Envelope: []byte("a message")}
		if err := s.Submit(q, &cmd, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	s.Flush()
	c.await(t, "confirms", func() bool { return len(c.replies) == n })
	t.Logf("first message in each of %d queues: %v", n, time.Since(began))
	each := (heapInuse() - before) / uint64(n)
	t.Logf("%d bytes of heap per queue", each)
	if each > heapPerQueueMax {
		t.Errorf("%d bytes of heap per queue, want at most %d", each, heapPerQueueMax)
	}
	stopHost(h)

	began = time.Now()
	h = openHost(t, path)
	c = newRecorder()
	s = h.OpenSession(c)
	for i, q := range queues {
		if err := s.Submit(q, &queue.Command{Op: queue.OpGet, Flags: queue.FlagNoAck}, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	s.Flush()
	c.await(t, "gets", func() bool { return len(c.replies) == n })
	t.Logf("restart until a get from each of %d queues: %v", n, time.Since(began))
	if len(c.deliveries) != n {
		t.Errorf("%d messages came back, want %d", len(c.deliveries), n)
	}
}
