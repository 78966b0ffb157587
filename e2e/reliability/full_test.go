package reliability

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/warrenmq/warren/config/limits"
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

// drainStage is a broker on a disk of its own with messages in some queues, most of which are in its message store.
type drainStage struct {
	t    *testing.T
	disk *harness.Disk
	b    *harness.Broker
}

const drainMessages, drainBytes = 4000, 10 << 10

func newDrainStage(t *testing.T, queues ...string) *drainStage {
	s := &drainStage{t: t, disk: harness.NewDisk(t, fullDiskBytes)}
	// With little memory bodies go to the message store.
	s.b = harness.Start(t, harness.Options{
		Dir: filepath.Join(s.disk.Dir, "data"), Args: []string{"--set", "total_memory_available_override_value=100MiB", "--set", "vm_memory_high_watermark.absolute=1GiB"},
	})
	in := s.b.Channel(t)
	for _, queue := range queues {
		harness.Declare(t, s.b.Channel(t), queue, harness.Quorum)
		for range drainMessages / 500 {
			bodies := make([][]byte, 500)
			for i := range bodies {
				bodies[i] = make([]byte, drainBytes)
			}
			harness.PublishConfirmed(t, in, "", queue, bodies...)
		}
	}
	return s
}

// free is what is free on the disk.
func (s *drainStage) free() uint64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(s.disk.Dir, &fs); err != nil {
		s.t.Fatal(err)
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// freed waits until what so many queues had on disk is free, and what the broker had in reserve if it needed that.
func (s *drainStage) freed(queues uint64) {
	s.t.Helper()
	least := queues * drainMessages * drainBytes / 2 // the rest was in memory
	if _, err := os.Stat(filepath.Join(s.disk.Dir, "data", "reserve")); err != nil {
		least += limits.DiskReserveBytes
	}
	harness.Eventually(s.t, serveTimeout, func() error {
		if got := s.free(); got < least {
			return fmt.Errorf("%d bytes are free, want at least %d", got, least)
		}
		return nil
	})
}

// drain takes and acknowledges all messages of a queue.
func (s *drainStage) drain(queue string) {
	s.t.Helper()
	ch := s.b.Channel(s.t)
	if err := ch.Qos(200, 0, false); err != nil {
		s.t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for range drainMessages {
		if err := harness.Receive(s.t, deliveries).Ack(false); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestFullDiskCanBeDrained: on a disk without a free byte messages are delivered and acknowledged, queues are purged and deleted, and that makes room.
func TestFullDiskCanBeDrained(t *testing.T) {
	s := newDrainStage(t, "drained", "purged", "deleted")
	time.Sleep(2 * time.Second) // what the broker has under way, and its reserve
	fill(t, s.disk.Dir, 0)
	t.Logf("%d bytes are free", s.free())
	s.drain("drained")
	s.freed(1)
	ch := s.b.Channel(t)
	if n, err := ch.QueuePurge("purged", false); err != nil || n != drainMessages {
		t.Errorf("purged %d, %v", n, err)
	}
	s.freed(2)
	if n, err := ch.QueueDelete("deleted", false, false, false); err != nil || n != drainMessages {
		t.Errorf("deleted %d, %v", n, err)
	}
	s.freed(3)
	s.b.Kill9()
	if err := s.b.Exec(); err != nil {
		t.Fatal(err)
	}
	if err := s.b.AwaitAMQP(serveTimeout); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"drained", "purged"} {
		if q, err := s.b.Channel(t).QueueDeclarePassive(queue, true, false, false, false, nil); err != nil || q.Messages != 0 {
			t.Errorf("%s: %+v %v", queue, q, err)
		}
	}
}
