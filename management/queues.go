package management

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// queueRow is a queue with its newest sample.
type queueRow struct {
	queue *meta.Queue
	*queueSample
	// now is how it is at this moment, if it alone is asked for.
	now *queueNow
}

// listQueues is GET /queues and /queues/detailed.
func listQueues(c *call) error { return c.listQueues(c.vhostNames()...) }

// listVHostQueues is GET /queues/VHOST.
func listVHostQueues(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return c.listQueues(c.params[0])
}

func (c *call) listQueues(vhosts ...string) error {
	snap := c.s.sampler.snapshot()
	n := 0
	for _, vhost := range vhosts {
		n += c.view.QueueCount(vhost)
	}
	rows := make([]queueRow, 0, n)
	for _, vhost := range vhosts {
		for q := range c.view.Queues(vhost) {
			sample := snap.queue(q.ID)
			if sample == nil { // younger than the last tick
				sample = c.s.freshSample(q)
			}
			rows = append(rows, queueRow{queue: q, queueSample: sample})
		}
	}
	write := c.writeQueue
	if c.flag("disable_stats") {
		write = c.writePlainQueue
	}
	return list(c, rows, func(r queueRow) string { return r.queue.Name }, write)
}

// freshSample is the sample of a queue that the sampler has not visited yet. No other node is asked.
func (s *Server) freshSample(q *meta.Queue) *queueSample {
	st := quorum.QueueStatus{State: quorum.StateParked, Members: membersOf(q)}
	if !q.Durable {
		st.State, st.Leader = quorum.StateRunning, q.Home
	}
	if s.hasOwn(q) {
		if now, ok := s.opt.Host.QueueStatus(q.ID); ok && !now.IsUnknown() {
			st = now
		}
	}
	if st.Online == nil {
		st.Online = st.Members
	}
	return &queueSample{queue: q, status: st}
}

// queueNow is how a queue is at this moment, with its ready messages by priority from 0 on.
type queueNow struct {
	quorum.QueueStatus
	priorities []uint64
}

func (n *queueNow) pack(p *pack) {
	packStatus(p, &n.QueueStatus)
	packRows(p, &n.priorities, (*pack).uint)
}

// exactStatus is exactQueue without the priorities.
func (s *Server) exactStatus(ctx context.Context, q *meta.Queue) (quorum.QueueStatus, bool) {
	now, ok := s.exactQueue(ctx, q)
	return now.QueueStatus, ok
}

// exactQueue is how a queue is at this moment, as the node that leads it says; if that does not answer, as it was last known. False if the queue was deleted meanwhile.
func (s *Server) exactQueue(ctx context.Context, q *meta.Queue) (queueNow, bool) {
	self := s.opt.Host.Node()
	sample := s.sampler.snapshot().queue(q.ID)
	if sample == nil {
		sample = s.freshSample(q)
	}
	st, hasOwn := queueNow{QueueStatus: sample.status}, s.hasOwn(q)
	if hasOwn {
		now, ok := s.ownQueue(q.ID)
		if !ok {
			return st, false
		}
		if !now.IsUnknown() {
			st = now
		}
	}
	asked := []meta.NodeID{st.Leader}
	switch {
	case st.Leader == self, st.Leader == 0 && hasOwn:
		return st, true
	case st.Leader == 0:
		asked = st.Members // any of them knows who leads
	}
	for _, node := range asked {
		told, ok := s.statusAt(ctx, node, q)
		if !ok {
			continue
		}
		if told.Leader != 0 && told.Leader != node {
			if better, ok := s.statusAt(ctx, told.Leader, q); ok {
				told = better
			}
		}
		if !told.IsUnknown() {
			st = told
		}
		break
	}
	return st, true
}

// ownQueue is how a queue is on this node.
func (s *Server) ownQueue(id meta.QueueID) (now queueNow, ok bool) {
	now.QueueStatus, ok = s.opt.Host.QueueStatus(id)
	now.priorities = s.opt.Host.PriorityCounts(id)
	return now, ok
}

// statusAt asks another node how a queue is there.
func (s *Server) statusAt(ctx context.Context, node meta.NodeID, q *meta.Queue) (now queueNow, ok bool) {
	if node == s.opt.Host.Node() {
		return s.ownQueue(q.ID)
	}
	body, err := s.peers.askOne(ctx, node, question{kind: askQueue, id: uint64(q.ID)})
	if err != nil {
		return now, false
	}
	in := unpack(body)
	now.pack(in)
	return now, in.in.Err() == nil
}

