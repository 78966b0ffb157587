package meta

import (
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// Merge says which value counts where a setting has two.
type Merge uint8

// How values are merged. Between a user and an operator policy the operator's counts, but for numbers.
const (
	// ArgumentWins: the argument counts, and not the policy.
	ArgumentWins Merge = 0
	// PolicyWins: the policy counts.
	PolicyWins Merge = 1
	// PolicyWinsOnQuorum: the policy counts for quorum queues, the argument for classic ones.
	PolicyWinsOnQuorum Merge = 2
	// LeastWins: the lower number counts.
	LeastWins Merge = 3
	// GreatestWins: the higher number counts.
	GreatestWins Merge = 4
	// LeastLimitWins: the lower number counts, but if one is negative, which is no limit, the higher one.
	LeastLimitWins Merge = 5
)

// legacyKeys are keys of policies for mirrored queues, which every queue with replicas now is: accepted for old definitions, without an effect.
var legacyKeys = [...]string{"ha-mode", "ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-batch-size", "ha-sync-mode"}

func argOfKey(key string) *Arg {
	for i := range argTable {
		if argTable[i].PolicyKey == key {
			return &argTable[i]
		}
	}
	return nil
}

// number merges two whole numbers; ok is false if the rule is not about numbers.
func (a *Arg) number(v, w amqp.Value) (merged amqp.Value, ok bool) {
	n, isInt := v.AsInt64()
	m, both := w.AsInt64()
	if !isInt || !both || a.Merge < LeastWins {
		return v, false
	}
	least, greatest := v, w
	if m < n {
		least, greatest = w, v
	}
	if a.Merge == GreatestWins || a.Merge == LeastLimitWins && min(n, m) < 0 {
		return greatest, true
	}
	return least, true
}

// mergeDefinitions merges the settings of a user and an operator policy.
func mergeDefinitions(user, operator Arguments) Arguments {
	t := user.Table()
	for _, f := range operator.Table() {
		value := f.Value
		if a := argOfKey(f.Key); a != nil {
			if v, ok := user.Get(f.Key); ok {
				if merged, ok := a.number(v, f.Value); ok {
					value = merged
				}
			}
		}
		t = t.Set(f.Key, value)
	}
	return NewArguments(t)
}

// effective merges an argument, as it was declared or changed since, with what policies say about it.
func effective(name, queueType string, args, changes Arguments, policy *Attached) (amqp.Value, bool) {
	v, ok := args.Get(name)
	if changed, has := changes.Get(name); has {
		v, ok = changed, changed.Tag() != amqp.TagVoid
	}
	if policy.Definition.Empty() {
		return v, ok
	}
	a := argNamed(name)
	if a == nil || a.PolicyKey == "" {
		return v, ok
	}
	w, has := policy.Definition.Get(a.PolicyKey)
	switch {
	case !has:
		return v, ok
	case !ok:
		return w, true
	}
	if merged, ok := a.number(v, w); ok {
		return merged, true
	}
	if a.Merge == PolicyWins || a.Merge == PolicyWinsOnQuorum && queueType == TypeQuorum {
		return w, true
	}
	return v, true
}

// Effective returns the value of an argument as it counts, policies included, and whether there is one.
func (q *Queue) Effective(name string) (amqp.Value, bool) {
	return effective(name, q.Type, q.Arguments, q.Changes, &q.Policies)
}

// Effective returns the value of an argument as it counts, policies included, and whether there is one.
func (x *Exchange) Effective(name string) (amqp.Value, bool) {
	return effective(name, "", x.Arguments, Arguments{}, &x.Policies)
}

// CheckPolicy judges a new policy but for its virtual host: ReasonInvalidPolicy with RabbitMQ's text in Detail.
func CheckPolicy(p *Policy) Reply {
	if text := policyProblem(p); text != "" {
		return Reply{Reason: ReasonInvalidPolicy, Detail: text}
	}
	return Reply{}
}

func policyProblem(p *Policy) string {
	if _, err := CompilePattern(p.Pattern); err != nil {
		return "pattern should be regular expression but is invalid: " + err.Error()
	}
	if p.Definition.Empty() {
		return "no policy provided"
	}
	var unknown []string
	t := p.Definition.Table()
	for _, f := range t {
		if contains(legacyKeys[:], f.Key) {
			continue
		}
		if a := argOfKey(f.Key); a == nil || p.Operator && !a.Operator {
			unknown = append(unknown, `{<<"`+f.Key+`">>,`+erlangTerm(f.Value)+"}")
		}
	}
	for _, f := range t {
		if a := argOfKey(f.Key); a != nil && (!p.Operator || a.Operator) && a.problem(f.Value) != "" {
			return erlangTerm(f.Value) + " is not a valid " + a.noun()
		}
	}
	if unknown != nil {
		return "[" + strings.Join(unknown, ",") + "] are not recognised policy settings"
	}
	return ""
}

// noun is what RabbitMQ's texts call the value of a policy key.
func (a *Arg) noun() string {
	if a.Noun != "" {
		return a.Noun
	}
	return strings.ReplaceAll(a.PolicyKey, "-", " ")
}

// Warnings says which settings of a policy have no effect, for operators. It is nil for most policies.
func (p *Policy) Warnings() (list []string) {
	for _, f := range p.Definition.Table() {
		if a := argOfKey(f.Key); a == nil || a.Ignored || !a.Served {
			list = append(list, "setting "+f.Key+" is accepted and has no effect")
		}
	}
	return list
}
