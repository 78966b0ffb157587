package broker

import (
	"net"
	"sync"
	"time"

	"github.com/warrenmq/warren/amqp"
)

const (
	// bodyCopyMax is the largest body that is copied into the output buffer; a larger one is written from where it is.
	bodyCopyMax = 8 << 10
	// writeBytesMax is how much one system call writes, so that progress shows.
	writeBytesMax = 256 << 10
	// repliesBytesMax is how much may wait to be written, deliveries aside, before the connection is not read any more.
	repliesBytesMax = 1 << 20
)

// outbox collects what leaves a connection. Anybody appends whole frames; one goroutine, which lives as long as there is something, swaps the buffer for
// an empty one and writes all of it at once. Deliveries in it are bounded by the windows of the consumers, all else by repliesBytesMax.
type outbox struct {
	mu sync.Mutex
	// buf has the frames, with bodies to be put in between.
	buf       *buffer
	bodies    []bodyRef
	bodyBytes int
	// replies counts the bytes that are no deliveries.
	replies int
	// touched are the sources with deliveries in buf, confirms the channels with confirms to be made out.
	touched  []*source
	confirms []*channel
	// writing says that a writer lives; sealed that nothing more may be added, for connection.close is in buf or the socket is broken; broken that nothing can be written, any more or, before the
	// connection has arrived, yet.
	writing, sealed, broken bool
	flushes                 []chan struct{}
}

// bodyRef is a piece of a large body that goes in before index at of the buffer.
type bodyRef struct {
	at   int
	body []byte
}

// pending tells whether there is something to write. Called with o.mu held.
func (o *outbox) pending() bool { return o.buf != nil && len(o.buf.b) > 0 }

// room returns the buffer to append to. Called with o.mu held.
func (o *outbox) room() *buffer {
	if o.buf == nil {
		o.buf = getBuffer(&outBuffers, outBytesFirst)
	}
	return o.buf
}

// appendContent appends header and body frames. Called with o.mu held.
func (o *outbox) appendContent(channel uint16, properties, body []byte, frameMax uint32) {
	buf := o.room()
	buf.b = amqp.AppendHeaderFrame(buf.b, channel, amqp.ClassBasic, uint64(len(body)), properties)
	if len(body) <= bodyCopyMax {
		buf.b = amqp.AppendBodyFrames(buf.b, channel, body, frameMax)
		return
	}
	part := int(frameMax) - amqp.FrameOverheadBytes
	for len(body) > 0 {
		n := min(part, len(body))
		buf.b = amqp.AppendBodyFrameStart(buf.b, channel, n)
		o.bodies = append(o.bodies, bodyRef{len(buf.b), body[:n]})
		o.bodyBytes += n
		buf.b = append(buf.b, amqp.FrameEnd)
		body = body[n:]
	}
}

// wakeLocked starts a writer if there is none. Called with o.mu held.
func (c *conn) wakeLocked() {
	if !c.out.writing && !c.out.broken {
		c.out.writing = true
		go c.write()
	}
}

// send appends one method.
func (c *conn) send(channel uint16, m amqp.Method) {
	o := &c.out
	o.mu.Lock()
	if !o.sealed {
		c.appendReply(channel, m)
		c.wakeLocked()
	}
	o.mu.Unlock()
}

// sendLast appends one method behind which nothing comes: connection.close and its answer. A second last one is for the close that crosses ours. false: it cannot be written.
func (c *conn) sendLast(m amqp.Method) bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed = true
	if o.broken {
		return false
	}
	c.appendReply(0, m)
	c.wakeLocked()
	return true
}

func (c *conn) appendReply(channel uint16, m amqp.Method) {
	buf := c.out.room()
	before := len(buf.b)
	buf.b = m.AppendFrame(buf.b, channel)
	c.out.replies += len(buf.b) - before
}

// sendRaw appends bytes as they are: heartbeats. It never waits: the watch must not hang on one connection. Where the lock is taken there is traffic anyway.
func (c *conn) sendRaw(b []byte) {
	o := &c.out
	if !o.mu.TryLock() {
		return
	}
	defer o.mu.Unlock()
	if !o.sealed {
		buf := o.room()
		buf.b = append(buf.b, b...)
		c.wakeLocked()
	}
}

