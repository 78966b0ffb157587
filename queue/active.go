package queue

import (
	"cmp"
	"slices"

	"github.com/google/btree"
)

// A queue with a single active consumer gives messages to one consumer at a time: that of the highest priority, of equals the one that came first. All others stand by. When the active one
// goes the next takes over at once; one that a higher priority takes over from gets no more and stays the active one until all that it has is settled, so that nobody works beside it.
// Every take-over has a number, the epoch, which consumers can fence with.

// succession is the consumers of such a queue in the order in which they are to be active.
type succession struct {
	order  *btree.BTreeG[*consumer] // nil if all consumers are active
	active *consumer                // nil if there is none
	epoch  uint64                   // how often another consumer became the active one
	joined uint64                   // how many consumers there ever were
}

func byRank(a, b *consumer) bool {
	return a.priority > b.priority || a.priority == b.priority && a.joined < b.joined
}

// join adds a consumer, which stands by until it is elected.
func (n *succession) join(c *consumer) {
	n.joined++
	c.joined = n.joined
	if n.order != nil {
		c.passive = true
		n.order.ReplaceOrInsert(c)
	}
}

// leave takes a consumer out.
func (n *succession) leave(c *consumer) {
	if n.order == nil {
		return
	}
	n.order.Delete(c)
	if n.active == c {
		n.active = nil
	}
}

// elect finds out who is the active consumer. It is called after every change of who there is, and when one that is to go has settled what it had.
func (m *Machine) elect() {
	n := &m.succession
	if n.order == nil {
		return
	}
	best, ok := n.order.Min()
	a := n.active
	switch {
	case !ok:
		return
	case a != nil && best.priority <= a.priority && mutant != mutantNewcomerTakesOver:
		if a.passive { // the one that outranked it went
			m.stand(a, false)
		}
		return
	}
	if a != nil {
		m.stand(a, true)
		if a.unsettled > 0 && mutant != mutantTakesOverAtOnce {
			return
		}
	}
	n.epoch++
	n.active, best.epoch = best, n.epoch
	m.stand(best, false)
}

// stand has a consumer stand by, or get messages.
func (m *Machine) stand(c *consumer, passive bool) {
	c.passive = passive
	m.roster.place(c)
}

// activate follows a change of the Config: all consumers get messages, or one does.
func (m *Machine) activate() {
	n := &m.succession
	if m.cfg.SingleActive == (n.order != nil) {
		return
	}
	n.order, n.active = nil, nil
	if m.cfg.SingleActive {
		n.order = newTree(byRank)
	}
	var all []*consumer
	for _, p := range m.pipelines {
		for _, s := range p.sessions {
			all = append(all, s.consumers...)
		}
	}
	slices.SortFunc(all, func(a, b *consumer) int { return cmp.Compare(a.joined, b.joined) })
	for _, c := range all {
		c.epoch = 0
		if n.order != nil {
			n.order.ReplaceOrInsert(c)
		}
		m.stand(c, n.order != nil)
	}
	m.elect()
}

// isStable tells whether the active consumer is the one that elect wants.
func (n *succession) isStable() bool {
	if n.order == nil {
		return n.active == nil
	}
	best, ok := n.order.Min()
	a := n.active
	if !ok || a == nil {
		return !ok && a == nil
	}
	outranked := best.priority > a.priority
	return a.passive == outranked && (!outranked || a.unsettled > 0) && (a == best || outranked || best.priority == a.priority)
}