// getQueue is GET /queues/VHOST/NAME: the counts are those of this moment, the rates those of the last tick.
func getQueue(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	q := c.view.Queue(c.params[0], c.params[1])
	if q == nil {
		return objectNotFound()
	}
	now, ok := c.s.exactQueue(c.r.Context(), q)
	if !ok {
		return objectNotFound()
	}
	st := now.QueueStatus
	row := queueRow{q, &queueSample{queue: q, status: st}, &now}
	if sample := c.s.sampler.snapshot().queue(q.ID); sample != nil {
		row.rates, row.utilisation = sample.rates, sample.utilisation
		if sample.status.Counts == st.Counts {
			row.idleSince = sample.idleSince
		}
	}
	return c.object(http.StatusOK, func(w *writer) {
		if c.flag("disable_stats") {
			c.writePlainQueue(w, row)
			return
		}
		c.writeQueue(w, row)
		w.Strings("warnings", q.Warnings())
		c.writeConsumerDetails(w, question{vhost: q.VHost, queue: q.Name})
		w.EmptyArray("incoming")
		w.EmptyArray("deliveries")
	})
}

// putQueue is PUT /queues/VHOST/NAME. Exclusive queues cannot be made here, for they belong to a connection; the key is ignored, as in RabbitMQ.
func putQueue(c *call) error {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	host := c.s.opt.Host
	q := meta.Queue{VHost: vhost, Name: name, Home: host.Node(), HomeBoot: host.Boot()}
	if q.Durable, err = b.bool("durable", false); err != nil {
		return err
	}
	if q.AutoDelete, err = b.bool("auto_delete", false); err != nil {
		return err
	}
	arguments, err := b.table("arguments")
	if err != nil {
		return err
	}
	q.Arguments = meta.NewArguments(arguments)
	if q.Durable {
		q.Replicas = broker.ReplicasFor(host, q.Arguments)
	}
	if node, err := b.text("node", ""); err != nil {
		return err
	} else if node != "" && c.view.NodeNamed(node) == nil {
		return badRequestf("Node %s could not be contacted", node)
	}
	what := queueResource(vhost, name)
	if err := c.may(meta.Configure, what); err != nil {
		return err
	}
	if c.view.Queue(vhost, name) == nil {
		if meta.ReservedName(name) {
			return refusal(&meta.Reply{Reason: meta.ReasonReservedName}, what)
		}
		if err := c.mayDeadLetter(&q, what); err != nil {
			return err
		}
	}
	c.s.churn.declared.Add(1)
	reply, err := c.do(what, meta.Command{Op: meta.OpDeclareQueue, Queue: q})
	if err != nil {
		return err
	}
	if !reply.Existed {
		c.s.churn.created.Add(1)
	}
	return c.made(reply.Existed)
}

