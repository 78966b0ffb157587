package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/config/limits"
)

// session is one connection whose peer is proved: frames in and out, signs of life, an end with one reason.
type session struct {
	owner   *Network // nil for a join's caller
	conn    net.Conn // the connection, or TLS over it
	raw     net.Conn // the connection itself: closing it waits for nobody
	peer    Peer
	purpose Purpose
	called  bool // the peer opened it
	in      frameReader
	traits

	// turn is the right to write. A channel, not a mutex: who waits for it waits as synctest and deadlines understand it.
	turn chan struct{}

	began   time.Time
	heard   atomic.Int64 // when bytes last arrived, as a duration since began
	reading atomic.Int64 // since when somebody waits for a frame; 0 = nobody does
	resumed atomic.Int64 // when this process last came back from a stop
	due     int64        // when the next beat is to come; of the beats
	wrote   atomic.Int64 // when a write last ended
	beats   *time.Timer
	onBeat  func() (again time.Duration) // what a link does with every beat; may be nil

	ended chan struct{}
	end   sync.Once
	cause error
}

// writePieceBytes is what one write deadline covers.
const writePieceBytes = 1 << 20

// traits are what sessions of one purpose have in common.
type traits struct {
	payloadBytesMax int // of what arrives
	bufferBytes     int // of the reader, to begin with
	ping, dead      time.Duration
}

func traitsOf(purpose Purpose, called bool) traits {
	const ms = time.Millisecond
	const buffer, acknowledgements, many = 32 << 10, 1 << 10, 64 << 10
	switch {
	case purpose == PurposeLink:
		return traits{limits.LinkFrameBytesMax, buffer, limits.LinkPingMillis * ms, limits.LinkDeadMillis * ms}
	case purpose == PurposeRaft && called:
		return traits{limits.RaftMessageBytesMax, many, limits.RaftPingMillis * ms, limits.RaftDeadMillis * ms}
	case purpose == PurposeRaft:
		return traits{refusalTextBytesMax, acknowledgements, limits.RaftPingMillis * ms, limits.RaftDeadMillis * ms}
	case purpose == PurposeSnapshot && called:
		return traits{limits.SnapshotFrameBytesMax, buffer, limits.RaftPingMillis * ms, limits.SnapshotProgressMillis * ms}
	case purpose == PurposeSnapshot:
		return traits{refusalTextBytesMax, acknowledgements, limits.RaftPingMillis * ms, limits.SnapshotProgressMillis * ms}
	}
	return traits{limits.JoinBytesMax, buffer, limits.RaftPingMillis * ms, limits.JoinMillis * ms}
}

// newSession makes a session of a connection that proved itself; called says that the peer opened it.
func newSession(owner *Network, conn, raw net.Conn, peer Peer, purpose Purpose, called bool) *session {
	s := &session{owner: owner, conn: conn, raw: raw, peer: peer, purpose: purpose, called: called, traits: traitsOf(purpose, called), began: time.Now(), turn: make(chan struct{}, 1), ended: make(chan struct{})}
	s.beats = time.AfterFunc(time.Hour, s.beat)
	s.beats.Stop() // until live
	s.in = frameReader{from: window{from: heardReader{s}, buf: make([]byte, s.bufferBytes)}, payloadBytesMax: s.payloadBytesMax, views: purpose == PurposeRaft}
	return s
}

// heardReader notes when bytes arrive: a large frame on a slow network is a sign of life before it is whole.
type heardReader struct{ s *session }

func (r heardReader) Read(p []byte) (int, error) {
	n, err := r.s.conn.Read(p)
	if n > 0 {
		r.s.heard.Store(r.s.now())
	}
	return n, err
}

// now is the time since the session began, on the monotonic clock.
func (s *session) now() int64 { return int64(time.Since(s.began)) }

// stoppedFor is how late a beat must be to show that this process was stopped and not only busy.
const stoppedFor = limits.LinkSilentMillis * time.Millisecond / 2

// live starts the signs of life.
func (s *session) live() {
	s.due = s.now() + int64(s.ping)
	s.beats.Reset(s.ping)
}

