package raftlog

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
)

// The step workers of the histories; a call of SaveRaftState has updates of one worker's groups only.
const (
	workers      = 2
	entriesAtMax = 6
)

// replica is one replica as Raft knows it: what its log store must have.
type replica struct {
	id        raftio.NodeInfo
	bootstrap pb.Bootstrap
	state     pb.State
	snapshot  pb.Snapshot
	marker    uint64     // entries up to here are never asked for again
	entries   []pb.Entry // behind floor, without a gap
	floor     uint64     // before the first of entries
	known     bool       // something of it was saved behind the bootstrap
}

func (r *replica) last() uint64 { return r.floor + uint64(len(r.entries)) }

// cut returns the entries in [low, high).
func (r *replica) cut(low, high uint64) []pb.Entry {
	return r.entries[low-r.floor-1 : high-r.floor-1]
}

func (r *replica) term(index uint64) uint64 {
	if index <= r.floor {
		return max(r.snapshot.Term, 1)
	}
	return r.entries[index-r.floor-1].Term
}

// history plays what Raft can do against stores and compares them with the model after every step.
type history struct {
	rng      *rand.Rand
	open     func() ([]raftio.ILogDB, error) // opens all stores again
	crash    func()                          // if set, stores are not closed but lose what was not durable
	stores   []raftio.ILogDB
	replicas []*replica
	next     uint64 // shard of the next group: never used twice
	trace    []string
	verdict  error
}

