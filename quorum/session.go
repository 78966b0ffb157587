package quorum

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// ErrNoQueue says that the catalogue has no such queue.
var ErrNoQueue = errors.New("quorum: no such queue")

// ErrClosed says that the host or the session was closed.
var ErrClosed = errors.New("quorum: closed")

// Receiver is the owner's end of a Session (a channel of the broker). Calls come from the goroutines that apply queues: in log order for one queue, concurrently for
// different ones. They must not block and must not call back into the Session while holding a lock that a caller of Submit holds; they only note and wake.
// Slices are valid during the call only; envelopes are immutable and may be kept.
type Receiver interface {
	// Completed answers commands that were submitted with a token, in the order in which they were applied.
	Completed(q meta.QueueID, done []Completion)
	// Deliver brings messages for consumers of the session, and with Consumer 0 the answer to a Get, which comes before the Get's completion.
	Deliver(q meta.QueueID, deliveries []Delivery)
	// Cancelled says that the queue removed a consumer by its own decision: it kept a delivery for too long.
	Cancelled(q meta.QueueID, consumer queue.ConsumerID)
	// TimedOut says that deliveries, of whatever consumer or Get, were kept for too long and taken back: to settle them changes nothing any more. Their numbers rise.
	TimedOut(q meta.QueueID, ds []uint64)
	// Synced tells, when the node has attached anew, what the queue has of the session, for what Cancelled and TimedOut would have told meanwhile. Deliveries and answers that were missed came before it.
	Synced(q meta.QueueID, st *queue.SessionSync)
	// Ready says that but for the session's limit there (queue.OpCredit) it would get a message: so many are ready. It is not said again until the session's next OpCredit, except when
	// the node attaches anew.
	Ready(q meta.QueueID, messages uint64)
	// Gone says that the queue was deleted, or that it gave up on this node, which could not reach it for long: the session's consumers there have ended, its deliveries need no settling. Of a
	// deleted queue unanswered commands were completed with CodeGone before.
	Gone(q meta.QueueID)
}

// Completion is the answer to one submitted command.
type Completion struct {
	Token uint64
	Reply queue.Reply
}

// Delivery is one message on its way to a client.
type Delivery struct {
	// Consumer is the session's consumer, 0 for the answer to a Get.
	Consumer    queue.ConsumerID
	Redelivered bool
	// DeliveryCount and AcquiredCount are as of this assignment: earlier counted failures, earlier acquisitions.
	DeliveryCount uint32
	AcquiredCount uint32
	// Epoch is that of the take-over of a single active consumer, 0 on other queues.
	Epoch uint64
	// D is the number by which the session settles it.
	D   uint64
	Seq queue.Seq
	// Envelope is what the publisher's Enqueue carried.
	Envelope []byte
}

// Session is a channel on this node incarnation (PROTOCOL 2). Its methods may be called from several goroutines; commands to one queue keep the order of Submit calls.
type Session struct {
	host *Host
	boot meta.Boot
	id   queue.SessionID
	recv Receiver

	recorded atomic.Bool // it has, or had, a record in some queue

	mu     sync.Mutex
	dirty  []*pipeline
	served map[meta.QueueID]*pipeline // where the machine may have a session record
	closed bool
}

// OpenSession makes a session that answers to r. It costs nothing in any queue until it subscribes or gets.
func (h *Host) OpenSession(r Receiver) *Session {
	return &Session{host: h, boot: h.Boot(), id: queue.SessionID(h.sessions.Add(1)), recv: r}
}

// ID is the session's number, unique for this node incarnation.
func (s *Session) ID() queue.SessionID { return s.id }

// Submit puts cmd (whose Session is filled in) into the queue's pipeline. It copies everything and never blocks; what it collected starts at Flush, or earlier when a batch is full. With token 0 there is
// no completion. A completion always comes for another token: from the machine, as CodeGone when the queue is deleted, or as CodeUnavailable when this node gives up.
// A queue that has not started yet is started; commands wait for it. ErrNoQueue: not in the catalogue; ErrClosed: session or host closed.
func (s *Session) Submit(q meta.QueueID, cmd *queue.Command, token uint64) error {
	p, err := s.host.pipeline(q)
	if err != nil {
		return err
	}
	cmd.Session = s.id
	if s.isClosed() {
		return ErrClosed
	}
	if err := p.submit(s, cmd, token); err != nil {
		return err
	}
	// Marked only now: a Flush in between would take the mark and find nothing to send.
	s.mu.Lock()
	records := makesRecord(cmd.Op)
	if s.closed {
		s.mu.Unlock()
		if records { // the session's close went ahead of it: another one follows
			_ = p.submit(s, &queue.Command{Op: queue.OpSessionClose, Session: s.id}, 0) // a queue that is gone needs none
		}
		p.flush()
		return nil
	}
	defer s.mu.Unlock()
	if records {
		if s.served == nil {
			s.served = make(map[meta.QueueID]*pipeline)
		}
		s.served[q] = p
	}
	if n := len(s.dirty); n == 0 || s.dirty[n-1] != p {
		s.markDirty(p)
	}
	return nil
}

// AskTx asks a queue that was deleted whether it has committed a transaction of the session of which it is the home (docs/adr/0013). If it has not it never will. It blocks; an error means that it is not known.
func (s *Session) AskTx(home meta.QueueID, n queue.TxNumber) (committed bool, err error) {
	ask := queue.Command{Op: queue.OpTxAsk, Node: queue.NodeID(s.host.node), Boot: queue.Boot{Counter: s.boot.Counter, Nonce: s.boot.Nonce}, Session: s.id, Tx: n}
	reply, gone, err := s.host.commandTo(queue.QueueID(home), &ask)
	return !gone && reply.A == queue.TxCommitted, err
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Session) markDirty(p *pipeline) {
	for _, d := range s.dirty {
		if d == p {
			return
		}
	}
	s.dirty = append(s.dirty, p)
}

// Flush sends what Submit collected, as far as the pipelines' windows allow; the rest follows by itself.
func (s *Session) Flush() {
	s.mu.Lock()
	if len(s.dirty) == 0 {
		s.mu.Unlock()
		return
	}
	var few [8]*pipeline
	dirty := append(few[:0], s.dirty...)
	clear(s.dirty)
	s.dirty = s.dirty[:0]
	s.mu.Unlock()
	for _, p := range dirty {
		p.flush()
	}
}

// Close ends the session in every queue that it consumed or got from or staged a transaction in: lastWritten tells per queue the highest d that was written to the socket (0 if none).
// It returns the queues to which a SessionClose with the given token was submitted; each completes by itself. Further Submits fail.
func (s *Session) Close(lastWritten func(meta.QueueID) uint64, token uint64) []meta.QueueID {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	served := s.served
	s.served = nil
	s.mu.Unlock()
	queues := make([]meta.QueueID, 0, len(served))
	for q, p := range served {
		cmd := queue.Command{Op: queue.OpSessionClose, Session: s.id, To: lastWritten(q)}
		if p.submit(s, &cmd, token) == nil {
			p.flush()
			queues = append(queues, q)
		}
	}
	return queues
}
