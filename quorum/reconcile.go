package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum/link"
	"github.com/warrenmq/warren/quorum/transport"
)

// target returns what the library knows a node by.
func (h *Host) target(node meta.NodeID) (string, bool) {
	token, ok := h.peers.token(node)
	if !ok {
		if n := h.Catalogue().View.Node(node); n != nil {
			token, ok = link.Node(n.Token), true
		}
	}
	return nodeHostID(h.cfg.Dir.Identity().ClusterID, token), ok
}

// Place chooses the nodes of a new durable queue: want of them (RabbitMQ's x-quorum-initial-group-size; 0 = limits.ReplicasDefault), no more than there are, rounded down to an odd number. This
// node is one of them, so that a client's queue is near it.
func (h *Host) Place(want int) []meta.NodeID {
	if want <= 0 {
		want = limits.ReplicasDefault
	}
	v := h.Catalogue().View
	all := []meta.NodeID{h.node}
	for n := range v.Nodes() {
		if n.ID != h.node && n.Alive() && !n.Replaced && h.up(n.ID) {
			all = append(all, n.ID)
		}
	}
	size := oddDown(min(want, len(all)))
	rest := all[1:]
	turn := int(v.NextQueueID()) % max(len(rest), 1)
	rest = append(slices.Clone(rest[min(turn, len(rest)):]), rest[:min(turn, len(rest))]...)
	picked := append([]meta.NodeID{h.node}, rest[:size-1]...)
	slices.Sort(picked)
	return picked
}

// oddDown rounds down to an odd number, at least 1.
func oddDown(n int) int { return max(1, n-(n+1)%2) }

// memberStarted is told by another member that its replica of a queue runs.
func (h *Host) memberStarted(node meta.NodeID, id meta.QueueID, want, led bool) {
	s, err := h.slot(id)
	if err != nil {
		return
	}
	if want {
		h.touch(id)
	}
	g, ok := s.runner().(*group)
	if !ok {
		return
	}
	g.lmu.Lock()
	g.peers[node] = true
	if led {
		g.ledAt = time.Now()
	}
	running := g.user != nil
	g.lmu.Unlock()
	if want && running {
		h.send(node, messageStarted, startedMessage(id, false, g.leaderNode() != 0))
	}
}

// reshape follows a change of a queue in the catalogue: its configuration, its members.
func (h *Host) reshape(q *meta.Queue) {
	v, ok := h.slots.Load(q.ID)
	if !ok {
		if _, member := q.MemberOn(h.node); member && q.MembersIndex != 0 {
			h.touch(q.ID) // a replica was added here
		}
		return
	}
	s := v.(*slot)
	s.mu.Lock()
	s.q = q
	s.mu.Unlock()
	s.pipe.all.follow(q)
	h.replaced(s, q)
	s.mu.Lock()
	run, d := s.run, s.damage
	s.mu.Unlock()
	m, member := q.MemberOn(h.node)
	switch run := run.(type) {
	case *remote:
		if member && d == nil {
			h.starter.add(h, s, true)
		}
	case *group:
		switch {
		case !member:
			h.dismiss(s, run)
		case m.Replica != run.replicaID: // both changes were heard of at once
			h.dismiss(s, run)
			h.starter.add(h, s, true)
		case run.leads():
			h.configurer.add(run)
		}
	case nil:
		if !member {
			h.sweepParked(s)
		}
	case *local:
		run.put(mail{entry: queue.AppendCommandEntry(nil, h.clock.nowMillis(), &queue.Command{Op: queue.OpConfigure, Config: queueConfig(q)})})
	}
}

// dismiss ends a replica that is no member any more. What the node's sessions have at the queue goes on through the leader's node.
func (h *Host) dismiss(s *slot, g *group) {
	s.mu.Lock()
	if s.gone || s.run != runner(g) {
		s.mu.Unlock()
		return
	}
	r := newRemote(h, s.q)
	done := make(chan struct{})
	s.run, s.ended = r, done
	s.mu.Unlock()
	g.close()
	r.find()
	h.dropReplica(g.id, g.replicaID, g.closed, done)
}

