package quorum

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum/raftlog"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/wal"
)

func logDir(h *Host) string { return filepath.Join(h.cfg.Dir.Path(), "wal") }

// openLog opens the log of all groups of this node. A directory that was used has one: without it, a node would vote again on what it has voted on.
func (h *Host) openLog() error {
	log, err := wal.Open(wal.Options{
		FS: h.fs, Dir: logDir(h), Incarnation: h.cfg.Dir.Identity().NodeID, FileBytes: h.cfg.LogFileBytes, NeedCheckpoint: h.shortener.need, Damaged: h.noteLost, Full: func() { go h.reserve.spend() },
		Fatal: h.report,
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

// hasLog tells whether the log has something of a replica: it was started before.
func (h *Host) hasLog(id meta.QueueID, replica uint64) bool {
	_, ok := h.wal.BootstrapOf(wal.Group{Shard: uint64(id), Replica: replica})
	return ok
}

// compareLog holds the last durable state of a replica, which ends with the entry applied, and how it rested, against its log. What does not fit was lost: the log goes at least as far as what was applied, and begins
// no later than behind it.
func (h *Host) compareLog(id meta.QueueID, replica, applied uint64, r *rested) error {
	if !h.hasLog(id, replica) {
		return nil
	}
	g := wal.Group{Shard: uint64(id), Replica: replica}
	_, last, _ := h.wal.Range(g)
	data, index, cut := h.wal.SnapshotOf(g)
	end, want := max(last, index), applied
	if r != nil {
		want = max(want, r.index)
	}
	if end < want {
		return &storage.CorruptError{File: logDir(h), OffsetBytes: -1, Reason: fmt.Sprintf("the Raft log of the replica ends with entry %d, and had entry %d", end, want)}
	}
	if !cut {
		return nil
	}
	var ss pb.Snapshot
	if err := ss.Unmarshal(data); err != nil {
		return &storage.CorruptError{File: logDir(h), OffsetBytes: -1, Reason: "the note of the replica's last checkpoint cannot be read: " + err.Error()}
	}
	if ss.OnDiskIndex > applied && (ss.Dummy || !h.hasReceived(&ss)) {
		return &storage.CorruptError{File: queueDir(h, id), OffsetBytes: -1, Reason: fmt.Sprintf("the checkpoint of entry %d is missing", ss.OnDiskIndex)}
	}
	return nil
}

// hasReceived tells whether a snapshot that another member sent is there as a whole. The library shortens the file when its content is in a checkpoint.
func (h *Host) hasReceived(ss *pb.Snapshot) bool {
	info, err := h.fs.Stat(ss.Filepath)
	return err == nil && uint64(info.SizeBytes) >= ss.FileSize
}

// LogStats tells what the Raft log of this node did since its start, and how large it is.
func (h *Host) LogStats() wal.Stats { return h.wal.Stats() }
