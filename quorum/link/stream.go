package link

import (
	"sync"

	"github.com/warrenmq/warren/internal/codec"
)

// Stream is one end of a stream. The side that was asked sends items; either side may end it.
type Stream struct {
	session *session
	id      uint64
	asked   bool // this side asked
	item    func([]byte)
	closed  func(error)
	once    sync.Once
	done    chan struct{}
}

// Done is closed when the stream or its connection ended.
func (st *Stream) Done() <-chan struct{} { return st.done }

// Send sends an item to the side that asked. ErrBusy: the connection is full; nothing was sent.
func (st *Stream) Send(payload []byte) error {
	select {
	case <-st.done:
		return ErrLost
	default:
	}
	return st.session.send(append(codec.AppendUvarint([]byte{frameItem}, st.id), payload...))
}

// Close ends the stream on both sides.
func (st *Stream) Close() {
	s := st.session
	s.mu.Lock()
	table := s.served
	if st.asked {
		table = s.opened
	}
	_, live := table[st.id]
	delete(table, st.id)
	s.mu.Unlock()
	if live {
		_ = s.send(endFrame(st.id, st.asked))
	}
	st.finish(nil)
}

func (st *Stream) finish(why error) {
	st.once.Do(func() {
		close(st.done)
		if st.closed != nil {
			st.closed(why)
		}
	})
}

// endFrame ends a stream; the last octet tells whether the sender had asked for it.
func endFrame(id uint64, asked bool) []byte {
	return codec.AppendBool(codec.AppendUvarint([]byte{frameEnd}, id), asked)
}

func (s *session) open(kind Kind, request []byte, item func([]byte), closed func(error)) (*Stream, error) {
	s.mu.Lock()
	if s.failed != nil {
		s.mu.Unlock()
		return nil, ErrDown
	}
	s.last++
	st := &Stream{session: s, id: s.last, asked: true, item: item, closed: closed, done: make(chan struct{})}
	s.opened[st.id] = st
	s.mu.Unlock()
	frame := codec.AppendUvarint([]byte{frameOpen, byte(kind)}, st.id)
	if err := s.send(append(frame, request...)); err != nil {
		s.mu.Lock()
		delete(s.opened, st.id)
		s.mu.Unlock()
		st.finish(err)
		return nil, err
	}
	return st, nil
}

// serve begins a stream that the other side asked for.
func (s *session) serve(kind Kind, id uint64, request []byte) {
	st := &Stream{session: s, id: id, done: make(chan struct{})}
	s.mu.Lock()
	if s.failed != nil {
		s.mu.Unlock()
		return
	}
	s.served[id] = st
	s.mu.Unlock()
	s.handler.Stream(s.conn.Peer(), kind, request, st)
}

func (s *session) stream(id uint64) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened[id]
}

// ended takes the other side's end of a stream.
func (s *session) ended(id uint64, senderAsked bool) {
	s.mu.Lock()
	table := s.opened
	if senderAsked {
		table = s.served
	}
	st := table[id]
	delete(table, id)
	s.mu.Unlock()
	if st != nil {
		st.finish(nil)
	}
}