// sweepParked removes the data of a parked replica that is no member any more. A later one here waits for that.
func (h *Host) sweepParked(s *slot) {
	s.mu.Lock()
	ended, id := s.ended, s.q.ID
	if s.run != nil || s.rested == nil {
		s.mu.Unlock()
		return
	}
	done := make(chan struct{})
	s.rested, s.wakeAt, s.ended = nil, 0, done
	s.mu.Unlock()
	h.workers.Add(1)
	go func() {
		defer h.workers.Done()
		if h.wakeAgain(id, ended) {
			h.sweepUnknown(id)
			close(done)
		}
	}()
}

// nodeChanged follows the catalogue's word about a node: its address, its incarnation, its death.
func (h *Host) nodeChanged(n *meta.Node) {
	if err := h.peers.follow(h.Catalogue().View); err != nil {
		h.log.Error("the list of nodes cannot be written", "error", err)
	}
	if h.mux != nil && n.ID != h.node {
		if n.Replaced {
			h.mux.Unwatch(link.Node(n.Token))
		} else {
			h.mux.Watch(link.Node(n.Token))
		}
	}
	if n.ID == h.node && n.Fences(h.Boot()) && h.Boot().Counter <= n.DeadBoot.Counter {
		h.reborn(n)
	}
	h.slots.Range(func(_, v any) bool {
		switch run := v.(*slot).runner().(type) {
		case *group:
			if run.leads() {
				go run.mourn()
			}
		case *local:
			h.announceDeaths(run)
		}
		return true
	})
}

// announceDeaths tells a transient queue of incarnations that died.
func (h *Host) announceDeaths(l *local) {
	l.mu.Lock()
	ids := l.m.Pipelines(nil)
	l.mu.Unlock()
	for _, id := range ids {
		if dead, ok := h.deadBoot(id); ok {
			go func() { _, _ = l.command(&queue.Command{Op: queue.OpNodeGone, Node: id.Node, Boot: dead}) }()
		}
	}
}

// reborn gives the node a new incarnation after the cluster declared the present one dead (PROTOCOL 3): it is registered, every pipeline begins anew under it, and then the clients go, so that
// one that comes back at once finds a node that serves. Transient queues of the dead incarnation go by the catalogue's word.
func (h *Host) reborn(n *meta.Node) {
	h.log.Warn("the cluster declared this node dead while it lived: its clients are closed and it starts anew", "boot", n.DeadBoot.Counter)
	boot, err := h.cfg.Dir.NextBoot()
	for err == nil && boot.Counter <= n.Boot.Counter {
		boot, err = h.cfg.Dir.NextBoot()
	}
	if err != nil {
		h.report(err)
		return
	}
	h.slots.Range(func(_, v any) bool {
		v.(*slot).pipe.mute()
		return true
	})
	h.bmu.Lock()
	h.boot = meta.Boot{Counter: boot.Counter, Nonce: boot.Nonce}
	h.bmu.Unlock()
	if h.net != nil {
		h.net.SetBoot(transport.Boot{Counter: boot.Counter, Nonce: boot.Nonce})
	}
	registered := make(chan struct{})
	go h.registerReborn(registered)
	t := time.NewTimer(limits.RebornMillis * time.Millisecond)
	defer t.Stop()
	select {
	case <-registered:
	case <-t.C: // the clients must not wait longer
	case <-h.closed:
		return
	}
	h.slots.Range(func(id, v any) bool {
		h.renewSlot(id, v.(*slot))
		return true
	})
	if h.cfg.OnFenced != nil {
		h.cfg.OnFenced()
	}
}

