//go:build !walmutants

package wal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// planted are the bugs with the test that must find each, and what that says.
var planted = []struct {
	name      string
	bug       int
	run, says string
}{
	{"a commit is not synced", mutantSyncSkipped, "TestRandomHistories", "and may hold|corrupt"},
	{"no marker is written", mutantMarkerForgotten, "TestRotInTheLastBatch", "a confirmed record was left out"},
	{"the checksum of the record before is not compared", mutantChainUnread, "TestARecordOfAnotherHistory", "was accepted"},
	{"rot is taken for a torn write", mutantTornIsTaken, "TestEveryFlippedBit", "was accepted"},
	{"a record says that it is durable itself", mutantClaimsTooMuch, "TestATornBatch", "though all before offset"},
	{"a file is left unsynced", mutantRotatesUnsynced, "TestDiskGoesAway|TestRandomHistories", "corrupt|and may hold"},
	{"a file's name is not durable", mutantNamesUnsynced, "TestRandomHistories", "missing|and may hold"},
	{"what is found is not made durable", mutantOpensUnsynced, "TestWhatAKilledProcess", "after power loss"},
	{"a file's header is not durable before its name", mutantHeaderUnsynced, "TestDiskGoesAway|TestEveryOperation", "header"},
	{"a file goes that is needed", mutantFreesEarly, "TestRandomHistories", "should hold|and may hold|missing|panic"},
	{"files go before the truncation is durable", mutantTruncatesEarly, "TestRandomHistories", "should hold|and may hold"},
	{"entries that were cut off are shown", mutantTruncatedShown, "TestRandomHistories", "should hold|want"},
	{"a copy cuts what is behind it", mutantCopyCutsEntries, "TestRandomHistories", "should hold|and may hold"},
	{"a copy brings back what went meanwhile", mutantCopiesGone, "TestACopyBringsNothingBack", "is back"},
	{"entries behind a gap follow", mutantFollowsAnything, "TestRandomHistories", "should hold|and may hold|missing|panic"},
	{"an older snapshot counts", mutantOldSnapshotCounts, "TestRandomHistories", "should hold|and may hold"},
	{"a read does not verify", mutantReadsUnverified, "TestRotBehindAnOpenLog", "wrong bytes|panic"},
	{"a file in the middle may end anywhere", mutantEndUnread, "TestEveryFlippedBit|TestCutMissing", "was accepted|nil"},
	{"a file is continued after a crash", mutantContinuesFile, "TestATornEndIsNotContinued", "goes on"},
	{"memory of another place is read", mutantTailOfOtherPlace, "TestRandomHistories", "should hold|is \"|corrupt|panic"},
	{"a failed disk is not told", mutantFatalUntold, "TestEveryOperationFailsOnce", "told 0 times"},
}

// TestPlantedBugsAreFound builds the package with planted bugs and wants the tests to find each.
func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a build of its own")
	}
	binary := filepath.Join(t.TempDir(), "planted.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags=walmutants", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, bug := range planted {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run="+bug.run, "-test.failfast", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), fmt.Sprint("WARREN_WAL_MUTANT=", bug.bug))
		out, err := cmd.CombinedOutput()
		var failed *exec.ExitError
		switch {
		case !errors.As(err, &failed):
			t.Errorf("%s: nothing was found: %v\n%s", bug.name, err, out)
		case !regexp.MustCompile(bug.says).Match(out):
			t.Errorf("%s: what was found is not what was planted:\n%.2000s", bug.name, out)
		}
	}
}
