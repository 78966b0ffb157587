package quorum

import (
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/lni/vfs"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage/checkpoint"
	"github.com/warrenmq/warren/storage/storagetest"
)

// groupOf returns the running replica of a durable queue.
func groupOf(t *testing.T, h *Host, id meta.QueueID) *group {
	t.Helper()
	g, ok := h.slotOf(t, id).runner().(*group)
	if !ok {
		t.Fatal("the queue's replica does not run")
	}
	return g
}

// durable returns the entries that a checkpoint of the queue and its tail have when the process dies now.
func durable(t *testing.T, g *group) (index uint64, entries int) {
	t.Helper()
	rec, ok, err := checkpoint.Load(g.host.fs, g.disk.dir)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	defer rec.Tail.Close()
	if len(rec.Entries) == 0 {
		return rec.Index, 0
	}
	return rec.Entries[len(rec.Entries)-1].Index, len(rec.Entries)
}

// checkpointed is a queue with a checkpoint and nothing behind it.
func checkpointed(t *testing.T) (*group, *recorder, *Session) {
	t.Helper()
	room := &machineRoom{t: t, raft: vfs.NewStrictMem(), disk: storagetest.New(), log: 1 << 30, bodies: 1 << 30, logFile: 16 << 20}
	room.start()
	t.Cleanup(room.h.Close)
	q := declare(t, room.h, "q", true)
	c := newRecorder()
	s := room.h.OpenSession(c)
	publish(t, s, c, q, 1, 10)
	g := groupOf(t, room.h, q)
	if err := g.checkpoint(); err != nil {
		t.Fatal(err)
	}
	return g, c, s
}

// A checkpoint that is cut where the last one was has nothing new, but what is applied while it is asked for must not get lost: the library forgets its log for it.
func TestCheckpointOfAnIdleQueueLosesWhatComesNext(t *testing.T) {
	g, c, s := checkpointed(t)
	cut := g.disk.begin(&g.replica)
	publish(t, s, c, g.id, 11, 10)
	if err := g.disk.write(&g.replica, cut.cp); err != nil {
		t.Fatal(err)
	}
	if err := (*stateMachine)(g).Sync(); err != nil {
		t.Fatal(err)
	}
	if index, n := durable(t, g); index != g.applied || n == 0 {
		t.Fatalf("%d entries up to %d are durable, %d are applied", n, index, g.applied)
	}
}

// The library may call Sync while a checkpoint is being written: what it makes durable must be in the file that stays.
func TestSyncGoesIntoTheOldCheckpoint(t *testing.T) {
	g, c, s := checkpointed(t)
	publish(t, s, c, g.id, 11, 10)
	cut := g.disk.begin(&g.replica)
	writing, goOn := make(chan struct{}), make(chan struct{})
	g.host.fs.(*storagetest.Mem).SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpRename && strings.HasPrefix(op.Name, g.disk.dir) {
			close(writing)
			<-goOn
		}
		return nil
	})
	written, synced := make(chan error, 1), make(chan error, 1)
	go func() { written <- g.disk.write(&g.replica, cut.cp) }()
	<-writing
	publish(t, s, c, g.id, 21, 10)
	go func() { synced <- (*stateMachine)(g).Sync() }()
	for waits := 0; waits < 1000 && len(synced) == 0; runtime.Gosched() { // it waits with the replica's lock held, or is over
		if waits++; g.mu.TryLock() {
			g.mu.Unlock()
			waits = 0
		}
	}
	close(goOn)
	for _, done := range []chan error{written, synced} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if index, n := durable(t, g); index != g.applied {
		t.Fatalf("%d entries up to %d are durable, %d are applied", n, index, g.applied)
	}
}

// A queue at rest must not keep the log from becoming shorter, nor may what it does about that harm it; nor the catalogue.
func TestQueueAtRestKeepsTheWholeLog(t *testing.T) {
	room := &machineRoom{t: t, raft: vfs.NewStrictMem(), disk: storagetest.New(), log: 1 << 30, logFile: 64 << 10}
	room.start()
	defer func() { room.stop() }()
	rest, busy := declare(t, room.h, "rest", true), declare(t, room.h, "busy", true)
	c := newRecorder()
	s := room.h.OpenSession(c)
	token := uint64(0)
	large := func(q meta.QueueID, n int) {
		t.Helper()
		for range n {
			token++
			if err := s.Submit(q, &queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent, BodyBytes: 20_000, Envelope: make([]byte, 20_000)}, token); err != nil {
				t.Fatal(err)
			}
		}
		s.Flush()
		c.await(t, "confirms", func() bool { return len(c.replies) == int(token) })
	}
	for round := range 2 {
		large(rest, 10)
		for n := 0; n < 100 || room.h.LogStats().Files > 20; n++ { // 4 MB and more, in files of 64 KB
			if large(busy, 2); n > 500 {
				t.Fatalf("round %d: the log has %d files", round, room.h.LogStats().Files)
			}
		}
		for _, q := range []meta.QueueID{rest, busy} {
			if st, _ := room.h.QueueStatus(q); st.State != StateRunning {
				t.Fatalf("round %d: queue %d is %s: %s", round, q, st.State, st.Reason)
			}
		}
		room.stop() // the next round begins with what was left
		c = newRecorder()
		room.start()
		s, token = room.h.OpenSession(c), 0
	}
	large(rest, 1)
	if st, _ := room.h.QueueStatus(rest); st.Counts.Ready != 21 {
		t.Errorf("%d messages, want 21", st.Counts.Ready)
	}
}

// TestCheckpointKeepsTheDiskFromTheLog: a checkpoint with many bodies never leaves more than a step of them to one sync, for which the log of all queues would wait.
func TestCheckpointKeepsTheDiskFromTheLog(t *testing.T) {
	g, c, s := checkpointed(t)
	const bodies, bodyBytes = 12, 1 << 20
	for i := range bodies {
		do(t, s, c, g.id, uint64(100+i), queue.Command{Op: queue.OpEnqueue, BodyBytes: bodyBytes, Envelope: make([]byte, bodyBytes)})
	}
	var mu sync.Mutex
	var unsynced, most, written int
	disk := g.host.fs.(*storagetest.Mem)
	disk.SetFault(func(op storagetest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case filepath.Dir(op.Name) != g.disk.dir || strings.HasPrefix(filepath.Base(op.Name), "checkpoint"):
		case op.Kind == storagetest.OpWrite:
			unsynced, written = unsynced+op.Bytes, written+op.Bytes
			most = max(most, unsynced)
		case op.Kind == storagetest.OpSync:
			unsynced = 0
		}
		return nil
	})
	err := g.checkpoint()
	disk.SetFault(nil)
	if err != nil {
		t.Fatal(err)
	}
	if written < bodies*bodyBytes || unsynced > 4096 || most > limits.CheckpointStepBytes+bodyBytes {
		t.Errorf("%d bytes were written, at most %d between two syncs, %d behind the last one", written, most, unsynced)
	}
}
