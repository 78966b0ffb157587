package raftlog

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/storage/wal"
)

// Name is how the library knows this store, and notes in its directory.
const Name = "warren-wal"

// binaryFormat is the version of what the store puts into records: the library's own encodings. The library notes it in its directory.
const binaryFormat = 1

// Store is the log store of one node. It implements raftio.ILogDB.
type Store struct {
	log   *wal.Log
	fatal func(error) error

	mu     sync.Mutex
	groups map[wal.Group]*group // those touched since the start
	spare  sync.Pool            // *batch

	closing sync.Once
}

var _ raftio.ILogDB = (*Store)(nil)

// group is what the store knows of one replica.
type group struct {
	id wal.Group
	// mu is held while something of the group is written, so that what was true first is logged first.
	mu sync.Mutex
	// state is what the library gave last; saved is what the log has of it.
	state, saved pb.State
	// bootstrap is the bootstrap record while the log does not have it: it comes with what is logged next of the group.
	bootstrap []byte
}

// New makes a store over a log, which it closes. fatal is told once of every error of the disk before the library hears of it, and returns what the library is to hear, if it returns.
func New(log *wal.Log, fatal func(error) error) *Store {
	return &Store{log: log, fatal: fatal, groups: make(map[wal.Group]*group), spare: sync.Pool{New: func() any { return new(batch) }}}
}

// Name implements raftio.ILogDB.
func (s *Store) Name() string { return Name }

// BinaryFormat implements raftio.ILogDB.
func (s *Store) BinaryFormat() uint32 { return binaryFormat }

// Close implements raftio.ILogDB. What need not be durable is so after it, too.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		if err = s.settle(); err == nil {
			err = s.log.Close()
		}
	})
	return err
}

// group returns what is known of a replica.
func (s *Store) group(shard, replica uint64) (*group, error) {
	id := wal.Group{Shard: shard, Replica: replica}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[id]
	if g == nil {
		g = &group{id: id}
		if data, ok := s.log.StateOf(id); ok {
			if err := g.saved.Unmarshal(data); err != nil {
				return nil, fmt.Errorf("state of group %d: %w", shard, err)
			}
			g.state = g.saved
		}
		s.groups[id] = g
	}
	return g, nil
}

// ListNodeInfo implements raftio.ILogDB.
func (s *Store) ListNodeInfo() ([]raftio.NodeInfo, error) {
	ids := s.log.Groups()
	for _, g := range s.touched() {
		if g.unlogged() != nil && !slices.Contains(ids, g.id) {
			ids = append(ids, g.id)
		}
	}
	list := make([]raftio.NodeInfo, 0, len(ids))
	for _, id := range ids {
		list = append(list, raftio.NodeInfo{ShardID: id.Shard, ReplicaID: id.Replica})
	}
	return list, nil
}

// touched returns all groups that are known.
func (s *Store) touched() []*group {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*group, 0, len(s.groups))
	for _, g := range s.groups {
		list = append(list, g)
	}
	return list
}

// unlogged returns the bootstrap record if the log does not have it.
func (g *group) unlogged() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bootstrap
}

// SaveBootstrapInfo implements raftio.ILogDB. The record becomes durable with the first vote, state or entry of the replica, which until then has promised nobody anything: if a crash comes first, the replica
// starts for the first time again. The library calls this with a lock that all its workers need, so it does not wait for the disk.
func (s *Store) SaveBootstrapInfo(shard, replica uint64, b pb.Bootstrap) error {
	g, err := s.group(shard, replica)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.bootstrap = pb.MustMarshal(&b)
	g.mu.Unlock()
	return nil
}

// GetBootstrapInfo implements raftio.ILogDB.
func (s *Store) GetBootstrapInfo(shard, replica uint64) (pb.Bootstrap, error) {
	id := wal.Group{Shard: shard, Replica: replica}
	s.mu.Lock()
	g := s.groups[id]
	s.mu.Unlock()
	var data []byte
	if g != nil {
		data = g.unlogged()
	}
	var b pb.Bootstrap
	if data == nil {
		var ok bool
		if data, ok = s.log.BootstrapOf(id); !ok {
			return b, raftio.ErrNoBootstrapInfo
		}
	}
	return b, b.Unmarshal(data)
}

