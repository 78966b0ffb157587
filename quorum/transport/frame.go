package transport

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/warrenmq/warren/config/limits"
)

// A frame is a header and a payload:
//
//	length:4 kind:1 zero:3 crc32c:4 | payload
//
// The checksum covers the first eight bytes of the header and the payload.
const frameHeaderBytes = 12

// frameKind says what a frame is, as the wire has it.
type frameKind byte

const (
	frameData  frameKind = 1 // what the connection is for: a link's frame, a pb.MessageBatch, a pb.Chunk, a join's request or answer
	framePing  frameKind = 2 // a sign of life, empty
	frameAck   frameKind = 3 // how many chunks the receiver of a snapshot has taken: 8 bytes
	frameError frameKind = 4 // why the peer ends the connection: a text
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealFrame fills in the header at the start of a buffer that has the payload behind it.
func sealFrame(frame []byte, kind frameKind) {
	putFrameHead(frame, kind, len(frame)-frameHeaderBytes)
	putFrameSum(frame, crc32.Update(crc32.Checksum(frame[:8], castagnoli), castagnoli, frame[frameHeaderBytes:]))
}

func putFrameHead(head []byte, kind frameKind, payloadBytes int) {
	binary.BigEndian.PutUint32(head, uint32(payloadBytes))
	binary.BigEndian.PutUint32(head[4:], uint32(kind)<<24)
}

func putFrameSum(head []byte, sum uint32) { binary.BigEndian.PutUint32(head[8:], sum) }

// appendFrame appends a whole small frame.
func appendFrame(dst []byte, kind frameKind, payload []byte) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, frameHeaderBytes)...)
	dst = append(dst, payload...)
	sealFrame(dst[from:], kind)
	return dst
}

// frameReader takes frames from a stream.
type frameReader struct {
	from            window
	payloadBytesMax int
	head            [frameHeaderBytes]byte
	views           bool // payloads of up to PeerBufferBytes are returned where they were read and are good until the next call
}

// growBytes is how much of a large payload is read before more memory is taken for it: a length is believed as far as bytes follow.
const growBytes = 1 << 20

// next reads one frame. The payload is in buf if it fits, otherwise in new memory. Errors of the stream come as they are, io.EOF only between frames; what is wrong
// with a frame is an ErrFrame, after which the stream is of no use.
func (r *frameReader) next(buf []byte) (frameKind, []byte, error) {
	view, err := r.from.next(frameHeaderBytes)
	if err != nil {
		return 0, nil, err
	}
	copy(r.head[:], view)
	head := r.head[:]
	length := int(binary.BigEndian.Uint32(head))
	kind := frameKind(head[4])
	switch {
	case head[5] != 0 || head[6] != 0 || head[7] != 0 || kind < frameData || kind > frameError:
		return 0, nil, fmt.Errorf("%w: header %x", ErrFrame, head)
	case length > r.payloadBytesMax:
		return 0, nil, fmt.Errorf("%w: %d bytes, at most %d are taken", ErrFrame, length, r.payloadBytesMax)
	}
	payload, err := r.payload(buf, length)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, nil, err
	}
	if sum := crc32.Update(crc32.Checksum(head[:8], castagnoli), castagnoli, payload); sum != binary.BigEndian.Uint32(head[8:]) {
		return 0, nil, fmt.Errorf("%w: its checksum does not match", ErrFrame)
	}
	return kind, payload, nil
}

func (r *frameReader) payload(buf []byte, length int) ([]byte, error) {
	if r.views && length <= limits.PeerBufferBytes {
		return r.from.next(length)
	}
	if cap(buf) >= length {
		buf = buf[:length]
		return buf, r.from.readFull(buf)
	}
	buf = make([]byte, min(length, growBytes))
	for read := 0; ; {
		if err := r.from.readFull(buf[read:]); err != nil {
			return nil, err
		}
		if len(buf) == length {
			return buf, nil
		}
		read = len(buf)
		larger := make([]byte, min(length, 4*read))
		copy(larger, buf)
		buf = larger
	}
}

// window is a buffered reader whose buffer grows with what is looked at in it.
type window struct {
	from io.Reader
	buf  []byte
	r, w int // buf[r:w] is read from the stream and not taken
}

// aheadBytes is how far a window reads beyond what is asked for: what is read of a large frame too early is moved once more.
const aheadBytes = 64 << 10

// next returns n bytes where they are, good until the next call. io.EOF means that there was none.
func (b *window) next(n int) ([]byte, error) {
	if b.r == b.w {
		b.r, b.w = 0, 0
	}
	if b.w-b.r < n {
		if n > len(b.buf)-b.r {
			to := b.buf
			if n > len(b.buf) {
				to = make([]byte, n+aheadBytes)
			}
			b.r, b.w, b.buf = 0, copy(to, b.buf[b.r:b.w]), to
		}
		had, end := b.w > b.r, min(len(b.buf), max(b.r+n, b.w+aheadBytes))
		k, err := io.ReadAtLeast(b.from, b.buf[b.w:end], b.r+n-b.w)
		b.w += k
		if err != nil {
			if err == io.EOF && had {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	b.r += n
	return b.buf[b.r-n : b.r], nil
}

// readFull fills p, from the stream itself when the buffer is empty.
func (b *window) readFull(p []byte) error {
	k := copy(p, b.buf[b.r:b.w])
	b.r += k
	_, err := io.ReadFull(b.from, p[k:])
	return err
}

// keepBuffer returns the buffer to use for the next message: not one that a single large message needed.
func keepBuffer(buf []byte) []byte {
	if cap(buf) > limits.PeerBufferBytes+frameHeaderBytes {
		return nil
	}
	return buf[:0]
}
