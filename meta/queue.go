package meta

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/machine"
)

// argQueueType is the argument that chooses the queue type.
const argQueueType = "x-queue-type"

func (m *Machine) declareQueue(at machine.Stamp, in *Queue) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	q := settled(&h.VHost, in)
	if q.IsHidden() {
		if exchange, ok := h.mayHide(&q); !ok {
			return Reply{Reason: ReasonNoExchange, Field: "source", Detail: exchange}
		}
	}
	if old, ok := h.queues.Get(q.Name); ok {
		return judgeQueue(old, &q)
	}
	if m.v.queues.Len() >= QueuesMax {
		return limit("queues", QueuesMax)
	}
	if r := m.v.queuesMax(q.VHost); r.Reason != ReasonOK && !q.IsHidden() {
		return r
	}
	if !q.Durable && m.fenced(q.Home, q.HomeBoot) || q.Exclusive && m.fenced(q.Owner.Node, q.Owner.Boot) {
		return Reply{Reason: ReasonFenced}
	}
	q.ID = m.v.nextQueue
	m.v.nextQueue++
	q.CreatedMillis = at.NowMillis
	q.ConfigVersion, q.AbortedToken = 1, 0
	if q.Policies = h.policies.attachQueue(&q); !q.Policies.Definition.Empty() {
		q.ConfigVersion = 2
	}
	next := *h
	next.queues = h.queues.Set(q.Name, &q)
	m.setVHost(&next)
	m.v.queues = m.v.queues.Set(q.ID, &q)
	if q.Exclusive {
		m.v.owned = m.v.owned.Set(ownedKey(q.Owner, q.ID), q.ID)
	}
	if !q.Durable {
		m.v.homed = m.v.homed.Set(homedKey(q.Home, q.HomeBoot.Counter, q.ID), q.ID)
	}
	m.emit(Effect{Kind: QueueCreated, Queue: &q})
	return Reply{ID: uint64(q.ID)}
}

// settled returns the declaration as it is stored: the type decided, properties that exclude each other resolved. An exclusive queue is not durable; only a
// durable one has replicas, only another one a home.
func settled(h *VHost, in *Queue) Queue {
	q := *in
	q.Was = ""
	q.Durable = q.Durable && !q.Exclusive
	if !q.Exclusive {
		q.Owner = Owner{}
	}
	if q.Durable {
		q.Home, q.HomeBoot = 0, Boot{}
		q.Replicas = slices.Clone(in.Replicas)
		slices.Sort(q.Replicas)
		q.Replicas = slices.Compact(q.Replicas)
		q.Members, q.MembersIndex, q.NextReplica = firstMembers(q.Replicas), 0, uint64(len(q.Replicas))+1
	} else {
		q.Replicas, q.Members, q.MembersIndex, q.NextReplica = nil, nil, 0, 0
	}
	q.Type, q.Arguments = queueType(h, &q)
	return q
}

// queueType decides the type. As in RabbitMQ the virtual host's default is written into the arguments of a durable queue that names none, so that
// declaring it again with or without the default is the same; a default that the other properties do not allow is passed over. "" and "undefined" name none.
func queueType(h *VHost, q *Queue) (string, Arguments) {
	if v, ok := q.Arguments.Get(argQueueType); ok {
		name, isText := v.AsString()
		switch {
		case !isText:
			return TypeClassic, q.Arguments
		case name != "" && name != "undefined":
			return name, q.Arguments
		}
	}
	if name := h.DefaultQueueType; name != "" && name != TypeClassic && q.Durable && !q.AutoDelete {
		return name, q.Arguments.With(argQueueType, amqp.Longstr(name))
	}
	return TypeClassic, q.Arguments
}

func (m *Machine) deleteQueue(id QueueID, token uint64, drain bool) Reply {
	q := m.v.QueueByID(id)
	if q == nil {
		return Reply{Reason: ReasonNoQueue, ID: uint64(id)}
	}
	if token != 0 && token <= q.AbortedToken {
		return Reply{Reason: ReasonAborted, ID: uint64(id), Count: q.AbortedToken}
	}
	switch {
	case !drain:
		m.removeQueue(q)
	case !q.IsDraining():
		m.drainQueue(q)
	}
	return Reply{ID: uint64(id), Existed: true}
}

