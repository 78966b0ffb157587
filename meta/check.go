package meta

import "fmt"

// Check verifies every invariant of the catalogue. It walks all of it: for tests and for restores.
func (m *Machine) Check() error {
	v := &m.v
	queues, owned, homed := 0, 0, 0
	count := func(h *vhost) error {
		for name, q := range h.queues.All() {
			if err := v.checkQueue(h, name, q); err != nil {
				return err
			}
			queues++
			if q.Exclusive {
				owned++
			}
			if !q.Durable {
				homed++
			}
		}
		return nil
	}
	for name, h := range v.vhosts.All() {
		if h.Name != name {
			return fmt.Errorf("virtual host %q stands under %q", h.Name, name)
		}
		if err := v.checkVHost(h); err != nil {
			return fmt.Errorf("virtual host %q: %w", name, err)
		}
		if err := count(h); err != nil {
			return fmt.Errorf("virtual host %q: %w", name, err)
		}
	}
	for number, h := range v.condemned.All() {
		if number >= v.nextCondemned || h.queues.Len() == 0 || h.exchanges.Len()+h.bySource.Len()+h.byDestination.Len()+h.permissions.Len()+h.topics.Len()+len(h.limits)+h.policies.len() > 0 {
			return fmt.Errorf("condemned virtual host %q has number %d of %d and %d queues", h.Name, number, v.nextCondemned, h.queues.Len())
		}
		if err := count(h); err != nil {
			return fmt.Errorf("condemned virtual host %q: %w", h.Name, err)
		}
	}
	if v.queues.Len() != queues || v.owned.Len() != owned || v.homed.Len() != homed {
		return fmt.Errorf("indexes have %d queues, %d owned, %d homed; virtual hosts have %d, %d, %d",
			v.queues.Len(), v.owned.Len(), v.homed.Len(), queues, owned, homed)
	}
	return v.checkNodes()
}

func (v *View) checkNodes() error {
	for id, n := range v.nodes.All() {
		switch {
		case n.ID != id || id == 0 || id >= v.nextNode:
			return fmt.Errorf("node %d stands under %d, next id %d", n.ID, id, v.nextNode)
		case n.DeadBoot.Counter > n.Boot.Counter:
			return fmt.Errorf("node %d: dead boot %d above boot %d", id, n.DeadBoot.Counter, n.Boot.Counter)
		case n.Replaced && n.Alive():
			return fmt.Errorf("node %d is replaced and alive", id)
		}
		if other := v.NodeNamed(n.Name); !n.Replaced && other != n {
			return fmt.Errorf("nodes %d and %d are both named %q", other.ID, id, n.Name)
		}
	}
	for name, u := range v.users.All() {
		if u.Name != name {
			return fmt.Errorf("user %q stands under %q", u.Name, name)
		}
	}
	for user, limits := range v.userLimits.All() {
		if v.User(user) == nil || len(limits) == 0 {
			return fmt.Errorf("%d limits of user %q, who exists: %v", len(limits), user, v.User(user) != nil)
		}
		if err := checkLimits(limits); err != nil {
			return fmt.Errorf("user %q: %w", user, err)
		}
	}
	return nil
}

func (v *View) checkQueue(h *vhost, name string, q *Queue) error {
	byID, _ := v.queues.Get(q.ID)
	switch {
	case q.Name != name || q.VHost != h.Name || byID != q:
		return fmt.Errorf("queue %d %q stands under %q", q.ID, q.Name, name)
	case q.IsDraining() && !isHidden(name):
		return fmt.Errorf("queue %q was %q", name, q.Was)
	case q.ID < FirstQueueID || q.ID >= v.nextQueue:
		return fmt.Errorf("queue %q has id %d, next id %d", name, q.ID, v.nextQueue)
	case q.Exclusive && q.Durable:
		return fmt.Errorf("queue %q is exclusive and durable", name)
	case q.Exclusive != (q.Owner != Owner{}):
		return fmt.Errorf("queue %q: exclusive %v, owner %v", name, q.Exclusive, q.Owner)
	case q.Durable && (q.Home != 0 || q.HomeBoot != Boot{}):
		return fmt.Errorf("durable queue %q has home %d", name, q.Home)
	case !q.Durable && (v.Node(q.Home) == nil || len(q.Replicas) > 0):
		return fmt.Errorf("transient queue %q has home %d and %d replicas", name, q.Home, len(q.Replicas))
	}
	for i, id := range q.Replicas {
		if i > 0 && id <= q.Replicas[i-1] {
			return fmt.Errorf("queue %q: replicas %v are not a sorted set", name, q.Replicas)
		}
	}
	if _, ok := v.owned.Get(ownedKey(q.Owner, q.ID)); ok != q.Exclusive {
		return fmt.Errorf("queue %q: exclusive %v, in the index of owners %v", name, q.Exclusive, ok)
	}
	if _, ok := v.homed.Get(homedKey(q.Home, q.HomeBoot.Counter, q.ID)); ok == q.Durable {
		return fmt.Errorf("queue %q: durable %v, in the index of homes %v", name, q.Durable, ok)
	}
	return nil
}

