package memnet

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of a connection. It implements net.Conn.
type Conn struct {
	net    *Net
	local  addr
	remote addr
	peer   *Conn
	in     *pipe // from the peer to here
	out    *pipe // from here to the peer

	closed bool // by this end
	reset  bool // by the network
	read   deadline
	write  deadline
}

// pipe is one direction of a connection.
type pipe struct {
	net      *Net
	route    route
	reader   *Conn
	segments []segment // sent and not read
	used     int       // bytes of the window: sent, and not known to the sender to be read
	late     int       // of these, bytes that were read while the acknowledgement could not travel
	lastAt   time.Time // when the newest segment arrives: nothing overtakes it
	readable *sync.Cond
	writable *sync.Cond
}

// segment is what one write sent, or the end of the stream.
type segment struct {
	data []byte
	at   time.Time // when it arrives
	held bool      // sent into a stalled direction: it does not arrive before the heal
	end  error     // io.EOF for a close, ECONNRESET for a reset; no data then
}

// deadline is a point in time that wakes those who wait.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// setLocked moves the deadline. Waiters look again when it has passed.
func (d *deadline) setLocked(n *Net, at time.Time, cond *sync.Cond) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	if at.IsZero() {
		return
	}
	if wait := time.Until(at); wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			cond.Broadcast()
		})
		return
	}
	cond.Broadcast()
}

func (n *Net) newPipe(r route) *pipe {
	return &pipe{net: n, route: r, readable: sync.NewCond(&n.mu), writable: sync.NewCond(&n.mu)}
}

// connectLocked makes both ends of a connection.
func (n *Net) connectLocked(from, to addr) (near, far *Conn) {
	there, back := n.newPipe(route{from.host, to.host}), n.newPipe(route{to.host, from.host})
	near = &Conn{net: n, local: from, remote: to, in: back, out: there}
	far = &Conn{net: n, local: to, remote: from, in: there, out: back}
	near.peer, far.peer = far, near
	there.reader, back.reader = far, near
	n.conns = append(n.conns, near, far)
	return near, far
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, opError("read", c.remote, net.ErrClosed)
		case c.reset:
			return 0, opError("read", c.remote, syscall.ECONNRESET)
		case c.read.passed():
			return 0, opError("read", c.remote, os.ErrDeadlineExceeded)
		}
		n, end := c.in.takeLocked(p)
		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case end == io.EOF:
			return 0, io.EOF
		case end != nil:
			c.resetLocked()
			continue
		}
		c.in.readable.Wait()
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	written := 0
	for {
		switch {
		case c.closed:
			return written, opError("write", c.remote, net.ErrClosed)
		case c.reset || c.in.resetArrivedLocked():
			return written, opError("write", c.remote, syscall.ECONNRESET)
		case c.write.passed():
			return written, opError("write", c.remote, os.ErrDeadlineExceeded)
		case written == len(p):
			return written, nil
		}
		if c.peer.closed && c.net.openLocked(c.out.route) {
			c.refuseLocked()
			return len(p), nil // into the void, as the first write to a closed end
		}
		room := windowBytes - c.out.used
		if room <= 0 {
			c.out.writable.Wait()
			continue
		}
		part := p[written:min(len(p), written+room)]
		c.out.sendLocked(segment{data: slices.Clone(part)})
		written += len(part)
	}
}

// Close implements net.Conn. What was written still arrives.
func (c *Conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return opError("close", c.remote, net.ErrClosed)
	}
	c.closeLocked(false)
	return nil
}

// closeLocked ends this end; the peer hears of it behind the data.
func (c *Conn) closeLocked(reset bool) {
	if c.closed {
		return
	}
	c.closed = true
	end := error(io.EOF)
	if reset || c.in.unreadLocked() { // as TCP does
		end = syscall.ECONNRESET
	}
	if !c.reset {
		c.out.sendLocked(segment{end: end})
	}
	c.dropLocked()
}

// refuseLocked answers what this end sent to a closed peer: a reset comes back.
func (c *Conn) refuseLocked() {
	if n := len(c.in.segments); n == 0 || c.in.segments[n-1].end != syscall.ECONNRESET {
		c.in.sendLocked(segment{end: syscall.ECONNRESET})
	}
}

