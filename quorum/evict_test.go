package quorum

import (
	"slices"
	"testing"

	"github.com/warrenmq/warren/queue"
)

// TestAbsence: only who was away all the time is missing, and who comes back begins anew.
func TestAbsence(t *testing.T) {
	a, b := queue.PipelineID{Node: 1, Gen: 1}, queue.PipelineID{Node: 2, Gen: 1}
	both := []queue.PipelineID{a, b}
	away := make(absence)
	for _, step := range []struct {
		now      int64
		serving  []queue.PipelineID
		attached queue.NodeID
		want     []queue.PipelineID
	}{
		{0, both, 1, nil},
		{50, both, 2, nil}, // b is back, a goes
		{100, both, 0, nil},
		{149, both, 0, nil},
		{150, both, 0, []queue.PipelineID{a}},
		{160, both[1:], 0, nil}, // a has no sessions any more
		{170, both, 0, nil},
		{200, both, 0, []queue.PipelineID{b}},
		{270, both, 0, both},
	} {
		got := away.missing(step.now, 100, step.serving, func(id queue.PipelineID) bool { return id.Node == step.attached })
		if !slices.Equal(got, step.want) {
			t.Errorf("at %d: missing %v, want %v", step.now, got, step.want)
		}
	}
}
