package meta

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/codec"
)

// Arguments that an operator changes after a queue was declared. RabbitMQ freezes them with the declaration; here what a policy may set may be changed for one queue, too, and clients that declare
// it as before do not notice.

// mayChange tells whether the argument of a queue may be changed after its declaration: what a policy may set.
func (a *Arg) mayChange() bool { return a.PolicyKey != "" && a.Served && a.Scope&QueueScope != 0 }

// checkChanges judges changes of a queue's arguments.
func checkChanges(changes Arguments) Reply {
	for _, f := range changes.Table() {
		a := argNamed(f.Key)
		if a == nil || !a.mayChange() {
			return Reply{Reason: ReasonInvalidArg, Field: f.Key, Detail: "cannot_be_changed"}
		}
		if f.Value.Tag() == amqp.TagVoid {
			continue
		}
		if tail := a.problem(f.Value); tail != "" {
			return Reply{Reason: ReasonInvalidArg, Field: f.Key, Detail: tail}
		}
	}
	return Reply{}
}

// changeArguments carries out OpChangeArguments.
func (m *Machine) changeArguments(id QueueID, changes Arguments) Reply {
	old := m.v.QueueByID(id)
	if old == nil {
		return Reply{Reason: ReasonNoQueue, ID: uint64(id)}
	}
	if r := checkChanges(changes); r.Reason != ReasonOK {
		return r
	}
	if old.Changes == changes {
		return Reply{ID: uint64(id), Existed: true}
	}
	q := *old
	q.Changes = changes
	q.ConfigVersion++
	m.replaceQueue(&q)
	return Reply{ID: uint64(id)}
}

// appendChanges writes the changed arguments of a virtual host's queues. They stand beside the queues, whose encoding is also that of a declaration.
func appendChanges(dst []byte, h *vhost) []byte {
	n := uint64(0)
	for _, q := range h.queues.All() {
		if !q.Changes.Empty() {
			n++
		}
	}
	dst = codec.AppendUvarint(dst, n)
	for _, q := range h.queues.All() {
		if !q.Changes.Empty() {
			dst = codec.AppendString(codec.AppendString(dst, q.Name), q.Changes.raw)
		}
	}
	return dst
}

// changeBytesMin is the length of the shortest encoded changes of a queue.
const changeBytesMin = 2

func decodeChanges(r *codec.Reader, h *vhost) {
	for range r.Count(changeBytesMin) {
		name := r.String()
		changes := decodeArguments(r)
		q, ok := h.queues.Get(name)
		if !ok || changes.Empty() {
			r.Fail(codec.ErrMalformed)
			return
		}
		q.Changes = changes
	}
}
