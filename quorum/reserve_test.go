package quorum

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage"
)

// fullFS has no room for checkpoints while the reserve is there.
type fullFS struct {
	storage.FS
	reserve string
}

func (f fullFS) Create(name string) (storage.File, error) {
	if _, err := f.Stat(f.reserve); err == nil && strings.HasPrefix(filepath.Base(name), "checkpoint") {
		return nil, syscall.ENOSPC
	}
	return f.FS.Create(name)
}

// TestReserveLetsCheckpointsThrough: on a full disk a checkpoint takes the space that was kept for it, once.
func TestReserveLetsCheckpointsThrough(t *testing.T) {
	const bytes = 3<<20 + 17
	path := t.TempDir()
	reserve := filepath.Join(path, "reserve")
	h := openHost(t, path, func(c *Config) {
		c.FS, c.DiskReserveBytes, c.CheckpointLogBytes = fullFS{storage.OS, reserve}, bytes, 4<<10
	})
	until(t, "the reserve is taken", func() bool { info, err := storage.OS.Stat(reserve); return err == nil && info.SizeBytes == bytes })
	q := declare(t, h, "q", true)
	c := newRecorder()
	publish(t, h.OpenSession(c), c, q, 1, 1000)
	until(t, "a checkpoint is written", func() bool { st, _ := h.QueueStatus(q); return st.Checkpoint > 0 })
	if _, err := storage.OS.Stat(reserve); err == nil {
		t.Error("the reserve is still there")
	}
	if h.reserve.spend() {
		t.Error("it can be spent twice")
	}
}

// TestSettledMessagesLeaveTheDisk: a long queue is settled, which writes next to no log; what it had on disk goes nevertheless.
func TestSettledMessagesLeaveTheDisk(t *testing.T) {
	h := openHost(t, t.TempDir(), func(c *Config) { c.BodiesInMemoryBytes = 1 })
	q := declare(t, h, "q", true)
	c := newRecorder()
	s := h.OpenSession(c)
	const size, messages = 1 << 20, 40
	body := make([]byte, size)
	for i := range messages {
		if err := s.Submit(q, &queue.Command{Op: queue.OpEnqueue, BodyBytes: size, Envelope: body}, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		s.Flush()
	}
	c.await(t, "confirms", func() bool { return len(c.replies) == messages })
	until(t, "bodies are on disk", func() bool { st, _ := h.QueueStatus(q); return st.DiskBytes > (messages-2)*size })
	if err := s.Submit(q, &queue.Command{Op: queue.OpPurge}, messages+1); err != nil {
		t.Fatal(err)
	}
	s.Flush()
	until(t, "their files are gone", func() bool { st, _ := h.QueueStatus(q); return st.DiskBytes < 4*size })
}
