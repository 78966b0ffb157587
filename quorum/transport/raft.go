package transport

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/config/limits"
)

var _ config.TransportFactory = (*Network)(nil)
var _ raftio.ITransport = (*raftEnd)(nil)

// raftEnd is the Network as one NodeHost sees it. When the NodeHost closes it, links and joins go on, and another NodeHost may follow.
type raftEnd struct {
	n            *Network
	deploymentID uint64
	messages     raftio.MessageHandler
	chunks       raftio.ChunkHandler
}

// Create is called by the NodeHost, which is not ready for messages before it calls Start of what it gets.
func (n *Network) Create(cfg config.NodeHostConfig, messages raftio.MessageHandler, chunks raftio.ChunkHandler) raftio.ITransport {
	return &raftEnd{n, cfg.GetDeploymentID(), messages, chunks}
}

// Validate tells whether an address is a node's Target.
func (n *Network) Validate(target string) bool {
	_, _, err := ParseTarget(target)
	return err == nil
}

// Kick makes the local replica campaign at once. A replica that is no follower, or has committed entries that it has not applied, ignores it.
func (n *Network) Kick(shardID, replicaID uint64) { n.library.kick(shardID, replicaID) }

// Name tells the library what this is.
func (e *raftEnd) Name() string { return transportName }

// Start opens the port for Raft; Kick works from then on.
func (e *raftEnd) Start() error {
	e.n.library.open(e.deploymentID, e.messages, e.chunks)
	return nil
}

// Close ends the library's connections. No handler of it is called afterwards.
func (e *raftEnd) Close() error {
	e.n.closeRaft()
	return nil
}

func (n *Network) closeRaft() {
	n.library.close()
	n.mu.Lock()
	open := slices.Clone(n.raft)
	n.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	for _, s := range n.sessionsOf(func(s *session) bool { return s.purpose == PurposeRaft || s.purpose == PurposeSnapshot }) {
		s.fail(ErrClosed)
	}
}

// node returns the node that a target names, if it is of this cluster.
func (n *Network) node(target string) (uint64, error) {
	cluster, node, err := ParseTarget(target)
	if err == nil && cluster != n.cfg.Cluster {
		err = fmt.Errorf("transport: target %s is of another cluster", target)
	}
	return node, err
}

