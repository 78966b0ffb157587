package quorum

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/segment"
)

// isFatal tells an error after which the disk's state is unknown, or a damaged file, from one that may pass.
func isFatal(err error) bool {
	var corrupt *storage.CorruptError
	return errors.Is(err, storage.ErrFatal) || errors.As(err, &corrupt)
}

// stateCut is a replica's whole state at one entry, on its way to a member that lags behind the log.
type stateCut struct {
	index    uint64
	snapshot []byte
	live     []queue.Seq
	envs     [][]byte // nil: on disk
	pin      segment.Cut
}

// cut takes the present state. Called with g.mu held.
func (g *group) cut() *stateCut {
	c := &stateCut{index: g.applied, snapshot: g.m.AppendSnapshot(nil), pin: g.disk.store.Cut()}
	g.disk.pins = append(g.disk.pins, c.pin)
	for seq := range g.m.Live {
		c.live = append(c.live, seq)
		c.envs = append(c.envs, g.bodies.get(seq))
	}
	return c
}

// unpin lets the message store collect again what the cut refers to.
func (g *group) unpin(c *stateCut) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.disk.pins, c.pin); i >= 0 {
		g.disk.pins = slices.Delete(g.disk.pins, i, i+1)
	}
}

// write streams the cut: index, snapshot, then the bodies.
func (c *stateCut) write(w io.Writer, r *replica) error {
	head := codec.AppendUint64(nil, c.index)
	head = codec.AppendBytes(head, c.snapshot)
	head = codec.AppendUvarint(head, uint64(len(c.live)))
	if _, err := w.Write(head); err != nil {
		return err
	}
	var buf []byte
	for i, seq := range c.live {
		env := c.envs[i]
		if env == nil {
			if env = r.read(seq); env == nil {
				return fmt.Errorf("quorum: the body of message %d cannot be read for a snapshot", seq)
			}
		}
		buf = codec.AppendUvarint(buf[:0], uint64(seq))
		buf = codec.AppendBytes(buf, env)
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// readCut replaces the state of r by a streamed cut. Called with r.mu held.
func readCut(src io.Reader, r *replica) error {
	all, err := io.ReadAll(src)
	if err != nil {
		return err
	}
	in := codec.NewReader(all)
	index, snapshot := in.Uint64(), in.Bytes()
	n := in.Uvarint()
	var b bodies
	for range n {
		seq, env := queue.Seq(in.Uvarint()), in.Bytes()
		if in.Err() != nil {
			break
		}
		b.put(seq, env)
	}
	if in.Err() != nil {
		return in.Err()
	}
	m, err := queue.Restore(snapshot)
	if err != nil {
		return err
	}
	r.m, r.bodies, r.applied = m, b, index
	return nil
}
