package quorum

import (
	"hash/fnv"
	"slices"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// State is how a queue is on this node, in RabbitMQ's words where it has one.
type State string

const (
	// StateRunning: it serves.
	StateRunning State = "running"
	// StateStarting: a replica comes up.
	StateStarting State = "starting"
	// StateParked: nothing wanted it yet, or for long; the first touch starts it. Of one that nobody ever wanted nothing is known, and Applied is 0.
	StateParked State = "parked"
	// StateMinority: fewer than half of its replicas are up.
	StateMinority State = "minority"
	// StateDown: its machine stopped; Reason says why.
	StateDown State = "down"
)

// QueueStatus is what people look at of one queue.
type QueueStatus struct {
	State  State
	Reason string
	// Leader is 0 if there is none. Members are all that have a replica, Online those that are up.
	Leader          meta.NodeID
	Members, Online []meta.NodeID
	Term, Applied   uint64
	// Checkpoint is the log index of the last durable checkpoint.
	Checkpoint uint64
	Counts     queue.Counts
	// NextDelayedMillis is when the first of its delayed messages is due, 0 without any.
	NextDelayedMillis int64
	// PendingReason tells why dead letters wait, as far as the queue's leader knows and this node has heard from it; empty otherwise.
	PendingReason string
	// BodyBytesInMemory and DiskBytes are what its messages take on this node.
	BodyBytesInMemory, DiskBytes int64
}

// IsUnknown tells that the node which tells the status has no more of the queue than the catalogue: nothing ever wanted it there.
func (st *QueueStatus) IsUnknown() bool { return st.State == StateParked && st.Applied == 0 }

// NowMillis is the time that queues which this node leads go by, in milliseconds since the Unix epoch.
func (h *Host) NowMillis() int64 { return h.clock.nowMillis() }

// QueueStatus tells how a queue is now, exactly; false if the catalogue does not have it.
func (h *Host) QueueStatus(id meta.QueueID) (QueueStatus, bool) {
	q := h.Catalogue().View.QueueByID(id)
	if q == nil {
		return QueueStatus{}, false
	}
	if run := h.present(id); run != nil {
		return run.status(), true
	}
	st := QueueStatus{State: StateParked, Members: q.Replicas}
	if !q.Durable {
		st.State, st.Leader, st.Members = StateRunning, q.Home, []meta.NodeID{q.Home}
	}
	st.Online = st.Members
	if v, ok := h.slots.Load(id); ok {
		if r := v.(*slot).parked(); r != nil {
			st.Members = memberNodes(q)
			r.status(&st)
			h.judge(&st)
		}
	}
	return st, true
}

// status tells how the queue is, as seen from this replica.
func (g *group) status() QueueStatus {
	st := QueueStatus{Members: g.memberNodes(), Counts: g.counts(), NextDelayedMillis: g.nextDelayed(), State: StateStarting}
	g.lmu.Lock()
	st.Term, st.Leader = g.term, g.leader
	leads := g.ready
	g.lmu.Unlock()
	if leads {
		st.PendingReason = g.mover.reason()
	}
	if st.Leader != 0 {
		st.State = StateRunning
	}
	g.host.judge(&st)
	g.mu.Lock()
	if !g.opened && g.rested != nil {
		st.Counts = g.rested.counts
	}
	st.Applied, st.BodyBytesInMemory = g.applied, g.bodies.bytes
	if g.failure != nil {
		st.State, st.Reason = StateDown, g.failure.Reason
	}
	if g.damage != nil && len(st.Members) == 1 {
		st.State, st.Reason = StateDown, g.damage.reason
	}
	g.mu.Unlock()
	st.Checkpoint, st.DiskBytes = g.disk.sizes()
	return st
}

// judge finds out which members are up, and whether they are too few.
func (h *Host) judge(st *QueueStatus) {
	st.Online = st.Members
	if slices.ContainsFunc(st.Members, func(m meta.NodeID) bool { return !h.up(m) }) { // seldom: most often both are one list
		st.Online = slices.DeleteFunc(slices.Clone(st.Members), func(m meta.NodeID) bool { return !h.up(m) })
	}
	if len(st.Online) <= len(st.Members)/2 {
		st.State, st.Reason = StateMinority, "fewer than half of its replicas are up"
	}
}

// present returns what runs of a queue here; nil if it sleeps or nothing wanted it yet.
func (h *Host) present(id meta.QueueID) runner {
	if v, ok := h.slots.Load(id); ok {
		return v.(*slot).runner()
	}
	return nil
}

// StateHash sums up this node's replica of a queue, with the body of every message in it, as of the log entry applied. Equal replicas have equal sums. It reads all bodies: it is for those who compare replicas,
// on a queue that nobody uses meanwhile. The errors are ErrNotHere and that of a body that cannot be read.
func (h *Host) StateHash(id meta.QueueID) (applied, hash uint64, err error) {
	g, ok := h.present(id).(*group)
	if !ok || !g.serves() {
		return 0, 0, ErrNotHere
	}
	g.mu.Lock()
	c := g.cut()
	g.mu.Unlock()
	defer g.unpin(c)
	sum := fnv.New64a()
	if err := c.write(sum, &g.replica); err != nil {
		return 0, 0, err
	}
	return c.index, sum.Sum64(), nil
}
