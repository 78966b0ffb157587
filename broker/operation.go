package broker

import (
	"context"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// Operations are methods that wait for a queue or the catalogue: declare, bind, consume, get... A channel has at most one under way; frames that come
// meanwhile are set aside, and the reader goes on with the other channels of the connection.

// operation is what is under way, if its done is set. It is answered by a completion whose token has its serial.
type operation struct {
	serial uint64
	method amqp.MethodID
	// what names the queue in errors.
	what resource
	// done is called with ch.mu held when the queue has answered; it may append frames. The error closes the channel.
	done func(*operation, queue.Reply) error
	due  uint32 // tick at which the operation has failed
	late error  // how it has failed then; nil: as any operation on a queue that does not answer
	// got is the message of a basic.get, which comes before its completion.
	got got
	// then, which done may set, goes on with the operation in a goroutine and may block.
	then func(context.Context) error
}

// Tokens of submitted commands: the kind in the upper bits, a number below.
const (
	tokenKindShift = 56
	tokenNumber    = 1<<tokenKindShift - 1
	// tokenPublish carries the publish's number in the channel.
	tokenPublish uint64 = 1 << tokenKindShift
	// tokenOperation carries the operation's serial.
	tokenOperation uint64 = 2 << tokenKindShift
	// tokenClose belongs to SessionClose.
	tokenClose uint64 = 3 << tokenKindShift
	// tokenRevoke carries the consumer that is cancelled for want of permission.
	tokenRevoke uint64 = 4 << tokenKindShift
	// tokenCredit carries the credit's number in the channel.
	tokenCredit uint64 = 5 << tokenKindShift
	// tokenCommit belongs to the one commit that is under way.
	tokenCommit uint64 = 6 << tokenKindShift
	// tokenAgree carries the serial of a step of the commit over several queues that is under way.
	tokenAgree uint64 = 7 << tokenKindShift
)

// begin makes the channel wait and returns the token for what is waited for. After what follows it, the executor must not touch the channel.
func (ch *channel) begin(what resource, done func(*operation, queue.Reply) error) (token uint64) {
	ch.handOver()
	ch.touchSession()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.waiting = true
	ch.c.operations.Add(1)
	ch.opSerial++
	ch.op = operation{serial: ch.opSerial, method: ch.current, what: what, done: done, due: ch.c.b.tick.Load() + ticks(limits.QueueStartWaitMillis*time.Millisecond)}
	ch.setGate()
	return tokenOperation | ch.opSerial
}

// touchSession notes that the session must be flushed, by an executor that gives the channel up.
func (ch *channel) touchSession() { ch.w.dirty = append(ch.w.dirty, ch) }

// ask submits a command and makes the channel wait for the answer of the queue.
func (ch *channel) ask(q *meta.Queue, cmd *queue.Command, done func(*operation, queue.Reply) error) {
	token := ch.begin(queueResource(q.VHost, q.Name), done)
	if err := ch.session.Submit(q.ID, cmd, token); err != nil {
		ch.answer(token, queue.Reply{Code: codeOf(err)})
	}
}

// codeOf is the answer that a queue would have given where a command cannot be submitted.
func codeOf(err error) queue.Code {
	if err == quorum.ErrNoQueue {
		return queue.CodeGone
	}
	return queue.CodeUnavailable
}

// answer ends the operation of the token, if it is still under way.
func (ch *channel) answer(token uint64, reply queue.Reply) {
	ch.mu.Lock()
	err, ok := ch.answerLocked(token, reply)
	ch.mu.Unlock()
	if ok {
		ch.finish(err)
	}
}

// answerLocked calls done of the operation of the token; ok is false if that is not under way any more. Called with ch.mu held; finish must follow.
func (ch *channel) answerLocked(token uint64, reply queue.Reply) (err error, ok bool) {
	if !ch.waiting || ch.op.done == nil || ch.op.serial != token&tokenNumber {
		return nil, false
	}
	op := ch.op
	ch.op.done = nil
	if ch.state == chanOpen {
		err = op.done(&op, reply)
	}
	return err, true
}

// async runs f, which may block, in a goroutine while the channel waits. An error of f closes the channel or the connection.
func (ch *channel) async(f func(ctx context.Context) error) {
	ch.begin(resource{}, nil)
	go ch.carryOn(f)
}

// carryOn runs f and ends the operation.
func (ch *channel) carryOn(f func(ctx context.Context) error) {
	defer ch.c.guard()
	ctx, cancel := context.WithTimeout(context.Background(), limits.QueueStartWaitMillis*time.Millisecond)
	defer cancel()
	ch.finish(f(ctx))
}

// finish ends the wait: what was set aside is caught up with, in a goroutine if there is any.
func (ch *channel) finish(err error) {
	ch.mu.Lock()
	method, then := ch.op.method, ch.op.then
	ch.op.then = nil
	ch.mu.Unlock()
	if err != nil {
		ch.failWith(err, method)
	} else if then != nil {
		go ch.carryOn(then)
		return
	}
	ch.mu.Lock()
	ch.waiting = false
	ch.c.operations.Add(-1)
	ch.op = operation{}
	if len(ch.backlog) > 0 && !ch.draining && ch.state == chanOpen {
		ch.draining = true
		go ch.catchUp()
	}
	ch.setGate()
	ch.mu.Unlock()
	ch.c.signal()
}

// catchUp executes what was set aside, until it is done or the channel waits again.
func (ch *channel) catchUp() {
	defer ch.c.guard()
	w := &work{only: ch}
	for {
		ch.mu.Lock()
		if ch.waiting || len(ch.backlog) == 0 || ch.state != chanOpen {
			break
		}
		f := ch.backlog[0]
		ch.backlog[0] = setAside{}
		ch.backlog = ch.backlog[1:]
		ch.setAside -= len(f.payload)
		ch.mu.Unlock()
		ch.c.signal()
		if err := ch.handle(amqp.Frame{Type: f.typ, Channel: ch.number, Payload: f.payload}, w); err != nil {
			ch.c.fail(asError(err))
		}
	}
	// The channel is still this goroutine's: draining is set, or it waits, or it is closing.
	ch.mu.Unlock()
	ch.leave(w)
}

// leave flushes a catching-up executor and gives the channel back to the reader, or goes on if more was set aside meanwhile.
func (ch *channel) leave(w *work) {
	ch.mu.Lock()
	own := !ch.waiting && ch.state == chanOpen
	ch.mu.Unlock()
	if own {
		w.flush()
	} else {
		ch.session.Flush()
	}
	ch.mu.Lock()
	again := len(ch.backlog) > 0 && !ch.waiting && ch.state == chanOpen
	if !again {
		ch.draining = false
	}
	ch.setGate()
	ch.mu.Unlock()
	if again {
		go ch.catchUp()
		return
	}
	ch.c.signal()
}

// failWith closes the channel or the connection, as the error says.
func (ch *channel) failWith(err error, method amqp.MethodID) {
	if e := errAt(err, method); e.Scope() == amqp.ScopeConnection {
		ch.c.fail(e)
	} else {
		ch.fail(e)
	}
}

// look is the watch's visit to a channel. One that is busy just now is looked at next time.
func (ch *channel) look(now uint32) {
	if !ch.mu.TryLock() {
		return
	}
	ch.expirePublishes(now)
	ch.lookAtShare(now)
	late := ch.waiting && ch.op.done != nil && int32(now-ch.op.due) >= 0
	var err error
	if late {
		if err = ch.op.late; err == nil {
			err = errTimeout(ch.op.what)
		}
		ch.op.done = nil
	}
	ch.mu.Unlock()
	if late {
		ch.finish(err)
	}
}
