package meta

import (
	"iter"
	"slices"
	"strings"
)

// VHostLimits returns the limits of a virtual host in the order of their names; the slice must not be changed.
func (v *View) VHostLimits(name string) []Limit {
	if h, ok := v.vhosts.Get(name); ok {
		return h.limits
	}
	return nil
}

// UserLimits returns the limits of a user in the order of their names; the slice must not be changed.
func (v *View) UserLimits(name string) []Limit {
	limits, _ := v.userLimits.Get(name)
	return limits
}

// LimitedUsers yields the users that have limits, by name.
func (v *View) LimitedUsers() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range v.userLimits.All() {
			if !yield(name) {
				return
			}
		}
	}
}

// LimitOf returns the value of a limit; ok is false where nothing is bounded.
func LimitOf(limits []Limit, name string) (value int64, ok bool) {
	for _, l := range limits {
		if l.Name == name {
			return l.Value, l.Value >= 0
		}
	}
	return 0, false
}

// queuesMax refuses one more queue in a virtual host that has as many as it may.
func (v *View) queuesMax(vhostName string) Reply {
	h, _ := v.vhosts.Get(vhostName)
	if most, ok := LimitOf(h.limits, MaxQueues); ok && int64(h.queues.Len()-h.hidden()) >= most {
		return Reply{Reason: ReasonQueuesMax, Count: uint64(most)}
	}
	return Reply{}
}

func (m *Machine) changeVHostLimit(name string, l Limit, set bool) Reply {
	h, ok := m.v.vhosts.Get(name)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	limits, reply, changed := withLimit(h.limits, l, set)
	if changed {
		next := *h
		next.limits = limits
		m.setVHost(&next)
		m.emit(Effect{Kind: VHostChanged, VHost: name})
	}
	return reply
}

func (m *Machine) changeUserLimit(name string, l Limit, set bool) Reply {
	if m.v.User(name) == nil {
		return Reply{Reason: ReasonNoUser}
	}
	limits, reply, changed := withLimit(m.v.UserLimits(name), l, set)
	switch {
	case !changed:
		return reply
	case len(limits) == 0:
		m.v.userLimits = m.v.userLimits.Delete(name)
	default:
		m.v.userLimits = m.v.userLimits.Set(name, limits)
	}
	m.emit(Effect{Kind: UserChanged, User: name})
	return reply
}

// withLimit returns the limits with l, or without the one of its name.
func withLimit(old []Limit, l Limit, set bool) (limits []Limit, reply Reply, changed bool) {
	i, found := slices.BinarySearchFunc(old, l.Name, func(l Limit, name string) int { return strings.Compare(l.Name, name) })
	switch {
	case set && found && old[i] == l, !set && !found:
		return old, Reply{Existed: found}, false
	case set && !found && len(old) >= LimitsMax:
		return old, limit("limits", LimitsMax), false
	}
	limits = slices.Clone(old[:i])
	if set {
		limits = append(limits, l)
	}
	if found {
		i++
	}
	return append(limits, old[i:]...), Reply{Existed: found}, true
}
