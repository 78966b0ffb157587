package raftlog

import (
	"errors"
	"flag"
	"io"
	stdlog "log"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
	"github.com/lni/vfs"

	"github.com/warrenmq/warren/quorum/raftlog/pebblestore"
	"github.com/warrenmq/warren/storage/storagetest"
	"github.com/warrenmq/warren/storage/wal"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "the one history to play")
	historyFlag = flag.Int("histories", 25, "how many histories are played")
)

func TestMain(m *testing.M) {
	flag.Parse()
	stdlog.SetOutput(io.Discard) // the log store's library complains that a disk in memory cannot tell its free space
	logger.GetLogger("logdb").SetLevel(logger.ERROR)
	os.Exit(m.Run())
}

// pebble returns how to open the library's own store, on a file system of its own.
func pebble() func() (raftio.ILogDB, error) {
	fs := vfs.NewMem()
	return func() (raftio.ILogDB, error) {
		cfg := config.NodeHostConfig{Expert: config.ExpertConfig{FS: fs, LogDB: config.GetTinyMemLogDBConfig(), Engine: config.EngineConfig{ExecShards: workers}}}
		cfg.Expert.LogDB.Shards = workers
		if err := fs.MkdirAll("/pebble", 0o700); err != nil {
			return nil, err
		}
		return pebblestore.Open(cfg, func(config.LogDBInfo) {}, []string{"/pebble"}, []string{"/pebble"})
	}
}

// play plays a history against stores, each opened by its function.
func play(seed uint64, steps int, opens ...func() (raftio.ILogDB, error)) (*history, error) {
	h := &history{rng: rand.New(rand.NewPCG(seed, 1))}
	h.open = func() ([]raftio.ILogDB, error) {
		stores := make([]raftio.ILogDB, len(opens))
		for i, open := range opens {
			s, err := open()
			if err != nil {
				return nil, err
			}
			stores[i] = s
		}
		return stores, nil
	}
	return h, h.run(steps)
}

func seeds() []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	list := make([]uint64, *historyFlag)
	for i := range list {
		list[i] = uint64(i + 1)
	}
	return list
}

// shared returns how to open our store, on a disk of its own.
func shared(disk *storagetest.Mem) func() (raftio.ILogDB, error) {
	return func() (raftio.ILogDB, error) {
		log, err := wal.Open(wal.Options{FS: disk, Dir: "/wal", Incarnation: 7, FileBytes: 256 << 10})
		if err != nil {
			return nil, err
		}
		return New(log, func(err error) error { return err }), nil
	}
}

// TestStoresAgree plays what Raft can do against the library's store and ours. A fault of the library's would be one of the model.
func TestStoresAgree(t *testing.T) {
	for _, seed := range seeds() {
		if h, err := play(seed, 150, pebble(), shared(storagetest.New())); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(h.trace, "\n"))
		}
	}
}

// TestPowerLoss takes the power away instead of closing the store: what the library was told to be saved is there, but for how far entries are committed.
func TestPowerLoss(t *testing.T) {
	for _, seed := range seeds() {
		disk := storagetest.New()
		rng := rand.New(rand.NewPCG(seed, 2))
		var s raftio.ILogDB
		h := &history{rng: rand.New(rand.NewPCG(seed, 1)), crash: func() {
			after := disk.Clone()
			after.CrashTorn(rng)
			if s != nil {
				_ = s.Close() // of a process that is dead
			}
			disk = after
		}}
		h.open = func() ([]raftio.ILogDB, error) {
			var err error
			s, err = shared(disk)()
			return []raftio.ILogDB{s}, err
		}
		if err := h.run(150); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(h.trace, "\n"))
		}
	}
}

