package management

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage/wal"
)

// fakeCluster is a catalogue without Raft, and the nodes that share it.
type fakeCluster struct {
	mu    sync.Mutex
	m     *meta.Machine
	index uint64
	hosts map[meta.NodeID]*fakeHost
	// down are nodes that nobody hears, hung those that are heard and do not answer.
	down, hung map[meta.NodeID]bool
}

// fakeHost is one node of a fakeCluster; its queues are what a test says.
type fakeHost struct {
	*fakeCluster
	id meta.NodeID

	mu      sync.Mutex
	status  map[meta.QueueID]quorum.QueueStatus
	asked   int // calls of QueueStatus
	told    int // calls of AskNode
	slow    time.Duration
	failure error // of Do, DeleteQueue and changes of members
	answer  func([]byte) ([]byte, error)
	// priorities are the ready messages of queues by priority.
	priorities map[meta.QueueID][]uint64
	// held are the messages of queues that have a replica here.
	held map[meta.QueueID]*heldMessages
	// lacks are the alarms of the cluster.
	lacks []quorum.NodeAlarms
	// cutOff says that there is no lease.
	cutOff atomic.Bool
}

func (h *fakeHost) Leased() bool { return !h.cutOff.Load() }

func (h *fakeHost) Alarms() []quorum.NodeAlarms {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lacks
}

// heldMessages are the messages of a queue by their state.
type heldMessages struct {
	ready, unacked []heldMessage
	delayed        []heldMessage // in their order
	next           queue.Seq
	moving         uint64
}

type heldMessage struct {
	queue.Peeked
	envelope []byte
}

func (h *fakeHost) PriorityCounts(id meta.QueueID) []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.priorities[id]
}

func (h *fakeHost) Peek(_ context.Context, id meta.QueueID, look quorum.Look, visit func(int, *queue.Peeked, []byte) bool) (quorum.Seen, error) {
	h.mu.Lock()
	held := h.held[id]
	h.mu.Unlock()
	if held == nil {
		return quorum.Seen{}, quorum.ErrNotHere
	}
	list := held.ready
	if look.Unacked {
		list = held.unacked
	}
	if look.Delayed != nil {
		return h.sleepers(held, look, visit), nil
	}
	if look.Behind != nil {
		return h.scan(held, look, visit), nil
	}
	for i := look.Offset; i < min(len(list), look.Offset+look.Count); i++ {
		if !visit(i, &list[i].Peeked, list[i].envelope) {
			break
		}
	}
	return quorum.Seen{Total: uint64(len(list)), Applied: 77}, nil
}

// sleeps adds a delayed message to a queue that has a replica here, or to the relay of an exchange of that name.
func (h *fakeHost) sleeps(vhost, name string, m heldMessage) {
	q := h.Catalogue().View.Queue(vhost, name)
	if q == nil {
		q = h.Catalogue().View.Relay(vhost, name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = make(map[meta.QueueID]*heldMessages)
	}
	if h.held[q.ID] == nil {
		h.held[q.ID] = new(heldMessages)
	}
	h.held[q.ID].delayed = append(h.held[q.ID].delayed, m)
}

// sleepers is Peek at delayed messages, which are held in their order.
func (h *fakeHost) sleepers(held *heldMessages, look quorum.Look, visit func(int, *queue.Peeked, []byte) bool) quorum.Seen {
	h.mu.Lock()
	list := slices.Clone(held.delayed)
	h.mu.Unlock()
	n := 0
	for i := range list {
		m := &list[i]
		if m.UntilMillis < look.Delayed.UntilMillis || m.UntilMillis == look.Delayed.UntilMillis && m.Seq < look.Delayed.Seq {
			continue
		}
		if n++; n > look.Count || !visit(i, &m.Peeked, m.envelope) {
			break
		}
	}
	return quorum.Seen{Total: uint64(len(list)), Applied: 77}
}

// pick takes delayed messages out, wherever the queue is held.
func (c *fakeCluster) pick(q *meta.Queue, p broker.Pick) (n uint64) {
	for _, h := range c.hosts {
		h.mu.Lock()
		if held := h.held[q.ID]; held != nil {
			held.delayed = slices.DeleteFunc(held.delayed, func(m heldMessage) bool {
				picked := p.All || slices.Contains(p.IDs, broker.DelayedID{UntilMillis: m.UntilMillis, Seq: m.Seq})
				if picked {
					n++
				}
				return picked
			})
		}
		h.mu.Unlock()
	}
	return n
}

// scan is Peek behind a place.
func (h *fakeHost) scan(held *heldMessages, look quorum.Look, visit func(int, *queue.Peeked, []byte) bool) quorum.Seen {
	h.mu.Lock()
	list := slices.Clone(held.ready)
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b heldMessage) int { return cmp.Or(int(b.Priority)-int(a.Priority), cmp.Compare(a.Seq, b.Seq)) })
	seen, n := quorum.Seen{Total: uint64(len(list)), Next: held.next, Moving: held.moving}, 0
	for i := range list {
		m := &list[i]
		if int(m.Priority) > look.Behind.Priority || int(m.Priority) == look.Behind.Priority && m.Seq <= look.Behind.Seq {
			continue
		}
		if n++; n > look.Count || !visit(i, &m.Peeked, m.envelope) {
			break
		}
	}
	return seen
}

