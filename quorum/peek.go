package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// ErrNotHere says that this node has no replica of the queue.
var ErrNotHere = errors.New("quorum: the queue has no replica on this node")

// Look says what of a queue to look at.
type Look struct {
	// Unacked asks for the messages that wait for an acknowledgement, else it is the ready ones.
	Unacked bool
	// Offset is how many messages to pass over, Count how many to look at; both are bounded by the caller.
	Offset, Count int
	// Behind, if it is not nil, asks for the ready messages behind a place instead of those behind an offset. Whoever goes on from where he was misses none that stays ready.
	Behind *Place
	// Delayed, if it is not nil, asks for the messages that are to be ready later, from that one on.
	Delayed *Due
}

// Due names a message that is to be ready later: when, and its seq.
type Due struct {
	UntilMillis int64
	Seq         queue.Seq
}

// Place is where a ready message stands: messages of a higher priority come before it, and those of its priority with a lower Seq. Priority 256 stands before all.
type Place struct {
	Priority int
	Seq      queue.Seq
}

// Seen is what a look saw beside the messages: Total messages of that kind, as of the log entry Applied.
type Seen struct {
	Total, Applied uint64
	// Next is the seq of the next message of the queue, Moving how many are on their way to other queues without having died.
	Next   queue.Seq
	Moving uint64
}

// Peek looks at messages in this node's replica of a queue, which is started if it sleeps; nothing changes by it. visit gets them in order, as of one moment, until it returns false; position counts
// from the head, the envelope must not be kept. A message whose body left the disk since that moment is passed over; a look behind a place shows it without an envelope. The errors are ErrNoQueue,
// ErrNotHere, ErrClosed, that of ctx and that of a body that cannot be read.
func (h *Host) Peek(ctx context.Context, id meta.QueueID, look Look, visit func(position int, m *queue.Peeked, envelope []byte) bool) (Seen, error) {
	run, err := h.running(ctx, id)
	if err != nil {
		return Seen{}, err
	}
	r := run.core()
	if r == nil {
		return Seen{}, ErrNotHere
	}
	seen, messages, envelopes := r.peek(look)
	for i := range messages {
		env := envelopes[i]
		if env == nil {
			if env, err = r.read(messages[i].Seq); err != nil {
				return seen, fmt.Errorf("quorum: message %d of the queue cannot be read: %w", messages[i].Seq, err)
			}
		}
		envelopes[i] = nil
		if (env != nil || look.Behind != nil) && !visit(look.Offset+i, &messages[i], env) {
			break
		}
	}
	return seen, nil
}

// PriorityCounts tells how many ready messages of each priority this node's replica of a queue has, from 0 to the highest that has any. It is empty if the queue sleeps, or has nothing here.
func (h *Host) PriorityCounts(id meta.QueueID) []uint64 {
	run := h.present(id)
	if run == nil {
		return nil
	}
	r := run.core()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		return nil
	}
	return r.m.PriorityCounts()
}

// peek takes messages at one moment, with those of their envelopes that are in memory.
func (r *replica) peek(look Look) (Seen, []queue.Peeked, [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		return Seen{}, nil, nil
	}
	counts := r.m.Counts()
	seen := Seen{Total: counts.Ready, Applied: r.applied, Next: counts.NextSeq, Moving: counts.Moving}
	var messages []queue.Peeked
	switch {
	case look.Delayed != nil:
		seen.Total, messages = counts.Delayed, r.m.PeekDelayed(look.Delayed.UntilMillis, look.Delayed.Seq, look.Count)
	case look.Behind != nil:
		messages = r.m.ScanReady(look.Behind.Priority, look.Behind.Seq, look.Count)
	case look.Unacked:
		seen.Total, messages = counts.Unacked, r.m.PeekUnacked(look.Offset, look.Count)
	default:
		messages = r.m.PeekReady(look.Offset, look.Count)
	}
	envelopes := make([][]byte, len(messages))
	for i := range messages {
		envelopes[i] = r.bodies.get(messages[i].Seq)
	}
	return seen, messages, envelopes
}
