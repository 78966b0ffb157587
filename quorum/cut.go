package quorum

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage/segment"
)

// stateCut is a replica's whole state at one entry, on its way to a member that lags behind the log.
type stateCut struct {
	index    uint64
	snapshot []byte
	live     []livePage
	count    uint64   // of the messages in live
	envs     []stored // those that are in memory, in order
	pin      segment.Cut
}

// livePage is one of queue.Machine.LivePages.
type livePage struct {
	no   uint64
	seqs [queue.LivePageSeqs / 64]uint64
}

// cut takes the present state. Called with g.mu held.
func (g *group) cut() *stateCut {
	c := &stateCut{index: g.applied, snapshot: g.m.AppendSnapshot(nil), pin: g.disk.store.Cut()}
	g.disk.pins = append(g.disk.pins, c.pin)
	for no, seqs := range g.m.LivePages {
		c.live = append(c.live, livePage{no, seqs})
		for _, w := range seqs {
			c.count += uint64(bits.OnesCount64(w))
		}
	}
	g.bodies.each(func(seq queue.Seq, env []byte) { c.envs = append(c.envs, stored{seq, env}) })
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
	head = codec.AppendUvarint(head, c.count)
	if _, err := w.Write(head); err != nil {
		return err
	}
	var buf []byte
	envs := c.envs
	for i := range c.live {
		for seq := range c.live[i].each {
			for len(envs) > 0 && envs[0].seq < seq {
				envs = envs[1:]
			}
			var env []byte
			if len(envs) > 0 && envs[0].seq == seq {
				env = envs[0].env
			} else if env, _ = r.read(seq); env == nil {
				return fmt.Errorf("%w: the body of message %d cannot be read", sm.ErrSnapshotAborted, seq) // the library ends the stream and goes on
			}
			buf = codec.AppendUvarint(buf[:0], uint64(seq))
			buf = codec.AppendBytes(buf, env)
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// each yields the messages of a page in order.
func (p *livePage) each(yield func(queue.Seq) bool) {
	for i, w := range p.seqs {
		for ; w != 0; w &= w - 1 {
			if !yield(queue.Seq(p.no*queue.LivePageSeqs + uint64(i*64+bits.TrailingZeros64(w)))) {
				return
			}
		}
	}
}

// streamBufferBytes is how much of a streamed cut is read at once.
const streamBufferBytes = 64 << 10

// readCut reads a streamed cut: bodies go into the message store as they come, so the memory that it takes is that of the machine and of one body. What the store has already is not written again.
func readCut(src io.Reader, store *segment.Store) (m *queue.Machine, index uint64, err error) {
	in := bufio.NewReaderSize(src, streamBufferBytes)
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, 0, err
	}
	var buf bytes.Buffer
	if err := readBytes(in, &buf); err != nil {
		return nil, 0, err
	}
	if m, err = queue.Restore(buf.Bytes()); err != nil {
		return nil, 0, err
	}
	buf = bytes.Buffer{}
	n, err := binary.ReadUvarint(in)
	for ; err == nil && n > 0; n-- {
		var seq uint64
		if seq, err = binary.ReadUvarint(in); err != nil {
			break
		}
		if err = readBytes(in, &buf); err == nil && !store.Has(seq) {
			err = store.Append(seq, buf.Bytes())
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return m, binary.BigEndian.Uint64(head[:]), nil
}

// readBytes reads what codec.AppendBytes wrote. Memory grows with what comes, not with what is announced.
func readBytes(in *bufio.Reader, buf *bytes.Buffer) error {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return err
	}
	buf.Reset()
	if _, err = io.CopyN(buf, in, int64(min(n, math.MaxInt64))); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