func newFakeHost(cmds ...meta.Command) *fakeHost {
	c := &fakeCluster{m: meta.New(), hosts: make(map[meta.NodeID]*fakeHost), down: make(map[meta.NodeID]bool), hung: make(map[meta.NodeID]bool)}
	c.apply(meta.Command{Op: meta.OpFound, Text: "0123", Name: "test"})
	h := c.join("rabbit@test")
	h.apply(cmds...)
	return h
}

// join adds a node.
func (c *fakeCluster) join(name string) *fakeHost {
	id := meta.NodeID(len(c.hosts) + 1)
	h := &fakeHost{fakeCluster: c, id: id, status: make(map[meta.QueueID]quorum.QueueStatus), priorities: make(map[meta.QueueID][]uint64)}
	c.apply(meta.Command{Op: meta.OpRegisterNode, Node: meta.Node{Name: name, Address: fmt.Sprint("test:", id), Token: uint64(id), MachineVersion: 1}},
		meta.Command{Op: meta.OpRegisterBoot, Node: meta.Node{ID: id, Boot: h.Boot()}})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[id] = h
	return h
}

func (c *fakeCluster) apply(cmds ...meta.Command) []meta.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	var replies []meta.Reply
	for i := range cmds {
		c.index++
		r, _ := c.m.Apply(machine.Stamp{Index: c.index, NowMillis: 1}, &cmds[i], nil)
		replies = append(replies, r)
	}
	return replies
}

func (c *fakeCluster) Catalogue() *quorum.Catalogue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &quorum.Catalogue{View: c.m.View()}
}

// NodeUp tells what a test said.
func (c *fakeCluster) NodeUp(node meta.NodeID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[node] != nil && !c.down[node]
}

// mark says that a node is down or hung, or that it is not any more.
func (c *fakeCluster) mark(what map[meta.NodeID]bool, node meta.NodeID, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what[node] = yes
}

