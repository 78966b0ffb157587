//go:build queuemutants && quorummutants

package quorumtest

import (
	"fmt"
	"os"
	_ "unsafe" // for go:linkname

	_ "github.com/warrenmq/warren/queue"  // home of a variable
	_ "github.com/warrenmq/warren/quorum" // home of a variable
)

//go:linkname queueMutant github.com/warrenmq/warren/queue.mutant
var queueMutant int

//go:linkname quorumMutant github.com/warrenmq/warren/quorum.mutant
var quorumMutant int

// In this build the bug that the environment names is planted; see TestPlantedBugsAreFound.
func init() {
	var home string
	var number int
	if _, err := fmt.Sscanf(os.Getenv(plantedVariable), "%s %d", &home, &number); err != nil {
		return
	}
	switch home {
	case inQueue:
		queueMutant = number
	case inQuorum:
		quorumMutant = number
	case inDisk:
		syncsForgotten = true
	}
}
