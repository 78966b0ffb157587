package alarm

import (
	"math"
	"testing"

	"github.com/warrenmq/warren/config/limits"
)

// TestBudgetFits: what the parts may have, messages that come in counted as often as they are there, is less than where publishers are blocked, and nobody has nothing.
func TestBudgetFits(t *testing.T) {
	const mib = 1 << 20
	for _, limit := range []uint64{256 * mib, 512 * mib, 4096 * mib, 64 << 30} {
		b := BudgetOf(limit, Threshold{})
		high := int64(limit / 100 * limits.MemoryHighPercent)
		if sum := b.Bodies + 3*b.Publish + b.Window + 2*limits.WALTailBytes; sum > high*9/10 || b.Garbage >= high {
			t.Errorf("of %d MiB before publishers are blocked the parts have %d MiB: %+v", high/mib, sum/mib, b)
		}
	}
	small := Budget{Garbage: limits.GarbageBytesMin, Bodies: limits.BodiesBytesMin, Publish: limits.PublishBytesMin, Window: limits.WindowBytesMin}
	if got := BudgetOf(mib, Absolute(1<<40)); got != small {
		t.Errorf("of 1 MiB: %+v, want %+v", got, small)
	}
	if got := BudgetOf(1<<30, Relative(0.25)); got.Bodies >= BudgetOf(1<<30, Threshold{}).Bodies {
		t.Errorf("a lower watermark leaves bodies %d bytes", got.Bodies)
	}
	if got := BudgetOf(math.MaxInt64, Threshold{}); got.Bodies != limits.BodiesBytesMax || got.Garbage <= 0 {
		t.Errorf("without a limit: %+v", got)
	}
}
