package reliability

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

const (
	heavyKillsDefault = 6
	heavyKillsFull    = 60
	heavyBytes        = 120_000
)

// heavySources publish so many bytes that queues write checkpoints and put bodies on disk while they are killed.
func heavySources(l *totalqueue.Ledger) []harness.Source {
	source := func(name, key string) harness.Source {
		return harness.Source{Publisher: l.Publisher(name, key), Key: key, Window: 50, PerSecond: 300, BodyBytes: heavyBytes, BodyBytesMax: 10 * heavyBytes}
	}
	return []harness.Source{source("a", "work-classic"), source("b", "work-quorum"), source("c", "kept-quorum")}
}

var heavySinks = []harness.Sink{
	{Queue: "work-classic", Prefetch: 100, Hold: 20},
	{Queue: "work-quorum", Prefetch: 100, Hold: 30, Multiple: true, RequeueEvery: 50},
}

// TestKillNineAroundCheckpoints kills a broker that is busy writing checkpoints and bodies.
func TestKillNineAroundCheckpoints(t *testing.T) {
	t.Parallel()
	kills := heavyKillsDefault
	if harness.Full() {
		kills = heavyKillsFull
	}
	s := newStage(t, patienceFor(kills), heavySources, heavySinks)
	wantWorthwhile(t, s.run(t, kills, 2*time.Second))
	if n := countFiles(t, s.broker.DataDir, ".ckpt"); n == 0 {
		t.Error("no queue has written a checkpoint: the load is too light to test anything")
	}
}

// countFiles counts the files below dir whose names end so.
func countFiles(t *testing.T, dir, suffix string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, suffix) {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKillNineDuringStart kills a broker again and again before it has recovered from the kill before.
func TestKillNineDuringStart(t *testing.T) {
	s := newStage(t, patienceFor(0), sources, sinks)
	if err := s.load.AwaitConfirms(serveTimeout); err != nil {
		t.Fatal(err)
	}
	s.kill(t, 1, time.Second)
	for range 30 {
		s.broker.Kill9()
		if err := s.broker.Exec(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(s.rng.Int64N(int64(400 * time.Millisecond))))
	}
	wantWorthwhile(t, s.run(t, 1, time.Second))
}
