package meta

import (
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// ReservedName tells whether clients must not create something of this name: it begins with "amq.".
func ReservedName(name string) bool { return strings.HasPrefix(name, "amq.") }

// Check judges a command before it is proposed: lengths, values, names, and against this View what Apply would refuse. If Existed is true for a declare or
// bind, it need not be proposed: it is there and equivalent. Reserved names, permissions and exclusive access are the caller's (ReservedName, Pattern, LockedFor).
func (v *View) Check(c *Command) Reply {
	if r := checkLengths(c); r.Reason != ReasonOK {
		return r
	}
	switch c.Op {
	case OpDeclareQueue:
		return v.checkDeclareQueue(&c.Queue)
	case OpDeclareExchange:
		return v.checkDeclareExchange(&c.Exchange)
	case OpDeleteExchange:
		switch {
		case c.Exchange.Name == "":
			return Reply{Reason: ReasonDefaultExchange}
		case ReservedName(c.Exchange.Name):
			return Reply{Reason: ReasonSystemExchange}
		}
	case OpBind:
		return v.checkBind(&c.Binding)
	case OpUnbind:
		if c.Binding.Source == "" {
			return Reply{Reason: ReasonDefaultExchange}
		}
	case OpPutPermission:
		return v.checkPutPermission(&c.Permission)
	case OpPutTopicPermission:
		return v.checkPutTopicPermission(&c.Topic)
	case OpSetVHostLimit:
		return v.checkLimit(c.Limit, v.VHost(c.VHost.Name) != nil, ReasonNoVHost, MaxConnections, MaxQueues)
	case OpSetUserLimit:
		return v.checkLimit(c.Limit, v.User(c.User.Name) != nil, ReasonNoUser, MaxConnections, MaxChannels)
	case OpPutPolicy:
		if v.VHost(c.Policy.VHost) == nil {
			return Reply{Reason: ReasonNoVHost}
		}
		return CheckPolicy(&c.Policy)
	case OpChangeArguments:
		if v.QueueByID(c.Queue.ID) == nil {
			return Reply{Reason: ReasonNoQueue}
		}
		return checkChanges(c.Queue.Changes)
	case OpPutParameter:
		if v.VHost(c.Parameter.VHost) == nil {
			return Reply{Reason: ReasonNoVHost}
		}
	case OpPutVHost:
		if t := c.VHost.DefaultQueueType; t != "" && !servedType(t) {
			return Reply{Reason: ReasonInvalidArg, Field: "default_queue_type", Detail: strings.Replace(queueTypeProblem, "%s", t, 1)}
		}
	}
	return Reply{}
}

func (v *View) checkDeclareQueue(in *Queue) Reply {
	h := v.VHost(in.VHost)
	if h == nil {
		return Reply{Reason: ReasonNoVHost}
	}
	q := settled(h, in)
	if old := v.Queue(q.VHost, q.Name); old != nil {
		return judgeQueue(old, &q)
	}
	if r := v.queuesMax(q.VHost); r.Reason != ReasonOK {
		return r
	}
	if r := CheckQueueArguments(q.Type, q.Arguments); r.Reason != ReasonOK {
		return r
	}
	if !servedType(q.Type) {
		return Reply{Reason: ReasonStreamUnserved}
	}
	return Reply{}
}

func (v *View) checkDeclareExchange(x *Exchange) Reply {
	switch {
	case exchangeTypeNamed(x.Type) == nil:
		return Reply{Reason: ReasonUnknownExchangeType, Detail: x.Type}
	case x.Name == "":
		return Reply{Reason: ReasonDefaultExchange}
	case v.VHost(x.VHost) == nil:
		return Reply{Reason: ReasonNoVHost}
	}
	if old := v.Exchange(x.VHost, x.Name); old != nil {
		return judgeExchange(old, x)
	}
	if ae, ok := x.Arguments.Get(argAlternateExchange); ok && ae.Tag() != amqp.TagLongstr {
		return Reply{Reason: ReasonInvalidArgType, Field: argAlternateExchange, Detail: ae.Type()}
	}
	if x.Delays() {
		if r := checkDelayed(x.Arguments); r.Reason != ReasonOK {
			return r
		}
	}
	if check := exchangeTypeNamed(x.namedType()).check; check != nil {
		return check(x.Arguments)
	}
	return Reply{}
}

func (v *View) checkBind(b *Binding) Reply {
	if b.Source == "" || b.Kind == ToExchange && b.Destination == "" {
		return Reply{Reason: ReasonDefaultExchange}
	}
	if v.VHost(b.VHost) == nil {
		return Reply{Reason: ReasonNoVHost}
	}
	x := v.Exchange(b.VHost, b.Source)
	switch {
	case x == nil:
		return Reply{Reason: ReasonNoExchange, Field: "source", Detail: b.Source}
	case b.Kind == ToExchange && v.Exchange(b.VHost, b.Destination) == nil:
		return Reply{Reason: ReasonNoExchange, Field: "destination", Detail: b.Destination}
	case b.Kind == ToQueue && v.Queue(b.VHost, b.Destination) == nil:
		return Reply{Reason: ReasonNoQueue, Detail: b.Destination}
	}
	if t := exchangeTypeNamed(x.RoutingType()); t != nil && t.bindingProblem != nil {
		if text := t.bindingProblem(v, b); text != "" {
			return Reply{Reason: ReasonInvalidBinding, Detail: text}
		}
	}
	return Reply{Existed: v.HasBinding(b)}
}

func (v *View) checkPutPermission(p *Permission) Reply {
	for _, f := range [...]struct{ name, pattern string }{{"configure", p.Configure}, {"write", p.Write}, {"read", p.Read}} {
		if _, err := CompilePattern(f.pattern); err != nil {
			return Reply{Reason: ReasonInvalidPattern, Field: f.name, Detail: err.Error()}
		}
	}
	switch {
	case v.User(p.User) == nil:
		return Reply{Reason: ReasonNoUser}
	case v.VHost(p.VHost) == nil:
		return Reply{Reason: ReasonNoVHost}
	}
	return Reply{}
}

// checkPutTopicPermission judges a topic permission by its patterns as they are for some user.
func (v *View) checkPutTopicPermission(p *TopicPermission) Reply {
	for _, f := range [...]struct{ name, pattern string }{{"write", p.Write}, {"read", p.Read}} {
		if _, err := CompilePattern(expandTopic(f.pattern, "u", "v")); err != nil {
			return Reply{Reason: ReasonInvalidPattern, Field: f.name, Detail: err.Error()}
		}
	}
	switch {
	case v.User(p.User) == nil:
		return Reply{Reason: ReasonNoUser}
	case v.VHost(p.VHost) == nil:
		return Reply{Reason: ReasonNoVHost}
	}
	return Reply{}
}

// checkLimit judges a limit of something that exists, or else is missing for the reason.
func (v *View) checkLimit(l Limit, exists bool, missing Reason, known ...string) Reply {
	switch {
	case !exists:
		return Reply{Reason: missing}
	case !contains(known, l.Name):
		return Reply{Reason: ReasonUnknownLimit, Field: l.Name}
	}
	return Reply{}
}

// checkLengths holds the limits of names, texts and lists, whatever the op.
func checkLengths(c *Command) Reply {
	for _, f := range [...]struct{ field, text string }{
		{"name", c.Name}, {"node", c.Node.Name}, {"vhost", c.VHost.Name}, {"user", c.User.Name}, {"exchange", c.Exchange.Name}, {"queue", c.Queue.Name},
		{"topic", c.Topic.Exchange}, {"limit", c.Limit.Name}, {"policy", c.Policy.Name}, {"component", c.Parameter.Component}, {"parameter", c.Parameter.Name}, {"type", c.Exchange.Type}, {"routing_key", c.Binding.RoutingKey}, {"hashing_algorithm", c.User.HashingAlgorithm},
	} {
		if len(f.text) > NameBytesMax {
			return Reply{Reason: ReasonTooLong, Field: f.field, Count: NameBytesMax}
		}
	}
	for _, f := range [...]struct{ field, text string }{
		{"address", c.Node.Address}, {"description", c.VHost.Description}, {"password_hash", string(c.User.PasswordHash)},
	} {
		if len(f.text) > TextBytesMax {
			return Reply{Reason: ReasonTooLong, Field: f.field, Count: TextBytesMax}
		}
	}
	if max(len(c.Exchange.Arguments.raw), len(c.Queue.Arguments.raw), len(c.Queue.Changes.raw), len(c.Binding.Arguments.raw), len(c.Policy.Definition.raw)) > ArgumentsBytesMax {
		return Reply{Reason: ReasonTooLong, Field: "arguments", Count: ArgumentsBytesMax}
	}
	if max(len(c.Text), len(c.Parameter.Value)) > ParameterBytesMax {
		return Reply{Reason: ReasonTooLong, Field: "value", Count: ParameterBytesMax}
	}
	for _, tags := range [...][]string{c.VHost.Tags, c.User.Tags} {
		if len(tags) > TagsMax {
			return limit("tags", TagsMax)
		}
		for _, tag := range tags {
			if len(tag) > NameBytesMax {
				return Reply{Reason: ReasonTooLong, Field: "tags", Count: NameBytesMax}
			}
		}
	}
	if len(c.Queue.Replicas) > ReplicasMax {
		return limit("replicas", ReplicasMax)
	}
	return Reply{}
}
