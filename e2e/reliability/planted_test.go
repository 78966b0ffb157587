package reliability

import (
	"testing"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

// plantedTag builds a server that confirms a publish before it is committed.
const plantedTag = "plantedbug_early_confirm"

// plantedKillsMax is how many kills the checker has to see the bug.
const plantedKillsMax = 10

// TestPlantedEarlyConfirmIsCaught tests the test: a broker that confirms too early must not pass.
func TestPlantedEarlyConfirmIsCaught(t *testing.T) {
	harness.NeedProcess(t)
	binary, err := harness.Build("warren", plantedTag)
	if err != nil {
		t.Fatal(err)
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

// killOnce loads two queues as hard as it can, kills the broker, and returns the account.
func killOnce(t *testing.T, b *harness.Broker, round int) totalqueue.Verdict {
	t.Helper()
	ledger := totalqueue.New()
	ch := b.Channel(t)
	queues := []string{"planted-classic", "planted-quorum"}
	var load []harness.Source
	for i, kind := range []string{harness.Classic, harness.Quorum} {
		harness.Declare(t, ch, queues[i], kind)
		load = append(load, harness.Source{Publisher: ledger.Publisher(kind, queues[i]), Key: queues[i], Window: 500, BodyBytes: 8000})
	}
	l := harness.StartLoad(t, b, ledger, uint64(round), load, nil)
	for range 20 {
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
