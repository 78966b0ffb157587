// Package transport carries Raft messages between the nodes of a cluster.
//
// It stands between dragonboat (which calls it through quorum's NodeHost) and the network. On one node there is nobody to send to; what it does is the election
// kick (PROTOCOL 8): a message TimeoutNow handed to a local replica makes it campaign at once instead of after its election time-out. Raft messages of type
// Propose are dropped: batches reach the leader's node through quorum, never by the library's own forwarding.
package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
)

// ErrUnreachable says that the target node cannot be reached.
var ErrUnreachable = errors.New("transport: node cannot be reached")

// Transport is one node's end. It is made before the NodeHost, which starts it through the Factory methods; Kick works from then on.
type Transport struct {
	mu           sync.Mutex
	deploymentID uint64
	handler      atomic.Pointer[raftio.MessageHandler]
}

var _ config.TransportFactory = (*Transport)(nil)
var _ raftio.ITransport = (*Transport)(nil)

// New makes a transport for one NodeHost.
func New() *Transport { return new(Transport) }

// Create is called by the NodeHost once.
func (t *Transport) Create(cfg config.NodeHostConfig, messages raftio.MessageHandler, _ raftio.ChunkHandler) raftio.ITransport {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deploymentID = cfg.GetDeploymentID()
	t.handler.Store(&messages)
	return t
}

// Validate accepts every address: the catalogue gives them.
func (t *Transport) Validate(string) bool { return true }

// Name tells the library what this is.
func (t *Transport) Name() string { return "warren" }

// Start has nothing to start before there are peers.
func (t *Transport) Start() error { return nil }

// Close ends the transport; kicks do nothing afterwards.
func (t *Transport) Close() error {
	t.handler.Store(nil)
	return nil
}

// GetConnection would connect to another node.
func (t *Transport) GetConnection(context.Context, string) (raftio.IConnection, error) {
	return nil, ErrUnreachable
}

// GetSnapshotConnection would connect to another node.
func (t *Transport) GetSnapshotConnection(context.Context, string) (raftio.ISnapshotConnection, error) {
	return nil, ErrUnreachable
}

// Kick makes the local replica campaign at once. A replica that is no follower, or has committed entries that it has not applied, ignores it.
func (t *Transport) Kick(shardID, replicaID uint64) {
	h := t.handler.Load()
	if h == nil {
		return
	}
	(*h)(pb.MessageBatch{
		DeploymentId: t.deploymentID,
		BinVer:       raftio.TransportBinVersion,
		Requests:     []pb.Message{{Type: pb.TimeoutNow, ShardID: shardID, To: replicaID, From: replicaID}},
	})
}
