package meta

import (
	"iter"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/cow"
)

// ApplyTo tells what kind of objects a policy is for. The numbers stand in logs: only add at the end.
type ApplyTo uint8

// What policies apply to.
const (
	ApplyToAll           ApplyTo = 1
	ApplyToQueues        ApplyTo = 2
	ApplyToClassicQueues ApplyTo = 3
	ApplyToQuorumQueues  ApplyTo = 4
	ApplyToStreams       ApplyTo = 5
	ApplyToExchanges     ApplyTo = 6
)

var applyToWords = [...]string{"all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"}

// String returns RabbitMQ's word.
func (a ApplyTo) String() string {
	if a < ApplyToAll || a > ApplyToExchanges {
		return "unknown"
	}
	return applyToWords[a-1]
}

// ParseApplyTo reads RabbitMQ's word.
func ParseApplyTo(word string) (a ApplyTo, ok bool) {
	for i, w := range applyToWords {
		if w == word {
			return ApplyTo(i + 1), true
		}
	}
	return 0, false
}

// Policy gives the queues and exchanges of a virtual host whose names match settings beside their arguments. Of the user policies that match an object one counts, and one of the operator policies.
type Policy struct {
	VHost, Name string
	// Operator policies bound what users may give; they know fewer keys, and are kept apart from the others.
	Operator bool
	// Pattern is a regular expression (RE2) of at most PatternBytesMax bytes that must match somewhere in the name.
	Pattern string
	ApplyTo ApplyTo
	// Priority: the highest counts, among equals the first by name.
	Priority int64
	// Definition has the settings by their keys; see Arg.PolicyKey.
	Definition Arguments
}

// Attached is what policies give an object: the names of the two that count, empty if none does, and their settings merged. It follows from the policies of the virtual host and the object's name and
// type, so it is not stored.
type Attached struct {
	Policy, Operator string
	Definition       Arguments
}

// compiledPolicy is a policy as a virtual host has it.
type compiledPolicy struct {
	Policy
	match Pattern
	// streams says that it has a key that only streams know: then it is for no other queue, as in RabbitMQ.
	streams bool
}

func compilePolicy(p *Policy) *compiledPolicy {
	c := &compiledPolicy{Policy: *p, match: Pattern{all: true}}
	if p.Pattern != "" {
		c.match, _ = CompilePattern(p.Pattern) // one that does not compile matches nothing; it was refused when it was made
	}
	for i := range argTable {
		if a := &argTable[i]; a.PolicyKey != "" && a.Scope == StreamScope {
			_, has := p.Definition.Get(a.PolicyKey)
			c.streams = c.streams || has
		}
	}
	return c
}

func (p *compiledPolicy) isForQueue(name, queueType string) bool {
	switch p.ApplyTo {
	case ApplyToExchanges:
		return false
	case ApplyToClassicQueues:
		if queueType != TypeClassic {
			return false
		}
	case ApplyToQuorumQueues:
		if queueType != TypeQuorum {
			return false
		}
	case ApplyToStreams:
		if queueType != TypeStream {
			return false
		}
	}
	return (!p.streams || queueType == TypeStream) && p.match.Allows(name)
}

func (p *compiledPolicy) isForExchange(name string) bool {
	return (p.ApplyTo == ApplyToAll || p.ApplyTo == ApplyToExchanges) && p.match.Allows(name)
}

// policies are the user and the operator policies of a virtual host by name.
type policies [2]cow.Map[string, *compiledPolicy]

// kindOfPolicy is the place of user or operator policies in policies.
func kindOfPolicy(operator bool) int {
	if operator {
		return 1
	}
	return 0
}

func (ps *policies) len() int { return ps[0].Len() + ps[1].Len() }

// best returns the policy of a kind that counts among those that fit, nil if there is none.
func (ps *policies) best(kind int, fits func(*compiledPolicy) bool) (found *compiledPolicy) {
	for _, p := range ps[kind].All() {
		if (found == nil || p.Priority > found.Priority) && fits(p) {
			found = p
		}
	}
	return found
}

// attach finds what the policies give an object.
func (ps *policies) attach(fits func(*compiledPolicy) bool) Attached {
	if ps.len() == 0 {
		return Attached{}
	}
	user, operator := ps.best(0, fits), ps.best(1, fits)
	switch {
	case user == nil && operator == nil:
		return Attached{}
	case operator == nil:
		return Attached{Policy: user.Name, Definition: user.Definition}
	case user == nil:
		return Attached{Operator: operator.Name, Definition: operator.Definition}
	}
	return Attached{Policy: user.Name, Operator: operator.Name, Definition: mergeDefinitions(user.Definition, operator.Definition)}
}