func (h *history) note(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

// each calls f with every store. The first error, or panic, is the verdict.
func (h *history) each(what string, f func(raftio.ILogDB) error) {
	for _, s := range h.stores {
		if err := caught(s, f); err != nil && h.verdict == nil {
			h.verdict = fmt.Errorf("%s: %s: %w", s.Name(), what, err)
		}
	}
}

func caught(s raftio.ILogDB, f func(raftio.ILogDB) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f(s)
}

// run plays n steps.
func (h *history) run(n int) error {
	h.next = 1
	h.reopen()
	for range n {
		h.step()
		if h.verdict != nil {
			return h.verdict
		}
	}
	h.reopen()
	h.each("close", raftio.ILogDB.Close)
	return h.verdict
}

func (h *history) step() {
	if len(h.replicas) == 0 {
		h.start()
		return
	}
	r := h.replicas[h.rng.IntN(len(h.replicas))]
	switch d := h.rng.IntN(100); {
	case d < 6 && len(h.replicas) < 8:
		h.start()
	case d < 58:
		h.save(uint64(h.rng.IntN(workers)) + 1)
	case d < 72:
		h.snapshotLocally(r)
	case d < 84:
		h.compact(r)
	case d < 87:
		h.remove(r)
	case d < 89:
		h.importSnapshot(r)
	case d < 93:
		h.reopen()
	}
	for _, r := range h.replicas {
		h.read(r)
	}
	h.list()
}

// start makes a replica known. Ids are never used twice.
func (h *history) start() {
	r := &replica{id: raftio.NodeInfo{ShardID: h.next, ReplicaID: uint64(1 + h.rng.IntN(3))}}
	h.next++
	r.bootstrap = pb.Bootstrap{Join: h.rng.IntN(2) == 0, Type: pb.OnDiskStateMachine, Addresses: map[uint64]string{}}
	if !r.bootstrap.Join {
		r.bootstrap.Addresses = map[uint64]string{1: "a", 2: "b", 3: "c"}
	}
	h.note("start %v", r.id)
	h.replicas = append(h.replicas, r)
	h.each("SaveBootstrapInfo", func(s raftio.ILogDB) error {
		if _, err := s.GetBootstrapInfo(r.id.ShardID, r.id.ReplicaID); !errors.Is(err, raftio.ErrNoBootstrapInfo) {
			return fmt.Errorf("before it was saved: %w", err)
		}
		return s.SaveBootstrapInfo(r.id.ShardID, r.id.ReplicaID, r.bootstrap)
	})
}

// save is one loop of a step worker: what became of some of its groups.
func (h *history) save(worker uint64) {
	var updates []pb.Update
	for _, r := range h.replicas {
		if r.id.ShardID%workers == worker-1 && h.rng.IntN(3) > 0 {
			updates = append(updates, h.update(r))
		}
	}
	h.note("SaveRaftState of worker %d: %s", worker, describe(updates))
	h.each("SaveRaftState", func(s raftio.ILogDB) error { return s.SaveRaftState(slices.Clone(updates), worker) })
}

// update makes one step of a replica.
func (h *history) update(r *replica) pb.Update {
	ud := pb.Update{ShardID: r.id.ShardID, ReplicaID: r.id.ReplicaID}
	before := r.state
	switch d := h.rng.IntN(10); {
	case d == 0: // messages only
	case d == 1 && r.last() > 0: // a snapshot from the leader, for a replica that is behind
		ud.Snapshot = h.snapshotAt(r, r.state.Commit+1+uint64(h.rng.IntN(8)), r.state.Term+uint64(h.rng.IntN(2))+1)
		r.state.Term, r.state.Vote, r.state.Commit = ud.Snapshot.Term, 0, ud.Snapshot.Index
		r.snapshot, r.marker, r.floor, r.entries = ud.Snapshot, ud.Snapshot.Index, ud.Snapshot.Index, nil
		if h.rng.IntN(2) == 0 {
			ud.EntriesToSave = h.append(r, r.last()+1)
		}
	case d < 4: // a vote
		r.state.Term++
		r.state.Vote = uint64(h.rng.IntN(3))
	default:
		from := r.last() + 1
		if low := max(r.state.Commit, r.floor) + 1; h.rng.IntN(4) == 0 && low < from { // another leader's entries replace a suffix
			from = low + uint64(h.rng.IntN(int(from-low)))
			r.state.Term, r.state.Vote = r.state.Term+1, 0
		}
		r.state.Term = max(r.state.Term, 1)
		ud.EntriesToSave = h.append(r, from)
	}
	if r.last() > r.state.Commit && h.rng.IntN(2) == 0 {
		r.state.Commit += uint64(h.rng.IntN(int(r.last()-r.state.Commit) + 1))
	}
	if r.state != before || h.rng.IntN(10) == 0 {
		ud.State = r.state
	}
	r.known = r.known || !pb.IsEmptyState(ud.State)
	return ud
}

// append gives the replica entries from an index on.
func (h *history) append(r *replica, from uint64) []pb.Entry {
	entries := make([]pb.Entry, 1+h.rng.IntN(entriesAtMax))
	for i := range entries {
		e := pb.Entry{Term: max(r.state.Term, 1), Index: from + uint64(i), Type: pb.EntryType(h.rng.IntN(4))}
		switch h.rng.IntN(6) {
		case 0:
		case 1:
			e.Cmd = make([]byte, 1+h.rng.IntN(40_000))
		default:
			e.Cmd = make([]byte, 1+h.rng.IntN(200))
		}
		for j := range e.Cmd {
			e.Cmd[j] = byte(h.rng.Uint32())
		}
		if h.rng.IntN(3) == 0 {
			e.Key, e.ClientID, e.SeriesID, e.RespondedTo = h.rng.Uint64(), h.rng.Uint64(), h.rng.Uint64(), uint64(h.rng.IntN(10))
		}
		entries[i] = e
	}
	r.entries = append(slices.Clone(r.entries[:from-r.floor-1]), entries...)
	return entries
}

func (h *history) snapshotAt(r *replica, index, term uint64) pb.Snapshot {
	ss := pb.Snapshot{
		Filepath: fmt.Sprintf("snapshot-%x", index), FileSize: h.rng.Uint64N(1 << 40), Index: index, Term: term, ShardID: r.id.ShardID, Type: pb.OnDiskStateMachine,
		OnDiskIndex: index, Dummy: h.rng.IntN(2) == 0, Membership: pb.Membership{ConfigChangeId: 1 + h.rng.Uint64N(9), Addresses: map[uint64]string{1: "a", 2: "b"}},
	}
	if h.rng.IntN(3) == 0 {
		ss.Checksum, ss.Files = []byte("sum"), []*pb.SnapshotFile{{Filepath: "f", FileId: 1, FileSize: 2, Metadata: []byte("meta")}}
	}
	return ss
}

// snapshotLocally is a checkpoint of what was applied.
func (h *history) snapshotLocally(r *replica) {
	applied := r.state.Commit
	if applied <= r.snapshot.Index || applied <= r.floor {
		return
	}
	index := max(r.snapshot.Index, r.floor) + 1
	index += uint64(h.rng.IntN(int(applied-index) + 1))
	ss := h.snapshotAt(r, index, r.term(index))
	r.snapshot = ss
	h.note("SaveSnapshots %v at %d", r.id, index)
	h.each("SaveSnapshots", func(s raftio.ILogDB) error {
		return s.SaveSnapshots([]pb.Update{{ShardID: r.id.ShardID, ReplicaID: r.id.ReplicaID, Snapshot: ss}})
	})
}

// compact lets entries go that a snapshot has.
func (h *history) compact(r *replica) {
	if r.snapshot.Index <= r.marker {
		return
	}
	index := r.marker + 1 + uint64(h.rng.IntN(int(r.snapshot.Index-r.marker)))
	r.marker = index
	if index > r.floor {
		r.entries, r.floor = slices.Clone(r.entries[index-r.floor:]), index
	}
	h.note("RemoveEntriesTo %v up to %d", r.id, index)
	h.each("RemoveEntriesTo", func(s raftio.ILogDB) error { return s.RemoveEntriesTo(r.id.ShardID, r.id.ReplicaID, index) })
	if h.rng.IntN(2) == 0 {
		h.each("CompactEntriesTo", func(s raftio.ILogDB) error {
			done, err := s.CompactEntriesTo(r.id.ShardID, r.id.ReplicaID, index)
			if err == nil {
				<-done
			}
			return err
		})
	}
}

// remove is the end of a replica.
func (h *history) remove(r *replica) {
	h.note("RemoveNodeData %v", r.id)
	h.each("RemoveNodeData", func(s raftio.ILogDB) error { return s.RemoveNodeData(r.id.ShardID, r.id.ReplicaID) })
	h.replicas = slices.DeleteFunc(h.replicas, func(x *replica) bool { return x == r })
	gone := &replica{id: r.id, bootstrap: pb.Bootstrap{}}
	h.read(gone)
	h.each("GetBootstrapInfo of what was removed", func(s raftio.ILogDB) error {
		if b, err := s.GetBootstrapInfo(r.id.ShardID, r.id.ReplicaID); err == nil {
			return fmt.Errorf("it has %+v", b)
		}
		return nil
	})
}

// importSnapshot is the repair tool's work. It has a store of its own, opened while the node is down.
func (h *history) importSnapshot(r *replica) {
	h.reopen()
	if !slices.Contains(h.replicas, r) {
		return // a crash took it, which had nothing yet
	}
	ss := h.snapshotAt(r, r.last()+1+uint64(h.rng.IntN(5)), r.state.Term+1)
	ss.Imported = true
	*r = replica{
		id: r.id, bootstrap: pb.Bootstrap{Join: true, Type: ss.Type, Addresses: map[uint64]string{}}, state: pb.State{Term: ss.Term, Commit: ss.Index},
		snapshot: ss, marker: ss.Index, floor: ss.Index, known: true,
	}
	h.note("ImportSnapshot %v at %d", r.id, ss.Index)
	h.each("ImportSnapshot", func(s raftio.ILogDB) error { return s.ImportSnapshot(ss, r.id.ReplicaID) })
	h.reopen()
}

// reopen closes all stores and opens them again.
func (h *history) reopen() {
	if h.verdict != nil {
		return
	}
	h.note("reopen")
	if h.crash == nil {
		h.each("Close", raftio.ILogDB.Close)
	} else {
		h.crash()
	}
	stores, err := h.open()
	if err != nil {
		h.verdict = fmt.Errorf("open: %w", err)
		h.stores = nil
		return
	}
	h.stores = stores
	if h.crash != nil { // a bootstrap record comes with what is saved behind it
		h.replicas = slices.DeleteFunc(h.replicas, func(r *replica) bool { return !r.known })
	}
	for _, r := range h.replicas {
		r.marker = max(r.marker, r.snapshot.Index)
		if h.crash != nil {
			h.each("recovery", r.recover)
		}
		if r.known {
			h.read(r)
		}
	}
}

// recover learns after a crash how far entries were committed as far as the store knows, which may be less than it was told, and what that leaves of a replica that had nothing else.
func (r *replica) recover(s raftio.ILogDB) error {
	rs, err := s.ReadRaftState(r.id.ShardID, r.id.ReplicaID, r.snapshot.Index)
	if errors.Is(err, raftio.ErrNoSavedLog) {
		return nil
	}
	if err != nil {
		return err
	}
	if commit := rs.State.Commit; commit > r.state.Commit || commit < r.snapshot.Index {
		return fmt.Errorf("%v is committed up to %d, it was up to %d, with a snapshot at %d", r.id, commit, r.state.Commit, r.snapshot.Index)
	}
	r.state.Commit = rs.State.Commit
	return nil
}

// read asks for everything that the library may ask for, and compares it with the model.
func (h *history) read(r *replica) {
	first, last := max(r.marker, r.floor)+1, r.last()
	low, high := first, last+1
	if first <= last {
		low += uint64(h.rng.IntN(int(last - first + 1)))
		high = low + 1 + uint64(h.rng.IntN(int(last-low+1)))
	}
	limit := []uint64{0, 100, 1000, 60_000, math.MaxUint64}[h.rng.IntN(5)]
	h.each("reading", func(s raftio.ILogDB) error {
		if err := r.readStart(s); err != nil {
			return err
		}
		if low > last {
			return nil
		}
		return r.readEntries(s, low, high, limit)
	})
}

// readStart reads what the library reads when it starts a replica.
func (r *replica) readStart(s raftio.ILogDB) error {
	if r.bootstrap.Addresses != nil {
		b, err := s.GetBootstrapInfo(r.id.ShardID, r.id.ReplicaID)
		if err != nil {
			return fmt.Errorf("bootstrap of %v: %w", r.id, err)
		}
		if len(b.Addresses) != len(r.bootstrap.Addresses) || b.Join != r.bootstrap.Join || b.Type != r.bootstrap.Type {
			return fmt.Errorf("bootstrap of %v is %+v, not %+v", r.id, b, r.bootstrap)
		}
	}
	ss, err := s.GetSnapshot(r.id.ShardID, r.id.ReplicaID)
	if err != nil {
		return fmt.Errorf("snapshot of %v: %w", r.id, err)
	}
	if !sameSnapshot(ss, r.snapshot) {
		return fmt.Errorf("snapshot of %v is %+v, not %+v", r.id, ss, r.snapshot)
	}
	rs, err := s.ReadRaftState(r.id.ShardID, r.id.ReplicaID, r.snapshot.Index)
	if !r.known {
		if !errors.Is(err, raftio.ErrNoSavedLog) {
			return fmt.Errorf("state of %v that saved none: %+v, %w", r.id, rs, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("state of %v: %w", r.id, err)
	}
	if rs.State != r.state {
		return fmt.Errorf("state of %v is %+v, not %+v", r.id, rs.State, r.state)
	}
	// The library takes its snapshot for the beginning and looks only at what lies behind. The stores may differ in what they tell of entries up to there.
	end := r.snapshot.Index
	if rs.EntryCount > 0 {
		if rs.FirstIndex > r.snapshot.Index+1 {
			return fmt.Errorf("log of %v begins at %d, behind the snapshot at %d", r.id, rs.FirstIndex, r.snapshot.Index)
		}
		end = max(end, rs.FirstIndex+rs.EntryCount-1)
	}
	if end != max(r.last(), r.snapshot.Index) {
		return fmt.Errorf("log of %v ends at %d, not at %d: %+v", r.id, end, r.last(), rs)
	}
	return nil
}

// readEntries reads as the library's LogReader does.
func (r *replica) readEntries(s raftio.ILogDB, low, high, limit uint64) error {
	const before = 7 // entries that the caller had read already
	entries, size, err := s.IterateEntries(make([]pb.Entry, 1, 8), before, r.id.ShardID, r.id.ReplicaID, low, high, limit)
	if err != nil {
		return fmt.Errorf("entries [%d, %d) of %v: %w", low, high, r.id, err)
	}
	var want []pb.Entry
	total := uint64(before)
	for _, e := range r.cut(low, high) {
		want = append(want, e)
		if total += uint64(e.SizeUpperLimit()); total > limit {
			break
		}
	}
	if !reflect.DeepEqual(want, entries[1:]) || size != total {
		return fmt.Errorf("entries [%d, %d) of %v with at most %d bytes: %d of %d bytes, not %d of %d", low, high, r.id, limit, len(entries)-1, size, len(want), total)
	}
	return nil
}

// list compares which replicas are known.
func (h *history) list() {
	h.each("ListNodeInfo", func(s raftio.ILogDB) error {
		list, err := s.ListNodeInfo()
		if err != nil {
			return err
		}
		got := map[raftio.NodeInfo]bool{}
		for _, n := range list {
			got[n] = true
		}
		if len(got) != len(list) || len(got) != len(h.replicas) {
			return fmt.Errorf("it has %v", list)
		}
		for _, r := range h.replicas {
			if !got[r.id] {
				return fmt.Errorf("%v is not in %v", r.id, list)
			}
		}
		return nil
	})
}

func sameSnapshot(a, b pb.Snapshot) bool {
	if pb.IsEmptySnapshot(a) && pb.IsEmptySnapshot(b) {
		return true
	}
	return a.Index == b.Index && a.Term == b.Term && a.Filepath == b.Filepath && a.FileSize == b.FileSize && a.OnDiskIndex == b.OnDiskIndex && a.Dummy == b.Dummy && a.Type == b.Type &&
		a.Imported == b.Imported && a.ShardID == b.ShardID && string(a.Checksum) == string(b.Checksum) && reflect.DeepEqual(a.Files, b.Files) &&
		a.Membership.ConfigChangeId == b.Membership.ConfigChangeId && reflect.DeepEqual(a.Membership.Addresses, b.Membership.Addresses)
}

func describe(updates []pb.Update) string {
	out := ""
	for _, ud := range updates {
		out += fmt.Sprintf(" [%d.%d", ud.ShardID, ud.ReplicaID)
		if !pb.IsEmptyState(ud.State) {
			out += fmt.Sprintf(" term %d vote %d commit %d", ud.Term, ud.Vote, ud.Commit)
		}
		if !pb.IsEmptySnapshot(ud.Snapshot) {
			out += fmt.Sprintf(" snapshot %d", ud.Snapshot.Index)
		}
		if n := len(ud.EntriesToSave); n > 0 {
			out += fmt.Sprintf(" entries %d to %d", ud.EntriesToSave[0].Index, ud.EntriesToSave[n-1].Index)
		}
		out += "]"
	}
	return out
}
