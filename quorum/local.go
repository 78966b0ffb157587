package quorum

import (
	"log/slog"
	"sync"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// local runs a transient queue: the same machine without Raft and without a disk, "a quorum of one that forgets". Its log is a mailbox that one goroutine, living as long as there is
// something in it, applies in order.
type local struct {
	replica
	host    *Host
	away    absence // used by the host's reporter alone
	sources sources

	mover         *mover
	txs           *arbiter
	ticks, expiry timer

	qmu     sync.Mutex
	mailbox []mail
	running bool
	closed  bool
}

// mail is one entry; answer, if any, gets the reply.
type mail struct {
	entry  []byte
	answer chan queue.Reply
}

var _ target = (*local)(nil)
var _ runner = (*local)(nil)

func newLocal(h *Host, id meta.QueueID, cfg queue.Config, log *slog.Logger) *local {
	l := &local{host: h}
	l.id, l.log, l.m, l.opened = id, log, queue.New(cfg), true
	l.mover = newMover(h, l, id, l.isOpen)
	l.txs = newArbiter(h, l, l.isOpen)
	return l
}

// kept is the ticket of a proposal that cannot be lost.
type kept struct{}

func (kept) lost() bool { return false }

func (l *local) propose(_ queue.PipelineID, _ uint64, buf []byte) (ticket, bool, error) {
	if !l.put(mail{entry: buf}) {
		return nil, false, ErrClosed
	}
	return kept{}, true, nil
}

// reset has nothing to forget: a local proposal is applied.
func (l *local) reset(queue.PipelineID) {}

// command applies one command outside pipelines and waits for the reply.
func (l *local) command(cmd *queue.Command) (queue.Reply, error) {
	m := mail{entry: queue.AppendCommandEntry(nil, l.host.clock.nowMillis(), cmd), answer: make(chan queue.Reply, 1)}
	if !l.put(m) {
		return queue.Reply{}, ErrClosed
	}
	return <-m.answer, nil
}

func (l *local) put(m mail) bool {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	if l.closed {
		return false
	}
	l.mailbox = append(l.mailbox, m)
	if !l.running {
		l.running = true
		go l.run()
	}
	return true
}

// run applies until the mailbox is empty. A machine that has work left by its bound gets a Tick at once.
func (l *local) run() {
	var spare []mail
	for {
		l.qmu.Lock()
		mails := l.mailbox
		if len(mails) == 0 {
			l.running = false
			l.qmu.Unlock()
			return
		}
		l.mailbox = spare[:0]
		l.qmu.Unlock()
		for i := range mails {
			l.one(&mails[i])
		}
		clear(mails)
		spare = mails
	}
}

func (l *local) one(m *mail) {
	l.mu.Lock()
	reply := l.apply(l.applied+1, m.entry)
	due, timed := int64(0), false
	for l.failure == nil {
		now := l.host.clock.nowMillis()
		if due, timed = l.m.NextDeadline(); !timed || due > now {
			break
		}
		l.apply(l.applied+1, queue.AppendCommandEntry(nil, now, &queue.Command{Op: queue.OpTick}))
	}
	expires, mayExpire := l.m.Expiry()
	unused, first, died, orphaned, lost := l.unused, l.first, l.died, l.orphaned, l.lost
	l.unused, l.first, l.died, l.orphaned, l.lost = false, false, false, false, 0
	drained := l.m.Drained()
	l.mu.Unlock()
	if timed {
		l.ticks.set(l.host, due, l.tick)
	}
	if mayExpire {
		l.expiry.set(l.host, expires, l.expire)
	}
	if died {
		l.mover.kick()
	}
	if lost > 0 {
		l.host.lettersLost(l.id, lost)
	}
	if orphaned {
		l.txs.look()
	}
	l.stream()
	if first {
		l.host.announceDeaths(l) // it may have been under way when its death became known
	}
	if m.answer != nil {
		m.answer <- reply
	}
	if unused {
		l.host.retire(l.id, queue.IfAutoDelete)
	}
	if drained {
		go l.host.drained(l, l.isOpen)
	}
}

// tick has the machine look at its timers.
func (l *local) tick() {
	l.put(mail{entry: queue.AppendCommandEntry(nil, l.host.clock.nowMillis(), &queue.Command{Op: queue.OpTick})})
}

// expire deletes the queue if it was unused for as long as it may be.
func (l *local) expire() {
	l.mu.Lock()
	due, ok := l.m.Expiry()
	l.mu.Unlock()
	switch {
	case !ok || !l.isOpen():
	case due > l.host.clock.nowMillis():
		l.expiry.set(l.host, due, l.expire)
	default:
		l.host.retire(l.id, queue.IfExpired)
	}
}

func (l *local) isOpen() bool {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	return !l.closed
}

// close ends the queue; what is in the mailbox is still applied.
func (l *local) close() {
	l.qmu.Lock()
	l.closed = true
	l.qmu.Unlock()
	l.endStreams(sink.stop)
}

func (l *local) status() QueueStatus {
	return QueueStatus{State: StateRunning, Leader: l.host.node, Counts: l.counts(), NextDelayedMillis: l.nextDelayed(), Members: []meta.NodeID{l.host.node}, Online: []meta.NodeID{l.host.node},
		PendingReason: l.mover.reason()}
}

func (l *local) core() *replica { return &l.replica }
