package reliability

import (
	"os"
	"testing"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

// plantedTag builds a server that confirms a publish before it is committed.
const plantedTag = "plantedbug_early_confirm"

// envPlanted names a server that was built with the tag; else it is built.
const envPlanted = "WARREN_PLANTED_BIN"

// plantedKillsMax is how many kills the checker has to see the bug.
const plantedKillsMax = 30

// TestPlantedEarlyConfirmIsCaught tests the test: a broker that confirms too early must not pass.
func TestPlantedEarlyConfirmIsCaught(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	binary := os.Getenv(envPlanted)
	if binary == "" {
		var err error
		if binary, err = harness.Build("warren", plantedTag); err != nil {
			t.Fatal(err)
		}
	}
	b := harness.Start(t, harness.Options{Binary: binary})
	for kills := 1; kills <= plantedKillsMax; kills++ {
		v := killOnce(t, b, kills)
		t.Logf("kill %d: %s", kills, v)
		if v.Lost.Count > 0 {
			t.Logf("the bug is seen: %d lost, %s", v.Lost.Count, v.Lost.Examples[0])
			return
		}
	}
	t.Errorf("a broker built with -tags %s lost nothing in %d kills: the checker or the tag is blind", plantedTag, plantedKillsMax)
}

// killOnce loads two queues, kills the broker, and returns the account. The windows are small: a killed broker that has not read all that was sent
// resets the connection, and then the kernel forgets confirms that the client has not read, early ones among them.
func killOnce(t *testing.T, b *harness.Broker, round int) totalqueue.Verdict {
	t.Helper()
	ledger := totalqueue.New()
	ch := b.Channel(t)
	queues := []string{"planted-classic", "planted-quorum"}
	var load []harness.Source
	for i, kind := range []string{harness.Classic, harness.Quorum} {
		harness.Declare(t, ch, queues[i], kind)
		load = append(load, harness.Source{Publisher: ledger.Publisher(kind, queues[i]), Key: queues[i], Window: 5, BodyBytes: 2000})
	}
	l := harness.StartLoad(t, b, ledger, uint64(round), load, nil)
	for range 3 {
		if err := l.AwaitConfirms(serveTimeout); err != nil {
			t.Fatal(err)
		}
	}
	b.Kill9()
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Launch(t)
	for _, q := range queues {
		harness.Drain(t, b, ledger, q)
	}
	return ledger.Verdict()
}
