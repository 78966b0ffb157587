package quorum

import (
	"errors"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// A queue that nobody uses is parked: its replicas stop, and start again when somebody wants something of it (PROTOCOL 9, docs/adr/0015). The leader sees to it. It holds back what would go into the log,
// has a last entry applied, waits until every member that is up has all of the log in a durable checkpoint, has them stop, and stops last. Until it asks them to stop, whoever wants something ends it.
//
// A replica that has stopped is as one whose node is down: nothing that was confirmed depends on it. So whatever goes wrong in between costs time only. Three things see to it that nobody stays behind:
// a leader starts the members that it does not know to run (tend), a replica that hears of no leader starts them all (seekLeader), and whoever starts says so to the others (announce).

// errWanted says that a queue does not stop: somebody uses it, or it has something to do.
var errWanted = errors.New("quorum: the queue is wanted")

// lookIdle asks for the queue to be parked if it has been idle for long enough. It is called by the host's ticker.
func (g *group) lookIdle(nowMillis int64) {
	if nowMillis-g.active.Load() < g.host.cfg.ParkMillis || nowMillis < g.parkNext.Load() || !g.leads() {
		return
	}
	g.parkNext.Store(nowMillis + min(limits.ParkLookMillis, g.host.cfg.ParkMillis))
	if g.idle() != nil && g.parks.CompareAndSwap(false, true) {
		g.host.parker.add(g)
	}
}

// idle returns how the queue would rest, nil if it has something to do, or will have soon.
func (g *group) idle() *rested {
	q := g.host.Catalogue().View.QueueByID(g.id)
	if q == nil || len(q.Members) < replicasWanted(q, g.host.upNodes()) {
		return nil // it is about to go, or to grow
	}
	now := g.host.clock.nowMillis()
	r := g.rest(now)
	if r == nil || r.configVersion < q.ConfigVersion {
		return nil
	}
	cfg := queueConfig(q)
	if at := r.wakesAt(&cfg); at != 0 && at < now+g.host.cfg.ParkDeadlineMillis {
		return nil
	}
	return r
}

// rest describes the queue as it is, nil if it cannot be left alone.
func (g *group) rest(nowMillis int64) *rested {
	g.lmu.Lock()
	r := &rested{term: g.term, leader: g.leader, since: nowMillis - time.Since(g.office).Milliseconds()}
	g.lmu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opened || g.failure != nil || g.disk.busy || !g.m.AtRest() && mutant != mutantParksInUse {
		return nil
	}
	r.index, r.counts, r.configVersion = g.applied, g.m.Counts(), g.m.ConfigVersion()
	r.since = max(r.since, g.m.LastUse())
	r.due, _ = g.m.NextDeadline()
	r.nextDelayed, _ = g.m.NextDelayed()
	return r
}

// hold keeps everything from the log. It reports whether this node leads, and in which term.
func (g *group) hold() (term uint64, ok bool) {
	g.lmu.Lock()
	defer g.lmu.Unlock()
	if !g.ready || g.held != nil {
		return 0, false
	}
	g.held = make(chan struct{})
	return g.term, true
}

// isHeld tells whether the log is closed, and that the caller would write to it. Called with g.lmu held.
func (g *group) isHeld() bool {
	if g.held == nil {
		return false
	}
	select {
	case <-g.held:
	default:
		close(g.held)
	}
	return true
}

// letGo has the queue go on: those that were refused come again by themselves.
func (g *group) letGo() {
	g.lmu.Lock()
	g.held = nil
	g.lmu.Unlock()
	g.active.Store(g.host.clock.monotonicMillis())
	g.announce(true)
	g.afterApply()
}

// park stops the replicas of a queue that this node leads.
func (h *Host) park(g *group) {
	defer g.parks.Store(false)
	term, ok := g.hold()
	if !ok {
		return
	}
	err := h.parkHeld(g, term)
	if err == nil {
		return
	}
	g.diskFailed(err)
	h.log.Debug("a queue could not be parked", "queue", uint64(g.id), "error", err)
	g.letGo()
}

func (h *Host) parkHeld(g *group, term uint64) error {
	if _, err := g.append(&queue.Command{Op: queue.OpTick}); err != nil { // behind all that was proposed before
		return err
	}
	r := g.idle()
	if r == nil || h.pipeWaits(g.id) {
		return errWanted
	}
	members := g.upMembers()
	request := codec.AppendUvarint(codec.AppendUvarint(nil, uint64(g.id)), r.index)
	ready := g.askMembers(members, request, nil)
	if err := g.saveAll(r.index); err != nil {
		return err
	}
	if err := g.await(ready, len(members)); err != nil {
		return err
	}
	if !g.inOffice(term) {
		return errNotReady
	}
	request = codec.AppendBytes(request, r.append(nil))
	stopped := g.askMembers(members, request, g.forgetPeer)
	if err := g.await(stopped, len(members)); err != nil {
		return err
	}
	return h.putToRest(g, r)
}

// upMembers returns the nodes of the other members that are up: the others count when they are back.
func (g *group) upMembers() (list []meta.NodeID) {
	for _, node := range g.memberNodes() {
		if node != g.host.node && g.host.up(node) {
			list = append(list, node)
		}
	}
	return list
}

// askMembers sends callRest. done is called for every member that did what it was asked, also for one whose answer nobody waits for any more.
func (g *group) askMembers(members []meta.NodeID, request []byte, done func(meta.NodeID)) <-chan error {
	answers := make(chan error, len(members))
	for _, node := range members {
		g.host.ask(node, callRest, request, func(_ []byte, err error) {
			if err == nil && done != nil {
				done(node)
			}
			answers <- err
		})
	}
	return answers
}

// await waits for the answers of all members, unless somebody wants something of the queue before.
func (g *group) await(answers <-chan error, count int) error {
	g.lmu.Lock()
	wanted := g.held
	g.lmu.Unlock()
	if wanted == nil {
		return errNotReady // another leader
	}
	for range count {
		select {
		case err := <-answers:
			if err != nil {
				return err
			}
		case <-wanted:
			return errWanted
		case <-g.closed:
			return ErrClosed
		}
	}
	select {
	case <-wanted:
		return errWanted
	default:
		return nil
	}
}

// forgetPeer notes that a member's replica does not run.
func (g *group) forgetPeer(node meta.NodeID) {
	g.lmu.Lock()
	delete(g.peers, node)
	g.lmu.Unlock()
}

// saveAll makes everything durable up to index, where the log ends, in a checkpoint, and cuts a long log.
func (g *group) saveAll(index uint64) error {
	g.mu.Lock()
	busy := g.disk.busy || g.applied != index
	g.disk.busy = g.disk.busy || !busy
	g.mu.Unlock()
	if busy {
		return errWanted
	}
	if err := g.checkpointCutting(g.restingLog); err != nil {
		return err
	}
	if g.disk.index.Load() != index {
		return errWanted
	}
	return nil
}

// restingLog tells how to cut the log of a queue that stops, all of which is in the checkpoints of the members that are up. A short log is not worth it.
func (g *group) restingLog() (opt dragonboat.SnapshotOption, cut bool) {
	log, err := g.host.nh.GetLogReader(uint64(g.id))
	if err != nil {
		return opt, false
	}
	g.mu.Lock()
	pinned := g.disk.pinned > 0
	g.mu.Unlock()
	if first, last := log.GetRange(); last-first < limits.ParkLogEntries && !pinned {
		return opt, false
	}
	if pinned || len(g.upMembers())+1 < len(g.memberNodes()) {
		return g.keptLog()
	}
	return dragonboat.SnapshotOption{OverrideCompactionOverhead: true, CompactionOverhead: logKeptEntries}, true
}

// putToRest stops this node's replica of a queue, all of whose log is in its checkpoint. It says on disk that the log ends there, for as long as the replica does not run.
func (h *Host) putToRest(g *group, r *rested) error {
	v, ok := h.slots.Load(g.id)
	if !ok {
		return ErrNoQueue
	}
	s := v.(*slot)
	log, err := h.nh.GetLogReader(uint64(g.id))
	if err != nil {
		return err
	}
	_, r.diskBytes = g.disk.sizes()
	if err := r.write(h.fs, g.disk.dir); err != nil {
		return err
	}
	_, last := log.GetRange()
	cfg := queueConfig(s.queue())
	s.mu.Lock()
	if last != r.index || s.gone || s.run != runner(g) {
		s.mu.Unlock()
		return errors.Join(errWanted, removeRested(h.fs, g.disk.dir))
	}
	s.run, s.touched, s.rested, s.wakeAt, s.ended = nil, false, r, r.wakesAt(&cfg), g.closed
	away := s.away
	s.away = nil
	s.mu.Unlock()
	g.lmu.Lock()
	g.ready, g.leader, g.next, g.progress = false, 0, nil, nil
	g.lmu.Unlock()
	s.pipe.stop()
	g.endStreams(sink.rested)
	if away != nil {
		away.close()
	}
	g.ticks.stop()
	g.expiry.stop()
	if err := h.nh.StopReplica(uint64(g.id), g.replicaID); err != nil {
		return err
	}
	if s.pipe.waits() {
		h.touch(g.id)
	}
	return nil
}

// pipeWaits tells whether something of this node is on its way to a queue.
func (h *Host) pipeWaits(id meta.QueueID) bool {
	v, ok := h.slots.Load(id)
	return !ok || v.(*slot).pipe.waits()
}

// waits tells whether something is on its way.
func (p *pipeline) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open != nil || p.swift != nil || len(p.full) > 0 || len(p.flight) > 0
}