// GetSnapshot implements raftio.ILogDB.
func (s *Store) GetSnapshot(shard, replica uint64) (pb.Snapshot, error) {
	var ss pb.Snapshot
	data, _, ok := s.log.SnapshotOf(wal.Group{Shard: shard, Replica: replica})
	if !ok {
		return ss, nil
	}
	return ss, ss.Unmarshal(data)
}

// ReadRaftState implements raftio.ILogDB. Of entries up to the snapshot it tells nothing: the library begins there.
func (s *Store) ReadRaftState(shard, replica, snapshotIndex uint64) (raftio.RaftState, error) {
	g, err := s.group(shard, replica)
	if err != nil {
		return raftio.RaftState{}, err
	}
	g.mu.Lock()
	rs := raftio.RaftState{State: g.state, FirstIndex: snapshotIndex}
	g.mu.Unlock()
	if pb.IsEmptyState(rs.State) {
		return raftio.RaftState{}, raftio.ErrNoSavedLog
	}
	if first, last, ok := s.log.Range(g.id); ok && last > snapshotIndex {
		rs.FirstIndex = max(first, snapshotIndex+1)
		rs.EntryCount = last - rs.FirstIndex + 1
	}
	return rs, nil
}

// IterateEntries implements raftio.ILogDB.
func (s *Store) IterateEntries(entries []pb.Entry, size, shard, replica, low, high, sizeMax uint64) ([]pb.Entry, uint64, error) {
	var bad error
	err := s.log.Read(wal.Group{Shard: shard, Replica: replica}, low, high, func(index uint64, data []byte) bool {
		var e pb.Entry
		if bad = e.Unmarshal(data); bad != nil { // copies what it keeps
			return false
		}
		entries = append(entries, e)
		size += uint64(e.SizeUpperLimit())
		return size <= sizeMax
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, 0, s.done(err)
	}
	return entries, size, nil
}

// RemoveEntriesTo implements raftio.ILogDB.
func (s *Store) RemoveEntriesTo(shard, replica, index uint64) error {
	return s.done(s.log.TruncateTo(wal.Group{Shard: shard, Replica: replica}, index))
}

// CompactEntriesTo implements raftio.ILogDB. The log gives space back by itself.
func (s *Store) CompactEntriesTo(uint64, uint64, uint64) (<-chan struct{}, error) {
	done := make(chan struct{})
	close(done)
	return done, nil
}

// RemoveNodeData implements raftio.ILogDB.
func (s *Store) RemoveNodeData(shard, replica uint64) error {
	id := wal.Group{Shard: shard, Replica: replica}
	if err := s.log.Remove(id); err != nil {
		return s.done(err)
	}
	s.forget(id)
	return nil
}

// ImportSnapshot implements raftio.ILogDB.
func (s *Store) ImportSnapshot(ss pb.Snapshot, replica uint64) error {
	id := wal.Group{Shard: ss.ShardID, Replica: replica}
	state := pb.State{Term: ss.Term, Commit: ss.Index}
	bootstrap := pb.Bootstrap{Join: true, Type: ss.Type}
	if err := s.log.Import(id, pb.MustMarshal(&bootstrap), pb.MustMarshal(&state), pb.MustMarshal(&ss), ss.Index); err != nil {
		return s.done(err)
	}
	s.forget(id)
	return nil
}

func (s *Store) forget(id wal.Group) {
	s.mu.Lock()
	delete(s.groups, id)
	s.mu.Unlock()
}

// done passes on how something ended, once the node has heard of a failure.
func (s *Store) done(err error) error {
	if err == nil {
		return nil
	}
	return s.fatal(err)
}
