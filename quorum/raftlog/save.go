package raftlog

import (
	"slices"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage/wal"
)

// batch is the memory of one call of SaveRaftState. A Store keeps it for the next one.
type batch struct {
	updates []wal.Update
	groups  []*group   // whose mu is held
	states  []pb.State // of groups, as they are logged then
	data    []byte     // everything encoded
	ends    []uint32
}

// SaveRaftState implements raftio.ILogDB.
func (s *Store) SaveRaftState(updates []pb.Update, _ uint64) error {
	b := s.spare.Get().(*batch)
	defer s.release(b)
	b.room(updates)
	for i := range updates {
		ud := &updates[i]
		if pb.IsEmptyState(ud.State) && pb.IsEmptySnapshot(ud.Snapshot) && len(ud.EntriesToSave) == 0 {
			continue // messages only
		}
		g, err := s.group(ud.ShardID, ud.ReplicaID)
		if err != nil {
			return err
		}
		g.mu.Lock()
		b.add(g, ud)
	}
	return s.commit(b)
}

// SaveSnapshots implements raftio.ILogDB. The library does not start on a snapshot that lies behind what it knows to be committed, so that becomes durable with it.
func (s *Store) SaveSnapshots(updates []pb.Update) error {
	b := s.spare.Get().(*batch)
	defer s.release(b)
	for i := range updates {
		ss := &updates[i].Snapshot
		if pb.IsEmptySnapshot(*ss) {
			continue
		}
		g, err := s.group(updates[i].ShardID, updates[i].ReplicaID)
		if err != nil {
			return err
		}
		g.mu.Lock()
		if g.state.Commit < ss.Index && !pb.IsEmptyState(g.state) {
			g.state.Commit = ss.Index // it was applied already; the library is about to say so
		}
		b.begin(g)
		b.snapshot(ss, false)
		b.state(g)
	}
	return s.commit(b)
}

// settle makes durable what need not be.
func (s *Store) settle() error {
	b := s.spare.Get().(*batch)
	defer s.release(b)
	for _, g := range s.touched() {
		g.mu.Lock()
		if g.state == g.saved && g.bootstrap == nil {
			g.mu.Unlock()
			continue
		}
		b.begin(g)
		b.state(g)
	}
	return s.commit(b)
}

// commit writes what was added.
func (s *Store) commit(b *batch) error {
	if len(b.updates) == 0 {
		return nil
	}
	if err := s.log.Commit(b.updates); err != nil {
		return s.done(err)
	}
	for i, g := range b.groups {
		g.saved, g.bootstrap = b.states[i], nil
	}
	return nil
}

// release unlocks the groups of a batch and keeps its memory.
func (s *Store) release(b *batch) {
	b.clear()
	if cap(b.data) <= limits.RaftLogScratchBytes {
		s.spare.Put(b)
	}
}

func (b *batch) clear() {
	for _, g := range b.groups {
		g.mu.Unlock()
	}
	clear(b.groups)
	clear(b.updates)
	b.updates, b.groups, b.states, b.data, b.ends = b.updates[:0], b.groups[:0], b.states[:0], b.data[:0], b.ends[:0]
}

// room makes room for all entries at once.
func (b *batch) room(updates []pb.Update) {
	bytes, count := 0, 0
	for i := range updates {
		count += len(updates[i].EntriesToSave)
		for j := range updates[i].EntriesToSave {
			bytes += updates[i].EntriesToSave[j].SizeUpperLimit()
		}
	}
	b.data, b.ends = slices.Grow(b.data, bytes), slices.Grow(b.ends, count)
}

// begin begins the update of a group, whose mu is held.
func (b *batch) begin(g *group) {
	b.updates = append(b.updates, wal.Update{Group: g.id, Bootstrap: g.bootstrap})
	b.groups, b.states = append(b.groups, g), append(b.states, g.saved)
}

// last is the update that was begun last.
func (b *batch) last() *wal.Update { return &b.updates[len(b.updates)-1] }

// add takes what the library says of one group, whose mu is held. If only the index up to which entries are committed is new, nothing is written.
func (b *batch) add(g *group, ud *pb.Update) {
	if !pb.IsEmptyState(ud.State) {
		g.state = ud.State
	}
	if pb.IsEmptySnapshot(ud.Snapshot) && len(ud.EntriesToSave) == 0 && g.state.Term == g.saved.Term && g.state.Vote == g.saved.Vote {
		g.mu.Unlock()
		return
	}
	b.begin(g)
	if !pb.IsEmptySnapshot(ud.Snapshot) {
		b.snapshot(&ud.Snapshot, true)
	}
	b.entries(ud.EntriesToSave)
	b.state(g)
}

// state adds the group's state if the log has another one.
func (b *batch) state(g *group) {
	if g.state != g.saved {
		b.last().State = b.encode(&g.state, g.state.Size())
		b.states[len(b.states)-1] = g.state
	}
}

// snapshot adds a snapshot record. One that was received takes the place of all entries.
func (b *batch) snapshot(ss *pb.Snapshot, received bool) {
	u := b.last()
	u.Snapshot, u.SnapshotIndex, u.Restored = b.encode(ss, ss.Size()), ss.Index, received
}

// encoder is what the library's structures have in common.
type encoder interface{ MarshalTo([]byte) (int, error) }

// encode appends a structure of at most bytes to the batch's memory.
func (b *batch) encode(m encoder, bytes int) []byte {
	from := len(b.data)
	b.data = slices.Grow(b.data, bytes)
	n, err := m.MarshalTo(b.data[from : from+bytes])
	if err != nil {
		panic(err) // there is room
	}
	b.data = b.data[:from+n]
	return b.data[from : from+n : from+n]
}

// entries adds entries to the last update.
func (b *batch) entries(list []pb.Entry) {
	if len(list) == 0 {
		return
	}
	from, first := len(b.data), len(b.ends)
	for i := range list {
		b.encode(&list[i], list[i].SizeUpperLimit())
		b.ends = append(b.ends, uint32(len(b.data)-from))
	}
	u := b.last()
	u.First, u.Ends, u.Entries = list[0].Index, b.ends[first:], b.data[from:]
}
