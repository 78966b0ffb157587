package broker

import (
	"slices"
	"sync"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// Buffers are lent by pools to what has traffic, so that an idle connection holds none.

const (
	// outBytesFirst is the first size of an output buffer, outBytesPooled the largest that is kept.
	outBytesFirst  = 4 << 10
	outBytesPooled = 1 << 20
	// envelopeBytesKept is the largest buffer for a message in the making that a channel keeps for its next one, envelopeBytesPooled the largest that all lend each other.
	envelopeBytesKept   = 256 << 10
	envelopeBytesPooled = 2 << 20
)

// readSizes are the sizes of the read buffers that are kept for another connection: those by which a reader's buffer grows, and what the largest frames
// take before a login, when memory counts most, and after it.
var readSizes = [...]int{
	amqp.ReaderBufferBytesMin, limits.UntunedFrameBytesMax, limits.UntunedFrameBytesMax + 2*limits.FrameBytesSlack, amqp.ReaderBufferBytesTrusted, amqp.ReaderBufferBytesMax, limits.FrameBytesMax,
}

// readBuffers lends buffers to the readers of all connections; it implements amqp.Buffers.
type readBuffers struct{ pools [len(readSizes)]sync.Pool }

var sharedReadBuffers readBuffers

// Get returns a buffer of at least sizeMin bytes.
func (p *readBuffers) Get(sizeMin int) []byte {
	for i, size := range readSizes {
		if sizeMin <= size {
			if b, ok := p.pools[i].Get().(*buffer); ok {
				return b.b
			}
			return make([]byte, size)
		}
	}
	return make([]byte, sizeMin)
}

// Put takes back a buffer that Get returned.
func (p *readBuffers) Put(buf []byte) {
	if i := slices.Index(readSizes[:], len(buf)); i >= 0 {
		p.pools[i].Put(&buffer{buf})
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