func (v *View) checkVHost(h *vhost) error {
	for _, x := range predeclared(h.Name).All() {
		if have, ok := h.exchanges.Get(x.Name); !ok || have.Type != x.Type {
			return fmt.Errorf("predeclared exchange %q is missing", x.Name)
		}
	}
	for name, x := range h.exchanges.All() {
		if x.Name != name || x.VHost != h.Name {
			return fmt.Errorf("exchange %q stands under %q", x.Name, name)
		}
	}
	for user, p := range h.permissions.All() {
		if p.User != user || p.VHost != h.Name || v.User(user) == nil {
			return fmt.Errorf("permission of %q stands under %q", p.User, user)
		}
	}
	for key, p := range h.topics.All() {
		if topicKey(p.User, p.Exchange) != key || p.VHost != h.Name || v.User(p.User) == nil {
			return fmt.Errorf("topic permission of %q for %q stands under %q", p.User, p.Exchange, key)
		}
	}
	for _, prefix := range hiddenPrefixes {
		for name, q := range withPrefix(h.queues, prefix) {
			if q.IsDraining() != (prefix == drainPrefix) {
				return fmt.Errorf("hidden queue %q: is draining %v", name, q.IsDraining())
			}
			if q.IsDraining() {
				if q.Exclusive || q.AutoDelete || q.Name != drainPrefix+fmt.Sprint(uint64(q.ID)) || anyWithPrefix(h.byDestination, toPrefix(ToQueue, name)) {
					return fmt.Errorf("draining queue %q of id %d: exclusive %v, auto-delete %v", name, q.ID, q.Exclusive, q.AutoDelete)
				}
				continue
			}
			if _, ok := h.mayHide(q); !ok || !q.Durable || q.AutoDelete || anyWithPrefix(h.byDestination, toPrefix(ToQueue, name)) {
				return fmt.Errorf("hidden queue %q: has an exchange %v, durable %v, auto-delete %v", name, ok, q.Durable, q.AutoDelete)
			}
		}
	}
	if err := checkLimits(h.limits); err != nil {
		return err
	}
	if err := checkPolicies(h); err != nil {
		return err
	}
	if h.bySource.Len() != h.byDestination.Len() {
		return fmt.Errorf("%d bindings by source, %d by destination", h.bySource.Len(), h.byDestination.Len())
	}
	counts := make(map[string]int)
	for key, b := range h.bySource.All() {
		counts[toPrefix(b.Kind, b.Destination)]++
		other, _ := h.byDestination.Get(destinationKey(b))
		_, source := h.exchanges.Get(b.Source)
		_, destination := h.exchanges.Get(b.Destination)
		if b.Kind == ToQueue {
			q, ok := h.queues.Get(b.Destination)
			destination = ok && q.ID == b.Queue
		}
		if key != sourceKey(b) || other != b || b.VHost != h.Name || b.Source == "" || !source || !destination {
			return fmt.Errorf("binding from %q to %s %q (queue %d): ends exist %v %v", b.Source, b.Kind, b.Destination, b.Queue, source, destination)
		}
	}
	if h.bound.Len() != len(counts) {
		return fmt.Errorf("%d destinations are counted, %d have bindings", h.bound.Len(), len(counts))
	}
	for to, n := range h.bound.All() {
		if counts[to] != n {
			return fmt.Errorf("%d bindings to %q are counted, there are %d", n, to, counts[to])
		}
	}
	return nil
}

// checkPolicies verifies that policies and parameters stand under their names and that objects have what they give.
func checkPolicies(h *vhost) error {
	for kind := range len(h.policies) {
		for name, p := range h.policies[kind].All() {
			if p.Name != name || p.VHost != h.Name || kindOfPolicy(p.Operator) != kind {
				return fmt.Errorf("policy %q stands under %q", p.Name, name)
			}
		}
	}
	for key, p := range h.parameters.All() {
		if key != parameterKey(p.Component, p.Name) || p.VHost != h.Name || p.Value == "" {
			return fmt.Errorf("parameter %q of %q stands under %q", p.Name, p.Component, key)
		}
	}
	for name, x := range h.exchanges.All() {
		if a := h.policies.attachExchange(x); a != x.Policies {
			return fmt.Errorf("exchange %q has policies %v, not %v", name, x.Policies, a)
		}
	}
	for name, q := range h.queues.All() {
		if a := h.policies.attachQueue(q); a != q.Policies {
			return fmt.Errorf("queue %q has policies %v, not %v", name, q.Policies, a)
		}
	}
	return nil
}

// checkLimits verifies that limits are sorted and stand once.
func checkLimits(limits []Limit) error {
	for i, l := range limits {
		if i > 0 && l.Name <= limits[i-1].Name || i >= LimitsMax {
			return fmt.Errorf("limits %v are not a sorted set", limits)
		}
	}
	return nil
}
