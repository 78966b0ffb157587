package queue

import (
	"slices"
	"sort"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/invariant"
)

// pipeline is the ordered stream of batches from one node incarnation, and the sessions that came by it.
type pipeline struct {
	id    PipelineID
	lastK uint64
	// evicted: its sessions were ended by OpEvict. What was answered stays until a higher gen comes.
	evicted bool
	// outcomes[k%pipelineWindow] is the encoded exceptions of batch k, for the last pipelineWindow batches.
	outcomes [pipelineWindow][]byte
	sessions []*session // by id
	recent   *session   // one of sessions, or nil: the one that was looked up last
}

// deadBoot is a fence: all boots of node up to counter are dead. Fences are kept for ever.
type deadBoot struct {
	node    NodeID
	counter uint64
}

// session returns the session with that id, nil if there is none.
func (p *pipeline) session(id SessionID) *session {
	if p.recent != nil && p.recent.id == id {
		return p.recent
	}
	i := p.searchSession(id)
	if i == len(p.sessions) || p.sessions[i].id != id {
		return nil
	}
	p.recent = p.sessions[i]
	return p.recent
}

func (p *pipeline) searchSession(id SessionID) int {
	if n := len(p.sessions); n == 0 || p.sessions[n-1].id < id {
		return n // the usual case of a new session
	}
	return sort.Search(len(p.sessions), func(i int) bool { return p.sessions[i].id >= id })
}

// removeSession takes the session at place i out.
func (p *pipeline) removeSession(i int) {
	p.sessions = append(p.sessions[:i], p.sessions[i+1:]...)
	p.recent = nil
}

// oldestK returns the first batch whose outcome is kept.
func (p *pipeline) oldestK() uint64 {
	if p.lastK < pipelineWindow {
		return 1
	}
	return p.lastK - pipelineWindow + 1
}

// exceptions decodes the outcome of batch k into dst. An outcome that is not kept any more gives none: at most pipelineWindow batches are unanswered, so nobody waits for it.
func (p *pipeline) exceptions(k uint64, dst []Exception) []Exception {
	if k < p.oldestK() || k > p.lastK {
		return dst
	}
	r := codec.NewReader(p.outcomes[k%pipelineWindow])
	for r.Len() > 0 {
		dst = append(dst, readException(&r))
	}
	invariant.Check(r.Err() == nil, "outcome of batch %d does not decode", k)
	return dst
}

func appendException(dst []byte, index uint32, reply *Reply) []byte {
	dst = codec.AppendUvarint(dst, uint64(index))
	dst = append(dst, byte(reply.Code))
	dst = codec.AppendUvarint(dst, reply.A)
	dst = codec.AppendUvarint(dst, reply.B)
	return codec.AppendUvarint(dst, reply.C)
}

func readException(r *codec.Reader) Exception {
	return Exception{Index: readUint32(r), Reply: Reply{Code: Code(r.Uint8()), A: r.Uvarint(), B: r.Uvarint(), C: r.Uvarint()}}
}

// less orders pipelines by node, boot and gen.
func (p PipelineID) less(o PipelineID) bool {
	switch {
	case p.Node != o.Node:
		return p.Node < o.Node
	case p.Boot.Counter != o.Boot.Counter:
		return p.Boot.Counter < o.Boot.Counter
	case p.Boot.Nonce != o.Boot.Nonce:
		return p.Boot.Nonce < o.Boot.Nonce
	}
	return p.Gen < o.Gen
}

// pipeline returns the pipeline with that id, nil if there is none.
func (m *Machine) pipeline(id PipelineID) *pipeline {
	if m.recent != nil && m.recent.id == id {
		return m.recent
	}
	i := m.searchPipeline(id)
	if i == len(m.pipelines) || m.pipelines[i].id != id {
		return nil
	}
	m.recent = m.pipelines[i]
	return m.recent
}

func (m *Machine) searchPipeline(id PipelineID) int {
	return sort.Search(len(m.pipelines), func(i int) bool { return !m.pipelines[i].id.less(id) })
}

// nodeRange returns the places of the pipelines of a node: first to before end.
func (m *Machine) nodeRange(node NodeID) (first, end int) {
	first = m.searchPipeline(PipelineID{Node: node})
	end = first
	for end < len(m.pipelines) && m.pipelines[end].id.Node == node {
		end++
	}
	return first, end
}

// dead returns the highest dead boot of a node.
func (m *Machine) dead(node NodeID) (counter uint64, ok bool) {
	i := sort.Search(len(m.deadBoots), func(i int) bool { return m.deadBoots[i].node >= node })
	if i == len(m.deadBoots) || m.deadBoots[i].node != node {
		return 0, false
	}
	return m.deadBoots[i].counter, true
}

