package quorum

import (
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// pace has a checkpoint written in small steps: the log of all queues is synced to the same disk and waits behind what is being written there at once. Between two steps the disk is the others' for as long as
// the last one took, unless the node is short of memory for bodies.
type pace struct {
	disk  *disk
	bytes int // of the present step
}

// wrote is told how many bytes of bodies came into the message store. It may wait.
func (p *pace) wrote(n int) error {
	if p.bytes += n; p.bytes < limits.CheckpointStepBytes {
		return nil
	}
	p.bytes = 0
	h := p.disk.host
	began := time.Now()
	if err := p.disk.store.Sync(); err != nil || h.bodyBytes.Load() > h.cfg.BodiesInMemoryBytes {
		return err
	}
	return h.wait(min(time.Since(began), limits.CheckpointPauseMillis*time.Millisecond), nil)
}
