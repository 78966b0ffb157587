package broker

import (
	"sync"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// serialSession makes the calls of a channel's executor, writer and timer to its session follow each other: a command that one of them submits must not miss
// the flush of another, and none may come behind the session's close. No callback of the session takes its lock.
type serialSession struct {
	mu sync.Mutex
	s  Session
}

// Submit is Session.Submit.
func (l *serialSession) Submit(q meta.QueueID, cmd *queue.Command, token uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.Submit(q, cmd, token)
}

// Flush is Session.Flush.
func (l *serialSession) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Flush()
}

// Close is Session.Close.
func (l *serialSession) Close(lastWritten func(meta.QueueID) uint64, token uint64) []meta.QueueID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.Close(lastWritten, token)
}
