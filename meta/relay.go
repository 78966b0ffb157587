package meta

import (
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// The relay of an exchange is a queue that a message passes on its way from the exchange to where its bindings lead: what the exchange does to messages is done there, in a replicated machine. The router
// leads messages to it, and it has them routed on from the exchange when they are due (quorum's mover). As a history (history.go) it is made in the entry that makes the exchange, goes with it, is
// durable whether the exchange is or not, and nobody but the shells meets it. When the exchange goes it drains (draining.go): what it had led on still arrives.

const (
	// TypeDelayed keeps a message for as long as its publisher says, and then leads it on as the type ArgDelayedType does.
	TypeDelayed = "x-delayed-message"
	// ArgDelayedType names how an exchange of TypeDelayed routes: any type but its own.
	ArgDelayedType = "x-delayed-type"
	// TypeDeduplication leads a message with an id on once, as a fanout does. Its relay has the window.
	TypeDeduplication = "x-message-deduplication"
	// HeaderDedup is the header with a message's id.
	HeaderDedup = "x-deduplication-header"
	// relayPrefix and the exchange's name are the name of a relay. Clients cannot make such a queue, for it is reserved.
	relayPrefix = "amq.relay:"
)

// RelayOf returns the exchange that the queue is the relay of, or was before it began to drain; false if it is none.
func (q *Queue) RelayOf() (exchange string, ok bool) {
	return strings.CutPrefix(q.KnownAs(), relayPrefix)
}

// AlternateLeft returns the alternate exchange that the exchange of a draining relay had: what had no targets by then goes there. false if it had none.
func (q *Queue) AlternateLeft() (exchange string, ok bool) {
	v, ok := q.Arguments.Get(argAlternateExchange)
	if !ok {
		return "", false
	}
	return v.AsString()
}

// leaveRelay drains the relay of an exchange that goes. The exchange stands in next no more.
func (m *Machine) leaveRelay(next *vhost, x *Exchange, old *Queue) {
	q := *old
	if v, ok := x.Effective(argAlternateExchange); ok {
		q.Arguments = q.Arguments.With(argAlternateExchange, v)
	}
	m.keepDraining(next, &q)
}

// Relay returns the relay of an exchange, nil if it has none.
func (v *View) Relay(vhostName, exchange string) *Queue {
	if h, ok := v.vhosts.Get(vhostName); ok {
		q, _ := h.queues.Get(relayPrefix + exchange)
		return q
	}
	return nil
}

// namedType is the type of the exchange, of one of TypeDelayed that which its arguments name.
func (x *Exchange) namedType() string {
	if x.Type == TypeDelayed {
		if v, ok := x.Arguments.Get(ArgDelayedType); ok {
			name, _ := v.AsString()
			return name
		}
	}
	return x.Type
}

// RoutingType is the type by which the exchange chooses among its bindings: its own, or that which its arguments name.
func (x *Exchange) RoutingType() string {
	if x.Deduplicates() {
		return "fanout"
	}
	return x.namedType()
}

// Delays tells whether the exchange keeps messages for as long as they say.
func (x *Exchange) Delays() bool { return x.Type == TypeDelayed }

// Deduplicates tells whether the exchange leads on one message of each id.
func (x *Exchange) Deduplicates() bool { return x.namedType() == TypeDeduplication }

// HasRelay tells whether exchanges of this type have relays.
func (x *Exchange) HasRelay() bool { return x.Delays() || x.Deduplicates() }

// RelayCommand returns the command that makes the relay of an exchange, to be proposed behind the one that makes the exchange.
func RelayCommand(x *Exchange, replicas []NodeID) Command {
	args := amqp.Table{{Key: argQueueType, Value: amqp.Longstr(TypeClassic)}}
	if x.Deduplicates() {
		args = args.Set(argDeduplication, amqp.Bool(true))
		for _, name := range [...]string{argCacheSize, argCacheTTL} {
			if v, ok := x.Arguments.Get(name); ok {
				args = args.Set(name, v)
			}
		}
	}
	return Command{Op: OpDeclareQueue, Queue: Queue{VHost: x.VHost, Name: relayPrefix + x.Name, Durable: true, Replicas: replicas, Arguments: NewArguments(args)}}
}

// checkCache judges the arguments of an exchange of TypeDeduplication, with the plugin's texts.
func checkCache(args Arguments) Reply {
	bad := func(text string) Reply { return Reply{Reason: ReasonInvalidBinding, Detail: text} }
	v, _ := args.Get(argCacheSize)
	if n, ok := LooseInt(v); !ok || n <= 0 {
		return bad("Missing or invalid argument, 'x-cache-size' must be an integer greater than 0")
	}
	if v, ok := args.Get(argCacheTTL); ok {
		if n, ok := LooseInt(v); !ok || n <= 0 {
			return bad("Invalid argument, 'x-cache-ttl' must be an integer greater than 0")
		}
	}
	if v, ok := args.Get(argCachePersistence); ok {
		if word, _ := v.AsString(); !contains(argNamed(argCachePersistence).Words, word) {
			return bad("Invalid argument, 'x-cache-persistence' must be either 'disk' or 'memory'")
		}
	}
	return Reply{}
}

// checkDelayed judges how an exchange of TypeDelayed is to route.
func checkDelayed(args Arguments) Reply {
	v, _ := args.Get(ArgDelayedType)
	switch name, isText := v.AsString(); {
	case !isText || name == TypeDelayed:
		return Reply{Reason: ReasonInvalidBinding, Detail: "Invalid argument, 'x-delayed-type' must be an existing exchange type"}
	case exchangeTypeNamed(name) == nil:
		return Reply{Reason: ReasonUnknownExchangeType, Detail: name}
	}
	return Reply{}
}

// isHidden tells whether a queue of this name belongs to an exchange, as a history or a relay, or is draining, and is nothing that users see.
func isHidden(name string) bool {
	return strings.HasPrefix(name, historyPrefix) || strings.HasPrefix(name, relayPrefix) || strings.HasPrefix(name, drainPrefix)
}

// IsHidden tells whether the queue belongs to an exchange, as its history or relay, or is draining, and is nothing that users see.
func (q *Queue) IsHidden() bool { return isHidden(q.Name) }

// hidden returns how many of a virtual host's queues are hidden.
func (h *vhost) hidden() (n int) {
	for _, prefix := range hiddenPrefixes {
		for range withPrefix(h.queues, prefix) {
			n++
		}
	}
	return n
}

// hiddenPrefixes are those of the names of hidden queues; the rest of the name is that of the exchange, or the id of a draining queue.
var hiddenPrefixes = [...]string{historyPrefix, relayPrefix, drainPrefix}

// mayHide tells whether the exchange that a hidden queue is named after is there and has such a queue.
func (h *vhost) mayHide(q *Queue) (exchange string, ok bool) {
	name, isHistory := q.HistoryOf()
	if !isHistory {
		name, _ = q.RelayOf()
	}
	x, ok := h.exchanges.Get(name)
	return name, ok && (isHistory && x.RoutingType() == TypeRecentHistory || !isHistory && x.HasRelay())
}
