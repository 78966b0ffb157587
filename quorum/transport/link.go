package transport

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"sync"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// Link is a connection of frames with another node: in order, in both directions, each frame whole and once, or the link ends. Any goroutine may send; one receives.
type Link struct {
	s *session

	mu      sync.Mutex
	queue   []outgoing
	bytes   int           // of the queue and of what is being written
	frames  int           // the same in frames
	writing bool          // the queue's former content is being written
	wake    chan struct{} // something is in the queue
	idle    chan struct{} // closed when nothing is left to write; nil unless somebody waits

	out assembly // the writer's

	silence   sync.Mutex
	silent    bool
	onSilence func(silent bool)
}

// outgoing is one frame to send, in two parts so that a large one need not be copied behind a small one.
type outgoing struct{ head, body []byte }

func (f outgoing) size() int { return len(f.head) + len(f.body) }

// DialLink opens a link to a node. It fails with a *RefusedError if the node refuses, ErrUnreachable if nothing listens at its address.
func (n *Network) DialLink(ctx context.Context, node uint64) (*Link, error) {
	s, err := n.dial(ctx, n.cfg.Dial, node, PurposeLink)
	if err != nil {
		return nil, err
	}
	return newLink(s), nil
}

// serveLink hands an accepted link to its handler.
func (n *Network) serveLink(s *session) {
	(*n.onLink.Load())(newLink(s))
}

func newLink(s *session) *Link {
	l := &Link{s: s, wake: make(chan struct{}, 1)}
	s.onBeat = l.beat
	s.live()
	go l.write()
	return l
}

// Peer is the node at the other end.
func (l *Link) Peer() Peer { return l.s.peer }

// Done is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.s.ended }

// Err says why the link ended: ErrClosed if this end did, ErrSilent, or what the network says. It is nil before.
func (l *Link) Err() error {
	select {
	case <-l.s.ended:
		return l.s.cause
	default:
		return nil
	}
}

// Close ends the link. What waits to be written is dropped; see Drain.
func (l *Link) Close() error {
	l.s.fail(ErrClosed)
	return nil
}

// Send queues a frame, which belongs to the link from then on and must not change. It never waits: ErrBusy says that too much is waiting already and the frame was not
// taken; ErrTooLarge that it is larger than limits.LinkFrameBytesMax. After the link's end it returns the reason.
func (l *Link) Send(frame []byte) error { return l.SendParts(nil, frame) }

// SendParts queues one frame that consists of head and body, as Send does.
func (l *Link) SendParts(head, body []byte) error {
	f := outgoing{head, body}
	if f.size() > limits.LinkFrameBytesMax {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, f.size())
	}
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if l.bytes > 0 && l.bytes+f.size() > limits.LinkQueueBytesMax || l.frames >= limits.LinkQueueFramesMax {
		l.mu.Unlock()
		return ErrBusy
	}
	l.bytes += f.size()
	l.frames++
	l.queue = append(l.queue, f)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return nil
}

