package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum/link"
)

// Errors of changes of a queue's members.
var (
	// ErrNoLeader: the queue has no leader now; nothing was changed.
	ErrNoLeader = errors.New("quorum: the queue has no leader now")
	// ErrMember: the node has a replica of the queue already.
	ErrMember = errors.New("quorum: the node has a replica already")
	// ErrNoMember: the node has no replica of the queue.
	ErrNoMember = errors.New("quorum: the node has no replica")
	// ErrLastMember: the last replica of a queue cannot be removed; delete the queue.
	ErrLastMember = errors.New("quorum: the last replica cannot be removed")
	// ErrNoNode: the cluster has no such node, or it is not up.
	ErrNoNode = errors.New("quorum: the node is not known or not up")
	// ErrFewMembers: too few of the other members are up to go on without the one that is to be replaced.
	ErrFewMembers = errors.New("quorum: too few other replicas are up")
)

// memberErrors are told apart over links by their texts.
var memberErrors = []error{ErrNoLeader, ErrMember, ErrNoMember, ErrLastMember, ErrNoNode, ErrNoQueue, ErrFewMembers}

// AddReplica adds a replica of a durable queue on a node. It returns when the group has the member; the replica then takes the messages over by itself.
func (h *Host) AddReplica(ctx context.Context, id meta.QueueID, node meta.NodeID) error {
	return h.changeByHand(ctx, id, node, addMember)
}

// RemoveReplica removes the replica of a durable queue on a node.
func (h *Host) RemoveReplica(ctx context.Context, id meta.QueueID, node meta.NodeID) error {
	return h.changeByHand(ctx, id, node, removeMember)
}

// changeByHand changes the members for an operator: as many as there are then the queue is kept at, so that growth does not take the change back.
func (h *Host) changeByHand(ctx context.Context, id meta.QueueID, node meta.NodeID, what memberChange) error {
	q := h.Catalogue().View.QueueByID(id)
	if q == nil {
		return ErrNoQueue
	}
	want := func(n int) error {
		_, err := h.Do(ctx, meta.Command{Op: meta.OpWantReplicas, Queue: meta.Queue{ID: id, ReplicasWanted: uint64(n)}})
		return err
	}
	_, member := q.MemberOn(node)
	lowers := what == removeMember && member && len(q.Members) > 1
	if lowers { // before it is missed
		if err := want(len(q.Members) - 1); err != nil {
			return err
		}
	}
	err := h.changeMember(ctx, id, change{node: node, what: what})
	switch {
	case err != nil && lowers:
		return errors.Join(err, want(int(q.ReplicasWanted)))
	case err == nil && what == addMember:
		return want(len(q.Members) + 1)
	}
	return err
}

// MoveLeader makes the replica of a durable queue on a node its leader. It returns when the old leader knows. Right after another change of leaders nobody may be known to lead: it waits for that,
// a bounded time.
func (h *Host) MoveLeader(ctx context.Context, id meta.QueueID, node meta.NodeID) error {
	return h.changeMember(ctx, id, change{node: node, what: promoteMember})
}

// memberChange is what is wanted of a node's replica. The numbers travel between nodes.
type memberChange uint8

const (
	removeMember  memberChange = 0
	addMember     memberChange = 1
	promoteMember memberChange = 2
	// replaceMember removes the node's replica, which is damaged and whose number follows, and adds a new one. A version that does not know it removes the replica; the leader adds one by itself then.
	replaceMember memberChange = 3
)

// change is what is to become of a node's replica of a queue.
type change struct {
	node meta.NodeID
	what memberChange
	// replica is the one that is to be replaced.
	replica uint64
}

// changeMember brings a change to the leader's node; a leader that is new gets the time to take office.
func (h *Host) changeMember(ctx context.Context, id meta.QueueID, c change) error {
	for end := time.Now().Add(2 * limits.HandOverMillis * time.Millisecond); ; {
		err := h.tryMember(ctx, id, c)
		if !errors.Is(err, ErrNoLeader) || time.Now().After(end) {
			return err
		}
		if h.wait(limits.GapRetryMillis*time.Millisecond, ctx.Done()) != nil {
			return err
		}
	}
}

