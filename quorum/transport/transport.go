package transport

import (
	"context"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
)

// Transport is the end of a node that has no peers. It is made before the NodeHost, which starts it through the Factory methods; Kick works from then on.
type Transport struct {
	library library
}

var _ config.TransportFactory = (*Transport)(nil)
var _ raftio.ITransport = (*Transport)(nil)

// New makes a transport for one NodeHost.
func New() *Transport { return new(Transport) }

// Create is called by the NodeHost once.
func (t *Transport) Create(cfg config.NodeHostConfig, messages raftio.MessageHandler, chunks raftio.ChunkHandler) raftio.ITransport {
	t.library.open(cfg.GetDeploymentID(), messages, chunks)
	return t
}

// Validate accepts every address: the catalogue gives them.
func (t *Transport) Validate(string) bool { return true }

// Name tells the library what this is.
func (t *Transport) Name() string { return transportName }

// Start has nothing to start before there are peers.
func (t *Transport) Start() error { return nil }

// Close ends the transport; kicks do nothing afterwards.
func (t *Transport) Close() error {
	t.library.close()
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
func (t *Transport) Kick(shardID, replicaID uint64) { t.library.kick(shardID, replicaID) }

const transportName = "warren"

// library is the NodeHost as a transport sees it: two functions that may be called from Create to Close, and never after Close returned.
type library struct {
	mu           sync.RWMutex
	deploymentID uint64
	messages     raftio.MessageHandler // nil when closed
	chunks       raftio.ChunkHandler
	chunking     sync.WaitGroup // chunks that are being taken, which lasts as long as a disk does
}

func (l *library) open(deploymentID uint64, messages raftio.MessageHandler, chunks raftio.ChunkHandler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deploymentID, l.messages, l.chunks = deploymentID, messages, chunks
}

// close waits for the calls that are running.
func (l *library) close() {
	l.mu.Lock()
	l.messages, l.chunks = nil, nil
	l.mu.Unlock()
	l.chunking.Wait()
}

func (l *library) isOpen() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.messages != nil
}

// deliver hands messages over and tells whether there was somebody to take them. The handler only enqueues.
func (l *library) deliver(batch pb.MessageBatch) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.messages == nil {
		return false
	}
	l.messages(batch)
	return true
}

// chunkHandler returns what takes a chunk, and what to call afterwards; nil when closed.
func (l *library) chunkHandler() (raftio.ChunkHandler, func()) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.chunks == nil {
		return nil, nil
	}
	l.chunking.Add(1)
	return l.chunks, l.chunking.Done
}

func (l *library) kick(shardID, replicaID uint64) {
	l.mu.RLock()
	deploymentID := l.deploymentID
	l.mu.RUnlock()
	l.deliver(pb.MessageBatch{
		DeploymentId: deploymentID,
		BinVer:       raftio.TransportBinVersion,
		Requests:     []pb.Message{{Type: pb.TimeoutNow, ShardID: shardID, To: replicaID, From: replicaID}},
	})
}
