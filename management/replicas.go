package management

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// memberTimeout bounds a change of a queue's members, with the wait for a leader.
const memberTimeout = 15 * time.Second

// replicated finds the queue of the path, which must have replicas.
func (c *call) replicated() (*meta.Queue, error) {
	vhost, name := c.params[0], c.params[1]
	if err := c.readVHost(vhost); err != nil {
		return nil, err
	}
	q := c.view.Queue(vhost, name)
	if q == nil {
		return nil, objectNotFound()
	}
	if !q.Durable {
		return nil, unavailable("not_quorum_queue: " + queueResource(vhost, name).String() + " is not durable, so it has no replicas")
	}
	return q, nil
}

// queueReplicas is GET /queues/quorum/VHOST/NAME/status: a row per replica, with RabbitMQ's keys.
func queueReplicas(c *call) error {
	q, err := c.replicated()
	if err != nil {
		return err
	}
	replicas, err := c.s.opt.Host.Replicas(c.r.Context(), q.ID)
	if err != nil {
		return hostFailure(err, queueResource(q.VHost, q.Name))
	}
	asleep := true // nothing wanted the queue yet, or since the nodes started
	for _, r := range replicas {
		asleep = asleep && !r.Up && c.s.opt.Host.NodeUp(r.Node)
	}
	w := c.answer(http.StatusOK)
	w.Array("")
	for _, r := range replicas {
		w.Object("")
		c.writeReplica(w, q, &r, asleep)
		w.End()
	}
	w.EndArray()
	w.finish()
	return nil
}

// writeReplica writes one replica. Of one that does not answer nothing is known, which RabbitMQ shows as empty texts. The host tells how far a replica has applied: its log has at least that.
func (c *call) writeReplica(w *writer, q *meta.Queue, r *quorum.ReplicaStatus, asleep bool) {
	w.Str("Node Name", nodeNamed(c.view, r.Node))
	w.Str("Raft State", c.raftState(r, asleep))
	if !r.Up {
		for _, key := range [...]string{"Membership", "Last Log Index", "Last Written", "Last Applied", "Commit Index", "Snapshot Index", "Term", "Machine Version"} {
			w.Str(key, "")
		}
		return
	}
	membership := "voter"
	if m, ok := q.MemberOn(r.Node); ok && m.NonVoting {
		membership = "non_voter"
	}
	w.Str("Membership", membership)
	w.Uint("Last Log Index", r.Applied)
	w.Uint("Last Written", r.Applied)
	w.Uint("Last Applied", r.Applied)
	w.Uint("Commit Index", r.Applied)
	w.Uint("Snapshot Index", r.Checkpoint)
	w.Uint("Term", r.Term)
	version := uint32(0)
	if n := c.view.Node(r.Node); n != nil {
		version = n.MachineVersion
	}
	w.Uint("Machine Version", uint64(version))
	if r.Reason != "" { // RabbitMQ has no such key
		w.Str("Reason", r.Reason)
	}
}

// raftState is RabbitMQ's word for how a replica is, but for parked and quarantined, which it does not know.
func (c *call) raftState(r *quorum.ReplicaStatus, asleep bool) string {
	switch {
	case r.Up && r.State == "starting":
		return "recover"
	case r.Up:
		return r.State
	case asleep:
		return "parked"
	case c.s.opt.Host.NodeUp(r.Node):
		return "noproc"
	}
	return "nodedown"
}

// addReplica is POST /queues/quorum/VHOST/NAME/replicas/add with {"node":NAME}. As in RabbitMQ it is done, too, if the node has a replica already, and what is refused is 503.
func addReplica(c *call) error {
	return c.changeReplica(http.StatusNoContent, c.s.opt.Host.AddReplica, c.s.opt.Host.NodeUp, quorum.ErrMember)
}

// deleteReplica is DELETE /queues/quorum/VHOST/NAME/replicas/delete with {"node":NAME}. As in RabbitMQ it is done, too, if the node has no replica.
func deleteReplica(c *call) error {
	anyNode := func(meta.NodeID) bool { return true } // also one that is down
	return c.changeReplica(http.StatusAccepted, c.s.opt.Host.RemoveReplica, anyNode, quorum.ErrNoMember)
}

// moveLeader is POST /queues/quorum/VHOST/NAME/leader with {"node":NAME}, which RabbitMQ has in rabbitmq-queues only.
func moveLeader(c *call) error {
	return c.changeReplica(http.StatusNoContent, c.s.opt.Host.MoveLeader, c.s.opt.Host.NodeUp, nil)
}

