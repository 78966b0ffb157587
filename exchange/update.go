package exchange

import (
	"slices"

	"github.com/warrenmq/warren/meta"
)

// update is the making of one Router from another. What carries it as owner was made by this update and may be changed in place; all else is copied first.
type update struct {
	view *meta.View
	next *Router
	// name and vhost are the virtual host being changed, nil if none is; source and x the exchange in it.
	name   string
	vhost  *VHost
	source string
	x      *compiled
}

// Update returns the Router of a newer View of the same machine. The receiver stays as it is.
func (r *Router) Update(v *meta.View) *Router {
	u := &update{view: v, next: &Router{view: v, node: r.node, vhosts: r.vhosts}}
	v.Diff(r.view, meta.Visitor{VHost: u.visitVHost, Exchange: u.visitExchange, Queue: u.visitQueue, Binding: u.visitBinding})
	u.closeVHost()
	return u.next
}

func (u *update) visitVHost(name string, _, exists bool) bool {
	u.closeVHost()
	if !exists {
		u.next.vhosts = u.next.vhosts.Delete(name)
		return false
	}
	u.name, u.vhost = name, &VHost{node: u.next.node}
	if old := u.next.VHost(name); old != nil {
		*u.vhost = *old
	}
	return true
}

func (u *update) closeVHost() {
	u.closeExchange()
	if u.vhost != nil {
		u.next.vhosts = u.next.vhosts.Set(u.name, u.vhost)
		u.vhost = nil
	}
}

func (u *update) closeExchange() {
	if u.x != nil {
		u.vhost.exchanges = u.vhost.exchanges.Set(u.source, u.x)
		u.x = nil
	}
}

// visitExchange starts an exchange anew: an exchange that was made again has new bindings, too.
func (u *update) visitExchange(before, x *meta.Exchange) {
	if x == nil {
		u.vhost.exchanges = u.vhost.exchanges.Delete(before.Name)
		return
	}
	if x.Name == "" {
		return
	}
	c := &compiled{kind: kindOf(x.RoutingType()), internal: x.Internal, delays: x.Delays(), dedups: x.Deduplicates()}
	if old, ok := u.vhost.exchanges.Get(x.Name); ok && before != nil && before.Type == x.Type && before.Arguments == x.Arguments {
		*c = *old // its policy changed: the bindings stay. If it was made again, those of the old one are taken out one by one.
		c.internal, c.alternate, c.hasAlternate = x.Internal, "", false
	}
	if v, ok := x.Effective("alternate-exchange"); ok {
		c.alternate, c.hasAlternate = v.AsString()
	}
	if c.kind == consistentHashKind {
		c.hashed, c.header = hashOf(x)
	}
	u.vhost.exchanges = u.vhost.exchanges.Set(x.Name, c)
}

func (u *update) visitQueue(before, after *meta.Queue) {
	q := after
	if q == nil {
		q = before
	}
	if q.IsHidden() {
		u.visitHidden(q, after != nil)
		return
	}
	if after == nil {
		u.vhost.queues = u.vhost.queues.Delete(before.Name)
		return
	}
	if before == nil || before.ID != after.ID {
		u.vhost.queues = u.vhost.queues.Set(after.Name, after.ID)
	}
}

// visitHidden gives a history or a relay to its exchange. Clients cannot address it, so it is not among the queues.
func (u *update) visitHidden(q *meta.Queue, exists bool) {
	if q.IsDraining() {
		return
	}
	name, isHistory := q.HistoryOf()
	if !isHistory {
		name, _ = q.RelayOf()
	}
	old, ok := u.vhost.exchanges.Get(name)
	if !ok {
		return
	}
	x, id := *old, meta.QueueID(0)
	if exists {
		id = q.ID
	}
	if isHistory {
		x.history = id
	} else {
		x.relay = id
	}
	u.vhost.exchanges = u.vhost.exchanges.Set(name, &x)
}

func (u *update) visitBinding(before, after *meta.Binding) {
	b := after
	if b == nil {
		b = before
	}
	if u.x == nil || u.source != b.Source {
		u.closeExchange()
		old, ok := u.vhost.exchanges.Get(b.Source)
		if !ok {
			return
		}
		x := *old
		u.source, u.x = b.Source, &x
	}
	if before != nil {
		u.remove(before)
	}
	if after != nil {
		u.add(after)
	}
}

