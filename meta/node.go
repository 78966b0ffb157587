package meta

// registerNode adds a member or changes what it says about itself.
func (m *Machine) registerNode(in *Node) Reply {
	old := m.v.Node(in.ID)
	if in.ID == 0 {
		old = m.withToken(in.Token)
	} else if old == nil || old.Replaced {
		return Reply{Reason: ReasonNoNode}
	}
	if other := m.v.NodeNamed(in.Name); other != nil && other != old {
		if other.Alive() {
			return Reply{Reason: ReasonNameInUse, ID: uint64(other.ID)}
		}
		replaced := *other
		replaced.Replaced = true
		m.setNode(&replaced)
	}
	n := Node{Token: in.Token, Boot: in.Boot}
	if old != nil {
		n = *old
	} else if m.v.nodes.Len() >= NodesMax {
		return limit("nodes", NodesMax)
	} else {
		n.ID = m.v.nextNode
		m.v.nextNode++
	}
	n.Name, n.Address, n.MachineVersion = in.Name, in.Address, in.MachineVersion
	if old == nil || *old != n {
		m.setNode(&n)
	}
	return Reply{ID: uint64(n.ID), Existed: old != nil}
}

// withToken returns the member that asked for its id with the token, nil if none did.
func (m *Machine) withToken(token uint64) *Node {
	for _, n := range m.v.nodes.All() {
		if n.Token == token && !n.Replaced {
			return n
		}
	}
	return nil
}

func (m *Machine) setNode(n *Node) {
	m.v.nodes = m.v.nodes.Set(n.ID, n)
	m.emit(Effect{Kind: NodeChanged, Node: n})
}

// registerBoot makes in.Boot the node's incarnation and declares the one before it dead: a fast restart is a death, too.
func (m *Machine) registerBoot(in *Node) Reply {
	old := m.v.Node(in.ID)
	if old == nil || old.Replaced {
		return Reply{Reason: ReasonNoNode}
	}
	if in.Boot == old.Boot && old.Alive() {
		return Reply{ID: uint64(in.ID), Existed: true}
	}
	if highest := max(old.Boot.Counter, old.DeadBoot.Counter); in.Boot.Counter <= highest {
		return Reply{Reason: ReasonStaleBoot, ID: uint64(in.ID), Count: highest}
	}
	n := *old
	died := old.Alive()
	if died {
		n.DeadBoot = old.Boot
	}
	n.Boot = in.Boot
	m.setNode(&n)
	if died {
		m.emit(Effect{Kind: NodeDead, Node: &n})
	}
	reply := m.sweep()
	reply.ID = uint64(in.ID)
	if m.alone(in.ID) {
		m.dropTransientExchanges()
	}
	return reply
}

// nodeDead declares the registered incarnation of a node dead because its heartbeats were lost.
func (m *Machine) nodeDead(in *Node) Reply {
	old := m.v.Node(in.ID)
	if old == nil {
		return Reply{Reason: ReasonNoNode}
	}
	if old.Boot != in.Boot || !old.Alive() {
		return Reply{ID: uint64(in.ID), Existed: true}
	}
	n := *old
	n.DeadBoot = n.Boot
	m.v.nodes = m.v.nodes.Set(n.ID, &n)
	m.emit(Effect{Kind: NodeDead, Node: &n})
	reply := m.sweep()
	reply.ID = uint64(in.ID)
	return reply
}

// alone tells whether no other node has an incarnation that is not dead.
func (m *Machine) alone(id NodeID) bool {
	for _, n := range m.v.nodes.All() {
		if n.ID != id && n.Alive() {
			return false
		}
	}
	return true
}

// dropTransientExchanges removes the exchanges that end with the cluster's run. There are as many as clients declared by hand, not one per connection,
// so this is one step.
func (m *Machine) dropTransientExchanges() {
	for _, h := range m.v.vhosts.All() {
		for _, x := range h.exchanges.All() {
			if !x.Durable {
				m.removeExchange(h.Name, x.Name)
			}
		}
	}
}

// fenced tells whether an incarnation must not change anything any more. An unknown node is fenced, too.
func (m *Machine) fenced(node NodeID, boot Boot) bool {
	n := m.v.Node(node)
	return n == nil || n.Boot != boot || n.Fences(boot)
}

// sweep removes up to SweepMax queues that lost their ground: those of condemned virtual hosts, and transient ones of dead incarnations.
func (m *Machine) sweep() Reply {
	left := SweepMax
	for number, h := range m.v.condemned.All() {
		rest := h.queues
		for name, q := range h.queues.All() {
			if left == 0 {
				break
			}
			left--
			rest = rest.Delete(name)
			m.forgetQueue(q)
		}
		if rest.Len() > 0 {
			m.v.condemned = m.v.condemned.Set(number, &vhost{VHost: h.VHost, queues: rest})
			break
		}
		m.v.condemned = m.v.condemned.Delete(number)
	}
	for _, n := range m.v.nodes.All() {
		for left > 0 {
			id, ok := m.v.firstDead(n)
			if !ok {
				break
			}
			left--
			m.removeQueue(m.v.QueueByID(id))
		}
	}
	return Reply{Count: uint64(SweepMax - left), More: left == 0 && m.v.SweepPending()}
}

// dropOwned removes the exclusive queues of one connection. Those of a deleted virtual host are left to the sweep.
func (m *Machine) dropOwned(o Owner) Reply {
	dropped := 0
	v := m.v
	for q := range v.OwnedBy(o) {
		if dropped == SweepMax {
			return Reply{Count: uint64(dropped), More: true}
		}
		dropped++
		if _, letters := q.Effective("x-dead-letter-exchange"); letters {
			m.drainQueue(q)
			continue
		}
		m.removeQueue(q)
	}
	return Reply{Count: uint64(dropped)}
}