// GetConnection returns a connection for Raft messages. It opens at the first message.
func (e *raftEnd) GetConnection(ctx context.Context, target string) (raftio.IConnection, error) {
	node, err := e.n.node(target)
	if err != nil {
		return nil, err
	}
	c := &raftConnection{n: e.n, node: node, hint: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.n.shut {
		c.cancel()
		return nil, ErrClosed
	}
	e.n.raft = append(e.n.raft, c)
	return c, nil
}

// raftConnection sends Raft messages to one node, over one session after the other. The library calls it from one goroutine.
type raftConnection struct {
	n      *Network
	node   uint64
	ctx    context.Context
	cancel context.CancelFunc
	hint   chan struct{} // the node was heard of: it is worth trying now

	now   *session // nil before the first and after a lost one
	pause time.Duration
	frame []byte

	mu    sync.Mutex
	abort context.CancelFunc // of the dial that is running
}

// Close implements raftio.IConnection.
func (c *raftConnection) Close() {
	c.cancel() // ends the session, too
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.n.raft = slices.DeleteFunc(c.n.raft, func(o *raftConnection) bool { return o == c })
}

// SendMessageBatch implements raftio.IConnection. It waits while the node takes nothing and while it cannot be reached, then drops the batch; an error says that
// the connection is closed.
func (c *raftConnection) SendMessageBatch(batch pb.MessageBatch) error {
	batch.Requests = c.withoutProposals(batch.Requests)
	batch.SourceAddress = "" // the receiver knows better
	if c.n.cfg.Filter == nil {
		return c.sendBatch(batch)
	}
	for _, b := range c.n.cfg.Filter(c.n.cfg.Node, c.node, batch) {
		if err := c.sendBatch(b); err != nil {
			return err
		}
	}
	return nil
}

// withoutProposals leaves out what the library would forward to a leader (PROTOCOL 1). The slice is the library's and stays as it is.
func (c *raftConnection) withoutProposals(all []pb.Message) []pb.Message {
	for i := range all { // by index: a message is half a kilobyte
		if all[i].Type == pb.Propose {
			kept := slices.DeleteFunc(slices.Clone(all), func(m pb.Message) bool { return m.Type == pb.Propose })
			c.n.counts.proposalsDropped.Add(uint64(len(all) - len(kept)))
			return kept
		}
	}
	return all
}

// sendBatch sends a batch in frames of bounded size.
func (c *raftConnection) sendBatch(batch pb.MessageBatch) error {
	rest := batch.Requests
	for len(rest) > 0 {
		count, sizeMax := 0, batchBytesMax
		for count < len(rest) && sizeMax < limits.RaftFrameBytes {
			sizeMax += messageBytesMax + rest[count].SizeUpperLimit()
			count++
		}
		batch.Requests, rest = rest[:count], rest[count:]
		if err := c.sendFrame(batch, sizeMax); err != nil {
			return err
		}
	}
	return nil
}

// What a batch takes besides its messages, and each message besides what it says of itself: tags and lengths.
const batchBytesMax, messageBytesMax = 64, 16

func (c *raftConnection) sendFrame(batch pb.MessageBatch, sizeMax int) error {
	if sizeMax > limits.RaftMessageBytesMax {
		c.n.log.Error("a Raft message is too large to be sent", "node", c.node, "bytes", sizeMax)
		c.n.counts.batchesLost.Add(1)
		return nil
	}
	if need := frameHeaderBytes + sizeMax; cap(c.frame) < need {
		c.frame = make([]byte, max(need, 4<<10))
	}
	size, err := batch.MarshalTo(c.frame[frameHeaderBytes:cap(c.frame)])
	if err != nil {
		c.n.log.Error("Raft messages cannot be encoded", "node", c.node, "error", err)
		c.n.counts.batchesLost.Add(1)
		return nil
	}
	frame := c.frame[:frameHeaderBytes+size]
	sealFrame(frame, frameData)
	c.frame = keepBuffer(c.frame)
	fresh := c.now == nil
	for {
		s, err := c.session()
		if err != nil {
			c.n.counts.batchesLost.Add(1)
			return c.ended()
		}
		if err = s.send(frame); err == nil {
			c.n.counts.raftBytesSent.Add(uint64(len(frame)))
			return nil
		}
		c.now = nil
		if fresh {
			c.n.counts.batchesLost.Add(1)
			return c.ended()
		}
		fresh = true // one more attempt on a new session: the old one may have ended long ago
	}
}

func (c *raftConnection) ended() error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// session returns the open session or tries once to open one, not earlier than the last failure allows.
func (c *raftConnection) session() (*session, error) {
	if c.now != nil && !c.now.isEnded() {
		return c.now, nil
	}
	c.now = nil
	if c.pause > 0 {
		t := time.NewTimer(c.pause)
		select {
		case <-t.C:
		case <-c.hint:
		case <-c.ctx.Done():
		}
		t.Stop()
	}
	s, err := c.open()
	if err != nil {
		if c.pause == 0 {
			c.n.log.Info("a node cannot be reached for Raft", "node", c.node, "error", err)
		}
		c.pause = min(max(2*c.pause, limits.RaftRedialMillis*time.Millisecond), limits.RaftRedialMillisMax*time.Millisecond)
		return nil, err
	}
	c.pause = 0
	c.now = s
	return s, nil
}

// open opens a session, at once again if a hint came meanwhile.
func (c *raftConnection) open() (*session, error) {
	for {
		s, err := c.n.dial(c.ctx, c.dial, c.node, PurposeRaft)
		if err == nil {
			s.live()
			stop := context.AfterFunc(c.ctx, func() { s.fail(ErrClosed) })
			go func() {
				s.listen(nil)
				stop()
			}()
			return s, nil
		}
		select {
		case <-c.hint:
		default:
			return nil, err
		}
		if c.ctx.Err() != nil {
			return nil, err
		}
	}
}

// dial is Config.Dial that a hint aborts: packets to a node that was away may be waiting for a late retransmission. What comes after the connection is open is not
// aborted, or two nodes that try at the same time would abort each other for ever.
func (c *raftConnection) dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	c.abort = cancel
	c.mu.Unlock()
	conn, err := c.n.cfg.Dial(ctx, addr)
	c.mu.Lock()
	c.abort = nil
	c.mu.Unlock()
	return conn, err
}

