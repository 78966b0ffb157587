package management

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/meta"
)

// Each node samples the queues that have something here, and tells the others once a second what changed of those that it leads: a node's word about a queue counts only while it leads it.

const (
	// leftKept is for how many ticks a node remembers that it led a queue; who asks later gets everything anew.
	leftKept = 60
	// tickPatience is how long a tick waits for the reports of other nodes; what comes later counts at the next one.
	tickPatience = 200 * time.Millisecond
	// reportFresh is how old a node's last report may be for its word to count.
	reportFresh = 2500 * time.Millisecond
)

// own is what a tick saw on this node. It does not change once it is published.
type own struct {
	// epoch names this run of the sampler; generation counts its ticks.
	epoch, generation uint64
	node              nodeSample
	// led are the samples of the queues that this node leads, left those that it led and when that ended.
	led  []*queueSample
	left []leftQueue
}

type leftQueue struct {
	id         meta.QueueID
	generation uint64
}

// newEpoch draws a number for a run of the sampler. 0 is none.
func newEpoch() uint64 { return rand.Uint64() | 1 }

// toldQueue is a queue in a report.
type toldQueue struct {
	id uint64
	queueSample
}

func packToldQueue(p *pack, t *toldQueue) {
	p.uint(&t.id)
	packStatus(p, &t.status)
	p.rates(&t.rates)
	p.time(&t.idleSince)
	p.float(&t.utilisation)
}

// report is what a node tells once a second.
type report struct {
	// sender and at say whose it is and when it came.
	sender meta.NodeID
	at     time.Time

	epoch, generation uint64
	// full says that queues are all that the node leads; else they are those that changed since the generation that was asked for.
	full   bool
	node   nodeSample
	queues []toldQueue
	left   []uint64
}

func (r *report) pack(p *pack) {
	p.uints(&r.epoch, &r.generation)
	p.bool(&r.full)
	packNode(p, &r.node)
	packRows(p, &r.queues, packToldQueue)
	packRows(p, &r.left, func(p *pack, id *uint64) { p.uint(id) })
}

// report writes what changed since a generation of an epoch; of another epoch, or after too long, everything.
func (p *sampler) report(out *pack, epoch, since uint64) {
	now := p.own.Load()
	r := report{epoch: now.epoch, generation: now.generation, node: now.node}
	r.full = epoch != now.epoch || since > now.generation || since+leftKept < now.generation
	changed := func(s *queueSample) bool { return r.full || s.changed > since }
	n := 0
	for _, s := range now.led {
		if changed(s) {
			n++
		}
	}
	r.queues = make([]toldQueue, 0, n)
	for _, s := range now.led {
		if changed(s) {
			r.queues = append(r.queues, toldQueue{uint64(s.queue.ID), *s})
		}
	}
	if !r.full {
		for _, l := range now.left {
			if l.generation > since {
				r.left = append(r.left, uint64(l.id))
			}
		}
	}
	r.pack(out)
}

// claim is another node's word about a queue that it leads. It does not change but for its sample's queue.
type claim struct {
	node   meta.NodeID
	sample *queueSample // its queue is set when it is shown
	// ended says that the node does not lead the queue any more; what it said last is shown until another one says something.
	ended bool
}

// heardNode is what is known of another node.
type heardNode struct {
	at                time.Time // of its last report
	epoch, generation uint64
	node              nodeSample
}

// reports collects those of other nodes for the goroutine that ticks.
type reports struct {
	mu      sync.Mutex
	asked   map[meta.NodeID]bool // whose answer has not come
	pending []report
}

// ask asks every other node that is up and waits until all answered, but no longer than tickPatience.
func (p *sampler) ask() []report {
	nodes := p.s.peers.others()
	if len(nodes) == 0 {
		return nil
	}
	answered := make(chan struct{}, len(nodes))
	waiting := 0
	for _, node := range nodes {
		p.reports.mu.Lock()
		busy := p.reports.asked[node]
		p.reports.asked[node] = true
		p.reports.mu.Unlock()
		if busy {
			continue
		}
		waiting++
		q := question{kind: askFacts}
		if h := p.heard[node]; h != nil {
			q.epoch, q.since = h.epoch, h.generation
		}
		go func() {
			body, err := p.s.peers.ask(p.s.peers.ctx, node, q)
			p.take(node, body, err)
			answered <- struct{}{}
		}()
	}
	t := time.NewTimer(tickPatience)
	defer t.Stop()
	for ; waiting > 0; waiting-- {
		select {
		case <-answered:
			continue
		case <-t.C:
		case <-p.stop:
		}
		break
	}
	p.reports.mu.Lock()
	defer p.reports.mu.Unlock()
	list := p.reports.pending
	p.reports.pending = nil
	return list
}

// take notes an answer.
func (p *sampler) take(node meta.NodeID, body []byte, err error) {
	r := report{sender: node, at: time.Now()}
	if err == nil {
		in := unpack(body)
		r.pack(in)
		err = in.in.Err()
	}
	if err != nil {
		p.s.log.Debug("a node did not report", "node", node, "error", err)
	}
	p.reports.mu.Lock()
	defer p.reports.mu.Unlock()
	delete(p.reports.asked, node)
	if err == nil {
		p.reports.pending = append(p.reports.pending, r)
	}
}

// hear takes a report. Of two nodes that both say that they lead a queue the one with the higher term is right.
func (p *sampler) hear(r *report) {
	h := p.heard[r.sender]
	if h == nil {
		h = new(heardNode)
		p.heard[r.sender] = h
	}
	h.at, h.epoch, h.generation, h.node = r.at, r.epoch, r.generation, r.node
	if r.full {
		for id, c := range p.claims {
			p.end(id, c, r.sender)
		}
	}
	for _, id := range r.left {
		p.end(meta.QueueID(id), p.claims[meta.QueueID(id)], r.sender)
	}
	for i := range r.queues {
		t := &r.queues[i]
		id := meta.QueueID(t.id)
		if c := p.claims[id]; c != nil && c.node != r.sender && !c.ended && c.sample.status.Term > t.status.Term {
			continue
		}
		sample := t.queueSample // the report itself is not kept
		p.claims[id] = &claim{node: r.sender, sample: &sample}
	}
}

// end notes that a node does not lead a queue any more.
func (p *sampler) end(id meta.QueueID, c *claim, node meta.NodeID) {
	if c != nil && c.node == node && !c.ended {
		p.claims[id] = &claim{node: node, sample: c.sample, ended: true}
	}
}

// trusts tells whether a node's word counts: it is up and reported lately.
func (p *sampler) trusts(node meta.NodeID, now time.Time) bool {
	h := p.heard[node]
	return h != nil && p.up[node] && now.Sub(h.at) < reportFresh
}

// lookUp finds out which nodes are up, and forgets those that are replaced.
func (p *sampler) lookUp(view *meta.View) {
	up := make(map[meta.NodeID]bool)
	for n := range view.Nodes() {
		if !n.Replaced && p.s.opt.Host.NodeUp(n.ID) {
			up[n.ID] = true
		}
	}
	same := len(up) == len(p.up)
	for id := range up {
		same = same && p.up[id]
	}
	if !same {
		p.up = up
		p.upVersion++
	}
	for id := range p.heard {
		if n := view.Node(id); n == nil || n.Replaced {
			delete(p.heard, id)
		}
	}
}

// online returns the nodes of a list that are up.
func (p *sampler) online(members []meta.NodeID) []meta.NodeID {
	for _, id := range members {
		if !p.up[id] {
			return slices.DeleteFunc(slices.Clone(members), func(id meta.NodeID) bool { return !p.up[id] })
		}
	}
	return members
}