func (u *update) add(b *meta.Binding) {
	switch u.x.kind {
	case directKind:
		old, _ := u.x.direct.Get(b.RoutingKey)
		if t := u.with(old, b); t != old {
			u.x.direct = u.x.direct.Set(b.RoutingKey, t)
		}
	case fanoutKind, modulusHashKind, randomKind, localRandomKind:
		u.x.fanout = u.with(u.x.fanout, b)
	case consistentHashKind:
		u.x.ring = u.weigh(u.x.ring, b)
	case topicKind:
		u.x.topic = u.withPattern(u.x.topic, b.RoutingKey, b.RoutingKey != "", b)
	case headersKind:
		u.x.headers = u.withHeaders(u.x.headers, b)
	}
}

// remove takes out what a binding led to, unless another binding with the same effect is left.
func (u *update) remove(b *meta.Binding) {
	switch u.x.kind {
	case directKind:
		if u.remains(b, true) {
			return
		}
		old, _ := u.x.direct.Get(b.RoutingKey)
		switch t := u.without(old, b); {
		case t == nil:
			u.x.direct = u.x.direct.Delete(b.RoutingKey)
		case t != old:
			u.x.direct = u.x.direct.Set(b.RoutingKey, t)
		}
	case consistentHashKind:
		u.x.ring = u.weigh(u.x.ring, b)
	case fanoutKind, modulusHashKind, randomKind, localRandomKind:
		if !u.remains(b, false) {
			u.x.fanout = u.without(u.x.fanout, b)
		}
	case topicKind:
		if !u.remains(b, true) {
			u.x.topic = u.withoutPattern(u.x.topic, b.RoutingKey, b.RoutingKey != "", b)
		}
	case headersKind:
		u.x.headers = u.withoutHeaders(u.x.headers, b)
	}
}

// remains tells whether the newer View has a binding between the same ends, with the same routing key if that counts.
func (u *update) remains(b *meta.Binding, sameKey bool) bool {
	bindings := u.view.BindingsBetween(b.VHost, b.Source, b.Kind, b.Destination)
	if sameKey {
		bindings = u.view.BindingsBetweenWith(b.VHost, b.Source, b.Kind, b.Destination, b.RoutingKey)
	}
	for other := range bindings {
		return other.Queue == b.Queue
	}
	return false
}

// own returns targets that may be changed in place: t itself if this update made it, else a copy.
func (u *update) own(t *targets) *targets {
	switch {
	case t == nil:
		return &targets{owner: u}
	case t.owner == u:
		return t
	}
	return &targets{queues: slices.Clone(t.queues), exchanges: slices.Clone(t.exchanges), owner: u}
}

// with returns t with the destination of the binding in it.
func (u *update) with(t *targets, b *meta.Binding) *targets {
	if b.Kind == meta.ToQueue {
		if t != nil {
			if _, ok := slices.BinarySearch(t.queues, b.Queue); ok {
				return t
			}
		}
		t = u.own(t)
		i, _ := slices.BinarySearch(t.queues, b.Queue)
		t.queues = slices.Insert(t.queues, i, b.Queue)
		return t
	}
	if t != nil {
		if _, ok := slices.BinarySearch(t.exchanges, b.Destination); ok {
			return t
		}
	}
	t = u.own(t)
	i, _ := slices.BinarySearch(t.exchanges, b.Destination)
	t.exchanges = slices.Insert(t.exchanges, i, b.Destination)
	return t
}

// without returns t without the destination of the binding, nil if nothing is left.
func (u *update) without(t *targets, b *meta.Binding) *targets {
	if t == nil {
		return nil
	}
	if b.Kind == meta.ToQueue {
		if i, ok := slices.BinarySearch(t.queues, b.Queue); ok {
			t = u.own(t)
			t.queues = slices.Delete(t.queues, i, i+1)
		}
	} else if i, ok := slices.BinarySearch(t.exchanges, b.Destination); ok {
		t = u.own(t)
		t.exchanges = slices.Delete(t.exchanges, i, i+1)
	}
	if len(t.queues)+len(t.exchanges) == 0 {
		return nil
	}
	return t
}
