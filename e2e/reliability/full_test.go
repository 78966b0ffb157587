package reliability

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

const (
	// fullDiskBytes is a disk that a test can fill. Its alarm is at a tenth of it.
	fullDiskBytes = 512 << 20
	fullCycles    = 3
	// fullCyclesFull is the long form.
	fullCyclesFull = 30
	// ballastBytes is written at a time.
	ballastBytes = 1 << 20
)

// fill writes a file until so much of the disk is left; 0 is until it takes no more.
func fill(t *testing.T, dir string, leaveBytes uint64) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, ballastBytes); ; {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(dir, &fs); err != nil {
			t.Fatal(err)
		}
		if leaveBytes > 0 && fs.Bavail*uint64(fs.Bsize) < leaveBytes+ballastBytes {
			return ballast
		}
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return ballast
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDiskLosesNothing: somebody else fills the disk under load, to below the alarm or to the last byte, and gives it back. The broker holds publishers back and lives.
func TestFullDiskLosesNothing(t *testing.T) {
	for name, load := range map[string]struct {
		sources func(*totalqueue.Ledger) []harness.Source
		sinks   []harness.Sink
	}{
		"small messages":           {sources, sinks},
		"checkpoints all the time": {func(l *totalqueue.Ledger) []harness.Source { return heavySources(l)[:2] }, heavySinks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fullDisk(t, load.sources, load.sinks)
		})
	}
}

func fullDisk(t *testing.T, sources func(*totalqueue.Ledger) []harness.Source, sinks []harness.Sink) {
	cycles := fullCycles
	if harness.Full() {
		cycles = fullCyclesFull
	}
	disk := harness.NewDisk(t, fullDiskBytes)
	s := newStageWith(t, harness.Options{Patience: patienceFor(cycles), Dir: filepath.Join(disk.Dir, "data")}, sources, sinks)
	if err := s.load.AwaitConfirms(serveTimeout); err != nil {
		t.Fatal(err)
	}
	for cycle := range cycles {
		time.Sleep(time.Duration(s.rng.Int64N(int64(1500 * time.Millisecond))))
		var leave uint64
		if cycle%2 == 0 {
			leave = 16 << 20
		}
		ballast := fill(t, disk.Dir, leave)
		time.Sleep(time.Second + time.Duration(s.rng.Int64N(int64(time.Second))))
		if !s.broker.Running() {
			t.Errorf("cycle %d: the broker has ended with %d bytes left", cycle, leave)
			return
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.load.AwaitConfirms(serveTimeout); err != nil {
			t.Fatalf("after cycle %d: %v", cycle, err)
		}
		t.Logf("cycle %d: %d bytes were left; all publishers served %v after there was space again", cycle, leave, time.Since(began).Round(time.Millisecond))
	}
	wantWorthwhile(t, s.run(t, 1, time.Second))
}
