package raftlog

import (
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
	"github.com/lni/vfs"

	"github.com/warrenmq/warren/quorum/raftlog/pebblestore"
	"github.com/warrenmq/warren/storage/storagetest"
	"github.com/warrenmq/warren/storage/wal"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "the one history to play")
	historyFlag = flag.Int("histories", 60, "how many histories are played")
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
