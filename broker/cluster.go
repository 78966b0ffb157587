package broker

import (
	"github.com/warrenmq/warren/meta"
)

// placer chooses the nodes of a new durable queue: a Host that is part of a cluster is one.
type placer interface {
	// Place returns the bootstrap set for want replicas, 0 for the default.
	Place(want int) []meta.NodeID
}

// leaser tells whether the node may trust its view of the catalogue: a Host that is part of a cluster is one.
type leaser interface {
	// Leased is cheap: it is asked for every publish.
	Leased() bool
}

func (b *Broker) leased() bool { return b.leaser == nil || b.leaser.Leased() }

// clustered tells whether other nodes may know more of a queue than this one.
func (b *Broker) clustered() bool {
	c, ok := b.host.(interface{ Clustered() bool })
	return ok && c.Clustered()
}

// ReplicasFor chooses the bootstrap set of a durable queue with these arguments.
func ReplicasFor(h interface{ Node() meta.NodeID }, args meta.Arguments) []meta.NodeID {
	p, ok := h.(placer)
	if !ok {
		return []meta.NodeID{h.Node()}
	}
	want := 0
	if v, ok := args.Get("x-quorum-initial-group-size"); ok {
		if n, ok := v.AsInt64(); ok && n > 0 {
			want = int(min(n, meta.ReplicasMax))
		}
	}
	return p.Place(want)
}

// CloseAll closes every client connection with 320 and the reason.
func (b *Broker) CloseAll(reason string) {
	b.closeAll(reason, func(*conn) bool { return true })
}
