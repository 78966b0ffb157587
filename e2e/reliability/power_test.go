package reliability

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	powerCycles     = 5
	powerCyclesFull = 50
	// powerDiskBytes is a disk for the load of these tests.
	powerDiskBytes = 1 << 30
	// plantedNoSyncTag builds a server whose syncs do nothing.
	plantedNoSyncTag = "plantedbug_no_sync"
)

// newPowered is a stage on a disk whose power is lost with the broker.
func newPowered(t *testing.T, binary string, cycles int) *stage {
	t.Helper()
	disk := harness.NewDisk(t, powerDiskBytes)
	s := newStageWith(t, harness.Options{Binary: binary, Patience: patienceFor(cycles), Dir: filepath.Join(disk.Dir, "data")}, sources, sinks)
	s.die = func(t *testing.T) {
		t.Helper()
		harness.LosePower(t, s.broker, disk)
	}
	return s
}

// TestPowerLossLosesNothing: what was confirmed was synced. A real file system forgets the rest.
func TestPowerLossLosesNothing(t *testing.T) {
	t.Parallel()
	cycles := powerCycles
	if harness.Full() {
		cycles = powerCyclesFull
	}
	v := newPowered(t, "", cycles).run(t, cycles, 1500*time.Millisecond)
	if v.Confirmed < 500 {
		t.Errorf("the run says little: %s", v)
	}
}

// TestPlantedNoSyncIsCaught tests the test: a broker that does not sync must not pass.
func TestPlantedNoSyncIsCaught(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	binary, err := harness.Build("warren", plantedNoSyncTag)
	if err != nil {
		t.Fatal(err)
	}
	s := newPowered(t, binary, powerCycles)
	if err := s.load.AwaitConfirms(serveTimeout); err != nil {
		t.Fatal(err)
	}
	s.die(t)
	if err := s.load.Stop(); err != nil {
		t.Log(err) // publishes that nobody will answer
	}
	if seen := s.missed(t); seen == "" {
		t.Errorf("a broker built with -tags %s lost nothing: the checker or the tag is blind", plantedNoSyncTag)
	} else {
		t.Logf("the bug is seen: %s", seen)
	}
}

// missed starts the broker and says what is wrong with it: it does not start on what is left, queues are gone, or messages.
func (s *stage) missed(t *testing.T) string {
	t.Helper()
	if err := s.broker.Exec(); err != nil {
		t.Fatal(err)
	}
	if err := s.broker.AwaitAMQP(serveTimeout); err != nil {
		return err.Error()
	}
	ch := s.broker.Channel(t)
	for _, q := range queuesOf {
		if _, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil); err != nil {
			return err.Error()
		}
		harness.Drain(t, s.broker, s.ledger, q.name)
	}
	if v := s.ledger.Verdict(); v.Lost.Count > 0 {
		return v.String()
	}
	return ""
}
