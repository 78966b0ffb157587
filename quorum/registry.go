package quorum

import (
	"fmt"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"

	"github.com/warrenmq/warren/quorum/link"
	"github.com/warrenmq/warren/quorum/transport"
)

// registry tells the library where replicas are. A replica's target is the stable name of its node (nodeHostID), so that addresses may change; addresses come from the catalogue.
type registry struct {
	self string

	mu      sync.Mutex
	targets map[replicaKey]string
}

type replicaKey struct{ shard, replica uint64 }

var _ config.NodeRegistryFactory = (*registry)(nil)
var _ raftio.INodeRegistry = (*registry)(nil)

// nodeHostID names a node to the library, which wants a UUID: the cluster's and the node's ids side by side.
func nodeHostID(cluster uint64, node link.Node) string {
	return transport.Target(cluster, uint64(node))
}

func newRegistry(self string) *registry {
	return &registry{self: self, targets: make(map[replicaKey]string)}
}

// Create is called by the NodeHost once.
func (r *registry) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return r, nil
}

// Close has nothing to close.
func (r *registry) Close() error { return nil }

// Add notes where a replica is.
func (r *registry) Add(shard, replica uint64, target string) {
	if target == r.self {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets[replicaKey{shard, replica}] = target
}

// Remove forgets a replica.
func (r *registry) Remove(shard, replica uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.targets, replicaKey{shard, replica})
}

// RemoveShard forgets all replicas of a group.
func (r *registry) RemoveShard(shard uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.targets {
		if k.shard == shard {
			delete(r.targets, k)
		}
	}
}

// Resolve returns a replica's address and the key of its connection.
func (r *registry) Resolve(shard, replica uint64) (addr, connection string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	target, ok := r.targets[replicaKey{shard, replica}]
	if !ok {
		return "", "", fmt.Errorf("quorum: replica %d of group %d is not known", replica, shard)
	}
	return target, target, nil
}