// queueAction is POST /queues/VHOST/NAME/actions. The actions that RabbitMQ had were about mirrors.
func queueAction(c *call) error {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	if c.view.Queue(vhost, name) == nil {
		return objectNotFound()
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("action"); err != nil {
		return err
	}
	switch action := plainJSON(b["action"]); action {
	case "sync", "cancel_sync":
		return c.empty(http.StatusNoContent)
	default:
		return badRequestWords("unknown", action)
	}
}

// mayDeadLetter checks what a dead-letter exchange asks for: to read the queue and to write to the exchange.
func (c *call) mayDeadLetter(q *meta.Queue, what resource) error {
	v, ok := q.Arguments.Get("x-dead-letter-exchange")
	if _, named := v.AsString(); !ok || !named {
		return nil
	}
	if err := c.may(meta.Read, what); err != nil {
		return err
	}
	name, _ := v.AsString()
	return c.may(meta.Write, exchangeResource(q.VHost, name))
}

// deleteQueue is DELETE /queues/VHOST/NAME with the conditions if-unused and if-empty.
func deleteQueue(c *call) error {
	vhost, name := c.params[0], c.params[1]
	if err := c.changeVHost(vhost); err != nil {
		return err
	}
	what := queueResource(vhost, name)
	q := c.view.Queue(vhost, name)
	if q == nil {
		return objectNotFound()
	}
	if err := c.may(meta.Configure, what); err != nil {
		return err
	}
	if q.Exclusive {
		return locked(what)
	}
	cond := queue.Condition(0)
	if c.flag("if-unused") {
		cond |= queue.IfUnused
	}
	if c.flag("if-empty") {
		cond |= queue.IfEmpty
	}
	result, err := c.s.opt.Host.DeleteQueue(c.r.Context(), q.ID, cond)
	if err != nil {
		return hostFailure(err, what)
	}
	if err := codeFailure(result.Code, what); err != nil {
		return err
	}
	c.s.churn.deleted.Add(1)
	return c.empty(http.StatusNoContent)
}

// writePlainQueue writes a queue without numbers, as disable_stats asks; with enable_queue_totals the three that most want.
func (c *call) writePlainQueue(w *writer, r queueRow) {
	c.writeIdentity(w, r)
	if c.flag("enable_queue_totals") {
		n := &r.status.Counts
		w.Uint("messages", n.Ready+n.Unacked)
		w.Uint("messages_ready", n.Ready)
		w.Uint("messages_unacknowledged", n.Unacked)
	}
}

// writeIdentity writes what a queue is and where.
func (c *call) writeIdentity(w *writer, r queueRow) {
	q, st := r.queue, &r.status
	w.Str("name", q.Name)
	w.Str("vhost", q.VHost)
	w.Str("type", q.Type)
	w.Bool("durable", q.Durable)
	w.Bool("auto_delete", q.AutoDelete)
	w.Bool("exclusive", q.Exclusive)
	w.Bool("internal", false)
	writeArguments(w, q.Arguments)
	w.Str("state", stateWord(st))
	for _, key := range [...]string{"node", "leader"} {
		if w.want(key) {
			w.Str(key, nodeNamed(c.view, leaderOf(st)))
		}
	}
	c.writeNodeNames(w, "members", st.Members)
	c.writeNodeNames(w, "online", st.Online)
}

// stateWord is a queue's state in RabbitMQ's words: down also while its leader is not up. A queue that sleeps or comes up serves whoever wants it, so it is running for them; how it really is
// stands under raft.
func stateWord(st *quorum.QueueStatus) string {
	switch {
	case st.State == quorum.StateMinority:
		return "minority"
	case st.State == quorum.StateDown, st.State == quorum.StateRunning && st.Leader != 0 && !slices.Contains(st.Online, st.Leader):
		return "down"
	}
	return "running"
}

// leaderOf is the node that leads, or while nobody does the first that may.
func leaderOf(st *quorum.QueueStatus) meta.NodeID {
	if st.Leader == 0 && len(st.Members) > 0 {
		return st.Members[0]
	}
	return st.Leader
}

func (c *call) writeNodeNames(w *writer, key string, ids []meta.NodeID) {
	if w.Array(key) {
		for _, id := range ids {
			w.Str("", nodeNamed(c.view, id))
		}
		w.EndArray()
	}
}

// writeQueue writes all that a list shows of a queue.
func (c *call) writeQueue(w *writer, r queueRow) {
	q, st := r.queue, &r.status
	c.writeIdentity(w, r)
	if !q.Changes.Empty() && w.want("changed_arguments") {
		w.Table("changed_arguments", q.Changes.Table())
	}
	writeName(w, "policy", q.Policies.Policy)
	writeName(w, "operator_policy", q.Policies.Operator)
	if w.want("effective_policy_definition") {
		w.Table("effective_policy_definition", q.Policies.Definition.Table())
	}
	w.Null("exclusive_consumer_tag")
	w.Null("single_active_consumer_tag")
	w.Null("single_active_consumer_ctag")
	w.EmptyObject("owner_pid_details")
	w.Uint("consumers", st.Counts.Consumers)
	w.Uint("active_consumers", st.Counts.Consumers)
	w.Float("consumer_utilisation", r.utilisation)
	w.Float("consumer_capacity", r.utilisation)
	c.writeMessages(w, q, r)
	if w.Object("message_stats") {
		n := queueCounters(st)
		writeQueueCounters(w, &n, c.queueTrend(&r, c.spans.messages))
		w.End()
	}
	w.Null("head_message_timestamp")
	writeIdleSince(w, r.idleSince)
	w.Uint("memory", uint64(max(st.BodyBytesInMemory, 0)))
	w.Null("recoverable_slaves")
	writePriorities(w, r)
	if w.Object("open_files") {
		for _, id := range st.Online {
			w.Uint(nodeNamed(c.view, id), 0)
		}
		w.End()
	}
	writeProcess(w)
	writeRaft(w, st)
	w.Int("created_at", q.CreatedMillis)
}

// writePriorities writes how many ready messages there are of each priority, where RabbitMQ has it for classic queues: of all that the queue was told to have, and of others if there are any.
func writePriorities(w *writer, r queueRow) {
	if !w.Object("backing_queue_status") {
		return
	}
	v, told := r.queue.Effective("x-max-priority")
	if r.now != nil && (told || r.queue.Type == meta.TypeQuorum) && w.Object("priority_lengths") {
		most, _ := v.AsInt64()
		counts := r.now.priorities
		for p := range max(len(counts), int(min(max(most, 0), math.MaxUint8))+1) {
			n := uint64(0)
			if p < len(counts) {
				n = counts[p]
			}
			if told || n > 0 {
				w.Uint(strconv.Itoa(p), n)
			}
		}
		w.End()
	}
	w.End()
}

// writeRaft writes how the queue's group is on the node that leads it; RabbitMQ has no such key.
func writeRaft(w *writer, st *quorum.QueueStatus) {
	if !w.Object("raft") {
		return
	}
	w.Str("state", string(st.State))
	w.Str("reason", st.Reason)
	w.Uint("term", st.Term)
	w.Uint("applied_index", st.Applied)
	w.Uint("checkpoint_index", st.Checkpoint)
	w.Uint("disk_bytes", uint64(max(st.DiskBytes, 0)))
	w.End()
}

// writeIdleSince writes since when nothing happened; null while something does.
func writeIdleSince(w *writer, at time.Time) {
	if at.IsZero() {
		w.Null("idle_since")
	} else if w.want("idle_since") {
		w.Str("idle_since", at.UTC().Format("2006-01-02T15:04:05.000-07:00"))
	}
}

// writeMessages writes how many messages there are and how large they are. Bodies are in memory as long as they are young, whatever the type of the queue.
func (c *call) writeMessages(w *writer, q *meta.Queue, r queueRow) {
	n := &r.status.Counts
	messages, inMemory := n.Ready+n.Unacked, uint64(max(r.status.BodyBytesInMemory, 0))
	writeLengths(w, messages, n.Ready, n.Unacked, c.queueTrend(&r, c.spans.lengths))
	w.Uint("messages_persistent", n.Persistent)
	ram, readyRAM, unackedRAM := uint64(0), uint64(0), uint64(0)
	if !q.Durable {
		ram, readyRAM, unackedRAM, inMemory = messages, n.Ready, n.Unacked, n.ReadyBytes+n.UnackedBytes
	}
	w.Uint("messages_ram", ram)
	w.Uint("messages_ready_ram", readyRAM)
	w.Uint("messages_unacknowledged_ram", unackedRAM)
	w.Uint("messages_paged_out", 0)
	w.Uint("messages_delayed", n.Delayed)
	w.Uint("messages_dlx", n.Dead)
	if n.Dead > 0 && r.status.PendingReason != "" {
		w.Str("dlx_pending_reason", r.status.PendingReason)
	}
	w.Uint("message_bytes", n.ReadyBytes+n.UnackedBytes)
	w.Uint("message_bytes_ready", n.ReadyBytes)
	w.Uint("message_bytes_unacknowledged", n.UnackedBytes)
	w.Uint("message_bytes_persistent", n.PersistentBytes)
	w.Uint("message_bytes_ram", inMemory)
	w.Uint("message_bytes_paged_out", 0)
	w.Uint("message_bytes_dlx", n.DeadBytes)
}

// writeLengths writes how many messages there are.
func writeLengths(w *writer, messages, ready, unacked uint64, t trend) {
	w.Counter("messages", messages, t, queueMessages)
	w.Counter("messages_ready", ready, t, queueReady)
	w.Counter("messages_unacknowledged", unacked, t, queueUnacked)
}

// writeQueueCounters writes what is counted of queues.
func writeQueueCounters(w *writer, v *counters, t trend) {
	for _, m := range [...]struct {
		key   string
		index int
	}{
		{"publish", queuePublished}, {"deliver", queueDelivered}, {"deliver_no_ack", queueDeliveredNoAck}, {"get", queueGot}, {"get_no_ack", queueGotNoAck},
		{"get_empty", queueGetEmpty}, {"ack", queueAcked}, {"redeliver", queueRedelivered}, {"duplicates", queueDuplicates}, {"rejected", queueRejected}, {"timed_out", queueTimedOut},
	} {
		w.Counter(m.key, v[m.index], t, m.index)
	}
	w.Counter("deliver_get", v[queueDelivered]+v[queueDeliveredNoAck]+v[queueGot]+v[queueGotNoAck], t, queueDelivered, queueDeliveredNoAck, queueGot, queueGotNoAck)
}
