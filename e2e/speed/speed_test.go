package speed

import (
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/measure"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	declareCount     = 200
	declareMedianMax = 20 * time.Millisecond

	manyCount       = 1000
	heapPerQueueMax = 200e3
	answerAllMax    = 10 * time.Second

	parkedCount, parkedCountFull       = 200, 10_000
	parkedHeapMax                      = 15e3
	parkedCoresMax                     = 0.03
	parkedDeclaresMin                  = 1_000
	parkedPublishMax                   = 50 * time.Millisecond
	parkedFirstAnswerMax               = time.Second
	parkedPublishes, parkedPublishFull = 50, 500
)

// TestDeclareIsQuick declares durable queues one by one on an idle broker.
func TestDeclareIsQuick(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	for _, kind := range []string{harness.Classic, harness.Quorum} {
		times, err := measure.Declares(b.AMQPURL(), kind, declareCount)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("declare of a durable %s queue: %v", kind, times)
		if median := times.Quantile(0.5); median >= declareMedianMax {
			t.Errorf("the median of declares of a %s queue is %v, want less than %v", kind, median, declareMedianMax)
		}
	}
}

// TestThousandQueues has a message in each of a thousand durable queues.
func TestThousandQueues(t *testing.T) {
	t.Run("kill", func(t *testing.T) { thousandQueues(t, true) })
	if harness.Full() {
		t.Run("stop", func(t *testing.T) { thousandQueues(t, false) })
	}
}

func thousandQueues(t *testing.T, kill bool) {
	harness.NeedProcess(t)
	b, err := harness.Prepare(t.TempDir(), harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := measure.Many(b, manyCount, kill)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.LogTail())
	}
	t.Log(m)
	if m.HeapPerQueue() >= heapPerQueueMax {
		t.Errorf("%.1f KB of heap per queue, want less than %.0f KB", m.HeapPerQueue()/1e3, heapPerQueueMax/1e3)
	}
	limit := answerAllMax
	if !harness.Full() {
		limit *= 3 // the machine may be busy with something else; the full run is on an idle one
	}
	if m.AllAnswered >= limit {
		t.Errorf("from exec to the last answer %v, want less than %v", m.AllAnswered, limit)
	}
}

// TestParkedQueues has a message in each of many durable queues that nobody uses. The full run, on an idle machine, holds them to what parked queues may cost; the short one to that they are parked, also
// after a start.
func TestParkedQueues(t *testing.T) {
	harness.NeedProcess(t)
	count, publishes, idle, after := parkedCount, parkedPublishes, time.Second, "500"
	if harness.Full() {
		count, publishes, idle, after = parkedCountFull, parkedPublishFull, 20*time.Second, "30000"
	}
	b, err := harness.Prepare(t.TempDir(), harness.Options{Args: []string{"--set", "queue_park_timeout=" + after}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := measure.Parked(b, count, publishes, idle)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.LogTail())
	}
	t.Log(&m)
	if m.StillParked < float64(count-1) {
		t.Errorf("%.0f of %d queues are parked after a start", m.StillParked, count)
	}
	if !harness.Full() {
		return
	}
	if each := m.HeapPerQueue(); each > parkedHeapMax {
		t.Errorf("%.1f KB of heap per queue, want at most %.0f KB", each/1e3, parkedHeapMax/1e3)
	}
	if m.IdleCores > parkedCoresMax {
		t.Errorf("%.3f cores, want at most %.3f", m.IdleCores, parkedCoresMax)
	}
	if m.DeclareRate < parkedDeclaresMin {
		t.Errorf("%.0f declares per second, want %d", m.DeclareRate, parkedDeclaresMin)
	}
	if p99 := m.FirstPublish.Quantile(0.99); p99 > parkedPublishMax {
		t.Errorf("the first publish takes %v (p99), want at most %v", p99, parkedPublishMax)
	}
	if m.FirstGet > parkedFirstAnswerMax {
		t.Errorf("from exec to the first message %v, want at most %v", m.FirstGet, parkedFirstAnswerMax)
	}
}
