//go:build queuemutants && simulation

package quorumtest

import (
	"os"
	"strconv"
	_ "unsafe" // for go:linkname

	_ "github.com/warrenmq/warren/queue" // the variable's home
)

//go:linkname queueMutant github.com/warrenmq/warren/queue.mutant
var queueMutant int

// In this build the bug that the environment names is planted in package queue; see TestPlantedBugsAreFound.
func init() {
	queueMutant, _ = strconv.Atoi(os.Getenv(mutantVariable))
}
