package management

import (
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// sampleAll puts together what this node sees and what the others said.
func (p *sampler) sampleAll(now time.Time, view *meta.View, snap *snapshot) {
	self := p.s.opt.Host.Node()
	snap.queues = make([]*queueSample, 0, len(p.seen))
	snap.replication.count(view, p.up)
	claims := 0
	for _, state := range p.seen {
		c := p.claims[state.queue.ID]
		if c != nil {
			claims++
		}
		sample := p.choose(now, state, c)
		snap.queues = append(snap.queues, sample)
		snap.totals.add(&sample.status)
		snap.rates.add(sample.rates)
		if leaderOf(&sample.status) == self {
			snap.led.add(&sample.status)
		}
		snap.replication.add(state, &sample.status)
	}
	if len(p.claims) > claims {
		for id := range p.claims {
			if id < view.NextQueueID() && view.QueueByID(id) == nil {
				delete(p.claims, id)
			}
		}
	}
	snap.others = make(map[meta.NodeID]heardNode, len(p.heard))
	snap.cluster.sum(&snap.node)
	for id, h := range p.heard {
		if p.trusts(id, now) {
			snap.others[id] = *h
			snap.cluster.sum(&h.node)
		}
	}
}

// choose picks whose word about a queue is shown: that of the node that leads it; else what this node sees of it; else what its leader last said, marked; else what follows from the catalogue.
func (p *sampler) choose(now time.Time, state *queueState, c *claim) *queueSample {
	own := state.last
	trusted := c != nil && !c.ended && p.trusts(c.node, now)
	switch {
	case own != nil && state.leads && (!trusted || own.status.Term >= c.sample.status.Term):
		return own
	case trusted:
		if c.sample.queue != state.queue {
			if c.sample.queue != nil { // it is published already
				copied := *c.sample
				c.sample = &copied
			}
			c.sample.queue = state.queue
		}
		return c.sample
	case own != nil && (c == nil || runs(&own.status)):
		return own
	case state.shown != nil && state.up == p.upVersion && state.of == c:
		return state.shown
	}
	st := p.unclaimed(state.queue)
	if c != nil {
		st = p.stale(state.queue, c)
	}
	state.shown, state.of, state.up = &queueSample{queue: state.queue, status: st, idleSince: p.s.started}, c, p.upVersion
	return state.shown
}

// runs tells whether a replica runs on the node that tells the status, or knows from when it did how the queue is.
func runs(st *quorum.QueueStatus) bool { return !st.IsUnknown() && st.State != quorum.StateDown }

// membersOf are the nodes that have something of a queue, as the catalogue knows it.
func membersOf(q *meta.Queue) []meta.NodeID {
	if !q.Durable {
		return []meta.NodeID{q.Home}
	}
	nodes := make([]meta.NodeID, len(q.Members))
	for i, m := range q.Members {
		nodes[i] = m.Node
	}
	return nodes
}

// unclaimed is how a queue is of which no node says that it leads it: nothing wanted it yet, unless its nodes are not up.
func (p *sampler) unclaimed(q *meta.Queue) quorum.QueueStatus {
	st := quorum.QueueStatus{State: quorum.StateParked, Members: membersOf(q)}
	if !q.Durable {
		st.State, st.Leader = quorum.StateRunning, q.Home
	}
	p.judge(&st)
	return st
}

// stale is how a queue is whose leader said something before it fell silent, or ceased to lead: the numbers are the last ones that are known.
func (p *sampler) stale(q *meta.Queue, c *claim) quorum.QueueStatus {
	st := c.sample.status
	st.Members = membersOf(q)
	st.BodyBytesInMemory, st.DiskBytes = 0, 0
	if c.ended {
		st.Leader, st.State, st.Reason = 0, quorum.StateStarting, "no node says that it leads it"
	} else {
		st.State, st.Reason = quorum.StateDown, "the node that leads it does not answer"
	}
	p.judge(&st)
	return st
}

// judge finds out who is online, and that too few are.
func (p *sampler) judge(st *quorum.QueueStatus) {
	st.Online = p.online(st.Members)
	switch {
	case len(st.Members) == 0 || len(st.Online) > len(st.Members)/2:
	case len(st.Online) == 0:
		st.State, st.Reason = quorum.StateDown, "none of its nodes is up"
	default:
		st.State, st.Reason = quorum.StateMinority, "fewer than half of its replicas are up"
	}
}

// sum adds another node's counters and rates.
func (n *nodeSample) sum(more *nodeSample) {
	add := func(c, more *counters, r **rates, moreRates *rates) {
		for i := range c {
			c[i] += more[i]
		}
		if moreRates != nil {
			if *r == nil {
				*r = new(rates)
			}
			(*r).add(moreRates)
		}
	}
	add(&n.messages, &more.messages, &n.messageRates, more.messageRates)
	add(&n.churn, &more.churn, &n.churnRates, more.churnRates)
}

// replication tells whether queues have the replicas that they should have.
type replication struct {
	// nodes are those of the cluster, running those of them that are up.
	nodes, running int
	// short are queues with fewer replicas than they should have here, wanting those that ask for more than the cluster can give, minority those with too few replicas up to serve, down those
	// that do not serve for another reason.
	short, wanting, minority, down exceptions
}

// exceptionsNamed is how many queues of a kind are named.
const exceptionsNamed = 5

// exceptions count queues that are not as they should be, and name the first ones.
type exceptions struct {
	count int
	named []*meta.Queue
}

func (e *exceptions) add(q *meta.Queue) {
	if e.count++; len(e.named) < exceptionsNamed {
		e.named = append(e.named, q)
	}
}

func (r *replication) count(view *meta.View, up map[meta.NodeID]bool) {
	for n := range view.Nodes() {
		if n.Replaced {
			continue
		}
		r.nodes++
		if up[n.ID] {
			r.running++
		}
	}
}

func (r *replication) add(state *queueState, st *quorum.QueueStatus) {
	q := state.queue
	switch stateWord(st) {
	case "minority":
		r.minority.add(q)
	case "down":
		r.down.add(q)
	}
	if !q.Durable {
		return
	}
	possible := min(state.wanted, r.nodes)
	possible = max(1, possible-(possible+1)%2) // odd: an even number survives no more deaths than the odd one below it
	switch {
	case len(q.Members) < possible:
		r.short.add(q)
	case state.asked && len(q.Members) < state.wanted:
		r.wanting.add(q)
	}
}

// replicasWanted is how many replicas a queue should have on a cluster that is large enough, and whether that was asked for.
func replicasWanted(q *meta.Queue) (wanted int, asked bool) {
	if v, ok := q.Arguments.Get("x-quorum-initial-group-size"); ok {
		if n, ok := v.AsInt64(); ok && n > 0 {
			return int(min(n, meta.ReplicasMax)), true
		}
	}
	return limits.ReplicasDefault, false
}
