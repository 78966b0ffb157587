//go:build simulation

package quorumtest

import (
	"io"
	stdlog "log"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	stdlog.SetOutput(io.Discard) // the log store's library complains that a disk in memory cannot tell its free space
	os.Exit(m.Run())
}
