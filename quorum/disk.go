package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/checkpoint"
	"github.com/warrenmq/warren/storage/segment"
)

// disk is what one replica keeps: the checkpoint of its machine and, in the message store, the bodies that outlived one. A checkpoint is a snapshot cut at an entry boundary and
// written in the background, followed by the entries applied meanwhile; the library's Sync only adds the last of those, so that it is short (PROTOCOL 10.4).
type disk struct {
	host *Host
	id   meta.QueueID
	dir  string

	// Guarded by the replica's mu; store is set with tmu held as well.
	store      *segment.Store
	busy       bool // a checkpoint is asked for or under way
	recording  bool
	entries    []checkpoint.Entry // applied since the cut, not in tail yet
	recorded   int64              // their bytes
	logBytes   int64              // log written since the last cut
	logTotal   int64              // log applied since the replica was loaded
	milestones []milestone        // where in the log each limits.LogMilestoneBytes end
	pins       []segment.Cut      // of state cuts that are being streamed
	deadLeft   int64              // what the last checkpoint left of the message store that is not alive, in bytes
	pinned     uint64             // the log says that it keeps an old file for this replica's entries up to here
	cutAt      uint64             // the entry at which the library last took a snapshot and cut the log

	wmu  sync.Mutex // held from the moment that entries are taken until the tail has them; taken after the replica's mu
	tmu  sync.Mutex // held while tail is written; taken after wmu
	tail *checkpoint.Tail

	index atomic.Uint64 // last durable index
}

func queuesDir(h *Host) string     { return filepath.Join(h.cfg.Dir.Path(), "queues") }
func raftDir(h *Host) string       { return filepath.Join(h.cfg.Dir.Path(), "raft") }
func quarantineDir(h *Host) string { return filepath.Join(h.cfg.Dir.Path(), "quarantine") }

func queueDir(h *Host, id meta.QueueID) string {
	return filepath.Join(queuesDir(h), strconv.FormatUint(uint64(id), 10))
}

func (d *disk) init(h *Host, id meta.QueueID) {
	d.host, d.id, d.dir = h, id, queueDir(h, id)
}

// load brings the replica to its last durable state. Called with the replica's mu held.
func (d *disk) load(r *replica) error {
	rec, ok, err := checkpoint.Load(d.host.fs, d.dir)
	switch {
	case err != nil:
		return err
	case ok:
		err = d.restore(r, &rec)
	default:
		err = storage.EnsureDir(d.host.fs, d.dir)
	}
	if err != nil {
		return err
	}
	store, err := segment.Open(d.host.fs, d.dir, func(page uint64) segment.Mask { return r.m.LivePage(page) })
	if err != nil {
		return err
	}
	d.tmu.Lock() // sizes may be asked for already
	d.store = store
	d.tmu.Unlock()
	for page, live := range r.m.LivePages {
		held := store.Held(page)
		for w := range live {
			for lacks := live[w] &^ held[w]; lacks != 0; lacks &= lacks - 1 {
				seq := queue.Seq(page*queue.LivePageSeqs + uint64(w*64+bits.TrailingZeros64(lacks)))
				if r.bodies.get(seq) == nil {
					return &storage.CorruptError{File: d.dir, OffsetBytes: -1, Reason: fmt.Sprintf("the body of message %d is missing", seq)}
				}
			}
		}
	}
	return nil
}

// restore takes a checkpoint and its tail.
func (d *disk) restore(r *replica, rec *checkpoint.Recovered) error {
	if rec.ShardID != uint64(d.id) {
		return &storage.CorruptError{File: d.dir, OffsetBytes: -1, Reason: fmt.Sprintf("the checkpoint belongs to group %d", rec.ShardID)}
	}
	m, err := queue.Restore(rec.Snapshot)
	if err != nil {
		return &storage.CorruptError{File: d.dir, OffsetBytes: -1, Reason: fmt.Sprintf("the checkpoint's snapshot cannot be read: %v", err)}
	}
	r.m, r.applied = m, rec.Index
	for i := range rec.Entries {
		r.apply(rec.Entries[i].Index, bytes.Clone(rec.Entries[i].Command)) // a body must not keep all of the file in memory
	}
	clear(r.evs)
	r.evs = r.evs[:0]
	// Found is not yet synced: what a crash left in the operating system's memory.
	if err := rec.Tail.Sync(); err != nil {
		return err
	}
	d.tail = rec.Tail
	d.index.Store(r.applied)
	return nil
}

