package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

const (
	// keptQueue lies still, so that it is parked, with all of it in a checkpoint and a message store.
	keptQueue = "kept"
	// keptCount is how many messages it has.
	keptCount = 100
	// rebuiltMax is how long a node may take until all its replicas are members in good health again.
	rebuiltMax = 60 * time.Second
)

// rots are the files in which a bit is flipped, and where: in the middle of what is in use.
var rots = []struct{ name, pattern string }{
	{"checkpoint", "queues/*/*.ckpt"},
	{"message store", "queues/*/*.seg"},
	{"log", "wal/*.wal"},
}

// TestRotIsRebuilt kills a node under load, flips a bit in its files, and starts it: once in a checkpoint, once in a message store, once in the log. It is rebuilt from the others unaided, and nothing is lost.
func TestRotIsRebuilt(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Args: []string{"--set", "queue_park_timeout=1s"}})
	declare(t, c.Nodes[0])
	declareReplicated(t, c.Nodes[0].Channel(t), keptQueue, harness.Quorum)
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	kept := totalqueue.New()
	for i, rot := range rots {
		n := c.Nodes[i]
		fillKept(t, c, kept, rot.name)
		n.Kill9()
		where := flip(t, n.DataDir, rot.pattern)
		tr.mark()
		n.Launch(t)
		harness.Drain(t, n.Broker, kept, keptQueue)
		tr.comeHome(t)
		harness.Eventually(t, rebuiltMax, func() error { return wholeAgain(n) })
		t.Logf("%s: %s was rebuilt after a flip in %s", rot.name, n.Name, where)
		if aside, err := os.ReadDir(filepath.Join(n.DataDir, "quarantine")); err != nil || len(aside) == 0 {
			t.Errorf("%s: nothing was set aside: %v", rot.name, err)
		}
	}
	tr.finish(t)
	v := kept.Verdict()
	if err := v.Err(); err != nil {
		t.Error(err)
	}
	t.Logf("kept: %s", v)
}

// blindTag builds a server that takes damaged records for good ones; envBlind names one that was built, else it is.
const (
	blindTag = "plantedbug_blind"
	envBlind = "WARREN_BLIND_BIN"
)

// TestPlantedBlindnessIsCaught tests the test: a broker that does not look at checksums must not pass.
func TestPlantedBlindnessIsCaught(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	binary := os.Getenv(envBlind)
	if binary == "" {
		var err error
		if binary, err = harness.Build("warren", blindTag); err != nil {
			t.Fatal(err)
		}
	}
	b := harness.Start(t, harness.Options{Binary: binary, Args: []string{"--set", "queue_park_timeout=1s"}})
	harness.Declare(t, b.Channel(t), keptQueue, harness.Quorum)
	kept := totalqueue.New()
	fillKept(t, &harness.Cluster{Nodes: []*harness.Node{{Broker: b, Name: "rabbit"}}}, kept, "blind")
	b.Kill9()
	where := flip(t, b.DataDir, "queues/*/*.seg")
	b.Launch(t)
	harness.Drain(t, b, kept, keptQueue)
	err := kept.Verdict().Err()
	if err == nil {
		t.Fatalf("a broker built with -tags %s gave everything back as it was after a flip in %s: the checker or the tag is blind", blindTag, where)
	}
	t.Logf("the bug is seen: %v", err)
}

// fillKept puts messages into the kept queue and waits until it is parked on all nodes.
func fillKept(t *testing.T, c *harness.Cluster, ledger *totalqueue.Ledger, name string) {
	t.Helper()
	p := ledger.Publisher(name, keptQueue)
	var bodies [][]byte
	var ids []totalqueue.ID
	for range keptCount {
		id, body := p.Next(2000)
		ids, bodies = append(ids, id), append(bodies, body)
	}
	harness.PublishConfirmed(t, c.Nodes[0].Channel(t), "", keptQueue, bodies...)
	for _, id := range ids {
		p.Confirmed(id.Seq)
	}
	harness.Eventually(t, rebuiltMax, func() error {
		for _, n := range c.Nodes {
			if parked, err := filepath.Glob(filepath.Join(n.DataDir, "queues/*/parked")); err != nil || len(parked) == 0 {
				return errors.Join(fmt.Errorf("%s has parked no queue", n.Name), err)
			}
		}
		return nil
	})
}

// flip flips a bit in the middle of what is in use of the newest file that fits a pattern, and says where.
func flip(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no file %s in %s: %v", pattern, dir, err)
	}
	slices.Sort(names)
	name := names[len(names)-1]
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := len(bytes.TrimRight(data, "\x00")) / 2
	data[at] ^= 4
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s at %d", name, at)
}

// wholeAgain wants three replicas in good health of every queue, as a node tells.
func wholeAgain(n *harness.Node) error {
	for _, q := range []string{classicQueue, quorumQueue, keptQueue} {
		a, err := n.TryAPI("GET", harness.Path("queues", "quorum", "/", q, "status"), nil)
		if err != nil {
			return err
		}
		var rows []struct {
			State string `json:"Raft State"`
		}
		if err := json.Unmarshal(a.Body, &rows); err != nil {
			return fmt.Errorf("%s: %d %s", q, a.Status, a.Body)
		}
		for _, r := range rows {
			if len(rows) != 3 || !slices.Contains([]string{"leader", "follower", "parked"}, r.State) {
				return fmt.Errorf("%s: %s", q, a.Body)
			}
		}
	}
	return nil
}