// changeReplica changes the members of a queue. may tells whether the node can be meant; done is the error that says that it is as wanted already.
func (c *call) changeReplica(status int, change func(context.Context, meta.QueueID, meta.NodeID) error, may func(meta.NodeID) bool, done error) error {
	q, err := c.replicated()
	if err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("node"); err != nil {
		return err
	}
	name, err := b.text("node", "")
	if err != nil {
		return err
	}
	node := c.view.NodeNamed(name)
	if node == nil || node.Replaced || !may(node.ID) {
		return memberFailure(quorum.ErrNoNode, q, name)
	}
	if sample := c.s.sampler.snapshot().queue(q.ID); sample != nil && len(sample.status.Online) <= len(sample.status.Members)/2 {
		return memberFailure(quorum.ErrNoLeader, q, name) // too few to agree on a leader: waiting would not help
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), memberTimeout)
	defer cancel()
	err = change(ctx, q.ID, node.ID)
	switch {
	case err == nil, done != nil && errors.Is(err, done):
		return c.empty(status)
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return memberFailure(err, q, name)
}

// bulkTimeout bounds a change of many queues.
const bulkTimeout = 4 * time.Minute

// growReplicas is POST /queues/quorum/replicas/on/NODE/grow: a replica on the node for every durable queue that matches vhost_pattern and queue_pattern and has none there; with the strategy
// even only for those with an even number of replicas.
func growReplicas(c *call) error {
	b, err := c.readBody()
	if err != nil {
		return err
	}
	strategy, err := b.text("strategy", "all")
	if err != nil || strategy != "all" && strategy != "even" {
		return badRequest("Unsupported strategy. Please use all or even.")
	}
	var patterns [2]*regexp.Regexp
	for i, key := range [...]string{"vhost_pattern", "queue_pattern"} {
		text, err := b.text(key, ".*")
		if err != nil {
			return err
		}
		if patterns[i], err = regexp.Compile(text); err != nil || len(text) > nameFilterBytesMax {
			return badRequestf("%s is not a regular expression", key)
		}
	}
	node := c.view.NodeNamed(c.params[0])
	if node == nil || node.Replaced || !c.s.opt.Host.NodeUp(node.ID) {
		return noSuchNode(c.params[0])
	}
	return c.changeReplicas(http.StatusNoContent, node.ID, c.s.opt.Host.AddReplica, func(q *meta.Queue) bool {
		_, member := q.MemberOn(node.ID)
		return !member && patterns[0].MatchString(q.VHost) && patterns[1].MatchString(q.Name) && (strategy == "all" || len(q.Members)%2 == 0)
	})
}

// shrinkReplicas is DELETE /queues/quorum/replicas/on/NODE/shrink: no replica on the node any more, but of queues that have no other.
func shrinkReplicas(c *call) error {
	node := c.view.NodeNamed(c.params[0])
	if node == nil || node.Replaced {
		return noSuchNode(c.params[0])
	}
	return c.changeReplicas(http.StatusAccepted, node.ID, c.s.opt.Host.RemoveReplica, func(q *meta.Queue) bool {
		_, member := q.MemberOn(node.ID)
		return member && len(q.Members) > 1
	})
}

// changeReplicas changes the members of the durable queues that are wanted, one after the other, and goes on when one cannot be changed.
func (c *call) changeReplicas(status int, node meta.NodeID, change func(context.Context, meta.QueueID, meta.NodeID) error, wanted func(*meta.Queue) bool) error {
	all, cancel := context.WithTimeout(c.r.Context(), bulkTimeout)
	defer cancel()
	changed, refused := 0, 0
	var first error
	for q := range c.view.QueuesByID() {
		if !q.Durable || !wanted(q) {
			continue
		}
		ctx, cancel := context.WithTimeout(all, memberTimeout)
		err := change(ctx, q.ID, node)
		cancel()
		switch {
		case err == nil, errors.Is(err, quorum.ErrNoQueue), errors.Is(err, quorum.ErrMember), errors.Is(err, quorum.ErrNoMember):
			changed++
			continue
		case first == nil:
			first = memberFailure(err, q, nodeNamed(c.view, node))
		}
		if refused++; all.Err() != nil {
			break
		}
	}
	if first != nil {
		var f *failure
		errors.As(first, &f)
		return unavailable(fmt.Sprintf("%d queues were changed, %d were not; the first of these: %s", changed, refused, f.reason))
	}
	return c.empty(status)
}