func (h *fakeHost) AskNode(ctx context.Context, node meta.NodeID, question []byte) ([]byte, error) {
	h.mu.Lock()
	h.told++
	h.mu.Unlock()
	h.fakeCluster.mu.Lock()
	other, down, hung := h.hosts[node], h.down[node], h.hung[node]
	h.fakeCluster.mu.Unlock()
	if other == nil || down {
		return nil, errors.New("the node is not connected")
	}
	if hung {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	other.mu.Lock()
	answer := other.answer
	other.mu.Unlock()
	return answer(question)
}

func (h *fakeHost) OnAsk(answer func([]byte) ([]byte, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

func (h *fakeHost) Do(_ context.Context, cmds ...meta.Command) ([]meta.Reply, error) {
	if h.failure != nil {
		return nil, h.failure
	}
	return h.apply(cmds...), nil
}

func (h *fakeHost) DeleteQueue(_ context.Context, id meta.QueueID, cond queue.Condition) (quorum.DeleteResult, error) {
	st, _ := h.QueueStatus(id)
	switch {
	case h.failure != nil:
		return quorum.DeleteResult{}, h.failure
	case cond&queue.IfUnused != 0 && st.Counts.Consumers > 0:
		return quorum.DeleteResult{Code: queue.CodeInUse}, nil
	case cond&queue.IfEmpty != 0 && st.Counts.Ready > 0:
		return quorum.DeleteResult{Code: queue.CodeNotEmpty}, nil
	case h.apply(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: id}})[0].Reason != meta.ReasonOK:
		return quorum.DeleteResult{}, quorum.ErrNoQueue
	}
	return quorum.DeleteResult{}, nil
}

func (h *fakeHost) QueueStatus(id meta.QueueID) (quorum.QueueStatus, bool) {
	h.mu.Lock()
	slow := h.slow
	h.mu.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	q := h.Catalogue().View.QueueByID(id)
	if q == nil {
		return quorum.QueueStatus{}, false
	}
	st, ok := h.status[id]
	if !ok {
		st = quorum.QueueStatus{State: quorum.StateParked}
	}
	st.Members = membersOf(q)
	for _, id := range st.Members {
		if h.NodeUp(id) {
			st.Online = append(st.Online, id)
		}
	}
	return st, true
}

// AddReplica and RemoveReplica refuse what the real ones refuse.
func (h *fakeHost) AddReplica(_ context.Context, id meta.QueueID, node meta.NodeID) error {
	q := h.Catalogue().View.QueueByID(id)
	switch _, member := q.MemberOn(node); {
	case h.failure != nil:
		return h.failure
	case !h.NodeUp(node):
		return quorum.ErrNoNode
	case member:
		return quorum.ErrMember
	}
	replica := h.apply(meta.Command{Op: meta.OpAllotReplica, Queue: meta.Queue{ID: id}})[0].Count
	return h.setMembers(q, append(slices.Clone(q.Members), meta.Member{Node: node, Replica: replica}))
}

func (h *fakeHost) RemoveReplica(_ context.Context, id meta.QueueID, node meta.NodeID) error {
	q := h.Catalogue().View.QueueByID(id)
	switch _, member := q.MemberOn(node); {
	case h.failure != nil:
		return h.failure
	case !member:
		return quorum.ErrNoMember
	case len(q.Members) == 1:
		return quorum.ErrLastMember
	}
	return h.setMembers(q, slices.DeleteFunc(slices.Clone(q.Members), func(m meta.Member) bool { return m.Node == node }))
}

func (h *fakeHost) MoveLeader(_ context.Context, id meta.QueueID, node meta.NodeID) error {
	q := h.Catalogue().View.QueueByID(id)
	switch _, member := q.MemberOn(node); {
	case h.failure != nil:
		return h.failure
	case !member:
		return quorum.ErrNoMember
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.status[id]
	st.State, st.Leader = quorum.StateRunning, node
	h.status[id] = st
	return nil
}

func (h *fakeHost) setMembers(q *meta.Queue, members []meta.Member) error {
	if r := h.apply(meta.Command{Op: meta.OpSetMembers, Queue: meta.Queue{ID: q.ID, Members: members}, Token: q.MembersIndex + 1})[0]; r.Reason != meta.ReasonOK {
		return fmt.Errorf("%v", r.Reason)
	}
	return nil
}

func (h *fakeHost) Replicas(_ context.Context, id meta.QueueID) ([]quorum.ReplicaStatus, error) {
	var list []quorum.ReplicaStatus
	for _, node := range membersOf(h.Catalogue().View.QueueByID(id)) {
		r := quorum.ReplicaStatus{Node: node}
		if h.NodeUp(node) {
			h.fakeCluster.mu.Lock()
			other := h.hosts[node]
			h.fakeCluster.mu.Unlock()
			other.mu.Lock()
			st, ok := other.status[id]
			other.mu.Unlock()
			r.Up, r.State, r.Term, r.Applied, r.Checkpoint = ok, "follower", st.Term, st.Applied, st.Checkpoint
			if st.Leader == node {
				r.State = "leader"
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// delay makes QueueStatus slow; only in synctest.
func (h *fakeHost) delay(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = d
}

func (h *fakeHost) askedSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

func (h *fakeHost) toldSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// fakeNowMillis is when it is, by the clock of queues.
const fakeNowMillis = 1_700_000_000_000

func (h *fakeHost) NowMillis() int64 { return fakeNowMillis }
func (h *fakeHost) Unrouted() uint64 { return 6 }

func (h *fakeHost) LettersLost() uint64 { return 8 }

func (h *fakeHost) LogStats() wal.Stats {
	return wal.Stats{Syncs: 4, Commits: 7, Bytes: 4000, CopiedBytes: 30, LongestSync: 1500 * time.Microsecond, Files: 2, FilesBytes: 2000}
}
func (h *fakeHost) DamagedReplicas() int { return 2 }
func (h *fakeHost) DamageFound() uint64  { return 3 }
func (h *fakeHost) Node() meta.NodeID    { return h.id }
func (h *fakeHost) Boot() meta.Boot      { return meta.Boot{Counter: 1, Nonce: uint64(h.id)} }

// delayedExchange makes an exchange of that type with its relay on this node.
func (h *fakeHost) delayedExchange(vhost, name string) {
	x := meta.Exchange{VHost: vhost, Name: name, Type: meta.TypeDelayed, Durable: true, Arguments: meta.NewArguments(amqp.Table{{Key: meta.ArgDelayedType, Value: amqp.Longstr("fanout")}})}
	for _, r := range h.apply(meta.Command{Op: meta.OpDeclareExchange, Exchange: x}, meta.RelayCommand(&x, []meta.NodeID{h.id})) {
		if r.Reason != meta.ReasonOK {
			panic(fmt.Sprintf("a delayed exchange is refused: %+v", r))
		}
	}
}

// set changes the numbers of a queue, or of the relay of an exchange of that name, which runs and is led here from then on, unless change says otherwise.
func (h *fakeHost) set(vhost, name string, change func(*quorum.QueueStatus)) {
	q := h.Catalogue().View.Queue(vhost, name)
	if q == nil {
		q = h.Catalogue().View.Relay(vhost, name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.status[q.ID]
	st.State, st.Leader = quorum.StateRunning, h.id
	change(&st)
	h.status[q.ID] = st
}