// resetLocked ends this end as if a reset had arrived.
func (c *Conn) resetLocked() {
	if c.reset || c.closed {
		return
	}
	c.reset = true
	c.dropLocked()
}

// dropLocked forgets an end that sends nothing any more and wakes who waits on it.
func (c *Conn) dropLocked() {
	for _, d := range []*deadline{&c.read, &c.write} {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
	c.in.segments = nil
	c.in.readable.Broadcast()
	c.in.writable.Broadcast()
	c.out.writable.Broadcast()
	c.net.conns = slices.DeleteFunc(c.net.conns, func(o *Conn) bool { return o == c })
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, true, true)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadlines(t, true, false)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadlines(t, false, true)
}

func (c *Conn) setDeadlines(t time.Time, read, write bool) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.closed {
		return opError("set", c.remote, net.ErrClosed)
	}
	if read {
		c.read.setLocked(c.net, t, c.in.readable)
	}
	if write {
		c.write.setLocked(c.net, t, c.out.writable)
	}
	return nil
}

// sendLocked puts a segment on its way.
func (p *pipe) sendLocked(s segment) {
	p.used += len(s.data)
	p.net.sent[p.route.from]++
	if !p.net.openLocked(p.route) {
		s.held = true
		p.segments = append(p.segments, s)
		return
	}
	p.segments = append(p.segments, s)
	p.scheduleLocked(&p.segments[len(p.segments)-1])
}

// scheduleLocked says when a segment arrives and wakes the reader then.
func (p *pipe) scheduleLocked(s *segment) {
	now := time.Now()
	s.held = false
	s.at = now.Add(p.net.delay(p.route))
	if s.at.Before(p.lastAt) {
		s.at = p.lastAt
	}
	p.lastAt = s.at
	if wait := s.at.Sub(now); wait > 0 {
		time.AfterFunc(wait, p.arrived)
		return
	}
	p.wakeLocked()
}

func (p *pipe) arrived() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.wakeLocked()
}

// wakeLocked wakes the receiving end: its reader, and its writer, whom a reset ends.
func (p *pipe) wakeLocked() {
	p.readable.Broadcast()
	p.reader.out.writable.Broadcast()
}

// takeLocked reads what has arrived. end is how the stream ended if nothing is before the end.
func (p *pipe) takeLocked(dst []byte) (n int, end error) {
	now := time.Now()
	for len(p.segments) > 0 && n < len(dst) {
		s := &p.segments[0]
		if s.held || now.Before(s.at) {
			break
		}
		if s.end != nil {
			end = s.end
			break
		}
		k := copy(dst[n:], s.data)
		n += k
		s.data = s.data[k:]
		if len(s.data) == 0 {
			p.segments[0] = segment{}
			p.segments = p.segments[1:]
		}
	}
	if n > 0 {
		p.late += n
		p.acknowledgeLocked()
	}
	return n, end
}

// unreadLocked tells whether data has arrived that nobody read.
func (p *pipe) unreadLocked() bool {
	return len(p.segments) > 0 && p.segments[0].end == nil && !p.segments[0].held && !time.Now().Before(p.segments[0].at)
}

// acknowledgeLocked frees the window of what was read, if the sender can hear of it.
func (p *pipe) acknowledgeLocked() {
	if p.late == 0 || !p.net.openLocked(p.route.back()) {
		return
	}
	p.used -= p.late
	p.late = 0
	p.writable.Broadcast()
}

// releaseLocked sends what was held, if the direction is open.
func (p *pipe) releaseLocked() {
	if !p.net.openLocked(p.route) {
		return
	}
	for i := range p.segments {
		if p.segments[i].held {
			p.scheduleLocked(&p.segments[i])
		}
	}
}

// resetArrivedLocked tells whether a reset has arrived; unread data before it does not matter to a writer.
func (p *pipe) resetArrivedLocked() bool {
	if len(p.segments) == 0 {
		return false
	}
	s := &p.segments[len(p.segments)-1]
	return s.end == syscall.ECONNRESET && !s.held && !time.Now().Before(s.at)
}