// attachQueue leaves hidden queues alone, which nobody but their exchanges knows. A draining one follows policies as it did.
func (ps *policies) attachQueue(q *Queue) Attached {
	if isHidden(q.KnownAs()) {
		return Attached{}
	}
	return ps.attach(func(p *compiledPolicy) bool { return p.isForQueue(q.KnownAs(), q.Type) })
}

func (ps *policies) attachExchange(x *Exchange) Attached {
	return ps.attach(func(p *compiledPolicy) bool { return p.isForExchange(x.Name) })
}

// Policy returns a user or operator policy, nil if there is none.
func (v *View) Policy(vhostName, name string, operator bool) *Policy {
	if h, ok := v.vhosts.Get(vhostName); ok {
		if p, ok := h.policies[kindOfPolicy(operator)].Get(name); ok {
			return &p.Policy
		}
	}
	return nil
}

// Policies yields the user or operator policies of a virtual host by name.
func (v *View) Policies(vhostName string, operator bool) iter.Seq[*Policy] {
	return func(yield func(*Policy) bool) {
		h, ok := v.vhosts.Get(vhostName)
		if !ok {
			return
		}
		for _, p := range h.policies[kindOfPolicy(operator)].All() {
			if !yield(&p.Policy) {
				return
			}
		}
	}
}

func (m *Machine) putPolicy(in *Policy) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{Reason: ReasonNoVHost}
	}
	kind := kindOfPolicy(in.Operator)
	old, existed := h.policies[kind].Get(in.Name)
	switch {
	case existed && old.Policy == *in:
		return Reply{Existed: true}
	case !existed && h.policies[kind].Len() >= PoliciesMax:
		return limit("policies", PoliciesMax)
	}
	next := *h
	next.policies[kind] = h.policies[kind].Set(in.Name, compilePolicy(in))
	m.policiesChanged(&next)
	m.emit(policyChanged(in))
	return Reply{Existed: existed}
}

func (m *Machine) deletePolicy(in *Policy) Reply {
	h, ok := m.v.vhosts.Get(in.VHost)
	if !ok {
		return Reply{}
	}
	kind := kindOfPolicy(in.Operator)
	if _, ok := h.policies[kind].Get(in.Name); !ok {
		return Reply{}
	}
	next := *h
	next.policies[kind] = h.policies[kind].Delete(in.Name)
	m.policiesChanged(&next)
	m.emit(policyChanged(in))
	return Reply{Existed: true}
}

func policyChanged(p *Policy) Effect {
	component := "policy"
	if p.Operator {
		component = "operator_policy"
	}
	return Effect{Kind: PolicyChanged, VHost: p.VHost, Component: component, Name: p.Name}
}

// policiesChanged makes next, whose policies are new, the version of its virtual host, with what the policies give its objects. The configuration of each queue that gets other settings is of a new
// version. All of it is one entry: there is no time at which some objects follow the old policies and others the new ones.
func (m *Machine) policiesChanged(next *vhost) {
	next.exchanges = next.exchanges.Revise(func(_ string, x *Exchange) (*Exchange, bool) {
		a := next.policies.attachExchange(x)
		if a == x.Policies {
			return x, false
		}
		changed := *x
		changed.Policies = a
		return &changed, true
	})
	next.queues = next.queues.Revise(func(_ string, q *Queue) (*Queue, bool) {
		a := next.policies.attachQueue(q)
		if a == q.Policies {
			return q, false
		}
		changed := *q
		changed.Policies = a
		if a.Definition != q.Policies.Definition {
			changed.ConfigVersion++
		}
		m.emit(Effect{Kind: QueueChanged, Queue: &changed})
		return &changed, true
	})
	m.v.queues = m.v.queues.Revise(func(_ QueueID, q *Queue) (*Queue, bool) {
		if q.VHost != next.Name {
			return q, false
		}
		changed, ok := next.queues.Get(q.Name)
		if !ok || changed.ID != q.ID { // it waits for the sweep after a virtual host of the same name
			return q, false
		}
		return changed, changed != q
	})
	m.setVHost(next)
}

func appendPolicies(dst []byte, h *vhost) []byte {
	dst = codec.AppendUvarint(dst, uint64(h.policies.len()))
	for kind := range len(h.policies) {
		for _, p := range h.policies[kind].All() {
			dst = appendPolicy(dst, &p.Policy)
		}
	}
	return dst
}
