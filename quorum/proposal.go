package quorum

import (
	"errors"

	"github.com/lni/dragonboat/v4"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/queue"
)

// proposal is the ticket of a Raft proposal.
type proposal dragonboat.RequestState

func (p *proposal) lost() bool {
	_, bad := p.ended()
	return bad
}

// ended tells whether the library has decided about the proposal, and whether it will not be applied.
func (p *proposal) ended() (ended, bad bool) {
	select {
	case r := <-(*dragonboat.RequestState)(p).ResultC():
		return true, !r.Completed()
	default:
		return false, false
	}
}

// awaited is another node that waits for the fate of a proposal.
type awaited struct {
	proposal *proposal
	answer   func([]byte, error)
}

// proposeFor takes a batch of another node, which is told what became of it.
func (g *group) proposeFor(p queue.PipelineID, k uint64, buf []byte, answer func([]byte, error)) {
	g.lmu.Lock()
	if !g.ready {
		leader := g.leader
		g.lmu.Unlock()
		if leader == g.host.node {
			leader = 0
		}
		answer(codec.AppendUvarint([]byte{proposeNotHere}, uint64(leader)), nil)
		return
	}
	t, err := g.admit(p, k, buf)
	if t != nil {
		g.waits = append(g.waits, awaited{t, answer})
	}
	g.lmu.Unlock()
	switch {
	case errors.Is(err, errGap):
		answer([]byte{proposeGap}, nil)
	case err != nil:
		answer([]byte{proposeLost}, nil)
	case t == nil:
		answer([]byte{proposeApplied}, nil)
	}
}

// settleAwaited tells other nodes what became of their proposals.
func (g *group) settleAwaited() {
	g.lmu.Lock()
	var done []awaited
	var lost []bool
	kept := g.waits[:0]
	for _, w := range g.waits {
		if ended, bad := w.proposal.ended(); ended {
			done, lost = append(done, w), append(lost, bad)
			if bad {
				clear(g.next) // filled from the machine again
			}
			continue
		}
		kept = append(kept, w)
	}
	clear(g.waits[len(kept):])
	g.waits = kept
	g.lmu.Unlock()
	for i, w := range done {
		if lost[i] {
			w.answer([]byte{proposeLost}, nil)
		} else {
			w.answer([]byte{proposeApplied}, nil)
		}
	}
}
