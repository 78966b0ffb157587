package amqp

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/warrenmq/warren/config/limits"
)

// Limits of a Reader's buffer.
const (
	// ReaderIdleBytes is what a Reader needs while its connection says little: heartbeats and single settlements fit.
	ReaderIdleBytes = 64
	// ReaderBufferBytesMin is the size of the first buffer that a Reader asks for, ReaderBufferBytesTrusted the same after Trust.
	ReaderBufferBytesMin     = 1 << 10
	ReaderBufferBytesTrusted = 16 << 10
	// ReaderBufferBytesMax is the size up to which a buffer grows because reads fill it. A larger frame gets a larger buffer.
	ReaderBufferBytesMax = 64 << 10
	// readerGrowth is by how much a buffer grows that was filled: what a peer sends makes it large, never what it announces.
	readerGrowth = 8
	// readsEmptyMax is how many reads without data and without an error are borne.
	readsEmptyMax = 100
)

// Buffers lends buffers to Readers, so that only connections with traffic hold one. An implementation may be shared if it is safe for that.
type Buffers interface {
	// Get returns a buffer of at least sizeMin bytes.
	Get(sizeMin int) []byte
	// Put takes back a buffer that Get returned.
	Put(buf []byte)
}

// Reader takes frames off a byte stream.
//
// Next returns the frames that are already here and never reads; Fill reads once. So a caller can handle all frames of one read as a batch:
//
//	for {
//		f, ok, err := r.Next()
//		if ok { handle(f); continue }
//		if err != nil { ... }
//		flush()
//		err = r.Fill()
//	}
//
// A frame's payload aliases the buffer and is good until the next call of Fill, ReadFrame, ReadProtocolHeader or Release; whoever keeps it
// copies it, once. A Reader must not be copied, and is not safe for concurrent use.
type Reader struct {
	src     io.Reader
	buffers Buffers
	// buf[start:end] is unread. buf is idle[:] or lent by buffers.
	buf        []byte
	start, end int
	lent       bool
	filled     bool // the last read left no room
	want       int  // size of the frame that has begun, once Next has checked it
	first      int  // size of the first buffer
	frameMax   uint32
	err        error // a protocol error ends the stream for good
	idle       [ReaderIdleBytes]byte
}

// NewReader returns a reader of src that takes frames of up to frameMax bytes including their overhead (see SetFrameMax). With nil buffers it
// makes its own.
func NewReader(src io.Reader, buffers Buffers, frameMax uint32) *Reader {
	r := &Reader{src: src, buffers: buffers, first: ReaderBufferBytesMin}
	r.SetFrameMax(frameMax)
	r.buf = r.idle[:]
	return r
}

// SetFrameMax sets the negotiated limit, kept between limits.FrameBytesMin and limits.FrameBytesCeiling; 0 is the former. A frame that exceeds
// it by more than limits.FrameBytesSlack is refused before anything is allocated for it.
func (r *Reader) SetFrameMax(frameMax uint32) {
	r.frameMax = min(max(frameMax, limits.FrameBytesMin), limits.FrameBytesCeiling)
}

// Trust has the reader begin with ReaderBufferBytesTrusted from now on, so that more frames come with one read: whoever sends them is known.
func (r *Reader) Trust() { r.first = ReaderBufferBytesTrusted }

// Buffered returns how many bytes were read and not yet returned. More than 0 after Next found no frame means that a frame has begun.
func (r *Reader) Buffered() int { return r.end - r.start }

// Release gives the lent buffer back if nothing is buffered, and says whether the reader now holds none. It is for connections that became
// idle, for instance when a read deadline passed.
func (r *Reader) Release() bool {
	if r.Buffered() > 0 {
		return !r.lent
	}
	r.swap(r.idle[:], false)
	return true
}

// ReadFrame returns the next frame and reads as often as that takes. io.EOF means that the stream ended between frames.
func (r *Reader) ReadFrame() (Frame, error) {
	for {
		f, ok, err := r.Next()
		if ok || err != nil {
			return f, err
		}
		if err := r.Fill(); err != nil {
			return Frame{}, err
		}
	}
}