// serveRest answers the leader of a queue that is about to be parked: with an index, this member has it durable, and nothing behind it; with what there is to know of the queue, too, its replica has stopped.
func (h *Host) serveRest(request []byte) ([]byte, error) {
	in := codec.NewReader(request)
	id, index := meta.QueueID(in.Uvarint()), in.Uvarint()
	var r *rested
	if in.Len() > 0 {
		var err error
		if r, err = readRested("", in.Bytes()); err != nil {
			return nil, err
		}
	}
	v, ok := h.slots.Load(id)
	if in.Err() != nil || !ok {
		return nil, errElsewhere
	}
	g, ok := v.(*slot).runner().(*group)
	if !ok || !g.serves() || v.(*slot).pipe.waits() {
		return nil, errElsewhere
	}
	if !g.reach(index) {
		return nil, errWanted
	}
	if r == nil {
		err := g.saveAll(index)
		g.diskFailed(err)
		return nil, err
	}
	if g.disk.index.Load() != index {
		return nil, errWanted
	}
	err := h.putToRest(g, r)
	g.diskFailed(err)
	return nil, err
}

// restRemote is told that a queue that another node serves is parked there.
func (h *Host) restRemote(r *remote) {
	v, ok := h.slots.Load(r.q.ID)
	if !ok {
		return
	}
	s := v.(*slot)
	s.mu.Lock()
	mine := s.run == runner(r)
	if mine {
		s.run, s.touched = nil, false
	}
	s.mu.Unlock()
	if !mine {
		return
	}
	s.pipe.stop()
	if s.pipe.waits() {
		h.touch(r.q.ID)
	}
}

