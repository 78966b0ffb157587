package quorum

import "github.com/lni/dragonboat/v4"

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
