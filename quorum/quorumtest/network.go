package quorumtest

import (
	"math/rand/v2"
	"sync"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum/quorumtest/memnet"
)

// Partition cuts the nodes of different groups off from each other; what is on its way between them waits for the heal. A node in no group is alone.
func (c *Cluster) Partition(groups ...[]*Node) { c.partition(memnet.Stall, groups) }

// PartitionReset is Partition with resets: everybody knows at once.
func (c *Cluster) PartitionReset(groups ...[]*Node) { c.partition(memnet.Reset, groups) }

func (c *Cluster) partition(fault memnet.Fault, groups [][]*Node) {
	group := make(map[*Node]int)
	for i, g := range groups {
		for _, n := range g {
			group[n] = i + 1
		}
	}
	for _, from := range c.Nodes {
		for _, to := range c.Nodes {
			if from != to && (group[from] != group[to] || group[from] == 0) {
				c.Net.Cut(from.Name, to.Name, fault)
			}
		}
	}
}

// CutOneWay has nothing travel from one node to another; the other direction works.
func (c *Cluster) CutOneWay(from, to *Node) { c.Net.Cut(from.Name, to.Name, memnet.Stall) }

// Pause stalls a node's network in both directions: to the others as if the process had been stopped.
func (c *Cluster) Pause(n *Node) { c.Net.Isolate(n.Name, memnet.Stall) }

// Heal ends every partition and pause.
func (c *Cluster) Heal() { c.Net.HealAll() }

// Others returns all nodes but the given ones.
func (c *Cluster) Others(but ...*Node) []*Node {
	var others []*Node
next:
	for _, n := range c.Nodes {
		for _, b := range but {
			if n == b {
				continue next
			}
		}
		others = append(others, n)
	}
	return others
}

// RaftFaults are what happens to Raft messages between nodes. Each is a share of the messages, from 0 to 1.
type RaftFaults struct {
	// Drop loses a message, Repeat sends it twice, Hold sends it with a later batch, behind messages that came after it.
	Drop, Repeat, Hold float64
	// Lose loses what it says; nil loses nothing more.
	Lose func(from, to meta.NodeID, m *pb.Message) bool
}

// SetRaftFaults has Raft messages lost, repeated and reordered from now on.
func (c *Cluster) SetRaftFaults(f RaftFaults) { c.faults.set(f) }

// heldMax is how many messages to one node may be held.
const heldMax = 16

// raftFaults is where the Raft messages of all nodes pass.
type raftFaults struct {
	mu    sync.Mutex
	rng   *rand.Rand
	now   RaftFaults
	names map[uint64]meta.NodeID
	held  map[[2]uint64][]pb.Message
}

func (f *raftFaults) init(seed uint64) {
	f.rng = rand.New(rand.NewPCG(seed, 3))
	f.names, f.held = make(map[uint64]meta.NodeID), make(map[[2]uint64][]pb.Message)
}

func (f *raftFaults) set(now RaftFaults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = now
}

// name tells which node the transport means by a token.
func (f *raftFaults) name(token uint64, node meta.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names[token] = node
}

// filter is the transport's Filter.
func (f *raftFaults) filter(from, to uint64, batch pb.MessageBatch) []pb.MessageBatch {
	f.mu.Lock()
	defer f.mu.Unlock()
	route := [2]uint64{from, to}
	held := f.held[route]
	if f.now.Drop == 0 && f.now.Repeat == 0 && f.now.Hold == 0 && f.now.Lose == nil && len(held) == 0 {
		return []pb.MessageBatch{batch}
	}
	kept := make([]pb.Message, 0, len(batch.Requests)+len(held))
	var later []pb.Message
	for i := range batch.Requests {
		m := batch.Requests[i]
		switch {
		case f.now.Lose != nil && f.now.Lose(f.names[from], f.names[to], &m), f.rng.Float64() < f.now.Drop:
		case len(later) < heldMax && f.rng.Float64() < f.now.Hold:
			later = append(later, clone(m))
		case f.rng.Float64() < f.now.Repeat:
			kept = append(kept, m, m)
		default:
			kept = append(kept, m)
		}
	}
	f.held[route] = later
	batch.Requests = append(kept, held...)
	if len(batch.Requests) == 0 {
		return nil
	}
	return []pb.MessageBatch{batch}
}

// clone copies a message, whose entries belong to the library.
func clone(m pb.Message) pb.Message {
	entries := make([]pb.Entry, len(m.Entries))
	for i, e := range m.Entries {
		e.Cmd = append([]byte(nil), e.Cmd...)
		entries[i] = e
	}
	m.Entries = entries
	return m
}
