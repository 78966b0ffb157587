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
