package meta

import (
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// The relay of an exchange is a queue that a message passes on its way from the exchange to where its bindings lead: what the exchange does to messages is done there, in a replicated machine. The router
// leads messages to it, and it has them routed on from the exchange when they are due (quorum's mover). As a history (history.go) it is made in the entry that makes the exchange, goes with it, is
// durable whether the exchange is or not, and nobody but the shells meets it.

const (
	// TypeDelayed keeps a message for as long as its publisher says, and then leads it on as the type ArgDelayedType does.
	TypeDelayed = "x-delayed-message"
	// ArgDelayedType names how an exchange of TypeDelayed routes: any type but its own.
	ArgDelayedType = "x-delayed-type"
	// relayPrefix and the exchange's name are the name of a relay. Clients cannot make such a queue, for it is reserved.
	relayPrefix = "amq.relay:"
)

// RelayOf returns the exchange that the queue is the relay of; false if it is none.
func (q *Queue) RelayOf() (exchange string, ok bool) { return strings.CutPrefix(q.Name, relayPrefix) }

// Relay returns the relay of an exchange, nil if it has none.
func (v *View) Relay(vhostName, exchange string) *Queue {
	if h, ok := v.vhosts.Get(vhostName); ok {
		q, _ := h.queues.Get(relayPrefix + exchange)
		return q
	}
	return nil
}

// RoutingType is the type by which the exchange chooses among its bindings: its own, or that which its arguments name.
func (x *Exchange) RoutingType() string {
	if x.Type == TypeDelayed {
		if v, ok := x.Arguments.Get(ArgDelayedType); ok {
			name, _ := v.AsString()
			return name
		}
	}
	return x.Type
}

// HasRelay tells whether exchanges of this type have relays.
func (x *Exchange) HasRelay() bool { return x.Type == TypeDelayed }

// RelayCommand returns the command that makes the relay of an exchange, to be proposed behind the one that makes the exchange.
func RelayCommand(x *Exchange, replicas []NodeID) Command {
	return Command{Op: OpDeclareQueue, Queue: Queue{
		VHost: x.VHost, Name: relayPrefix + x.Name, Durable: true, Replicas: replicas,
		Arguments: NewArguments(amqp.Table{{Key: argQueueType, Value: amqp.Longstr(TypeClassic)}}),
	}}
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

// isHidden tells whether a queue of this name belongs to an exchange, as a history or a relay, and is nothing that users have made or see.
func isHidden(name string) bool {
	return strings.HasPrefix(name, historyPrefix) || strings.HasPrefix(name, relayPrefix)
}

// IsHidden tells whether the queue belongs to an exchange, as its history or relay, and is nothing that users have made or see.
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

// hiddenPrefixes are those of the names of hidden queues; the rest of the name is that of the exchange.
var hiddenPrefixes = [...]string{historyPrefix, relayPrefix}

// mayHide tells whether the exchange that a hidden queue is named after is there and has such a queue.
func (h *vhost) mayHide(q *Queue) (exchange string, ok bool) {
	name, isHistory := q.HistoryOf()
	if !isHistory {
		name, _ = q.RelayOf()
	}
	x, ok := h.exchanges.Get(name)
	return name, ok && (isHistory && x.RoutingType() == TypeRecentHistory || !isHistory && x.HasRelay())
}