// wakeAgain makes ready for a start what rested: the replica that stopped has ended, and nothing says any more that the log is all in the checkpoint. It reports whether the start may go on.
func (h *Host) wakeAgain(id meta.QueueID, ended <-chan struct{}) bool {
	if ended != nil {
		select {
		case <-ended:
		case <-h.closed:
			return false
		}
	}
	if mutant == mutantParkedForEver {
		return true
	}
	if err := removeRested(h.fs, queueDir(h, id)); err != nil {
		h.report(err)
		return false
	}
	return true
}

// seekLeader starts the other members' replicas again when this one hears of no leader for long: they may have stopped without it. It is called by the host's ticker.
func (g *group) seekLeader(nowMillis int64) {
	switch {
	case g.leaderNode() != 0:
		g.alone = 0
	case g.alone == 0:
		g.alone = nowMillis
	case nowMillis-g.alone >= limits.LeaderlessMillis:
		g.alone = nowMillis
		g.announce(true)
	}
}

// startOthers starts the replicas of members that this leader does not know to run: they were parked, or down, when the others started.
func (g *group) startOthers() {
	if mutant == mutantMemberStaysParked {
		return
	}
	var missing []meta.NodeID
	members := g.upMembers()
	g.lmu.Lock()
	for _, node := range members {
		if !g.peers[node] {
			missing = append(missing, node)
		}
	}
	held := g.held != nil
	g.lmu.Unlock()
	if held {
		return
	}
	payload := startedMessage(g.id, true, true)
	for _, node := range missing {
		g.host.send(node, messageStarted, payload)
	}
}
