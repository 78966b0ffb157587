//go:build simulation

package quorumtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// mutantVariable names the planted bug of package queue that a build with the tag queuemutants has; the numbers are those of queue/mutant.go.
const mutantVariable = "WARREN_QUEUE_MUTANT"

// planted are bugs that a cluster test must see, each with a build tag, the tests that see it and what they say.
var planted = []struct {
	name, tag, mutant string
	run               string
	says              string
}{
	{"confirmed before it is proposed", "plantedbug_early_confirm", "", "^TestSeeds$", `confirmed messages are lost|were outstanding`},
	{"the flag of redelivered messages is lost", "queuemutants", "2", "^TestClosedSessionKeepsMessages$", `without the flag|with the flag false`},
	{"one message more than the prefetch", "queuemutants", "4", "^TestSeeds$", `beyond its prefetch`},
	{"a repeated batch is applied again", "queuemutants", "5", "^TestLostProposalStopsThePipeline$", `stands? in the queue`},
	{"snapshots omit what is unacked", "queuemutants", "6", "^TestSnapshotOmitsUnacked$", `lost|outstanding|in vain`},
	{"a drained window stays full", "queuemutants", "8", "^TestCluster$", `waited .* in vain`},
	{"the fence of a dead incarnation is forgotten", "queuemutants", "12", "^TestFirstBatchOfDeadIncarnationMakesASession$", `a dead incarnation consumes|in vain`},
}

// TestPlantedBugsAreFound builds this package with bugs in the packages below and wants its tests to fail for the right reason. Checkers that find none of them would prove nothing.
func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() || os.Getenv(mutantVariable) != "" {
		t.Skip("needs builds of its own")
	}
	built := map[string]string{}
	for _, bug := range planted {
		binary := built[bug.tag]
		if binary == "" {
			binary = filepath.Join(t.TempDir(), "planted.test")
			if out, err := exec.Command("go", "test", "-c", "-tags="+bug.tag, "-o", binary, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			built[bug.tag] = binary
		}
		t.Run(bug.name, func(t *testing.T) {
			cmd := exec.Command(binary, "-test.run="+bug.run, "-test.failfast", "-seeds=60")
			cmd.Env = append(os.Environ(), mutantVariable+"="+bug.mutant)
			out, err := cmd.CombinedOutput()
			switch {
			case err == nil:
				t.Error("nothing was found")
			case !regexp.MustCompile(bug.says).Match(out):
				t.Errorf("what was found is not what was planted:\n%s", out)
			default:
				t.Logf("found: %s", regexp.MustCompile(`.*(`+bug.says+`).*`).Find(out))
			}
		})
	}
}
