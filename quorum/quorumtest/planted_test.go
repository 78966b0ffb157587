package quorumtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// plantedVariable names the planted bug of a build with plantedTags: where it is and its number in queue/mutant.go or quorum/mutant.go.
const (
	plantedVariable = "WARREN_PLANTED_BUG"
	plantedTags     = "queuemutants,quorummutants"

	inQueue  = "queue"
	inQuorum = "quorum"
	inDisk   = "disk"
)

// planted are bugs that a cluster test must see, each with the tests that see it and what they say.
var planted = []struct {
	name, home string
	number     int
	run        string
	says       string
}{
	{"messages return to the tail", inQueue, 1, "^TestSeeds$", `delivered twice|for the first time after|stands at|after 0 acquisitions`},
	{"the flag of redelivered messages is lost", inQueue, 2, "^TestClosedSessionKeepsMessages$", `without the flag|with the flag false`},
	{"an acknowledgement is applied twice", inQueue, 3, "^TestSeeds$", `acknowledgements of`},
	{"one message more than the prefetch", inQueue, 4, "^TestSeeds$", `beyond its prefetch|had to stop`},
	{"a repeated batch is applied again", inQueue, 5, "^TestLostProposalStopsThePipeline$", `stands? in the queue`},
	{"snapshots omit what is unacked", inQueue, 6, "^TestSnapshotOmitsUnacked$", `lost|outstanding|in vain`},
	{"a drained window stays full", inQueue, 8, "^TestCluster$", `waited .* in vain`},
	{"a consumer is served alone", inQueue, 10, "^TestSeeds$", `every consumer gets a message`},
	{"the fence of a dead incarnation is forgotten", inQueue, 12, "^TestFirstBatchOfDeadIncarnationMakesASession$", `a dead incarnation consumes|in vain`},
	{"staged messages are seen", inQueue, 18, "^TestSeeds$", `before its commit`},
	{"a transaction is committed in part", inQueue, 20, "^TestEvictedNodeCommitsAPart$", `messages of a transaction came|messages are confirmed`},
	{"a dead node's transaction is committed", inQueue, 21, "^TestDeadNodesTransactionIsCommitted$", `before its commit`},
	{"who is asked about a transaction still decides", inQueue, 33, "^TestLateDecisionIsTaken$", `want code 7|acknowledged`},
	{"a queue that decides is sealed", inQueue, 35, "^TestDeletedHomeTakesItsDecisionAlong$", `in vain`},
	{"a decision ends with its channel", inQueue, 37, "^TestDeadCoordinatorLeavesHalfATransaction$", `acknowledged`},
	{"confirmed before it is proposed", inQuorum, 1, "^TestSeeds$", `confirmed messages are lost|were outstanding`},
	{"confirmed before a majority has it", inQuorum, 2, "^TestMinorityConfirms$", `a minority confirms|were outstanding`},
	{"a neighbour's body is delivered", inQuorum, 3, "^TestBacklogOnDiskIsMixedUp$", `stands in the queue twice|delivered twice|stands at`},
	{"a new leader forgets the dead", inQuorum, 4, "^TestNewLeaderForgetsDeaths$", `in vain`},
	{"a death that came before the first batch is forgotten", inQuorum, 5, "^TestBatchUnderWayOutlivesItsNode$", `in vain`},
	{"a node trusts its view longer than its lease", inQuorum, 6, "^TestDeclaredQueueIsUnknownElsewhere$", `trusts a view without`},
	{"the catalogue answers before all have heard", inQuorum, 7, "^TestDeclaredQueueIsUnknownElsewhere$", `trusts a view without`},
	{"a new leader of the catalogue forgets leases", inQuorum, 8, "^TestNewCatalogueLeaderForgetsLeases$", `trusts a view without`},
	{"a member kicks without a majority", inQuorum, 9, "^TestReturningMemberDeposesGoodLeader$", `led by`},
	{"the stream of a former attachment is taken", inQuorum, 10, "^TestReplicaThatIsBehindDeliversAgain$", `gets delivery|delivered twice`},
	{"what was held back is let through twice", inQuorum, 11, "^TestHeldBackDeliveriesComeTwice$", `gets delivery|delivered twice`},
	{"a replica that is behind serves", inQuorum, 12, "^TestReplicaThatIsBehindDeliversAgain$", `gets delivery|delivered twice`},
	{"the leader forgets what it proposed", inQuorum, 13, "^TestResentBatchStandsInTheLogTwice$", `made \d+ log entries`},
	{"nothing is sent again", inQuorum, 14, "^TestNewTermLosesOrDoublesBatches$", `in vain`},
	{"a seal is never taken back", inQuorum, 15, "^TestSealLastsForEver$", `in vain`},
	{"timers are forgotten", inQuorum, 16, "^TestReturnEndsAtItsBound$", `in vain`},
	{"a node that is not attached is never evicted", inQuorum, 17, "^TestUnattachedNodeKeepsMessages$", `in vain`},
	{"nobody is told that its replica is behind", inQuorum, 18, "^TestConsumerIsBoundToReplicaThatIsBehind$", `in vain`},
	{"a dead letter goes before its target has it", inQuorum, 19, "^TestLettersGoBeforeTheyArrived$", `is there 0 times|in vain`},
	{"a target that is not known counts as deleted", inQuorum, 20, "^TestUnknownTargetCountsAsDeleted$", `is there 0 times|in vain`},
	{"a majority is enough for what all must have", inQuorum, 21, "^TestConfirmOfAllComesFromAMajority$", `has not what is confirmed|though a replica`},
	{"open transactions are forgotten", inQuorum, 22, "^TestDeadCoordinatorLeavesHalfATransaction$", `in vain`},
	{"a deleted queue takes its dead letters along", inQuorum, 23, "^TestLettersOfDeletedQueueAreLost$", `the deleted queue is`},
	{"a deleted queue stays though all has left it", inQuorum, 24, "^TestLettersOfDeletedQueueAreLost$", `in vain`},
	{"what comes as an exchange is deleted counts as done", inQuorum, 25, "^TestExchangeDeletedUnderItsPublisher$", `count as done`},
	{"an exchange is deleted while messages look for their targets", inQuorum, 26, "^TestExchangeDeletedUnderItsPublisher$", `count as done`},
	{"a queue in use is parked", inQuorum, 27, "^TestParkedUnderItsUsers$", `in use is parked`},
	{"a queue counts as parked though it went on", inQuorum, 28, "^TestStaleWordOfParking$", `in vain`},
	{"a member that was down stays parked", inQuorum, 29, "^TestRestartStartsParkedQueues$", `in vain`},
	{"what cannot be read is passed over", inQuorum, 30, "^TestUnreadableBodyIsPassedOver$", `got a damaged message`},
	{"a replica that lost its votes starts again", inQuorum, 31, "^TestDamagedLogStopsItsNode$", `the replica is replaced`},
	{"a moved message is dropped before its target has it", inQuorum, 19, "^TestMovedComeTwiceOrNever$", `in vain|is there 0 times`},
	{"confirmed before it is synced", inDisk, 1, "^TestSeeds$", `lost|had to stop|does not start|in the queue|comes again|were outstanding|in vain`},
}