func (h *Host) tryMember(ctx context.Context, id meta.QueueID, c change) error {
	short, cancel := context.WithTimeout(ctx, limits.HandOverMillis*time.Millisecond)
	run, err := h.running(short, id)
	cancel()
	if err != nil {
		return err
	}
	leader := h.node
	switch run := run.(type) {
	case *group:
		leader = run.leaderNode()
	case *remote:
		leader = run.known()
	default:
		return ErrNoQueue // transient queues have no replicas
	}
	switch leader {
	case 0:
		return ErrNoLeader
	case h.node:
		return h.leadMember(ctx, id, c)
	}
	request := codec.AppendUvarint(codec.AppendUvarint(nil, uint64(id)), uint64(c.node))
	request = append(request, byte(c.what))
	if c.what == replaceMember {
		request = codec.AppendUvarint(request, c.replica)
	}
	_, err = h.call(ctx, leader, callMember, request)
	var told *link.RemoteError
	if errors.As(err, &told) {
		for _, e := range memberErrors {
			if told.Text == e.Error() {
				return e
			}
		}
	}
	return err
}

func (h *Host) serveMember(request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	id, c := meta.QueueID(r.Uvarint()), change{node: meta.NodeID(r.Uvarint()), what: memberChange(r.Uint8())}
	if c.what == replaceMember {
		c.replica = r.Uvarint()
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	ctx, cancel := context.WithTimeout(h.life, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	return nil, h.leadMember(ctx, id, c)
}

// leadMember changes the members of a queue that this node leads.
func (h *Host) leadMember(ctx context.Context, id meta.QueueID, c change) error {
	v, ok := h.slots.Load(id)
	if !ok {
		return ErrNoLeader
	}
	g, ok := v.(*slot).runner().(*group)
	if !ok || !g.leads() {
		return ErrNoLeader
	}
	ctx, cancel := context.WithTimeout(ctx, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	switch c.what {
	case promoteMember:
		return h.promote(ctx, g, c.node)
	case replaceMember:
		return h.replaceMember(ctx, g, c)
	}
	node, add := c.node, c.what == addMember
	m, err := h.nh.SyncGetShardMembership(ctx, uint64(id))
	if err != nil {
		return err
	}
	if !add && node == h.node && len(m.Nodes) > 1 {
		if err := h.handOver(ctx, g); err != nil {
			return err
		}
		return h.changeMember(ctx, id, c)
	}
	target, ok := h.target(node)
	if !ok || add && !h.up(node) {
		return ErrNoNode
	}
	has := uint64(0)
	for replica, t := range m.Nodes {
		if t == target {
			has = replica
		}
	}
	switch {
	case add && has != 0:
		return ErrMember
	case !add && has == 0:
		return ErrNoMember
	case !add && len(m.Nodes) == 1:
		return ErrLastMember
	}
	if add {
		if err := h.addMember(ctx, id, target, m); err != nil {
			return err
		}
	} else if err := h.nh.SyncRequestDeleteReplica(ctx, uint64(id), has, m.ConfigChangeID); err != nil {
		return err
	}
	return h.noteMembers(ctx, id)
}

// addMember adds a replica on a node, under a number that no replica of the queue had, to the members as they were in m.
func (h *Host) addMember(ctx context.Context, id meta.QueueID, target string, m *dragonboat.Membership) error {
	replies, err := h.Do(ctx, meta.Command{Op: meta.OpAllotReplica, Queue: meta.Queue{ID: id}})
	if err != nil {
		return err
	}
	if replies[0].Reason != meta.ReasonOK {
		return ErrNoQueue
	}
	return h.nh.SyncRequestAddReplica(ctx, uint64(id), replies[0].Count, target, m.ConfigChangeID)
}

// replaceMember gives a node a new replica in place of its damaged one. The old one is forgotten by a change of members, so a majority has all that was confirmed; and only while so many of the others are up
// that they are a majority without it, so that the queue goes on in between.
func (h *Host) replaceMember(ctx context.Context, g *group, c change) error {
	id := g.id
	if c.node == h.node {
		if err := h.handOver(ctx, g); err != nil {
			return err
		}
		return h.changeMember(ctx, id, c)
	}
	target, ok := h.target(c.node)
	if !ok || !h.up(c.node) {
		return ErrNoNode
	}
	m, err := h.nh.SyncGetShardMembership(ctx, uint64(id))
	if err != nil {
		return err
	}
	if m.Nodes[c.replica] == target {
		if up := len(g.running(g.upOthers(c.node))); up <= (len(m.Nodes)-1)/2 {
			return ErrFewMembers
		}
		if err := h.nh.SyncRequestDeleteReplica(ctx, uint64(id), c.replica, m.ConfigChangeID); err != nil {
			return err
		}
		if m, err = h.nh.SyncGetShardMembership(ctx, uint64(id)); err != nil {
			return errors.Join(err, h.noteMembers(ctx, id))
		}
	}
	for _, t := range m.Nodes {
		if t == target {
			return h.noteMembers(ctx, id) // it has a new one
		}
	}
	return errors.Join(h.addMember(ctx, id, target, m), h.noteMembers(ctx, id))
}

// upOthers returns the nodes of the members that are up, but for one.
func (g *group) upOthers(but meta.NodeID) []meta.NodeID {
	return slices.DeleteFunc(append(g.upMembers(), g.host.node), func(n meta.NodeID) bool { return n == but })
}

// handOver gives the leadership of a queue to another member and returns when this node leads no more: a leader that removed itself would leave the others without one until they miss it.
func (h *Host) handOver(ctx context.Context, g *group) error {
	for _, node := range g.memberNodes() {
		if node == h.node || !h.up(node) {
			continue
		}
		if err := h.transfer(ctx, g, node); err == nil || ctx.Err() != nil || !g.leads() {
			return err
		}
	}
	return ErrNoLeader
}

// promote makes another member the leader of a queue that this node leads.
func (h *Host) promote(ctx context.Context, g *group, node meta.NodeID) error {
	switch {
	case node == h.node:
		return nil
	case !h.up(node):
		return ErrNoNode
	}
	err := h.transfer(ctx, g, node)
	if leader := g.leaderNode(); err == nil && leader != node {
		return ErrNoLeader // another one was faster
	}
	return err
}

// transfer asks the group for another leader and returns when this node leads no more. ErrNoMember: the node has no replica; ErrNoLeader: the group did not do it in time.
func (h *Host) transfer(ctx context.Context, g *group, node meta.NodeID) error {
	q := h.Catalogue().View.QueueByID(g.id)
	if q == nil {
		return ErrNoQueue
	}
	m, ok := q.MemberOn(node)
	if !ok {
		return ErrNoMember
	}
	if err := h.nh.RequestLeaderTransfer(uint64(g.id), m.Replica); err != nil {
		return ErrNoLeader
	}
	for end := time.Now().Add(limits.HandOverMillis * time.Millisecond); time.Now().Before(end); {
		if leader := g.leaderNode(); leader != 0 && leader != h.node {
			return nil
		}
		if h.wait(limits.GapRetryMillis*time.Millisecond, ctx.Done()) != nil {
			break
		}
	}
	return ErrNoLeader
}

// noteMembers brings the catalogue's copy of a group's membership up to date, as this replica has applied it: no majority is asked, for a new member may be needed for one that starts by this note.
func (h *Host) noteMembers(ctx context.Context, id meta.QueueID) error {
	for _, shard := range h.shards() {
		if shard.ShardID == uint64(id) {
			return h.noteShard(ctx, shard)
		}
	}
	return ErrNoLeader
}

// noteAll does so for all queues that this node leads whose last change was not noted: who made it may have died.
func (h *Host) noteAll() {
	v := h.Catalogue().View
	for _, shard := range h.shards() {
		q := v.QueueByID(meta.QueueID(shard.ShardID))
		if q == nil || shard.ConfigChangeIndex <= q.MembersIndex || sameReplicas(q, shard.Replicas) {
			continue
		}
		s, ok := h.slots.Load(q.ID)
		if !ok {
			continue
		}
		if g, ok := s.(*slot).runner().(*group); ok && g.leads() {
			ctx, cancel := context.WithTimeout(h.life, limits.PublishTimeoutMillis*time.Millisecond)
			if err := h.noteShard(ctx, shard); err != nil {
				h.log.Debug("the members of a queue could not be noted yet", "queue", q.Name, "error", err)
			}
			cancel()
		}
	}
}

// shards returns what the library knows of the groups that run here, nothing once it is closed.
func (h *Host) shards() []dragonboat.ShardInfo {
	info := h.nh.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
	if info == nil {
		return nil
	}
	return info.ShardInfoList
}

func sameReplicas(q *meta.Queue, replicas map[uint64]dragonboat.Target) bool {
	for _, m := range q.Members {
		if _, ok := replicas[m.Replica]; !ok {
			return false
		}
	}
	return len(q.Members) == len(replicas)
}

func (h *Host) noteShard(ctx context.Context, shard dragonboat.ShardInfo) error {
	nodes := make(map[string]meta.NodeID)
	cluster := h.cfg.Dir.Identity().ClusterID
	for n := range h.Catalogue().View.Nodes() {
		nodes[nodeHostID(cluster, link.Node(n.Token))] = n.ID
	}
	var members []meta.Member
	for replica, target := range shard.Replicas {
		members = append(members, meta.Member{Node: nodes[target], Replica: replica})
	}
	_, err := h.Do(ctx, meta.Command{Op: meta.OpSetMembers, Queue: meta.Queue{ID: meta.QueueID(shard.ShardID), Members: members}, Token: shard.ConfigChangeIndex})
	return err
}

// ReplicaStatus is how one replica of a queue is.
type ReplicaStatus struct {
	Node meta.NodeID
	// Up tells whether the node answered; the rest is only known then.
	Up bool
	// State is leader, follower, parked, while it comes up starting, or with damaged files quarantined; Reason says what is damaged then.
	State, Reason        string
	Term                 uint64
	Applied, Checkpoint  uint64
	Messages, ReadyBytes uint64
}

// Replicas asks every member of a durable queue how its replica is.
func (h *Host) Replicas(ctx context.Context, id meta.QueueID) ([]ReplicaStatus, error) {
	q := h.Catalogue().View.QueueByID(id)
	if q == nil {
		return nil, ErrNoQueue
	}
	list := make([]ReplicaStatus, 0, len(q.Members))
	request := codec.AppendUvarint(nil, uint64(id))
	for _, m := range q.Members {
		st := ReplicaStatus{Node: m.Node}
		var answer []byte
		var err error
		if m.Node == h.node {
			answer, err = h.serveReplica(request)
		} else {
			short, cancel := context.WithTimeout(ctx, limits.StatusMillis*time.Millisecond)
			answer, err = h.call(short, m.Node, callReplica, request)
			cancel()
		}
		if err == nil {
			r := codec.NewReader(answer)
			st.State, st.Term, st.Applied, st.Checkpoint, st.Messages, st.ReadyBytes = r.String(), r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()
			if r.Len() > 0 { // older versions do not tell
				st.Reason = r.String()
			}
			st.Up = r.Err() == nil
		}
		list = append(list, st)
	}
	return list, nil
}

// serveReplica tells how this node's replica of a queue is.
func (h *Host) serveReplica(request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	s, err := h.slot(meta.QueueID(r.Uvarint()))
	if err != nil {
		return nil, err
	}
	st, state := QueueStatus{}, "follower"
	g, ok := s.runner().(*group)
	d := s.isDamaged()
	if ok {
		st = g.status()
	} else if d != nil {
		state = stateQuarantined
	} else if parked := s.parked(); parked != nil {
		parked.status(&st)
	} else {
		return codec.AppendString(nil, "parked"), errors.New("no replica runs here")
	}
	reason := ""
	switch {
	case d != nil:
		state, reason = stateQuarantined, d.reason
	case g == nil:
		state = "parked"
	case st.State == StateStarting:
		state = "starting"
	case g.leads():
		state = "leader"
	}
	dst := codec.AppendString(nil, state)
	for _, n := range []uint64{st.Term, st.Applied, st.Checkpoint, st.Counts.Ready + st.Counts.Unacked, st.Counts.ReadyBytes} {
		dst = codec.AppendUvarint(dst, n)
	}
	return codec.AppendString(dst, reason), nil
}

// stateQuarantined is a replica whose files are damaged: it serves nobody and is replaced by a new one, if the queue has other members.
const stateQuarantined = "quarantined"
