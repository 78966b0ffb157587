package quorumtest

import (
	"io"
	stdlog "log"
	"os"
	"runtime/debug"
	"testing"
)

// collectPercent is the garbage collector's: a cluster's live heap is small, and collecting it often costs a tenth of the time.
const collectPercent = 400

func TestMain(m *testing.M) {
	stdlog.SetOutput(io.Discard) // the log store's library complains that a disk in memory cannot tell its free space
	debug.SetGCPercent(collectPercent)
	os.Exit(m.Run())
}
