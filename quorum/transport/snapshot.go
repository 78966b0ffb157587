package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/config/limits"
)

// GetSnapshotConnection connects to a node for one snapshot stream.
func (e *raftEnd) GetSnapshotConnection(ctx context.Context, target string) (raftio.ISnapshotConnection, error) {
	n := e.n
	node, err := n.node(target)
	if err != nil {
		return nil, err
	}
	s, err := n.dial(ctx, n.cfg.Dial, node, PurposeSnapshot)
	if err != nil {
		n.log.Warn("a snapshot cannot be sent", "node", node, "error", err)
		return nil, err
	}
	c := &snapshotConnection{n: n, s: s, news: make(chan struct{}, 1)}
	c.stop = context.AfterFunc(ctx, func() { s.fail(ErrClosed) })
	s.live()
	go s.listen(c.acknowledged)
	return c, nil
}

// snapshotConnection sends the chunks of one stream. The library calls it from one goroutine.
type snapshotConnection struct {
	n     *Network
	s     *session
	stop  func() bool
	sent  uint64
	taken atomic.Uint64 // chunks that the receiver has taken
	news  chan struct{} // taken rose
	frame []byte
}

var _ raftio.ISnapshotConnection = (*snapshotConnection)(nil)

// Close implements raftio.ISnapshotConnection.
func (c *snapshotConnection) Close() {
	c.stop()
	c.s.fail(ErrClosed)
}

func (c *snapshotConnection) acknowledged(count uint64) {
	if count > c.taken.Load() {
		c.taken.Store(count)
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// SendChunk implements raftio.ISnapshotConnection. It waits for its share of the rate and for the receiver, who may have a few chunks that it has not taken; behind
// the last chunk for all, so that the end of the stream is known to be good.
func (c *snapshotConnection) SendChunk(chunk pb.Chunk) error {
	if err := c.await(c.sent - min(c.sent, limits.SnapshotWindowChunks-1)); err != nil {
		return err
	}
	size := chunk.Size()
	if size > limits.SnapshotFrameBytesMax {
		return c.s.fail(fmt.Errorf("%w: a chunk of %d bytes", ErrTooLarge, size))
	}
	if cap(c.frame) < frameHeaderBytes+size {
		c.frame = make([]byte, frameHeaderBytes+size)
	}
	size, err := chunk.MarshalTo(c.frame[frameHeaderBytes:cap(c.frame)])
	if err != nil {
		return c.s.fail(err)
	}
	frame := c.frame[:frameHeaderBytes+size]
	sealFrame(frame, frameData)
	if err := c.write(frame); err != nil {
		return c.s.fail(err)
	}
	c.sent++
	c.n.counts.snapshotBytesSent.Add(uint64(len(frame)))
	if chunk.IsLastChunk() {
		return c.await(c.sent)
	}
	return nil
}

// write sends a frame piece by piece, each when its turn at the node's rate comes.
func (c *snapshotConnection) write(frame []byte) error {
	if err := c.s.take(); err != nil {
		return err
	}
	defer func() { <-c.s.turn }()
	for len(frame) > 0 {
		piece := frame[:min(len(frame), limits.SnapshotPieceBytes)]
		if !c.n.snapshots.take(len(piece), c.s.ended) {
			return c.s.cause
		}
		if err := c.s.write(piece); err != nil {
			return err
		}
		frame = frame[len(piece):]
	}
	return nil
}

// await waits until the receiver has taken count chunks. Each one taken gives it the whole time again.
func (c *snapshotConnection) await(count uint64) error {
	if c.taken.Load() >= count {
		return nil
	}
	t := time.NewTimer(c.s.dead)
	defer t.Stop()
	for last := c.taken.Load(); ; {
		select {
		case <-c.news:
		case <-c.s.ended:
			return c.s.cause
		case <-t.C:
			return c.s.fail(fmt.Errorf("%w: a snapshot makes no progress", ErrSilent))
		}
		now := c.taken.Load()
		if now >= count {
			return nil
		}
		if now > last {
			last = now
			t.Reset(c.s.dead)
		}
	}
}

// serveSnapshot takes one snapshot stream.
func (n *Network) serveSnapshot(s *session) {
	s.live()
	var buf []byte
	for count := uint64(1); ; count++ {
		kind, payload, err := s.receive(buf)
		if err == nil && kind != frameData {
			err = s.fail(fmt.Errorf("%w: kind %d in a snapshot", ErrFrame, kind))
		}
		if err != nil {
			n.ended(s, err)
			return
		}
		buf = payload
		n.counts.snapshotBytesReceived.Add(uint64(len(payload)))
		if err := n.takeChunk(payload); err != nil {
			s.send(appendFrame(nil, frameError, []byte(err.Error()))) // the sender learns why, if it still listens
			n.ended(s, s.fail(err))
			return
		}
		if err := s.send(appendFrame(nil, frameAck, binary.BigEndian.AppendUint64(nil, count))); err != nil {
			n.ended(s, err)
			return
		}
	}
}

// takeChunk hands a chunk to the library, which writes it to disk.
func (n *Network) takeChunk(payload []byte) error {
	chunk, err := decodeChunk(payload)
	if err != nil {
		return err
	}
	handler, done := n.library.chunkHandler()
	if handler == nil {
		return ErrClosed
	}
	defer done()
	if !handler(chunk) {
		return fmt.Errorf("chunk %d of the snapshot at %d for replica %d of group %d was not accepted", chunk.ChunkId, chunk.Index, chunk.ReplicaID, chunk.ShardID)
	}
	return nil
}

func decodeChunk(payload []byte) (chunk pb.Chunk, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("%w: no chunk: %v", ErrFrame, e)
		}
	}()
	if err := chunk.Unmarshal(payload); err != nil {
		return pb.Chunk{}, fmt.Errorf("%w: no chunk: %w", ErrFrame, err)
	}
	if chunk.IsPoisonChunk() {
		return pb.Chunk{}, fmt.Errorf("%w: the sender gave up", ErrFrame)
	}
	return chunk, nil
}
