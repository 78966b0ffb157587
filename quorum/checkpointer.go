package quorum

import (
	"errors"
	"syscall"
)

// checkpoint writes a checkpoint in the background. A full disk, which a later checkpoint may survive, is told from damage and from a disk that cannot be trusted any more.
func (h *Host) checkpoint(g *group) {
	err := g.checkpoint()
	if errors.Is(err, syscall.ENOSPC) && h.reserve.spend() {
		err = g.checkpoint()
	}
	if err == nil {
		return
	}
	select {
	case <-h.closed:
		return
	case <-g.closed:
		return
	default:
	}
	if g.diskFailed(err) {
		return
	}
	h.log.Warn("a checkpoint failed and will be tried again", "queue", uint64(g.id), "error", err)
}
