package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
)

// Errors of calls and streams.
var (
	// ErrDown: there is no connection to the node. Nothing was sent.
	ErrDown = errors.New("link: the node is not connected")
	// ErrLost: the connection ended before the answer. It is not known whether the call was carried out.
	ErrLost = errors.New("link: the connection was lost")
	// ErrBusy: too much waits for the peer to read.
	ErrBusy = errors.New("link: the connection is busy")
)

// RemoteError is what the other node answered instead of a result.
type RemoteError struct{ Text string }

// Error returns the other node's text.
func (e *RemoteError) Error() string { return e.Text }

// Node names a node to the transport: its token, which never changes.
type Node uint64

// Conn is an authenticated connection to another node. Send does not block; the frame belongs to the Conn from then on. A received frame belongs to the receiver.
type Conn interface {
	Peer() Node
	Send(frame []byte) error
	Receive() ([]byte, error)
	// Heard is when something was last heard of the peer.
	Heard() time.Time
	Close() error
}

// Kind tells what a call, message or stream is about. quorum defines them.
type Kind uint8

// Handler answers the questions of other nodes. Its methods run on the connection's reader and must not block; a call may be answered later and from anywhere.
type Handler interface {
	Call(from Node, kind Kind, request []byte, answer func(response []byte, err error))
	Message(from Node, kind Kind, payload []byte)
	// Stream begins a stream; it ends when stream.Done is closed.
	Stream(from Node, kind Kind, request []byte, stream *Stream)
}

// frame types
const (
	frameCall    = 1 // kind, call, request
	frameAnswer  = 2 // call, response
	frameRefusal = 3 // call, text
	frameMessage = 4 // kind, payload
	frameOpen    = 5 // kind, call, request
	frameItem    = 6 // call, payload
	frameEnd     = 7 // call (either way)
)

