package quorum

import (
	"os"
	"path/filepath"
	"testing"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/queue"
)

// TestHostNameMeansNothing: a data directory that was written on a host of another name works as before, as in a container that got another name.
func TestHostNameMeansNothing(t *testing.T) {
	path := t.TempDir()
	h := openHost(t, path)
	q := declare(t, h, "q", true)
	c := newRecorder()
	publish(t, h.OpenSession(c), c, q, 1, 10)
	stopHost(h)

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	raft := filepath.Join(path, "raft")
	if err := os.Rename(filepath.Join(raft, host), filepath.Join(raft, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	flag := filepath.Join(raft, flagFile)
	src, err := os.ReadFile(flag)
	if err != nil {
		t.Fatal(err)
	}
	var s pb.RaftDataStatus
	if err := s.Unmarshal(src[flagChecksumBytes:]); err != nil {
		t.Fatal(err)
	}
	s.Hostname = "elsewhere"
	body, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(flag, append([]byte(flagChecksum(body)), body...), 0o600); err != nil {
		t.Fatal(err)
	}

	h = openHost(t, path)
	c = newRecorder()
	if r := do(t, h.OpenSession(c), c, q, 1, queue.Command{Op: queue.OpQuery}); r.A != 10 {
		t.Fatalf("%d messages", r.A)
	}
}
