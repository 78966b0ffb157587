package quorumtest

import (
	"sync"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// Publisher publishes unique messages to one queue through one node's process. It ends with the process, or when the cluster declares that dead.
type Publisher struct {
	c       *Cluster
	id      publisherID
	node    *Node
	process *process
	session *quorum.Session

	mu       sync.Mutex
	sent     uint32
	answered uint32
	okay     uint32
	lastOK   time.Time
	over     bool // the process is gone: nothing counts any more
	cut      bool // the cluster declared the process dead
	closed   bool

	transactions uint32
	staged       *transaction            // not committed
	open         map[uint32]*transaction // whose commits are not answered, by number

	changed chan struct{} // an answer, or an end; holds one
}

// NewPublisher opens a publisher at a node that runs.
func (c *Cluster) NewPublisher(at *Node, q meta.QueueID) *Publisher {
	c.T.Helper()
	p, ok := c.openPublisher(at, q)
	if !ok {
		c.T.Fatalf("%s is down and takes no publisher", at.Name)
	}
	return p
}

// openPublisher is NewPublisher that says false if the node does not run.
func (c *Cluster) openPublisher(at *Node, q meta.QueueID) (*Publisher, bool) {
	run := at.process()
	if run == nil || run.running() == nil {
		return nil, false
	}
	p := &Publisher{c: c, node: at, process: run, open: make(map[uint32]*transaction), changed: make(chan struct{}, 1)}
	p.id = c.Books.publisher(q)
	p.session = run.host.OpenSession(p)
	c.Books.own(run, p)
	return p, true
}

// Send submits n messages of some bytes and does not wait. It returns how many were taken: fewer when the process has ended or the queue is not known there.
func (p *Publisher) Send(n, bytes int) int {
	for i := range n {
		if !p.submit(bytes) {
			p.session.Flush()
			return i
		}
	}
	p.session.Flush()
	return n
}

func (p *Publisher) submit(bytes int) bool {
	p.mu.Lock()
	if p.over || p.cut || p.closed {
		p.mu.Unlock()
		return false
	}
	p.sent++
	id := messageID{p.id, p.sent}
	p.mu.Unlock()
	p.c.Books.publishes(id)
	env := id.envelope(bytes)
	cmd := queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent, BodyBytes: uint32(len(env)), Envelope: env}
	if p.session.Submit(p.id.queue, &cmd, uint64(id.no)) != nil {
		p.c.Books.answers(id, queue.CodeUnavailable)
		p.mu.Lock()
		p.answered++
		p.mu.Unlock()
		return false
	}
	return true
}

// Completed implements quorum.Receiver.
func (p *Publisher) Completed(_ meta.QueueID, done []quorum.Completion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	for _, d := range done {
		messages := 1
		if d.Token >= tokenTransaction {
			messages = p.committed(uint32(d.Token), d.Reply.Code)
		} else {
			p.c.Books.answers(messageID{p.id, uint32(d.Token)}, d.Reply.Code)
			p.answered++
		}
		if d.Reply.Code == queue.CodeOK {
			p.okay += uint32(messages)
			p.lastOK = time.Now()
		}
	}
	p.signal()
}

// Deliver implements quorum.Receiver.
func (p *Publisher) Deliver(q meta.QueueID, _ []quorum.Delivery) {
	p.c.Books.violate("publisher %d of queue %d got a delivery", p.id.no, q)
}

// Cancelled implements quorum.Receiver.
func (p *Publisher) Cancelled(meta.QueueID, queue.ConsumerID) {}

// TimedOut implements quorum.Receiver.
func (p *Publisher) TimedOut(meta.QueueID, []uint64) {}

// Synced implements quorum.Receiver.
func (p *Publisher) Synced(meta.QueueID, *queue.SessionSync) {}

// Ready implements quorum.Receiver.
func (*Publisher) Ready(meta.QueueID, uint64) {}

// Gone implements quorum.Receiver.
func (p *Publisher) Gone(meta.QueueID) { p.stop() }

func (p *Publisher) gone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.signal()
}

func (p *Publisher) fenced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.signal()
}

// stop ends the publisher; answers still count.
func (p *Publisher) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.signal()
}

// signal wakes who waits. Called with p.mu held.
func (p *Publisher) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Open tells how many messages are not answered; 0 when the process is gone and no answer will come.
func (p *Publisher) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return 0
	}
	return int(p.sent - p.answered)
}

// Confirmed is how many messages were confirmed.
func (p *Publisher) Confirmed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.okay)
}

// LastConfirm is when the last confirm came.
func (p *Publisher) LastConfirm() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastOK
}

// ended tells that no more can be sent.
func (p *Publisher) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over || p.cut || p.closed
}

// Confirm sends n messages and waits until they are confirmed. It returns how long that took.
func (p *Publisher) Confirm(within time.Duration, n int) time.Duration {
	p.c.T.Helper()
	want := p.Confirmed() + n
	if got := p.Send(n, 0); got != n {
		p.c.T.Fatalf("%s takes %d messages of %d", p.node.Name, got, n)
	}
	return p.c.Until(within, "confirms at "+p.node.Name, func() bool { return p.Confirmed() >= want })
}