// TestPlantedBugsAreFound builds this package with bugs planted below it and wants its tests to fail for the right reason. Checkers that find none of them would prove nothing.
func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() || isWorker() {
		t.Skip("needs a build of its own")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command:", err)
	}
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "planted.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags="+plantedTags, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("the build with planted bugs failed (it takes the compiler's and linker's memory, whatever limit this test runs under): %v\n%s", err, out)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("the build with planted bugs left no binary: is this the package's directory? %v", err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, bug := range planted {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			out, err := runWorker(t.Context(), binary, plantedVariable+"="+fmt.Sprint(bug.home, " ", bug.number), "-test.run="+bug.run, "-test.failfast", "-seeds=60")
			var failed *exec.ExitError
			switch {
			case err == nil && strings.Contains(out, "no tests to run"):
				t.Errorf("%s: there is no test %s", bug.name, bug.run)
			case err == nil:
				t.Errorf("%s: nothing was found", bug.name)
			case !errors.As(err, &failed):
				t.Errorf("%s: the tests cannot be run: %v", bug.name, err)
			case !regexp.MustCompile(bug.says).MatchString(out):
				t.Errorf("%s: what was found is not what was planted (%v):\n%s", bug.name, err, tail(out))
			default:
				t.Logf("%s: %s", bug.name, strings.TrimSpace(regexp.MustCompile(`.*(`+bug.says+`).*`).FindString(out)))
			}
		})
	}
}
