package meta

import (
	"strings"

	"github.com/warrenmq/warren/amqp"
)

// The history of an exchange of TypeRecentHistory is a queue of its own that keeps the last messages: the router adds it to what the exchange leads to, and the shells copy what stands in it to
// whatever is bound. It is made in the entry that makes the exchange and goes with it. Being a durable queue it is the same on every node and outlives each; so is that of an exchange that is not
// durable, for such an exchange lives as long as any node does. Nobody but the shells meets it: look-ups by name and lists pass it over, only those by id find it.

const (
	// TypeRecentHistory leads a message everywhere, as fanout does, and gives what is bound later the last ones.
	TypeRecentHistory = "x-recent-history"
	// ArgHistoryLength is how many messages an exchange of that type keeps: an integer of at least 1, HistoryLengthDefault if it is not given.
	ArgHistoryLength     = "x-recent-history-length"
	HistoryLengthDefault = 20
	// HeaderNoStore set to true is the header of a message that is not kept.
	HeaderNoStore = "x-recent-history-no-store"
	// historyPrefix and the exchange's name are the name of a history. Clients cannot make such a queue, for it is reserved.
	historyPrefix = "amq.recent-history:"
)

// HistoryOf returns the exchange that the queue is the history of; false if it is a queue like others.
func (q *Queue) HistoryOf() (exchange string, ok bool) {
	return strings.CutPrefix(q.Name, historyPrefix)
}

// History returns the history of an exchange, nil if it has none.
func (v *View) History(vhostName, exchange string) *Queue {
	if h, ok := v.vhosts.Get(vhostName); ok {
		q, _ := h.queues.Get(historyPrefix + exchange)
		return q
	}
	return nil
}

// HistoryLength returns how many messages an exchange of TypeRecentHistory keeps.
func (x *Exchange) HistoryLength() int64 {
	if v, ok := x.Arguments.Get(ArgHistoryLength); ok {
		if n, ok := v.AsInt64(); ok && n > 0 {
			return n
		}
	}
	return HistoryLengthDefault
}

// HistoryCommand returns the command that makes the history of an exchange, to be proposed behind the one that makes the exchange.
func HistoryCommand(x *Exchange, replicas []NodeID) Command {
	return Command{Op: OpDeclareQueue, Queue: Queue{
		VHost: x.VHost, Name: historyPrefix + x.Name, Durable: true, Replicas: replicas,
		Arguments: NewArguments(amqp.Table{{Key: argQueueType, Value: amqp.Longstr(TypeClassic)}, {Key: "x-max-length", Value: amqp.Int64(x.HistoryLength())}}),
	}}
}

// checkHistoryLength judges how much an exchange is to keep.
func checkHistoryLength(args Arguments) Reply {
	v, ok := args.Get(ArgHistoryLength)
	if !ok {
		return Reply{}
	}
	if n, ok := v.AsInt64(); ok && n > 0 {
		return Reply{}
	}
	return Reply{Reason: ReasonInvalidBinding, Detail: "Invalid argument " + erlangTerm(v) + ", 'x-recent-history-length' must be a positive integer"}
}
