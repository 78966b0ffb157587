package broker

import "sync"

// Buffers are lent by pools to what has traffic, so that an idle connection holds none.

const (
	// readBytesPooled is the largest read buffer that is kept for another connection.
	readBytesPooled = 128 << 10
	// outBytesFirst is the first size of an output buffer, outBytesPooled the largest that is kept.
	outBytesFirst  = 4 << 10
	outBytesPooled = 1 << 20
	// envelopeBytesPooled is the largest buffer for a message in the making that is kept.
	envelopeBytesPooled = 256 << 10
)

// readBuffers lends buffers to the readers of all connections; it implements amqp.Buffers.
type readBuffers struct{ pool sync.Pool }

var sharedReadBuffers readBuffers

// Get returns a buffer of at least sizeMin bytes.
func (p *readBuffers) Get(sizeMin int) []byte {
	if b, ok := p.pool.Get().(*buffer); ok && cap(b.b) >= sizeMin {
		return b.b[:cap(b.b)]
	}
	return make([]byte, sizeMin)
}

// Put takes back a buffer that Get returned.
func (p *readBuffers) Put(buf []byte) {
	if cap(buf) <= readBytesPooled {
		p.pool.Put(&buffer{buf})
	}
}

// buffer is a growing buffer that a pool can keep without an allocation.
type buffer struct{ b []byte }

var outBuffers, envelopeBuffers sync.Pool

func getBuffer(p *sync.Pool, sizeFirst int) *buffer {
	if b, ok := p.Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, 0, sizeFirst)}
}

func putBuffer(p *sync.Pool, b *buffer, bytesMax int) {
	if b != nil && cap(b.b) <= bytesMax {
		b.b = b.b[:0]
		p.Put(b)
	}
}