// note sees every entry applied. Called with the replica's mu held.
func (d *disk) note(index uint64, cmd []byte) {
	d.logBytes += int64(len(cmd))
	d.logTotal += int64(len(cmd))
	if n := len(d.milestones); n == 0 || d.logTotal-d.milestones[n-1].total >= limits.LogMilestoneBytes {
		d.milestones = append(d.milestones, milestone{index, d.logTotal})
	}
	if d.recording {
		d.entries = append(d.entries, checkpoint.Entry{Index: index, Command: cmd})
		d.recorded += int64(len(cmd))
	}
}

// milestone says how much log had been applied with an entry.
type milestone struct {
	index uint64
	total int64
}

// keepFrom returns the index up to which the log may be cut so that members that were away a moment need no full copy: what is older than the last limits.LogKeptBytes. 0: nothing is.
// Called with the replica's mu held.
func (d *disk) keepFrom() uint64 {
	cut := uint64(0)
	n := 0
	for n < len(d.milestones) && d.logTotal-d.milestones[n].total > limits.LogKeptBytes {
		cut = d.milestones[n].index
		n++
	}
	d.milestones = d.milestones[n:]
	return cut
}

// due tells whether it is time for a checkpoint, and counts it as asked for. Called with the replica's mu held.
func (d *disk) due() bool {
	if d.busy || d.logBytes < d.host.cfg.CheckpointLogBytes {
		return false
	}
	d.busy = true
	return true
}

// cutting is a checkpoint under way.
type cutting struct {
	cp    checkpoint.Checkpoint
	cut   segment.Cut
	pages []uint64 // of the bodies in memory
}

type stored struct {
	seq queue.Seq
	env []byte
}

// begin cuts the state at the present entry and records what follows.
func (d *disk) begin(r *replica) *cutting {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil || d.store == nil {
		return nil
	}
	c := &cutting{
		cp: checkpoint.Checkpoint{ShardID: uint64(d.id), Index: r.applied, Snapshot: r.m.AppendSnapshot(nil)}, cut: d.store.Cut(), pages: r.bodies.numbers(),
	}
	d.recording, d.entries, d.recorded, d.logBytes = true, nil, 0, 0
	return c
}

// checkpoint writes one checkpoint and lets the log go that it replaces, but for what members that were away may need.
func (g *group) checkpoint() error { return g.checkpointCutting(g.keptLog) }

// checkpointCutting writes one checkpoint and cuts the log as told.
func (g *group) checkpointCutting(how func() (dragonboat.SnapshotOption, bool)) error {
	d := &g.disk
	defer func() {
		g.mu.Lock()
		d.busy, d.recording, d.entries, d.recorded = false, false, nil, 0
		g.mu.Unlock()
	}()
	c := d.begin(&g.replica)
	if c == nil {
		return nil
	}
	pace := pace{disk: d}
	for _, number := range c.pages {
		if err := d.save(&g.replica, number, &pace); err != nil {
			return err
		}
	}
	if err := d.store.Sync(); err != nil {
		return err
	}
	if err := d.write(&g.replica, c.cp); err != nil {
		return err
	}
	d.saved(&g.replica)
	if opt, cut := how(); cut {
		g.cutLog(opt)
	}
	g.mu.Lock()
	pins := slices.Clone(d.pins)
	g.mu.Unlock()
	err := d.store.Collect(c.cut, pins...)
	st := d.store.Stats()
	g.mu.Lock()
	d.deadLeft = st.DiskBytes - st.LiveBytes // what was released since the cut is the next one's
	g.mu.Unlock()
	return err
}

