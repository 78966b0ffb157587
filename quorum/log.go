package quorum

import (
	"errors"
	"path/filepath"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/warrenmq/warren/quorum/raftlog"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/wal"
)

func logDir(h *Host) string { return filepath.Join(h.cfg.Dir.Path(), "wal") }

// openLog opens the log of all groups of this node. A directory that was used has one: without it, a node would vote again on what it has voted on.
func (h *Host) openLog() error {
	log, err := wal.Open(wal.Options{
		FS: h.fs, Dir: logDir(h), Incarnation: h.cfg.Dir.Identity().NodeID, FileBytes: h.cfg.LogFileBytes, NeedCheckpoint: h.shortener.need, Fatal: h.report,
	})
	var other *wal.IncarnationError
	switch {
	case errors.As(err, &other):
		return &storage.CorruptError{File: other.File, OffsetBytes: -1, Reason: "the file belongs to the log of another node; restore this node's or use an empty directory"}
	case err != nil:
		return err
	}
	if log.Stats().Files == 0 {
		if h.cfg.Dir.Used() {
			err = &storage.CorruptError{File: logDir(h), OffsetBytes: -1, Reason: "the Raft log is missing from a directory that was used; restore it or use an empty directory"}
		} else {
			err = log.Remove(wal.Group{}) // a record of nobody begins the log before the directory counts as used
		}
		if err != nil {
			_ = log.Close()
			return err
		}
	}
	h.wal, h.store = log, raftlog.New(log, h.fatal)
	return nil
}

// logFactory hands the open log to the library.
type logFactory struct{ store raftio.ILogDB }

var _ config.LogDBFactory = logFactory{}

// Name implements config.LogDBFactory.
func (f logFactory) Name() string { return f.store.Name() }

// Create implements config.LogDBFactory.
func (f logFactory) Create(config.NodeHostConfig, config.LogDBCallback, []string, []string) (raftio.ILogDB, error) {
	return f.store, nil
}

// LogStats tells what the Raft log of this node did since its start, and how large it is.
func (h *Host) LogStats() wal.Stats { return h.wal.Stats() }