// renewSlot gives a queue a pipeline of the present incarnation in one step, and ends the old one.
func (h *Host) renewSlot(id any, old *slot) {
	old.mu.Lock()
	run, gone, q := old.run, old.gone, old.q
	next := &slot{host: h, q: q, pipe: newPipeline(h, q.ID), rested: old.rested, wakeAt: old.wakeAt, ended: old.ended, damage: old.damage}
	old.mu.Unlock()
	next.pipe.all.follow(q)
	g, replica := run.(*group)
	if replica {
		next.run, next.touched = g, true
	}
	if gone || !h.slots.CompareAndSwap(id, old, next) {
		return
	}
	old.pipe.fail()
	switch {
	case replica && g.leads():
		go h.serve(q.ID, g)
	case replica && g.leaderNode() != 0:
		go g.follow()
	case !replica && run != nil:
		run.close()
	}
}

// registerReborn registers the present incarnation, however long it takes.
func (h *Host) registerReborn(done chan<- struct{}) {
	for {
		ctx, cancel := context.WithTimeout(h.life, limits.PublishTimeoutMillis*time.Millisecond)
		err := h.registerBoot(ctx)
		cancel()
		if err == nil {
			h.cat.wake()
			close(done)
			return
		}
		if errors.Is(err, ErrReplaced) {
			h.report(err)
			return
		}
		h.log.Warn("the new incarnation could not be registered yet", "error", err)
		if h.wait(limits.LeaseRenewMillis*time.Millisecond, nil) != nil {
			return
		}
	}
}

// govern is the catalogue leader's care for the cluster, every limits.LeaseRenewMillis: nodes that joined get their replica of the catalogue, nodes that a majority lost are declared dead.
func (c *catalogue) govern() {
	h := c.host
	v := c.state.Load().View
	var all []meta.NodeID
	for n := range v.Nodes() {
		if n.Alive() && !n.Replaced {
			all = append(all, n.ID)
		}
	}
	now := h.clock.leaseMillis()
	for n := range v.Nodes() {
		if n.ID == h.node || n.Replaced {
			continue
		}
		if n.Alive() && now-c.leases.silentSince(n.ID) > limits.DeadMillis && h.elections.silentTo(n.ID, all) {
			h.log.Warn("a node is declared dead", "node", n.Name)
			dead := meta.Command{Op: meta.OpNodeDead, Node: meta.Node{ID: n.ID, Boot: n.Boot}}
			go func() { _, _ = c.do(c.host.life, []meta.Command{dead}) }() // seen again if it fails
		}
	}
	c.admit(v)
}

// admit adds the replica of a node that joined to the catalogue's group, and removes those of replaced ones, one at a time.
func (c *catalogue) admit(v *meta.View) {
	h := c.host
	ctx, cancel := context.WithTimeout(h.life, limits.StatusMillis*time.Millisecond)
	defer cancel()
	var members *dragonboat.Membership
	for n := range v.Nodes() {
		if !n.Replaced && !h.up(n.ID) {
			continue
		}
		if members == nil {
			var err error
			if members, err = h.nh.SyncGetShardMembership(ctx, catalogueShard); err != nil {
				return
			}
		}
		if n.Replaced {
			if _, ok := members.Nodes[uint64(n.ID)]; !ok {
				continue
			}
			if err := h.nh.SyncRequestDeleteReplica(ctx, catalogueShard, uint64(n.ID), members.ConfigChangeID); err != nil {
				h.log.Debug("a replaced node could not be taken out of the catalogue's group yet", "node", n.Name, "error", err)
			}
			return
		}
		if _, ok := members.Nodes[uint64(n.ID)]; ok {
			continue
		}
		if _, ok := members.NonVotings[uint64(n.ID)]; ok {
			continue
		}
		target := nodeHostID(h.cfg.Dir.Identity().ClusterID, link.Node(n.Token))
		var err error
		if n.ID <= catalogueVotersMax {
			err = h.nh.SyncRequestAddReplica(ctx, catalogueShard, uint64(n.ID), target, members.ConfigChangeID)
		} else {
			err = h.nh.SyncRequestAddNonVoting(ctx, catalogueShard, uint64(n.ID), target, members.ConfigChangeID)
		}
		if err != nil {
			h.log.Debug("a node could not be added to the catalogue's group yet", "node", n.Name, "error", err)
		}
		return
	}
}

