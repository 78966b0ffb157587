package meta

func (m *Machine) declareExchange(in *Exchange) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	if old, ok := h.exchanges.Get(in.Name); ok {
		return judgeExchange(old, in)
	}
	if h.exchanges.Len() >= ExchangesMax {
		return limit("exchanges", ExchangesMax)
	}
	x := *in
	x.Policies = h.policies.attachExchange(&x)
	next := *h
	next.exchanges = h.exchanges.Set(x.Name, &x)
	m.setVHost(&next)
	m.emit(Effect{Kind: ExchangeCreated, Exchange: &x})
	return Reply{}
}

func (m *Machine) deleteExchange(in *Exchange, ifUnused bool) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	if _, ok = h.exchanges.Get(in.Name); !ok {
		return Reply{}
	}
	if ifUnused && anyWithPrefix(h.bySource, fromPrefix(in.Name)) {
		return Reply{Reason: ReasonInUse}
	}
	m.removeExchange(in.VHost, in.Name)
	return Reply{Existed: true}
}

// removeExchange removes an exchange with the bindings at both of its ends, then the auto-delete exchanges that lost their last binding by it, and so on.
func (m *Machine) removeExchange(vhostName, name string) {
	doomed := []string{name}
	for len(doomed) > 0 {
		name, doomed = doomed[0], doomed[1:]
		h, ok := m.v.vhosts.Get(vhostName)
		if !ok {
			return
		}
		x, ok := h.exchanges.Get(name)
		if !ok {
			continue
		}
		next := *h
		next.exchanges = h.exchanges.Delete(name)
		if q, ok := h.queues.Get(historyPrefix + name); ok {
			next.queues = next.queues.Delete(q.Name)
			m.forgetQueue(q)
		}
		if q, ok := h.queues.Get(relayPrefix + name); ok {
			next.queues = next.queues.Delete(q.Name)
			m.forgetQueue(q)
			m.leaveRelay(&next, x, q)
		}
		for _, b := range withPrefix(h.bySource, fromPrefix(name)) {
			m.cutBinding(&next, b)
		}
		var sources []string
		for _, b := range withPrefix(next.byDestination, toPrefix(ToExchange, name)) {
			m.cutBinding(&next, b)
			sources = append(sources, b.Source)
		}
		m.setVHost(&next)
		m.emit(Effect{Kind: ExchangeDeleted, Exchange: x})
		doomed = append(doomed, m.unbound(&next, sources)...)
	}
}

// cutBinding takes a binding out of a version of a virtual host that is being made.
func (m *Machine) cutBinding(next *vhost, b *Binding) {
	next.dropBinding(b)
	m.emit(Effect{Kind: BindingDeleted, Binding: b})
}

// addBinding makes a binding that is not there part of a version that is being made.
func (h *vhost) addBinding(b *Binding) {
	h.bySource = h.bySource.Set(sourceKey(b), b)
	h.byDestination = h.byDestination.Set(destinationKey(b), b)
	to := toPrefix(b.Kind, b.Destination)
	n, _ := h.bound.Get(to)
	h.bound = h.bound.Set(to, n+1)
}

// dropBinding is addBinding undone.
func (h *vhost) dropBinding(b *Binding) {
	h.bySource = h.bySource.Delete(sourceKey(b))
	h.byDestination = h.byDestination.Delete(destinationKey(b))
	to := toPrefix(b.Kind, b.Destination)
	if n, _ := h.bound.Get(to); n > 1 {
		h.bound = h.bound.Set(to, n-1)
	} else {
		h.bound = h.bound.Delete(to)
	}
}

// unbound returns those of the sources, which just lost a binding each, that are auto-delete exchanges without a binding now.
func (m *Machine) unbound(h *vhost, sources []string) (doomed []string) {
	for i, name := range sources {
		x, ok := h.exchanges.Get(name)
		if !ok || !x.AutoDelete || i > 0 && name == sources[i-1] {
			continue
		}
		if !anyWithPrefix(h.bySource, fromPrefix(name)) {
			doomed = append(doomed, name)
		}
	}
	return doomed
}

func (m *Machine) bind(in *Binding) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	if _, ok = h.exchanges.Get(in.Source); !ok {
		return Reply{Reason: ReasonNoExchange, Field: "source", Detail: in.Source}
	}
	b := *in
	b.Queue = 0
	if b.Kind == ToExchange {
		if _, ok = h.exchanges.Get(b.Destination); !ok {
			return Reply{Reason: ReasonNoExchange, Field: "destination", Detail: b.Destination}
		}
	} else {
		q, ok := h.queues.Get(b.Destination)
		if !ok {
			return Reply{Reason: ReasonNoQueue, Detail: b.Destination}
		}
		b.Queue = q.ID
	}
	key := sourceKey(&b)
	if _, ok = h.bySource.Get(key); ok {
		return Reply{Existed: true}
	}
	if h.bySource.Len() >= BindingsMax {
		return limit("bindings", BindingsMax)
	}
	next := *h
	next.addBinding(&b)
	m.setVHost(&next)
	m.emit(Effect{Kind: BindingCreated, Binding: &b})
	return Reply{}
}

func (m *Machine) unbind(in *Binding) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	b, ok := h.bySource.Get(sourceKey(in))
	if !ok {
		return Reply{}
	}
	next := *h
	m.cutBinding(&next, b)
	m.setVHost(&next)
	for _, name := range m.unbound(&next, []string{b.Source}) {
		m.removeExchange(in.VHost, name)
	}
	return Reply{Existed: true}
}
