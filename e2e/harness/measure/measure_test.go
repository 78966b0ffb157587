package measure

import (
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	var times Times
	for i := 1; i <= 200; i++ {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 101 * time.Millisecond, 0.99: 199 * time.Millisecond, 1: 200 * time.Millisecond} {
		if got := times.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := (Times{}).Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestHeapPerQueue(t *testing.T) {
	m := ManyQueues{Queues: 1000, HeapWithout: 5e6, HeapWith: 105e6}
	if got := m.HeapPerQueue(); got != 100e3 {
		t.Errorf("%v bytes per queue", got)
	}
}