// Next returns the next frame if all of it is buffered; it never reads. An error is an *Error, 501 or 505, and final.
func (r *Reader) Next() (f Frame, ok bool, err error) {
	if r.err != nil {
		return Frame{}, false, r.err
	}
	b := r.buf[r.start:r.end]
	if len(b) < frameHeaderBytes {
		return Frame{}, false, nil
	}
	size := binary.BigEndian.Uint32(b[3:])
	if e := r.checkSize(b[0], size); e != nil {
		r.err = e
		return Frame{}, false, e
	}
	n := frameHeaderBytes + int(size)
	if len(b) <= n {
		r.want = n + 1
		return Frame{}, false, nil
	}
	f = Frame{Type: b[0], Channel: binary.BigEndian.Uint16(b[1:]), Payload: b[frameHeaderBytes:n:n]}
	if b[n] != FrameEnd {
		r.err = frameError(f.Type, f.Payload, fmt.Sprintf("{invalid_frame_end_marker,%d}", b[n]))
		return Frame{}, false, r.err
	}
	if err := f.check(); err != nil {
		r.err = err
		return Frame{}, false, err
	}
	r.start += n + 1
	return f, true, nil
}

// checkSize refuses a frame by its announced size, before anything is read or allocated for it.
func (r *Reader) checkSize(typ uint8, size uint32) *Error {
	if uint64(size) <= uint64(r.frameMax)-FrameOverheadBytes+limits.FrameBytesSlack {
		return nil
	}
	return frameError(typ, nil, fmt.Sprintf("{frame_too_large,%d,%d}", size, r.frameMax-FrameOverheadBytes))
}

// Fill reads once, as much as there is room for; Next must have returned all frames before. An error of the source is returned as it is, and
// Fill may be called again after a time-out; the end of the source inside a frame is io.ErrUnexpectedEOF.
func (r *Reader) Fill() error {
	if r.err != nil {
		return r.err
	}
	r.makeRoom()
	for range readsEmptyMax {
		n, err := r.src.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			return io.ErrNoProgress // a source that breaks the rules of io.Reader
		}
		r.end += n
		r.filled = r.end == len(r.buf)
		if n > 0 {
			return nil // an error that came with data comes again
		}
		if err == io.EOF && r.Buffered() > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom moves what is unread to the front, and finds a larger buffer if the last read filled this one: for the frame that has begun if that is
// larger, else up to ReaderBufferBytesMax.
func (r *Reader) makeRoom() {
	n, size := r.Buffered(), 0
	switch {
	case !r.lent && (n > 0 || r.filled):
		size = r.first
	case r.lent && r.filled && r.want > len(r.buf):
		size = min(readerGrowth*len(r.buf), r.want)
	case r.lent && r.filled:
		size = min(readerGrowth*len(r.buf), ReaderBufferBytesMax)
	}
	r.filled, r.want = false, 0
	if size > len(r.buf) {
		r.swap(r.get(size), true)
		return
	}
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, n
	}
}

func (r *Reader) get(sizeMin int) []byte {
	if r.buffers != nil {
		return r.buffers.Get(sizeMin)
	}
	return make([]byte, sizeMin)
}

// swap moves what is unread into another buffer and gives the present one back.
func (r *Reader) swap(buf []byte, lent bool) {
	n := copy(buf, r.buf[r.start:r.end])
	if r.lent && r.buffers != nil {
		r.buffers.Put(r.buf)
	}
	r.buf, r.start, r.end, r.lent = buf, 0, n, lent
}

// Begins tells whether what was read and not yet taken begins with a text.
func (r *Reader) Begins(text string) bool {
	return string(r.buf[r.start:min(r.end, r.start+len(text))]) == text
}

// ReadProtocolHeader reads what a client sends first. ok is false if it asks for something other than AMQP 0-9-1, which shows as soon as a
// byte differs; the server then answers ProtocolHeader and closes.
func (r *Reader) ReadProtocolHeader() (ok bool, err error) {
	for {
		b := string(r.buf[r.start:min(r.end, r.start+protocolBytes)])
		if b != ProtocolHeader[:len(b)] && b != protocolHeaderOld[:len(b)] {
			return false, nil
		}
		if len(b) == protocolBytes {
			r.start += protocolBytes
			return true, nil
		}
		if err := r.Fill(); err != nil {
			return false, err
		}
	}
}