// Mux keeps the connections of one node.
type Mux struct {
	self    Node
	dial    func(ctx context.Context, to Node) (Conn, error)
	handler Handler
	log     *slog.Logger
	// changed is told when a peer comes or goes, refused when it could not be reached, from any goroutine.
	changed func(peer Node, up bool)
	refused func(peer Node, err error)

	mu     sync.Mutex
	peers  map[Node]*peer
	closed chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// New makes a Mux; peers come with Watch.
func New(self Node, dial func(context.Context, Node) (Conn, error), handler Handler, changed func(Node, bool), refused func(Node, error), log *slog.Logger) *Mux {
	return &Mux{self: self, dial: dial, handler: handler, changed: changed, refused: refused, log: log, peers: make(map[Node]*peer), closed: make(chan struct{})}
}

// peer is one other node and the connection on which this node asks it.
type peer struct {
	node Node
	mux  *Mux
	stop chan struct{}
	wake chan struct{} // dial now
	conn atomic.Pointer[session]
}

// Watch keeps a connection to node from now on.
func (m *Mux) Watch(node Node) {
	if node == m.self {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.peers[node]; ok || m.isClosed() {
		return
	}
	p := &peer{node: node, mux: m, stop: make(chan struct{}), wake: make(chan struct{}, 1)}
	m.peers[node] = p
	m.wg.Add(1)
	go p.keep()
}

// Unwatch ends the connection to a node that left the cluster.
func (m *Mux) Unwatch(node Node) {
	m.mu.Lock()
	p := m.peers[node]
	delete(m.peers, node)
	m.mu.Unlock()
	if p != nil {
		close(p.stop)
		if s := p.conn.Load(); s != nil {
			s.end(ErrDown)
		}
	}
}

// Retry has a peer that is down dialled at once, for instance because its address changed or it called.
func (m *Mux) Retry(node Node) {
	m.mu.Lock()
	p := m.peers[node]
	m.mu.Unlock()
	if p != nil {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// Up tells whether there is a connection to node on which something was heard within limits.LinkSuspectMillis.
func (m *Mux) Up(node Node) bool {
	s := m.session(node)
	return s != nil && time.Since(s.conn.Heard()) < limits.LinkSuspectMillis*time.Millisecond
}

func (m *Mux) isClosed() bool {
	select {
	case <-m.closed:
		return true
	default:
		return false
	}
}

func (m *Mux) session(node Node) *session {
	m.mu.Lock()
	p := m.peers[node]
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.conn.Load()
}

// Close ends every connection.
func (m *Mux) Close() {
	m.once.Do(func() {
		m.mu.Lock()
		close(m.closed)
		peers := m.peers
		m.peers = make(map[Node]*peer)
		m.mu.Unlock()
		for _, p := range peers {
			close(p.stop)
			if s := p.conn.Load(); s != nil {
				s.end(ErrDown)
			}
		}
		m.wg.Wait()
	})
}

// keep dials until it is stopped, with pauses that grow to limits.LinkRedialMillis.
func (p *peer) keep() {
	defer p.mux.wg.Done()
	pause := time.Duration(0)
	for {
		t := time.NewTimer(pause)
		select {
		case <-p.stop:
			t.Stop()
			return
		case <-p.wake:
			t.Stop()
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), limits.LinkDialMillis*time.Millisecond)
		conn, err := p.mux.dial(ctx, p.node)
		cancel()
		if err != nil {
			p.mux.log.Debug("a node cannot be reached", "node", uint64(p.node), "error", err)
			p.mux.refused(p.node, err)
			pause = min(max(2*pause, limits.LinkRedialMillis*time.Millisecond/16), limits.LinkRedialMillis*time.Millisecond)
			continue
		}
		began := time.Now()
		s := newSession(conn, p.mux.handler)
		p.conn.Store(s)
		select {
		case <-p.stop:
			s.end(ErrDown)
			return
		default:
		}
		p.mux.changed(p.node, true)
		s.read()
		p.conn.Store(nil)
		p.mux.changed(p.node, false)
		if pause = 0; time.Since(began) < limits.LinkRedialMillis*time.Millisecond {
			pause = limits.LinkRedialMillis * time.Millisecond / 16 // it came to nothing: not again and again
		}
	}
}

// Accept serves a connection that another node made, until it ends. The caller gives it a goroutine.
func (m *Mux) Accept(conn Conn) {
	if m.isClosed() {
		_ = conn.Close()
		return
	}
	m.Retry(conn.Peer()) // who calls can be called
	s := newSession(conn, m.handler)
	stop := context.AfterFunc(closedContext{m.closed}, func() { s.end(ErrDown) })
	defer stop()
	s.read()
}

// closedContext lets AfterFunc wait for a channel.
type closedContext struct{ done <-chan struct{} }

func (c closedContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c closedContext) Done() <-chan struct{}       { return c.done }
func (c closedContext) Value(any) any               { return nil }
func (c closedContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// Call asks node and waits for the answer. ErrDown and ErrBusy: not sent. ErrLost or the context's error: not known. *RemoteError: refused there.
func (m *Mux) Call(ctx context.Context, node Node, kind Kind, request []byte) ([]byte, error) {
	done := make(chan struct{})
	var response []byte
	var failure error
	m.Ask(node, kind, request, func(r []byte, err error) {
		response, failure = append([]byte(nil), r...), err
		close(done)
	})
	select {
	case <-done:
		return response, failure
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Ask is Call without waiting: answer is called once, on the connection's reader or at once, and must not block; response is valid during the call only.
func (m *Mux) Ask(node Node, kind Kind, request []byte, answer func(response []byte, err error)) {
	s := m.session(node)
	if s == nil {
		answer(nil, ErrDown)
		return
	}
	s.ask(kind, request, answer)
}

// Send sends a one-way message; it is lost if the connection is.
func (m *Mux) Send(node Node, kind Kind, payload []byte) error {
	s := m.session(node)
	if s == nil {
		return ErrDown
	}
	return s.send(append([]byte{frameMessage, byte(kind)}, payload...))
}

// Open opens a stream to node: item is called for what the other side sends, in order, on the connection's reader; closed is called once when the stream or the connection ended.
func (m *Mux) Open(node Node, kind Kind, request []byte, item func([]byte), closed func(error)) (*Stream, error) {
	s := m.session(node)
	if s == nil {
		return nil, ErrDown
	}
	return s.open(kind, request, item, closed)
}

// session is one connection, of either direction.
type session struct {
	conn    Conn
	handler Handler

	mu     sync.Mutex
	last   uint64
	calls  map[uint64]func([]byte, error)
	opened map[uint64]*Stream // asked by this side
	served map[uint64]*Stream // asked by the other side
	failed error
}

func newSession(conn Conn, handler Handler) *session {
	return &session{conn: conn, handler: handler, calls: map[uint64]func([]byte, error){}, opened: map[uint64]*Stream{}, served: map[uint64]*Stream{}}
}

func (s *session) send(frame []byte) error { return s.conn.Send(frame) }

func (s *session) ask(kind Kind, request []byte, answer func([]byte, error)) {
	s.mu.Lock()
	if s.failed != nil {
		s.mu.Unlock()
		answer(nil, ErrDown)
		return
	}
	s.last++
	id := s.last
	s.calls[id] = answer
	s.mu.Unlock()
	frame := codec.AppendUvarint([]byte{frameCall, byte(kind)}, id)
	if err := s.send(append(frame, request...)); err != nil {
		s.answer(id, nil, fmt.Errorf("%w: %w", ErrBusy, err))
	}
}

// answer completes a call once.
func (s *session) answer(id uint64, response []byte, err error) {
	s.mu.Lock()
	f := s.calls[id]
	delete(s.calls, id)
	s.mu.Unlock()
	if f != nil {
		f(response, err)
	}
}

// read handles frames until the connection ends.
func (s *session) read() {
	for {
		frame, err := s.conn.Receive()
		if err == nil {
			err = s.handle(frame)
		}
		if err != nil {
			s.end(ErrLost)
			return
		}
	}
}

var errFrame = errors.New("link: a frame cannot be understood")

func (s *session) handle(frame []byte) error {
	if len(frame) < 2 {
		return errFrame
	}
	switch frame[0] {
	case frameMessage:
		s.handler.Message(s.conn.Peer(), Kind(frame[1]), frame[2:])
		return nil
	case frameCall, frameOpen:
		r := codec.NewReader(frame[2:])
		id := r.Uvarint()
		if r.Err() != nil {
			return errFrame
		}
		if frame[0] == frameCall {
			s.handler.Call(s.conn.Peer(), Kind(frame[1]), r.Rest(), s.answerer(id))
		} else {
			s.serve(Kind(frame[1]), id, r.Rest())
		}
		return nil
	}
	r := codec.NewReader(frame[1:])
	id := r.Uvarint()
	if r.Err() != nil {
		return errFrame
	}
	switch frame[0] {
	case frameAnswer:
		s.answer(id, r.Rest(), nil)
	case frameRefusal:
		s.answer(id, nil, &RemoteError{Text: string(r.Rest())})
	case frameItem:
		if st := s.stream(id); st != nil {
			st.item(r.Rest())
		}
	case frameEnd:
		s.ended(id, r.Bool())
	default:
		return errFrame
	}
	return nil
}

func (s *session) answerer(id uint64) func([]byte, error) {
	return func(response []byte, err error) {
		kind, body := byte(frameAnswer), response
		if err != nil {
			kind, body = frameRefusal, []byte(err.Error())
		}
		_ = s.send(append(codec.AppendUvarint([]byte{kind}, id), body...)) // a lost answer is a lost connection
	}
}

// end ends the connection and everything on it.
func (s *session) end(why error) {
	s.mu.Lock()
	if s.failed != nil {
		s.mu.Unlock()
		return
	}
	s.failed = why
	calls, opened, served := s.calls, s.opened, s.served
	s.calls, s.opened, s.served = nil, nil, nil
	s.mu.Unlock()
	_ = s.conn.Close()
	for _, f := range calls {
		f(nil, why)
	}
	for _, st := range opened {
		st.finish(why)
	}
	for _, st := range served {
		st.finish(why)
	}
}