// Queued is how many bytes wait to be written.
func (l *Link) Queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Drain waits until everything sent so far is written to the network. That is not yet received by the peer.
func (l *Link) Drain(ctx context.Context) error {
	l.mu.Lock()
	if len(l.queue) == 0 && !l.writing {
		l.mu.Unlock()
		return l.Err()
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-l.s.ended:
		return l.s.cause
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Receive returns the next frame, which belongs to the caller. Signs of life are heard in Receive only: somebody must be in it most of the time, and a caller that stays
// away longer than limits.LinkDeadMillis while its peer sends much loses the link.
func (l *Link) Receive() ([]byte, error) { return l.ReceiveInto(nil) }

// ReceiveInto is Receive into buf if the frame fits its capacity, for frames that are not kept.
func (l *Link) ReceiveInto(buf []byte) ([]byte, error) {
	kind, payload, err := l.s.receive(buf)
	if err == nil && kind != frameData {
		err = l.s.fail(fmt.Errorf("%w: kind %d on a link", ErrFrame, kind))
	}
	if err != nil {
		return nil, err
	}
	return payload, nil
}

// LastHeard is when bytes last arrived from the peer.
func (l *Link) LastHeard() time.Time {
	return l.s.began.Add(time.Duration(l.s.heard.Load()))
}

// OnSilence sets what is called with true when nothing was heard of the peer for limits.LinkSilentMillis, and with false when it is heard again, if the link still
// exists. It must not block. If the peer is silent already, it is called at once.
func (l *Link) OnSilence(f func(silent bool)) {
	l.silence.Lock()
	defer l.silence.Unlock()
	l.onSilence = f
	if l.silent {
		f(true)
	}
}

// beat notices silence and the end of it, and says when to look again.
func (l *Link) beat() time.Duration {
	const suspect, dead = limits.LinkSilentMillis * time.Millisecond, limits.LinkDeadMillis * time.Millisecond
	quiet := l.s.quiet()
	l.silence.Lock()
	defer l.silence.Unlock()
	if silent := quiet >= suspect; silent != l.silent {
		l.silent = silent
		if l.onSilence != nil {
			l.onSilence(silent)
		}
	}
	switch {
	case quiet >= dead:
		l.s.fail(ErrSilent)
	case quiet < suspect:
		return max(suspect-quiet, time.Millisecond)
	}
	return max(dead-quiet, time.Millisecond)
}

// write is the writer: it takes all that is queued and writes it with as few calls as possible.
func (l *Link) write() {
	var batch []outgoing
	for {
		select {
		case <-l.wake:
		case <-l.s.ended:
			return
		}
		l.mu.Lock()
		batch, l.queue = l.queue, batch[:0]
		l.writing = true
		l.mu.Unlock()
		err := l.writeBatch(batch)
		clear(batch)
		if err != nil {
			l.s.fail(err)
			return
		}
		l.mu.Lock()
		l.writing = false
		if len(l.queue) == 0 && l.idle != nil {
			close(l.idle)
			l.idle = nil
		}
		l.mu.Unlock()
	}
}

func (l *Link) writeBatch(batch []outgoing) error {
	if len(batch) == 0 {
		return nil
	}
	if err := l.s.take(); err != nil {
		return err
	}
	defer func() { <-l.s.turn }()
	for len(batch) > 0 {
		count, size := 0, 0
		for count < len(batch) && (count == 0 || size+batch[count].size() <= writePieceBytes) {
			size += batch[count].size()
			count++
		}
		if err := l.s.writeBuffers(l.out.assemble(batch[:count], l.s.vectored())); err != nil {
			return err
		}
		batch = batch[count:]
		l.mu.Lock()
		l.bytes -= size
		l.frames -= count
		l.mu.Unlock()
	}
	return nil
}

// assembly makes the bytes of frames: headers and small parts together, large parts as they are.
type assembly struct {
	slab    []byte
	buffers net.Buffers
}

// copyBytesMax is up to which size a part is copied rather than written from where it is.
const copyBytesMax = 4 << 10

// assemble returns buffers that are good until the next call.
func (a *assembly) assemble(frames []outgoing, vectored bool) net.Buffers {
	copied := func(part []byte) bool { return !vectored || len(part) <= copyBytesMax }
	need := 0
	for _, f := range frames {
		need += frameHeaderBytes
		for _, part := range [...][]byte{f.head, f.body} {
			if copied(part) {
				need += len(part)
			}
		}
	}
	if cap(a.slab) < need || cap(a.slab) > limits.PeerBufferBytes {
		a.slab = make([]byte, 0, need)
	}
	slab, from := a.slab[:0], 0
	clear(a.buffers[:cap(a.buffers)])
	a.buffers = a.buffers[:0]
	for _, f := range frames {
		at := len(slab)
		slab = slab[:at+frameHeaderBytes]
		head := slab[at:]
		putFrameHead(head, frameData, f.size())
		sum := crc32.Checksum(head[:8], castagnoli)
		sum = crc32.Update(crc32.Update(sum, castagnoli, f.head), castagnoli, f.body)
		putFrameSum(head, sum)
		for _, part := range [...][]byte{f.head, f.body} {
			if copied(part) {
				slab = append(slab, part...)
				continue
			}
			if from < len(slab) {
				a.buffers = append(a.buffers, slab[from:len(slab):len(slab)])
				from = len(slab)
			}
			a.buffers = append(a.buffers, part)
		}
	}
	if from < len(slab) {
		a.buffers = append(a.buffers, slab[from:])
	}
	return a.buffers
}

// vectored tells whether the connection writes several buffers with one call.
func (s *session) vectored() bool {
	_, tcp := s.conn.(*net.TCPConn)
	return tcp
}

// writeBuffers writes buffers; the caller has the turn.
func (s *session) writeBuffers(buffers net.Buffers) error {
	if err := s.raw.SetWriteDeadline(time.Now().Add(s.dead)); err != nil {
		return err
	}
	if _, err := buffers.WriteTo(s.conn); err != nil {
		return s.writeError(err)
	}
	s.wrote.Store(s.now())
	return nil
}
