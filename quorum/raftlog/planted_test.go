package raftlog

import (
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
)

// buggy is a store with one planted bug.
type buggy struct {
	raftio.ILogDB
	save    func(raftio.ILogDB, []pb.Update, uint64) error
	iterate func(raftio.ILogDB, uint64, uint64, uint64, uint64, uint64) ([]pb.Entry, uint64, error)
	read    func(raftio.RaftState) raftio.RaftState
	remove  func(s raftio.ILogDB, shard, replica, index uint64) error
	gone    func() error
	local   func() error
	taken   func(raftio.ILogDB, pb.Snapshot, uint64) error
}

func (b *buggy) SaveRaftState(updates []pb.Update, worker uint64) error {
	if b.save != nil {
		return b.save(b.ILogDB, updates, worker)
	}
	return b.ILogDB.SaveRaftState(updates, worker)
}

func (b *buggy) IterateEntries(ents []pb.Entry, size, shard, replica, low, high, sizeMax uint64) ([]pb.Entry, uint64, error) {
	if b.iterate != nil {
		more, total, err := b.iterate(b.ILogDB, shard, replica, low, high, sizeMax)
		return append(ents, more...), size + total, err
	}
	return b.ILogDB.IterateEntries(ents, size, shard, replica, low, high, sizeMax)
}

func (b *buggy) ReadRaftState(shard, replica, index uint64) (raftio.RaftState, error) {
	rs, err := b.ILogDB.ReadRaftState(shard, replica, index)
	if b.read != nil {
		rs = b.read(rs)
	}
	return rs, err
}

func (b *buggy) RemoveEntriesTo(shard, replica, index uint64) error {
	if b.remove != nil {
		return b.remove(b.ILogDB, shard, replica, index)
	}
	return b.ILogDB.RemoveEntriesTo(shard, replica, index)
}

func (b *buggy) RemoveNodeData(shard, replica uint64) error {
	if b.gone != nil {
		return b.gone()
	}
	return b.ILogDB.RemoveNodeData(shard, replica)
}

func (b *buggy) SaveSnapshots(updates []pb.Update) error {
	if b.local != nil {
		return b.local()
	}
	return b.ILogDB.SaveSnapshots(updates)
}

func (b *buggy) ImportSnapshot(ss pb.Snapshot, replica uint64) error {
	if b.taken != nil {
		return b.taken(b.ILogDB, ss, replica)
	}
	return b.ILogDB.ImportSnapshot(ss, replica)
}

// edited saves updates after f changed each.
func edited(f func(*pb.Update)) func(raftio.ILogDB, []pb.Update, uint64) error {
	return func(s raftio.ILogDB, updates []pb.Update, worker uint64) error {
		for i := range updates {
			f(&updates[i])
		}
		return s.SaveRaftState(updates, worker)
	}
}

// TestPlantedBugsAreFound makes sure that the histories reach what they are to judge.
func TestPlantedBugsAreFound(t *testing.T) {
	for name, bug := range map[string]buggy{
		"the last update of a call is lost": {save: func(s raftio.ILogDB, updates []pb.Update, worker uint64) error {
			return s.SaveRaftState(updates[:max(len(updates)-1, 0)], worker)
		}},
		"a snapshot from the leader does not replace the entries": {save: func(s raftio.ILogDB, updates []pb.Update, worker uint64) error {
			for i := range updates {
				if err := s.SaveSnapshots(updates[i : i+1]); err != nil {
					return err
				}
				updates[i].Snapshot = pb.Snapshot{}
			}
			return s.SaveRaftState(updates, worker)
		}},
		"entries that come with a snapshot are lost": {save: edited(func(ud *pb.Update) {
			if !pb.IsEmptySnapshot(ud.Snapshot) {
				ud.EntriesToSave = nil
			}
		})},
		"a state that comes with entries is lost": {save: edited(func(ud *pb.Update) {
			if len(ud.EntriesToSave) > 1 {
				ud.State = pb.State{}
			}
		})},
		"the vote is lost": {save: edited(func(ud *pb.Update) { ud.Vote = 0 })},
		"the end of a longer suffix stays": {read: func(rs raftio.RaftState) raftio.RaftState {
			if rs.EntryCount > 0 {
				rs.EntryCount++
			}
			return rs
		}},
		"one entry too many goes": {remove: func(s raftio.ILogDB, shard, replica, index uint64) error {
			return s.RemoveEntriesTo(shard, replica, index+2)
		}},
		"an entry that exceeds the size is left out": {iterate: func(s raftio.ILogDB, shard, replica, low, high, sizeMax uint64) ([]pb.Entry, uint64, error) {
			entries, size, err := s.IterateEntries(nil, 0, shard, replica, low, high, sizeMax)
			if size > sizeMax && len(entries) > 1 {
				size -= uint64(entries[len(entries)-1].SizeUpperLimit())
				entries = entries[:len(entries)-1]
			}
			return entries, size, err
		}},
		"a removed replica stays":            {gone: func() error { return nil }},
		"snapshots of a checkpoint are lost": {local: func() error { return nil }},
		"an import keeps the old state": {taken: func(s raftio.ILogDB, ss pb.Snapshot, replica uint64) error {
			ss.Term--
			return s.ImportSnapshot(ss, replica)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 20; seed++ {
				open := pebble()
				_, err := play(seed, 100, func() (raftio.ILogDB, error) {
					s, err := open()
					b := bug
					b.ILogDB = s
					return &b, err
				})
				if err != nil {
					return
				}
			}
			t.Error("20 histories did not find it")
		})
	}
}
