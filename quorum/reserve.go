package quorum

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// reserve is a file that takes space on the disk for the day when there is none: then it goes, and what is acknowledged and deleted has room in the log, and checkpoints of queues that are drained
// (PROTOCOL 10.5). The log's own files are made ahead, but the last of them may be used up when the disk becomes full.
type reserve struct {
	host *Host

	mu    sync.Mutex
	taken bool
	tried time.Time // when it was last attempted to take it
}

func (r *reserve) name() string { return filepath.Join(r.host.cfg.Dir.Path(), "reserve") }

// look takes the space if it is not taken.
func (r *reserve) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken || r.host.cfg.DiskReserveBytes == 0 || time.Since(r.tried) < limits.DiskReserveMillis*time.Millisecond {
		return
	}
	r.tried = time.Now()
	if info, err := r.host.fs.Stat(r.name()); err == nil && info.SizeBytes == r.host.cfg.DiskReserveBytes {
		r.taken = true
		return
	}
	if err := r.take(); err != nil {
		r.host.log.Warn("no disk space is kept in reserve, it will be tried again", "error", err)
		_ = r.host.fs.Remove(r.name())
		return
	}
	r.taken = true
}

// take writes the file: blocks that were only announced may be missing when they are needed.
func (r *reserve) take() error {
	f, err := r.host.fs.Create(r.name())
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<20)
	for left := r.host.cfg.DiskReserveBytes; left > 0 && err == nil; left -= int64(len(zeros)) {
		_, err = f.Write(zeros[:min(left, int64(len(zeros)))])
	}
	return errors.Join(err, f.Close())
}

// spend gives the space back; false if there was none.
func (r *reserve) spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.taken {
		return false
	}
	r.taken, r.tried = false, time.Now()
	if err := r.host.fs.Remove(r.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.host.log.Warn("the disk space in reserve cannot be given back", "error", err)
		return false
	}
	r.host.log.Warn("the disk is full: the space in reserve is used for what is acknowledged and deleted")
	return true
}