// write makes the checkpoint durable and follows the queue until little is left for Sync.
func (d *disk) write(r *replica, cp checkpoint.Checkpoint) error {
	r.mu.Lock()
	d.wmu.Lock()
	entries := d.take()
	r.mu.Unlock()
	err := d.replace(cp, entries)
	d.wmu.Unlock()
	if err != nil {
		return err
	}
	for range limits.CheckpointTailRounds {
		r.mu.Lock()
		bytes := 0
		for i := range d.entries {
			bytes += len(d.entries[i].Command)
		}
		if bytes <= limits.CheckpointTailBytes {
			r.mu.Unlock()
			break
		}
		d.wmu.Lock()
		entries = d.take()
		r.mu.Unlock()
		err := d.extend(entries)
		d.wmu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// replace makes a checkpoint and the entries behind it durable. Called with wmu held.
func (d *disk) replace(cp checkpoint.Checkpoint, entries []checkpoint.Entry) error {
	tail, err := checkpoint.Write(d.host.fs, d.dir, cp, entries...)
	if errors.Is(err, checkpoint.ErrNotNewer) {
		return d.extend(entries) // nothing had been applied since the last one when this was cut: its tail goes on
	}
	if err != nil {
		return err
	}
	d.tmu.Lock()
	old := d.tail
	d.tail = tail
	d.index.Store(tail.SyncedIndex())
	d.tmu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// take returns the entries recorded and goes on recording. Called with the replica's mu held.
func (d *disk) take() []checkpoint.Entry {
	entries := d.entries
	d.entries, d.recorded = nil, 0
	return entries
}

// extend makes entries durable in the tail. Called with wmu held.
func (d *disk) extend(entries []checkpoint.Entry) error {
	d.tmu.Lock()
	defer d.tmu.Unlock()
	if d.tail == nil {
		return errors.New("a checkpoint is cut before it was written")
	}
	for i := range entries {
		if err := d.tail.Append(entries[i].Index, entries[i].Command); err != nil {
			return err
		}
	}
	if err := d.tail.Sync(); err != nil {
		return err
	}
	d.index.Store(d.tail.SyncedIndex())
	return nil
}

// save writes the bodies of a page to the message store. What left the queue since the cut need not be there: the checkpoint comes with the entries since then.
func (d *disk) save(r *replica, number uint64, pace *pace) error {
	r.mu.Lock()
	list := d.unsaved(r, number)
	r.mu.Unlock()
	for _, s := range list {
		if err := d.store.Append(uint64(s.seq), s.env); err != nil {
			return err
		}
		if err := pace.wrote(len(s.env)); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range list {
		if !r.bodies.markSaved(s.seq, false) && !r.m.Has(s.seq) {
			d.store.Release(uint64(s.seq), uint64(s.seq)) // it left the queue while it was written
		}
	}
	return nil
}

// unsaved lists the messages of a page that are in memory alone. Called with the replica's mu held.
func (d *disk) unsaved(r *replica, number uint64) []stored {
	list := r.bodies.unsaved(nil, number)
	return slices.DeleteFunc(list, func(s stored) bool { return !r.m.Has(s.seq) })
}

// saved gives back the memory of bodies that are in the message store, if the node is short of it.
func (d *disk) saved(r *replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.host.bodyBytes.Load() > d.host.cfg.BodiesInMemoryBytes/2 {
		r.bodies.evictSaved()
	}
	d.account(r)
}

// account tells the node how much memory the bodies take. Called with the replica's mu held.
func (d *disk) account(r *replica) {
	n := max(r.bodies.bytes, d.recorded) // mostly the same entries
	if delta := n - r.accounted; delta != 0 {
		r.accounted = n
		d.host.bodyBytes.Add(delta)
	}
}

// logKeptEntries is how many entries of the log stay behind a checkpoint of a queue with one replica.
const logKeptEntries = 16

// keptLog tells how to cut the log of a queue that goes on.
func (g *group) keptLog() (opt dragonboat.SnapshotOption, cut bool) {
	alone := len(g.memberNodes()) == 1
	g.mu.Lock()
	defer g.mu.Unlock()
	to := g.disk.keepFrom()
	if alone {
		to = g.applied - min(g.applied, logKeptEntries)
	}
	to = min(max(to, g.disk.pinned), g.applied-min(g.applied, 1)) // the library cuts before its last entry
	if to >= g.disk.pinned {
		g.disk.pinned = 0
	}
	return dragonboat.SnapshotOption{OverrideCompactionOverhead: true, CompactionIndex: to}, to > 0 // else the log is short; a later checkpoint cuts it
}

// cutLog has the library forget the log before what Sync makes durable. If it cannot now, a later checkpoint cuts it.
func (g *group) cutLog(opt dragonboat.SnapshotOption) {
	g.mu.Lock()
	applied := g.applied
	g.mu.Unlock()
	rs, err := g.host.nh.RequestSnapshot(uint64(g.id), opt, limits.ProposalTimeoutMillis*time.Millisecond)
	if err != nil {
		return
	}
	select {
	case r := <-rs.ResultC():
		if r.Completed() {
			applied = r.SnapshotIndex()
		}
		g.mu.Lock()
		g.disk.cutAt = applied // or it was refused, as there is nothing new
		g.mu.Unlock()
	case <-g.closed:
	}
}

// sync makes everything applied durable. Called with the replica's mu held, by the library before it forgets the log.
func (d *disk) sync(r *replica) error {
	if !d.recording {
		if d.index.Load() == r.applied {
			return nil
		}
		return d.rewrite(r)
	}
	d.wmu.Lock()
	defer d.wmu.Unlock()
	return d.extend(d.take())
}

// rewrite makes the present state durable at once. Called with the replica's mu held.
func (d *disk) rewrite(r *replica) error {
	for _, number := range r.bodies.numbers() {
		for _, s := range d.unsaved(r, number) {
			if err := d.store.Append(uint64(s.seq), s.env); err != nil {
				return err
			}
		}
	}
	if err := d.store.Sync(); err != nil {
		return err
	}
	tail, err := checkpoint.Write(d.host.fs, d.dir, checkpoint.Checkpoint{ShardID: uint64(d.id), Index: r.applied, Snapshot: r.m.AppendSnapshot(nil)})
	if err != nil {
		return err
	}
	d.tmu.Lock()
	defer d.tmu.Unlock()
	old := d.tail
	d.tail = tail
	d.index.Store(r.applied)
	d.logBytes = 0
	if old != nil {
		return old.Close()
	}
	return nil
}

// adopt replaces the state by one whose bodies the message store has. Called with the replica's mu held.
func (d *disk) adopt(r *replica, m *queue.Machine, index uint64) error {
	r.m, r.bodies, r.applied = m, bodies{}, index
	d.entries, d.recorded = nil, 0
	d.account(r)
	d.retain(r)
	return d.rewrite(r)
}

// retain has the message store forget what the machine does not know. Called with the replica's mu held.
func (d *disk) retain(r *replica) {
	d.store.Retain(func(page uint64) segment.Mask { return r.m.LivePage(page) })
}

// close gives the files back.
func (d *disk) close() {
	d.tmu.Lock()
	defer d.tmu.Unlock()
	if d.tail != nil {
		_ = d.tail.Close()
	}
	if d.store != nil {
		_ = d.store.Close()
	}
}

func (d *disk) sizes() (index uint64, bytes int64) {
	index = d.index.Load()
	d.tmu.Lock()
	defer d.tmu.Unlock()
	if d.tail != nil {
		bytes = d.tail.FileBytes()
	}
	if d.store != nil {
		bytes += d.store.Stats().DiskBytes
	}
	return index, bytes
}

// hasQueueDir tells whether this node ever kept something of a queue.
func hasQueueDir(h *Host, id meta.QueueID) bool {
	_, err := h.fs.List(queueDir(h, id))
	return err == nil
}

// removeQueueDir removes what a deleted queue kept.
func removeQueueDir(h *Host, id meta.QueueID) error {
	dir := queueDir(h, id)
	names, err := h.fs.List(dir)
	if err != nil {
		return nil // it never kept anything
	}
	for _, name := range names {
		if err := h.fs.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := h.fs.Remove(dir); err != nil {
		return err
	}
	return h.fs.SyncDir(queuesDir(h))
}

// quarantineQueueDir sets aside a folder that nobody knows, or that is damaged, and returns where it is.
func quarantineQueueDir(h *Host, id meta.QueueID) (string, error) {
	if err := storage.EnsureDir(h.fs, quarantineDir(h)); err != nil {
		return "", err
	}
	to := filepath.Join(quarantineDir(h), fmt.Sprintf("%d-%d", id, h.clock.nowMillis()))
	if err := h.fs.Rename(queueDir(h, id), to); err != nil {
		return "", err
	}
	return to, storage.Fatal(errors.Join(h.fs.SyncDir(quarantineDir(h)), h.fs.SyncDir(queuesDir(h))))
}
