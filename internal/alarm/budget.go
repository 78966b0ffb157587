package alarm

import (
	"math"

	"github.com/warrenmq/warren/config/limits"
)

// Budget says how much of the memory that a node may take its parts may have, in bytes (docs/adr/0019).
type Budget struct {
	// Garbage is from where the collector works as hard as it must.
	Garbage int64
	// Bodies is for message bodies of queues, Publish for messages that come in, Window for those that go out.
	Bodies, Publish, Window int64
}

// BudgetOf divides what a node may take of limitBytes before publishers are blocked (high, as in Options.MemoryHigh).
func BudgetOf(limitBytes uint64, high Threshold) Budget {
	all := min((&Monitor{opt: Options{MemoryHigh: high, MemoryLimitBytes: limitBytes}}).bounds(Usage{}).MemoryHighBytes, limitBytes)
	part := func(percent uint64, least, most int64) int64 {
		return min(max(int64(all/100*percent), least), most)
	}
	return Budget{
		Garbage: part(limits.GarbagePercent, limits.GarbageBytesMin, math.MaxInt64),
		Bodies:  part(limits.BodiesPercent, limits.BodiesBytesMin, limits.BodiesBytesMax),
		Publish: part(limits.PublishPercent, limits.PublishBytesMin, limits.PublishBytesMax),
		Window:  part(limits.WindowPercent, limits.WindowBytesMin, limits.WindowBytesMax),
	}
}
