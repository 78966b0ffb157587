package limits

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

// TestDamagedFilesAreNoticed flips one bit in the middle of each file of a stopped broker, one at a time, each in a copy of the directory. A broker may
// refuse to start, with exit code 65 and one line that names a file of the directory, or it may start and have every message, but for those of a queue that is down and says why. It may not start and
// have lost some, nor die of it in another way.
func TestDamagedFilesAreNoticed(t *testing.T) {
	s := stopped(t)
	for _, file := range dataFiles(t, s.broker.DataDir) {
		t.Run(strings.ReplaceAll(file, string(filepath.Separator), "_"), func(t *testing.T) { s.damaged(t, file) })
	}
	s.startsAgain(t)
}

// dataFiles lists the files with content below dir.
func dataFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() == 0 || entry.Name() == "LOCK" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, name)
		return err
	})
	if err != nil || len(files) < 3 {
		t.Fatalf("files of %s: %q, %v", dir, files, err)
	}
	return files
}

func (s *stage) damaged(t *testing.T, file string) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(s.broker.DataDir)); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, file), flipMiddle)
	b := prepared(t, harness.Options{Dir: dir})
	if err := b.Exec(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.AwaitAMQP(refusalTimeout); err != nil {
		s.refused(t, b, dir, refusalTimeout)
		return
	}
	// What is wrong with the files of one queue takes down no other one; what a queue has in the log is judged when the queue starts, which it does behind the port's back.
	down := 0
	for i := range keptQueues {
		err := keptIn(b, i)
		if err == nil {
			continue
		}
		t.Logf("the broker started and %v", err)
		if reason := downReason(b, keptQueues[i].name); !b.Running() || !strings.Contains(reason, dir) {
			t.Logf("its state tells %q", reason)
			s.refused(t, b, dir, refusalTimeout)
			return
		}
		down++
	}
	if down == len(keptQueues) {
		t.Errorf("one file of the directory takes down all queues")
	}
}

// downReason is why a queue is down, as the API tells; empty if it is not.
func downReason(b *harness.Broker, name string) string {
	a, err := b.TryAPI("GET", harness.Path("queues", "/", name), nil)
	var q struct {
		State string `json:"state"`
		Raft  struct {
			Reason string `json:"reason"`
		} `json:"raft"`
	}
	if err != nil || json.Unmarshal(a.Body, &q) != nil || q.State != "down" {
		return ""
	}
	return q.Raft.Reason
}

// refused checks that the broker ends with one line that names a file below dir.
func (s *stage) refused(t *testing.T, b *harness.Broker, dir string, timeout time.Duration) {
	t.Helper()
	code, err := b.Process().Wait(timeout)
	if err != nil {
		t.Fatalf("neither starts nor ends: %v\n%s", err, b.LogTail())
	}
	lines := plainLines(b.Log())
	if code != exitData || len(lines) != 1 || !strings.Contains(lines[0], dir) {
		t.Errorf("exit code %d, want %d and one line that names a file of %s:\n%s", code, exitData, dir, b.LogTail())
	}
}

// keptIn wants all kept messages of a queue in another broker that has a copy of the files.
func keptIn(b *harness.Broker, i int) error {
	conn, err := harness.Dial(b.AMQPURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	q := keptQueues[i]
	seen := map[string]bool{}
	for range keptCount {
		d, ok, err := ch.Get(q.name, true)
		if err != nil || !ok {
			return fmt.Errorf("queue %s gave %d messages of %d (%v)", q.name, len(seen), keptCount, err)
		}
		id, err := totalqueue.Decode(d.Body)
		if err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
		seen[id.String()] = true
	}
	if len(seen) != keptCount {
		return fmt.Errorf("queue %s gave %d different messages, want %d", q.name, len(seen), keptCount)
	}
	return nil
}