// reconciler looks after the queues that this node leads: it brings the catalogue's copy of their members up to date, and grows those that have fewer replicas than they should, a few at a time.
func (h *Host) reconciler() {
	defer h.workers.Done()
	looked := 0 // nodes that were up when all queues of the node had been looked at
	for h.wait(limits.ReconcileMillis*time.Millisecond, nil) == nil {
		h.noteAll()
		h.reclaim()
		if up := h.upNodes(); up != looked && h.wakeShort(up) {
			looked = up
		}
		left := limits.GrowAtOnce
		h.slots.Range(func(_, v any) bool {
			if h.replaceDamaged(v.(*slot)) {
				left--
			}
			if g, ok := v.(*slot).runner().(*group); ok && g.leads() && h.grow(g) {
				left--
			}
			return left > 0
		})
	}
}

// upNodes counts the nodes that can take replicas.
func (h *Host) upNodes() (n int) {
	for node := range h.Catalogue().View.Nodes() {
		if node.Alive() && !node.Replaced && (node.ID == h.node || h.up(node.ID)) {
			n++
		}
	}
	return n
}

// wakeShort starts queues of this node that nobody has used yet and that have fewer replicas than so many nodes allow: a queue that sleeps does not grow. It reports whether that was all of them.
func (h *Host) wakeShort(nodes int) bool {
	left := limits.GrowAtOnce
	for q := range h.Catalogue().View.QueuesByID() {
		if _, member := q.MemberOn(h.node); !member || !q.Durable || len(q.Members) >= replicasWanted(q, nodes) {
			continue
		}
		if s, err := h.slot(q.ID); err == nil && s.runner() == nil {
			if left--; left < 0 {
				return false
			}
			h.touch(q.ID)
		}
	}
	return true
}

// grow adds one replica to a queue that this node leads if it has too few. It reports whether it did something.
func (h *Host) grow(g *group) bool {
	v := h.Catalogue().View
	q := v.QueueByID(g.id)
	if q == nil {
		return false
	}
	for _, m := range q.Members {
		if n := v.Node(m.Node); n != nil && n.Replaced { // its disk is gone: another replica takes the place
			if err := h.changeMember(h.life, g.id, change{node: m.Node, what: removeMember}); err != nil {
				h.log.Debug("a replica of a replaced node could not be removed yet", "queue", q.Name, "error", err)
			}
			return true
		}
	}
	var free []meta.NodeID
	alive := 0
	for n := range v.Nodes() {
		if !n.Alive() || n.Replaced {
			continue
		}
		alive++
		if _, member := q.MemberOn(n.ID); !member && h.up(n.ID) {
			free = append(free, n.ID)
		}
	}
	if len(q.Members) >= replicasWanted(q, alive) || len(free) == 0 {
		return false
	}
	err := h.changeMember(h.life, g.id, change{node: free[int(g.id)%len(free)], what: addMember})
	if err != nil {
		h.log.Debug("a queue could not grow yet", "queue", q.Name, "error", err)
	}
	return true
}

// replicasWanted is how many replicas a queue should have on a cluster of some nodes: what an operator left it with, else an odd number.
func replicasWanted(q *meta.Queue, nodes int) int {
	want := limits.ReplicasDefault
	if q.ReplicasWanted != 0 {
		return min(int(q.ReplicasWanted), nodes)
	}
	if v, ok := q.Arguments.Get("x-quorum-initial-group-size"); ok {
		if n, ok := v.AsInt64(); ok && n > 0 {
			want = int(min(n, meta.ReplicasMax))
		}
	}
	return oddDown(min(want, nodes))
}
