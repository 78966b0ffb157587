package frame

import "sync"

// BufferBytes is the capacity of a pooled buffer, for writing and for scanning.
const BufferBytes = 256 << 10

// buffers are shared by all files of the process, so that an idle one holds none. All have the same capacity.
var buffers = sync.Pool{New: func() any { return new([BufferBytes]byte) }}

// GetBuffer returns a buffer of BufferBytes with any content.
func GetBuffer() []byte { return buffers.Get().(*[BufferBytes]byte)[:] }

// PutBuffer gives a buffer back, whatever length it has now; the caller must not use it any more. Any other slice is ignored.
func PutBuffer(b []byte) {
	if cap(b) == BufferBytes {
		buffers.Put((*[BufferBytes]byte)(b[:BufferBytes]))
	}
}