// quiet is for how long the peer has been silent. While nobody waits for a frame, what the peer may have said does not count as not said; nor does the time in which this
// process was stopped.
func (s *session) quiet() time.Duration {
	from := s.reading.Load()
	if from == 0 {
		return 0
	}
	return time.Duration(s.now() - max(from, s.heard.Load(), s.resumed.Load()))
}

// beat runs in a goroutine of its own each time, so one that waits for the network keeps no other from noticing.
func (s *session) beat() {
	if s.isEnded() {
		return
	}
	now := s.now()
	if now-s.due > int64(stoppedFor) {
		s.resumed.Store(now)
	}
	again := min(s.ping, max(s.dead-s.quiet(), time.Millisecond))
	if s.onBeat != nil {
		again = min(s.ping, s.onBeat())
	} else if s.quiet() >= s.dead {
		s.fail(ErrSilent)
		return
	}
	s.due = now + int64(again)
	s.beats.Reset(again)
	if time.Duration(now-s.wrote.Load()) < s.ping {
		return
	}
	select {
	case s.turn <- struct{}{}:
	default:
		return // something is being written
	}
	err := s.write(pingFrame)
	<-s.turn
	if err != nil {
		s.fail(err)
	}
}

var pingFrame = appendFrame(nil, framePing, nil)

// write writes bytes; the caller has the turn. Each piece must be taken within the time after which the peer counts as dead.
func (s *session) write(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), writePieceBytes)]
		if err := s.raw.SetWriteDeadline(time.Now().Add(s.dead)); err != nil {
			return err
		}
		if _, err := s.conn.Write(piece); err != nil {
			return s.writeError(err)
		}
		p = p[len(piece):]
	}
	s.wrote.Store(s.now())
	return nil
}

func (s *session) writeError(err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("%w: it takes no data", ErrSilent)
	}
	return err
}

// take waits for the turn to write.
func (s *session) take() error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-s.ended:
		return s.cause
	}
}

// send writes one whole frame.
func (s *session) send(frame []byte) error {
	if err := s.take(); err != nil {
		return err
	}
	err := s.write(frame)
	<-s.turn
	if err != nil {
		s.fail(err)
	}
	return err
}

// receive reads the next frame that is no sign of life. A frame of kind error ends the session.
func (s *session) receive(buf []byte) (frameKind, []byte, error) {
	s.reading.Store(max(s.now(), 1))
	defer s.reading.Store(0)
	for {
		kind, payload, err := s.in.next(buf)
		switch {
		case err != nil:
			return 0, nil, s.fail(err)
		case kind == framePing:
			continue
		case kind == frameError:
			return 0, nil, s.fail(fmt.Errorf("transport: node %d ended the connection: %s", s.peer.Node, printable(payload, refusalTextBytesMax)))
		}
		return kind, payload, nil
	}
}

// listen reads what comes back on a session that only sends: acknowledgements, if there are any, and the end.
func (s *session) listen(acknowledged func(uint64)) {
	var buf [8]byte
	for {
		kind, payload, err := s.receive(buf[:])
		if err != nil {
			return
		}
		if kind != frameAck || len(payload) != len(buf) || acknowledged == nil {
			s.fail(fmt.Errorf("%w: kind %d from a receiver", ErrFrame, kind))
			return
		}
		acknowledged(binary.BigEndian.Uint64(payload))
	}
}

// fail ends the session, the first time with that reason, and returns the reason.
func (s *session) fail(err error) error {
	s.end.Do(func() {
		if errors.Is(err, net.ErrClosed) {
			err = ErrClosed
		}
		s.cause = err
		close(s.ended)
		s.beats.Stop()
		s.raw.Close() // nothing is left to do if it fails
		if s.owner != nil {
			s.owner.forget(s)
		}
	})
	return s.cause
}

func (s *session) isEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// lost tells whether a reason is a matter of course: the peer went away.
func lost(err error) bool {
	if errors.Is(err, ErrFrame) {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrClosed)
}
