package quorum

import (
	"math"
	_ "unsafe" // for go:linkname

	_ "github.com/lni/dragonboat/v4" // the variables' home
)

// The library sizes the queues of every replica for a few large groups: 1.16 MB of heap each. It reads its soft settings into package variables at init; these pulls set them for many small
// groups instead (0.11 MB, throughput no worse). TestReplicaMemory guards that they still exist and still help. See docs/adr on dragonboat.

//go:linkname incomingProposalsMaxLen github.com/lni/dragonboat/v4.incomingProposalsMaxLen
var incomingProposalsMaxLen uint64

//go:linkname incomingReadIndexMaxLen github.com/lni/dragonboat/v4.incomingReadIndexMaxLen
var incomingReadIndexMaxLen uint64

//go:linkname syncTaskInterval github.com/lni/dragonboat/v4.syncTaskInterval
var syncTaskInterval uint64

//go:linkname receiveQueueLen github.com/lni/dragonboat/v4.receiveQueueLen
var receiveQueueLen uint64

//go:linkname pendingProposalShards github.com/lni/dragonboat/v4.pendingProposalShards
var pendingProposalShards uint64

//go:linkname initialTaskQueueCap github.com/lni/dragonboat/v4/internal/rsm.initialTaskQueueCap
var initialTaskQueueCap uint64

//go:linkname entrySliceSize github.com/lni/dragonboat/v4/internal/raft.entrySliceSize
var entrySliceSize uint64

//go:linkname minEntrySliceSize github.com/lni/dragonboat/v4/internal/raft.minEntrySliceSize
var minEntrySliceSize uint64

func init() {
	incomingProposalsMaxLen = 64
	incomingReadIndexMaxLen = 16
	receiveQueueLen = 128
	pendingProposalShards = 1
	initialTaskQueueCap = 4
	entrySliceSize = 16
	minEntrySliceSize = 4
	// The periodic Sync of on-disk machines runs for all groups at once and holds their apply workers; checkpoints are ours. The library draws the last time of each replica below the interval and lets the
	// difference to the present wrap around: any shorter one has every replica Sync as it starts.
	syncTaskInterval = math.MaxUint64
}
