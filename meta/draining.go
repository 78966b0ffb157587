package meta

import (
	"iter"
	"strconv"
)

// A queue that is deleted while messages leave it for other queues is draining (PROTOCOL 4): its name is free at once, nobody but its own mover works with it, and it goes when the last of them has left
// or an operator no longer waits. Until then it stands among the hidden queues of its virtual host, and goes with that.

// drainPrefix and the id are the name of a draining queue. Clients cannot make such a queue, for it is reserved.
const drainPrefix = "amq.draining:"

// IsDraining tells whether the queue was deleted and is there for the messages alone that still leave it.
func (q *Queue) IsDraining() bool { return q.Was != "" }

// KnownAs is the name by which clients know, or knew, the queue.
func (q *Queue) KnownAs() string {
	if q.IsDraining() {
		return q.Was
	}
	return q.Name
}

// Draining yields the draining queues of a virtual host.
func (v *View) Draining(vhostName string) iter.Seq[*Queue] {
	h, ok := v.vhosts.Get(vhostName)
	if !ok {
		return none[*Queue]
	}
	return valuesOf(withPrefix(h.queues, drainPrefix))
}

// drainQueue takes a queue away from its clients and keeps it for what leaves it.
func (m *Machine) drainQueue(old *Queue) {
	m.removeQueue(old)
	h, ok := m.v.vhosts.Get(old.VHost)
	if !ok {
		return
	}
	next := *h
	m.keepDraining(&next, old)
	m.setVHost(&next)
}

// keepDraining makes a queue that was removed a draining one, in a version of its virtual host that is being made.
func (m *Machine) keepDraining(next *vhost, old *Queue) {
	q := *old
	q.Was, q.Name = old.Name, drainPrefix+strconv.FormatUint(uint64(old.ID), 10)
	q.Exclusive, q.Owner, q.AutoDelete = false, Owner{}, false
	q.ConfigVersion++
	next.queues = next.queues.Set(q.Name, &q)
	m.v.queues = m.v.queues.Set(q.ID, &q)
	if !q.Durable {
		m.v.homed = m.v.homed.Set(homedKey(q.Home, q.HomeBoot.Counter, q.ID), q.ID)
	}
}