// alive tells the connections to a node that it was heard of.
func (n *Network) alive(node uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.raft {
		if c.node == node {
			c.heardOf()
		}
	}
}

func (c *raftConnection) heardOf() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.hint <- struct{}{}:
	default:
	}
	if c.abort != nil {
		c.abort()
	}
}

// serveRaft takes the Raft messages of another node.
func (n *Network) serveRaft(s *session) {
	s.live()
	source := Target(n.cfg.Cluster, s.peer.Node)
	for {
		kind, payload, err := s.receive(nil)
		if err == nil && kind != frameData {
			err = s.fail(fmt.Errorf("%w: kind %d among Raft messages", ErrFrame, kind))
		}
		if err != nil {
			n.ended(s, err)
			return
		}
		n.counts.raftBytesReceived.Add(uint64(len(payload)))
		batch, err := decodeBatch(payload)
		if err != nil {
			n.ended(s, s.fail(err))
			return
		}
		n.counts.proposalsDropped.Add(dropForeign(&batch))
		if len(batch.Requests) == 0 {
			continue
		}
		batch.SourceAddress = source
		if !n.library.deliver(batch) {
			s.fail(ErrClosed)
			return
		}
	}
}

// decodeBatch decodes a batch; the library's decoder may panic on bytes that it did not encode.
func decodeBatch(payload []byte) (batch pb.MessageBatch, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%w: no Raft messages: %v", ErrFrame, e)
		}
	}()
	if err := batch.Unmarshal(payload); err != nil {
		return pb.MessageBatch{}, fmt.Errorf("%w: no Raft messages: %w", ErrFrame, err)
	}
	return batch, nil
}

// dropForeign drops what the library must not get from another node: proposals, which it counts, messages that it only sends to itself, and ones to nobody. It
// would panic about the latter two.
func dropForeign(batch *pb.MessageBatch) (proposals uint64) {
	kept := batch.Requests[:0]
	for i := range batch.Requests {
		m := &batch.Requests[i]
		if m.Type == pb.Propose {
			proposals++
		}
		if !travels(m.Type) || m.To == 0 {
			continue
		}
		if len(kept) < i {
			kept = append(kept, *m)
		} else {
			kept = batch.Requests[:i+1]
		}
	}
	batch.Requests = kept
	return proposals
}

// travels tells whether messages of a type go from node to node. Snapshots do as chunks.
func travels(t pb.MessageType) bool {
	switch t {
	case pb.NoOP, pb.Replicate, pb.ReplicateResp, pb.RequestVote, pb.RequestVoteResp, pb.RequestPreVote, pb.RequestPreVoteResp, pb.Heartbeat, pb.HeartbeatResp,
		pb.ReadIndex, pb.ReadIndexResp, pb.Quiesce, pb.SnapshotReceived, pb.LeaderTransfer, pb.TimeoutNow, pb.RateLimit:
		return true
	}
	return false
}

// ended logs the end of an accepted session that is no matter of course.
func (n *Network) ended(s *session, err error) {
	if lost(err) || n.isClosed() {
		return
	}
	n.counts.sessionsFailed.Add(1)
	n.log.Warn("a connection from another node ended", "node", s.peer.Node, "purpose", s.purpose.String(), "error", err)
}
