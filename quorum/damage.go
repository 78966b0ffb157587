package quorum

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/segment"
	"github.com/warrenmq/warren/storage/wal"
)

// damage is what is wrong with the files of one replica. A replica that has members to be rebuilt from is never started again under its id once that was noticed: the file damaged-REPLICA in the queue's folder
// says so for as long as the folder is there, and what a person wants to know when it has been set aside. See docs/adr/0017.
type damage struct {
	replica uint64
	// millis is when it was noticed, in milliseconds since the Unix epoch.
	millis int64
	// reason names the file and the place.
	reason string
}

const (
	damagePrefix   = "damaged-"
	damageBytesMax = 4 << 10
	damageTitle    = "warren damaged replica\n"
	// damageReasonBytesMax cuts reasons, which name paths.
	damageReasonBytesMax = 2 << 10
)

// isDamage tells whether an error says that a file does not hold what was written.
func isDamage(err error) bool {
	var corrupt *storage.CorruptError
	return errors.As(err, &corrupt)
}

func damageName(dir string, replica uint64) string {
	return filepath.Join(dir, damagePrefix+strconv.FormatUint(replica, 10))
}

// encode is text, with its checksum in the last line.
func (d *damage) encode() []byte {
	reason := strings.Join(strings.Fields(d.reason), " ")
	reason = reason[:min(len(reason), damageReasonBytesMax)]
	text := fmt.Sprintf("%sreplica %d\nmillis %d\nreason %s\n", damageTitle, d.replica, d.millis, reason)
	return fmt.Appendf(nil, "%scrc32 %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

func decodeDamage(name string, src []byte) (*damage, error) {
	corrupt := &storage.CorruptError{File: name, OffsetBytes: -1, Reason: "the file does not match its checksum"}
	at := strings.LastIndex(strings.TrimSuffix(string(src), "\n"), "\n") + 1
	text := string(src[:at])
	if string(src[at:]) != fmt.Sprintf("crc32 %08x\n", crc32.ChecksumIEEE([]byte(text))) {
		return nil, corrupt
	}
	rest, ok := strings.CutPrefix(text, damageTitle)
	lines := strings.Split(rest, "\n")
	if !ok || len(lines) < 3 {
		return nil, corrupt
	}
	d := &damage{reason: strings.TrimPrefix(lines[2], "reason ")}
	var err, err2 error
	d.replica, err = strconv.ParseUint(strings.TrimPrefix(lines[0], "replica "), 10, 64)
	d.millis, err2 = strconv.ParseInt(strings.TrimPrefix(lines[1], "millis "), 10, 64)
	if err != nil || err2 != nil {
		return nil, corrupt
	}
	return d, nil
}

// write makes it durable that a replica is damaged. The folder may be missing.
func (d *damage) write(fsys storage.FS, dir string) error {
	if err := storage.EnsureDir(fsys, dir); err != nil {
		return err
	}
	return storage.WriteFile(fsys, damageName(dir, d.replica), d.encode())
}

// loadDamage reads what a queue's folder says of a replica; nil without an error if no damage was noticed.
func loadDamage(fsys storage.FS, dir string, replica uint64) (*damage, error) {
	name := damageName(dir, replica)
	src, err := storage.ReadFile(fsys, name, damageBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeDamage(name, src)
}

// newDamage describes damage that was just noticed.
func (h *Host) newDamage(replica uint64, err error) *damage {
	return &damage{replica: replica, millis: h.clock.nowMillis(), reason: err.Error()}
}

// DamagedReplicas counts this node's replicas whose files are damaged and that were not replaced yet.
func (h *Host) DamagedReplicas() (n int) {
	h.slots.Range(func(_, v any) bool {
		if v.(*slot).isDamaged() != nil {
			n++
		}
		return true
	})
	return n
}

// DamageFound counts the damage of replicas that this node noticed since its start.
func (h *Host) DamageFound() uint64 { return h.damageFound.Load() }

// isDamaged returns what is wrong with this node's replica of the queue, nil if nothing is known to be.
func (s *slot) isDamaged() *damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damage
}

// hasOthers tells whether a queue has members on other nodes, from which this node's replica can be rebuilt.
func (h *Host) hasOthers(q *meta.Queue) bool {
	for _, m := range q.Members {
		if m.Node != h.node {
			return true
		}
	}
	return false
}

// damagedAtStart deals with a replica whose files are damaged, before it has started. With other members the leader's replica serves this node until a new one is built; alone the queue is down, and its files
// stay as they are.
func (h *Host) damagedAtStart(s *slot, g *group, d *damage, known bool) {
	g.disk.close()
	g.fail(d)
	s.mu.Lock()
	if s.gone || s.run != runner(g) {
		s.mu.Unlock()
		return
	}
	q := s.q
	s.damage = d
	s.mu.Unlock()
	h.tellDamage(q, d, known)
	if !h.hasOthers(q) {
		return
	}
	if !known && !h.keepDamage(q.ID, d) {
		return
	}
	r := newRemote(h, q)
	s.mu.Lock()
	if s.gone || s.run != runner(g) {
		s.mu.Unlock()
		return
	}
	s.run = r
	s.mu.Unlock()
	r.find()
	h.reshape(h.latest(q))
}

// keepDamage has the next start know of damage, too. Without a file, when the disk is full, it would find it again, if later: the replica's log is sound. It reports whether the node goes on.
func (h *Host) keepDamage(id meta.QueueID, d *damage) bool {
	err := d.write(h.fs, queueDir(h, id))
	if errors.Is(err, storage.ErrFatal) {
		h.report(err)
		return false
	}
	if err != nil {
		h.log.Warn("it cannot be noted that a replica is damaged", "id", uint64(id), "error", err)
	}
	return true
}

// latest is a queue as the catalogue has it by now.
func (h *Host) latest(q *meta.Queue) *meta.Queue {
	if now := h.Catalogue().View.QueueByID(q.ID); now != nil {
		return now
	}
	return q
}

// tellDamage says once what was found and what becomes of it.
func (h *Host) tellDamage(q *meta.Queue, d *damage, known bool) {
	then := "the queue is down on this node, which has its only replica; the other queues go on"
	if h.hasOthers(q) {
		then = "the replica is replaced by a new one, which the other members feed; its files are set aside then"
	}
	if known {
		h.log.Warn("a replica was found damaged before and is not started", "queue", q.Name, "vhost", q.VHost, "id", uint64(q.ID), "replica", d.replica, "reason", d.reason, "then", then)
		return
	}
	h.damageFound.Add(1)
	h.log.Error("the files of a queue's replica are damaged", "queue", q.Name, "vhost", q.VHost, "id", uint64(q.ID), "replica", d.replica, "reason", d.reason, "then", then)
}

// fail has a replica serve nobody from now on.
func (g *group) fail(d *damage) {
	g.mu.Lock()
	g.damage = d
	g.mu.Unlock()
}

// isDamaged returns what is wrong with the replica's files, nil if nothing is known to be.
func (r *replica) isDamaged() *damage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.damage
}

// diskFailed deals with an error of a replica's disk after which it cannot go on as before. It reports whether err is one: else it may pass.
func (g *group) diskFailed(err error) bool {
	switch {
	case err == nil:
		return false
	case isDamage(err):
		g.damagedRunning(err)
		return true
	case errors.Is(err, storage.ErrFatal):
		g.host.report(err)
		return true
	}
	return false
}

// cannotRead is told that the body of a message cannot be read from disk. What may pass, as a lack of file descriptors, ends the streams: nodes attach again and have the message read once more.
func (g *group) cannotRead(err error) {
	switch {
	case errors.Is(err, segment.ErrClosed):
	case isDamage(err), errors.Is(err, segment.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EIO):
		g.damagedRunning(err)
	default:
		go func() {
			g.endStreams(sink.stop)
			g.host.later(limits.AttachMillis*time.Millisecond, func() { g.host.serve(g.id, g) })
		}()
	}
}

// damagedRunning is told of damage in the files of a replica that runs. It serves nobody from then on. With other members it goes on as one of them, as its log is sound, until they agree to
// replace it; alone the queue is down.
func (g *group) damagedRunning(err error) {
	h := g.host
	d := h.newDamage(g.replicaID, err)
	g.mu.Lock()
	if g.damage != nil {
		g.mu.Unlock()
		return
	}
	g.damage = d
	g.mu.Unlock()
	h.workers.Add(1)
	go func() {
		defer h.workers.Done()
		h.setDamaged(g, d)
	}()
}

func (h *Host) setDamaged(g *group, d *damage) {
	v, ok := h.slots.Load(g.id)
	if !ok {
		return
	}
	s := v.(*slot)
	s.mu.Lock()
	if s.gone || s.run != runner(g) {
		s.mu.Unlock()
		return
	}
	s.damage = d
	q := s.q
	s.mu.Unlock()
	h.tellDamage(q, d, false)
	if !h.hasOthers(q) {
		h.takeDown(s, g, d)
		return
	}
	if !h.keepDamage(g.id, d) {
		return
	}
	g.endStreams(sink.stop)
	h.serve(g.id, g)
	h.replaceDamaged(s)
}

// takeDown stops the only replica of a queue for good. Who waits for something of it is told, its consumers are cancelled; the messages stay where they are.
func (h *Host) takeDown(s *slot, g *group, d *damage) {
	next := &slot{host: h, q: s.queue(), pipe: newPipeline(h, g.id), run: g, touched: true, damage: d}
	next.pipe.all.follow(next.q)
	if !h.slots.CompareAndSwap(g.id, s, next) {
		return
	}
	g.lmu.Lock()
	g.ready, g.leader = false, 0
	g.lmu.Unlock()
	g.ticks.stop()
	g.expiry.stop()
	g.endStreams(sink.stop)
	s.pipe.takeDown()
	_ = h.nh.StopReplica(uint64(g.id), g.replicaID) // the node may be stopping
}

// replaceDamaged asks the leader for a new replica in place of this node's damaged one, which hands its office over first. It reports whether there was something to do.
func (h *Host) replaceDamaged(s *slot) bool {
	s.mu.Lock()
	d, q, run := s.damage, s.q, s.run
	s.mu.Unlock()
	if d == nil || !h.hasOthers(q) {
		return false
	}
	if m, ok := q.MemberOn(h.node); !ok || m.Replica != d.replica {
		return false
	}
	if r, ok := run.(*remote); ok && r.known() == 0 {
		return false // nobody leads
	}
	if err := h.changeMember(h.life, q.ID, change{h.node, replaceMember, d.replica}); err != nil {
		h.log.Debug("a damaged replica could not be replaced yet", "queue", q.Name, "error", err)
	}
	return true
}

// replaced follows the catalogue: the other members have replaced a damaged replica, or removed it, so that its files are of no use to anybody but a person. They are set aside before another replica starts here.
func (h *Host) replaced(s *slot, q *meta.Queue) {
	s.mu.Lock()
	d, before := s.damage, s.ended
	m, member := q.MemberOn(h.node)
	if d == nil || s.gone || member && m.Replica == d.replica {
		s.mu.Unlock()
		return
	}
	g, running := s.run.(*group)
	if running {
		if g.replicaID != d.replica {
			s.mu.Unlock()
			return
		}
		before = g.closed
	}
	var r *remote
	if running {
		r = newRemote(h, q)
		s.run = r
	}
	done := make(chan struct{})
	s.damage, s.ended = nil, done
	away := s.away
	s.away = nil
	s.mu.Unlock()
	if away != nil {
		away.close()
	}
	if running {
		g.close()
		r.find()
	}
	h.workers.Add(1)
	go func() {
		defer h.workers.Done()
		if h.setAside(q.ID, d.replica, before) {
			close(done)
		}
	}()
	if member {
		h.starter.add(h, s, true)
	}
}

// setAside ends a damaged replica and moves its folder to the quarantine. Its log goes: what it had voted and acknowledged binds nobody any more. ended is closed at the end of the replica, nil if it does not run.
// It reports whether a new replica may start.
func (h *Host) setAside(id meta.QueueID, replica uint64, ended <-chan struct{}) bool {
	if !h.removeLog(id, replica, ended) {
		return false
	}
	to, err := quarantineQueueDir(h, id)
	if err != nil {
		h.report(fmt.Errorf("the damaged files of queue %d cannot be set aside: %w", id, err))
		return false
	}
	h.log.Warn("the files of a damaged replica were set aside", "id", uint64(id), "replica", replica, "directory", to)
	return true
}

// makeRoom readies a queue's folder for a replica: it returns the damage that keeps the replica from starting, if that is known. What another replica left there is set aside: a new one begins with nothing.
func (h *Host) makeRoom(id meta.QueueID, replica uint64) (*damage, error) {
	d, err := loadDamage(h.fs, queueDir(h, id), replica)
	if isDamage(err) {
		return h.newDamage(replica, err), nil
	}
	if d != nil || err != nil || h.hasLog(id, replica) {
		return d, err
	}
	return nil, h.setFormerAside(id, replica)
}

// setFormerAside moves what other replicas than one left in a queue's folder to the quarantine, and removes their logs.
func (h *Host) setFormerAside(id meta.QueueID, replica uint64) error {
	for _, g := range h.wal.Groups() {
		if g.Shard == uint64(id) && g.Replica != replica {
			if err := h.nh.RemoveData(g.Shard, g.Replica); err != nil {
				return err
			}
		}
	}
	if names, err := h.fs.List(queueDir(h, id)); err != nil || len(names) == 0 {
		return nil // there is nothing
	}
	to, err := quarantineQueueDir(h, id)
	if err != nil {
		return err
	}
	h.log.Warn("what a former replica of a queue left was set aside", "id", uint64(id), "directory", to)
	return nil
}

// sweepDamaged sets aside what a damaged replica left, if this node has no replica of the queue any more.
func (h *Host) sweepDamaged(s *slot) {
	id := s.queue().ID
	names, _ := h.fs.List(queueDir(h, id)) // none if there is nothing
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, damagePrefix) }) {
		return
	}
	done := make(chan struct{})
	s.mu.Lock()
	if _, member := s.q.MemberOn(h.node); member || s.ended != nil {
		s.mu.Unlock()
		return
	}
	s.ended = done
	s.mu.Unlock()
	if err := h.setFormerAside(id, 0); err != nil {
		h.log.Error("the files of a damaged replica cannot be set aside", "id", uint64(id), "error", err)
		return
	}
	close(done)
}

// noteLost is told by the log of replicas that it lost records of. They must not start again, as what they voted and acknowledged may be lost; their queues' folders say so before the log forgets them. A copy of the
// log goes to the quarantine. Without the catalogue's records the node itself is not what it was.
func (h *Host) noteLost(lost []wal.Lost) error {
	for _, l := range lost {
		if l.Shard == catalogueShard {
			return l.Err
		}
	}
	to := filepath.Join(quarantineDir(h), fmt.Sprintf("wal-%d", h.clock.nowMillis()))
	if err := storage.CopyDir(h.fs, logDir(h), to, wal.IsLogFile); err != nil {
		return fmt.Errorf("the damaged Raft log cannot be copied to %s: %w", to, err)
	}
	for _, l := range lost {
		if mutant == mutantVotesForgotten {
			continue
		}
		d := h.newDamage(l.Replica, l.Err)
		if err := d.write(h.fs, queueDir(h, meta.QueueID(l.Shard))); err != nil {
			return err
		}
		h.log.Error("the Raft log has lost records of a queue's replica", "id", l.Shard, "replica", l.Replica, "reason", d.reason, "copy", to)
	}
	return nil
}