// TestEntriesAreTheCallers makes sure that what was read shares no memory with the log, and that what was saved may be changed.
// TestFirstStartIsNotWaitedFor: a bootstrap record is there at once, without a sync; it is durable as soon as anything is that the replica said.
func TestFirstStartIsNotWaitedFor(t *testing.T) {
	disk := storagetest.New()
	var log *wal.Log
	open := func() raftio.ILogDB {
		var err error
		if log, err = wal.Open(wal.Options{FS: disk, Dir: "/wal", Incarnation: 7, FileBytes: 256 << 10}); err != nil {
			t.Fatal(err)
		}
		return New(log, func(err error) error { return err })
	}
	has := func(s raftio.ILogDB, want bool) {
		t.Helper()
		b, err := s.GetBootstrapInfo(5, 1)
		list, listErr := s.ListNodeInfo()
		if listErr != nil || (err == nil) != want || want && b.Addresses[1] != "a" || (len(list) == 1) != want {
			t.Fatalf("%+v %v, %v %v, want %v", b, err, list, listErr, want)
		}
	}
	s := open()
	boot := pb.Bootstrap{Type: pb.OnDiskStateMachine, Addresses: map[uint64]string{1: "a"}}
	for _, known := range []bool{false, true} {
		syncs := log.Stats().Syncs
		if err := s.SaveBootstrapInfo(5, 1, boot); err != nil || log.Stats().Syncs != syncs {
			t.Fatalf("%v, %d syncs", err, log.Stats().Syncs-syncs)
		}
		has(s, true)
		if known {
			if err := s.SaveRaftState([]pb.Update{{ShardID: 5, ReplicaID: 1, State: pb.State{Term: 1, Vote: 1}}}, 1); err != nil {
				t.Fatal(err)
			}
		}
		after := disk.Clone()
		after.Crash()
		_ = s.Close() // of a process that is dead
		disk = after
		s = open()
		has(s, known)
	}
	if err := s.RemoveNodeData(5, 1); err != nil {
		t.Fatal(err)
	}
	has(s, false)
	if err := errors.Join(s.SaveBootstrapInfo(5, 1, boot), s.Close()); err != nil { // an orderly end
		t.Fatal(err)
	}
	s = open()
	has(s, true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEntriesAreTheCallers(t *testing.T) {
	s, err := shared(storagetest.New())()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := []byte("first")
	save := func(index uint64, cmd []byte) {
		t.Helper()
		ud := pb.Update{ShardID: 2, ReplicaID: 1, State: pb.State{Term: 1}, EntriesToSave: []pb.Entry{{Term: 1, Index: index, Cmd: cmd}}}
		if err := s.SaveRaftState([]pb.Update{ud}, 1); err != nil {
			t.Fatal(err)
		}
	}
	save(1, cmd)
	copy(cmd, "xxxxx")
	got, _, err := s.IterateEntries(nil, 0, 2, 1, 1, 2, 1<<20)
	if err != nil || len(got) != 1 || string(got[0].Cmd) != "first" {
		t.Fatal(got, err)
	}
	copy(got[0].Cmd, "yyyyy")
	for i := range uint64(2000) { // more than the log keeps in memory
		save(2+i, make([]byte, 8<<10))
	}
	for range 2 {
		if got, _, err = s.IterateEntries(nil, 0, 2, 1, 1, 2, 1<<20); err != nil || len(got) != 1 || string(got[0].Cmd) != "first" {
			t.Fatal(got, err)
		}
	}
}

// TestSaveAllocatesNothing: what is saved goes into memory that is used again and again, whatever the number of entries.
func TestSaveAllocatesNothing(t *testing.T) {
	s, err := shared(storagetest.New())()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := new(batch)
	updates := make([]pb.Update, 4)
	for i := range updates {
		updates[i] = pb.Update{ShardID: uint64(i), ReplicaID: 1, State: pb.State{Term: 1}}
		for j := range uint64(100) {
			updates[i].EntriesToSave = append(updates[i].EntriesToSave, pb.Entry{Term: 1, Index: 1 + j, Type: pb.EncodedEntry, Cmd: make([]byte, 100)})
		}
	}
	store := s.(*Store)
	if n := testing.AllocsPerRun(50, func() {
		b.room(updates)
		for i := range updates {
			g, err := store.group(uint64(i), 1)
			if err != nil {
				t.Error(err)
			}
			g.mu.Lock()
			b.add(g, &updates[i])
		}
		b.clear()
	}); n > 0 {
		t.Errorf("%v allocations for 400 entries", n)
	}
}