func (m *Machine) deleteAborted(id QueueID, token uint64) Reply {
	old := m.v.QueueByID(id)
	if old == nil || old.IsDraining() {
		return Reply{Reason: ReasonNoQueue, ID: uint64(id)}
	}
	if token > old.AbortedToken {
		q := *old
		q.AbortedToken = token
		m.replaceQueue(&q)
	}
	return Reply{ID: uint64(id), Existed: true}
}

// replaceQueue puts a changed queue in place of the one with its id.
func (m *Machine) replaceQueue(q *Queue) {
	h, _ := m.v.vhosts.Get(q.VHost)
	next := *h
	next.queues = h.queues.Set(q.Name, q)
	m.setVHost(&next)
	m.v.queues = m.v.queues.Set(q.ID, q)
	m.emit(Effect{Kind: QueueChanged, Queue: q})
}

func (m *Machine) allotReplica(id QueueID) Reply {
	old := m.v.QueueByID(id)
	if old == nil || !old.Durable {
		return Reply{Reason: ReasonNoQueue, ID: uint64(id)}
	}
	q := *old
	q.NextReplica++
	m.replaceQueue(&q)
	return Reply{ID: uint64(id), Count: old.NextReplica}
}

func (m *Machine) setMembers(id QueueID, members []Member, index uint64) Reply {
	old := m.v.QueueByID(id)
	if old == nil || !old.Durable {
		return Reply{Reason: ReasonNoQueue, ID: uint64(id)}
	}
	if index <= old.MembersIndex {
		return Reply{ID: uint64(id), Existed: true}
	}
	q := *old
	q.MembersIndex = index
	q.Members = slices.Clone(members)
	slices.SortFunc(q.Members, func(a, b Member) int { return cmp.Compare(a.Replica, b.Replica) })
	for _, x := range q.Members {
		q.NextReplica = max(q.NextReplica, x.Replica+1)
	}
	m.replaceQueue(&q)
	return Reply{ID: uint64(id)}
}

func (m *Machine) wantReplicas(id QueueID, wanted uint64) Reply {
	old := m.v.QueueByID(id)
	if old == nil || !old.Durable {
		return Reply{Reason: ReasonNoQueue, ID: uint64(id)}
	}
	if wanted = min(wanted, ReplicasMax); wanted == old.ReplicasWanted {
		return Reply{ID: uint64(id), Existed: true}
	}
	q := *old
	q.ReplicasWanted = wanted
	m.replaceQueue(&q)
	return Reply{ID: uint64(id)}
}

// firstMembers numbers the bootstrap set of a group.
func firstMembers(replicas []NodeID) []Member {
	members := make([]Member, len(replicas))
	for i, node := range replicas {
		members[i] = Member{Node: node, Replica: uint64(i) + 1}
	}
	return members
}

// removeQueue removes a queue that stands in a virtual host, its bindings, and auto-delete exchanges that lose their last one by it.
func (m *Machine) removeQueue(q *Queue) {
	h, ok := m.v.vhosts.Get(q.VHost)
	if !ok {
		return
	}
	next := *h
	next.queues = h.queues.Delete(q.Name)
	var sources []string
	for _, b := range withPrefix(h.byDestination, toPrefix(ToQueue, q.Name)) {
		m.cutBinding(&next, b)
		sources = append(sources, b.Source)
	}
	m.setVHost(&next)
	m.forgetQueue(q)
	for _, name := range m.unbound(&next, sources) {
		m.removeExchange(q.VHost, name)
	}
}

// forgetQueue takes a queue out of the indexes of the cluster.
func (m *Machine) forgetQueue(q *Queue) {
	m.v.queues = m.v.queues.Delete(q.ID)
	if q.Exclusive {
		m.v.owned = m.v.owned.Delete(ownedKey(q.Owner, q.ID))
	}
	if !q.Durable {
		m.v.homed = m.v.homed.Delete(homedKey(q.Home, q.HomeBoot.Counter, q.ID))
	}
	m.emit(Effect{Kind: QueueDeleted, Queue: q})
}