// flushed waits until all that stands in the outbox now is written; false if that fails or takes longer than d.
func (c *conn) flushed(d time.Duration) bool {
	o := &c.out
	o.mu.Lock()
	if o.broken || !o.writing {
		ok := !o.broken
		o.mu.Unlock()
		return ok
	}
	done := make(chan struct{})
	o.flushes = append(o.flushes, done)
	o.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		o.mu.Lock()
		defer o.mu.Unlock()
		return !o.broken
	case <-t.C:
		return false
	}
}

// flight is what one turn of the writer writes.
type flight struct {
	buf      *buffer
	bodies   []bodyRef
	marks    []mark
	confirms []*channel
	flushes  []chan struct{}
	parts    net.Buffers
	touched  []*source
}

// mark says how far a source's deliveries have come with a flight.
type mark struct {
	src   *source
	d     uint64
	bytes uint64
}

// write is the writer of a connection.
func (c *conn) write() {
	defer c.guard()
	f := &c.flight
	for c.makeConfirms(f) || c.next(f) {
		if f.buf == nil {
			continue
		}
		c.writeSince.Store(c.b.tick.Load())
		err := c.put(f)
		c.writeSince.Store(0)
		putBuffer(&outBuffers, f.buf, outBytesPooled)
		f.buf = nil
		clear(f.bodies)
		if err != nil {
			c.broken()
		} else {
			c.wrote(f)
		}
		for _, done := range f.flushes {
			close(done)
		}
		c.signal()
	}
}

// makeConfirms has the channels that asked for it make out their confirms; false if there are none.
func (c *conn) makeConfirms(f *flight) bool {
	o := &c.out
	o.mu.Lock()
	f.confirms, o.confirms = o.confirms, f.confirms[:0]
	o.mu.Unlock()
	for i, ch := range f.confirms {
		ch.makeConfirms()
		f.confirms[i] = nil
	}
	return len(f.confirms) > 0
}

// next takes what is in the outbox; false if the writer's life ends.
func (c *conn) next(f *flight) bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.confirms) > 0 {
		return true // first those
	}
	f.flushes, o.flushes = o.flushes, nil
	if !o.pending() || o.broken {
		putBuffer(&outBuffers, o.buf, outBytesPooled)
		o.buf = nil
		o.writing = false
		for _, done := range f.flushes {
			close(done)
		}
		return false
	}
	f.buf, o.buf = o.buf, nil
	f.bodies, o.bodies = o.bodies, f.bodies[:0]
	o.replies, o.bodyBytes = 0, 0
	f.touched, o.touched = o.touched, f.touched[:0]
	f.marks = f.marks[:0]
	for _, src := range f.touched {
		src.touched = false
		f.marks = append(f.marks, mark{src, src.complete(), src.bytes})
	}
	clear(f.touched)
	return true
}

// put writes a flight to the socket.
func (c *conn) put(f *flight) error {
	if len(f.bodies) == 0 {
		for b := f.buf.b; len(b) > 0; {
			n := min(len(b), writeBytesMax)
			if _, err := c.nc.Write(b[:n]); err != nil {
				return err
			}
			c.progress(n)
			b = b[n:]
		}
		return nil
	}
	from := 0
	for i := 0; i < len(f.bodies); {
		parts, size := f.parts[:0], 0
		for ; i < len(f.bodies) && size < writeBytesMax; i++ {
			r := &f.bodies[i]
			parts = append(parts, f.buf.b[from:r.at], r.body)
			size += r.at - from + len(r.body)
			from = r.at
		}
		if i == len(f.bodies) {
			parts = append(parts, f.buf.b[from:])
			size += len(f.buf.b) - from
		}
		f.parts = parts[:0]
		if _, err := parts.WriteTo(c.nc); err != nil {
			return err
		}
		c.progress(size)
	}
	return nil
}

// progress notes that n bytes were written.
func (c *conn) progress(n int) {
	now := c.b.tick.Load()
	c.sentBytes.Add(uint64(n))
	c.sentWrites.Add(1)
	c.sentTick.Store(now)
	c.writeSince.Store(now)
}

// broken ends all output after a failed write.
func (c *conn) broken() {
	o := &c.out
	o.mu.Lock()
	o.broken, o.sealed = true, true
	o.bodies, o.touched, o.confirms = nil, nil, nil
	o.mu.Unlock()
	c.cut()
}