// fenced tells whether a boot may not speak any more: it or a higher one was declared dead, or another incarnation holds its counter. The boot to report comes with it.
func (m *Machine) fenced(node NodeID, boot Boot) (counter uint64, ok bool) {
	counter, ok = m.dead(node)
	if ok && boot.Counter <= counter && mutant != mutantFenceForgotten {
		return counter, true
	}
	first, end := m.nodeRange(node)
	for _, p := range m.pipelines[first:end] {
		if p.id.Boot.Counter == boot.Counter && p.id.Boot.Nonce != boot.Nonce {
			return boot.Counter, true
		}
	}
	return counter, false
}

// evicted tells whether a gen may not speak any more: it was evicted, or a higher one came.
func (m *Machine) evicted(id PipelineID) bool {
	first, end := m.nodeRange(id.Node)
	for _, p := range m.pipelines[first:end] {
		if p.id.Boot == id.Boot && (p.id.Gen > id.Gen || p.id.Gen == id.Gen && p.evicted) {
			return true
		}
	}
	return false
}

// hasRoom tells whether a pipeline may be opened once those are gone that it takes the place of.
func (m *Machine) hasRoom(id PipelineID) bool {
	first, end := m.nodeRange(id.Node)
	lower := 0
	for _, p := range m.pipelines[first:end] {
		if p.id.less(id) {
			lower++
		}
	}
	return len(m.pipelines)-lower < m.bounds.pipelines
}

// openPipeline makes the pipeline of a first batch, after the lower boots of its node and the lower gens of its boot are gone. There must be room for it.
func (m *Machine) openPipeline(id PipelineID, out []Effect) (*pipeline, []Effect) {
	if id.Boot.Counter > 0 {
		_, out = m.nodeGone(id.Node, id.Boot.Counter-1, out)
	}
	if first, end := m.nodeRange(id.Node); first < end { // a lower gen
		m.endPipelines(first, end)
		out = m.work(out)
	}
	i := m.searchPipeline(id)
	p := &pipeline{id: id}
	m.pipelines = append(m.pipelines, nil)
	copy(m.pipelines[i+1:], m.pipelines[i:])
	m.pipelines[i] = p
	m.recent = p
	return p, out
}

// nodeGone carries out OpNodeGone: all boots of the node up to counter are dead.
func (m *Machine) nodeGone(node NodeID, counter uint64, out []Effect) (Reply, []Effect) {
	i := sort.Search(len(m.deadBoots), func(i int) bool { return m.deadBoots[i].node >= node })
	switch {
	case i == len(m.deadBoots) || m.deadBoots[i].node != node:
		m.deadBoots = append(m.deadBoots, deadBoot{})
		copy(m.deadBoots[i+1:], m.deadBoots[i:])
		m.deadBoots[i] = deadBoot{node: node, counter: counter}
	case counter <= m.deadBoots[i].counter:
		return Reply{Code: CodeStale}, out
	default:
		m.deadBoots[i].counter = counter
	}
	first, end := m.nodeRange(node)
	gone := first
	for gone < end && m.pipelines[gone].id.Boot.Counter <= counter {
		gone++
	}
	m.endPipelines(first, gone)
	return Reply{}, m.work(out)
}

// endPipelines removes the pipelines from first to before end, with their sessions.
func (m *Machine) endPipelines(first, end int) {
	for _, p := range m.pipelines[first:end] {
		m.endSessions(p)
	}
	m.pipelines = slices.Delete(m.pipelines, first, end)
	m.recent = nil
}

// endSessions ends all sessions of a pipeline. Nothing counts as a failure: nobody knows what was written.
func (m *Machine) endSessions(p *pipeline) {
	m.orphanTxs(p.id, 0)
	for _, s := range p.sessions {
		written := uint64(0)
		if mutant == mutantNodeGoneCounts {
			written = s.drained
		}
		m.endSession(s, written)
	}
	p.sessions, p.recent = nil, nil
	m.elect()
}

// evict carries out OpEvict.
func (m *Machine) evict(id PipelineID, out []Effect) (Reply, []Effect) {
	p := m.pipeline(id)
	if p == nil || p.evicted {
		return Reply{Code: CodeStale}, out
	}
	m.endSessions(p)
	p.evicted = true
	out = append(out, Effect{Kind: KindEvicted, Node: id.Node, BootCounter: id.Boot.Counter})
	return Reply{}, m.work(out)
}

// Serves tells whether a pipeline has sessions that somebody must be attached for.
func (m *Machine) Serves(id PipelineID) bool {
	p := m.pipeline(id)
	return p != nil && len(p.sessions) > 0
}

// LastK returns the last batch that was applied of a pipeline, 0 if none was. The proposer fills its memory from here after a term change.
func (m *Machine) LastK(p PipelineID) uint64 {
	if f := m.pipeline(p); f != nil {
		return f.lastK
	}
	return 0
}

// Pipelines appends the ids of all pipelines to dst, ascending by node, boot and gen. The leader compares them with the catalogue and proposes OpNodeGone for what is dead.
func (m *Machine) Pipelines(dst []PipelineID) []PipelineID {
	for _, p := range m.pipelines {
		dst = append(dst, p.id)
	}
	return dst
}
