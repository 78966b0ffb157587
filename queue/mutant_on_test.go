//go:build queuemutants

package queue

import (
	"fmt"
	"runtime/debug"
	"testing"
)

// mutantSeeds is how many histories may pass before one must find a planted bug; most are found by the first hundred.
const mutantSeeds = 8 * modelSeedsDefault

// TestMutants turns on each planted bug and wants the random histories to find it. It runs in a build of its own, started by TestPlantedBugsAreFound.
func TestMutants(t *testing.T) {
	defer func() { mutant = mutantNone }()
	defer debug.SetGCPercent(debug.SetGCPercent(modelGCPercent))
	for bug := mutantNone + 1; bug < mutantsEnd; bug++ {
		t.Run(fmt.Sprint(bug), func(t *testing.T) {
			mutant = bug
			for seed := range uint64(mutantSeeds) {
				if h := explored(seed); h != nil {
					small, err := h.shrink()
					t.Logf("found by seed %d: %v\n%s", seed, err, small)
					return
				}
			}
			t.Errorf("bug %d was not found", bug)
		})
	}
}

// explored returns the history of a seed if it fails, nil if it passes; a panic is a failure, too.
func explored(seed uint64) (failed *history) {
	defer func() {
		if recover() != nil {
			failed = generate(seed)
		}
	}()
	h, err := explore(seed)
	if err == nil {
		return nil
	}
	return h
}
