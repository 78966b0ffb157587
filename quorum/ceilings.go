package quorum

import (
	"fmt"
	"strings"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// Ceilings bound what the cluster may have for this node to make another one; 0 is no bound. Each node has its own, so they are judged before a command goes to the catalogue, by this node's view.
type Ceilings struct{ Queues, Exchanges, VHosts int }

// topicTooLong returns the refusal of a binding whose key has too many words, if it has.
func topicTooLong(v *meta.View, cmd *meta.Command) (meta.Reply, bool) {
	if cmd.Op != meta.OpBind || strings.Count(cmd.Binding.RoutingKey, ".") < limits.TopicWordsMax {
		return meta.Reply{}, false
	}
	x := v.Exchange(cmd.Binding.VHost, cmd.Binding.Source)
	return meta.Reply{Reason: meta.ReasonInvalidBinding, Detail: fmt.Sprintf("a topic has at most %d words", limits.TopicWordsMax)}, x != nil && x.Type == "topic" && !v.HasBinding(&cmd.Binding)
}

// refuses returns the refusal of a command, if there is one.
func (c *Ceilings) refuses(v *meta.View, cmd *meta.Command) (meta.Reply, bool) {
	kind, most, reached := "", 0, false
	if r, refused := topicTooLong(v, cmd); refused {
		return r, true
	}
	switch cmd.Op {
	case meta.OpDeclareQueue:
		kind, most = "queues", c.Queues
		reached = most > 0 && v.Queue(cmd.Queue.VHost, cmd.Queue.Name) == nil && v.QueueCountAll() >= most
	case meta.OpDeclareExchange:
		kind, most = "exchanges", c.Exchanges
		reached = most > 0 && v.Exchange(cmd.Exchange.VHost, cmd.Exchange.Name) == nil && exchangeCount(v) >= most
	case meta.OpBind:
		kind, most = "bindings per destination", limits.BindingsPerDestinationMax
		b := &cmd.Binding
		reached = v.BindingCountTo(b.VHost, b.Kind, b.Destination) >= most && !v.HasBinding(b)
	case meta.OpPutVHost:
		kind, most = "vhosts", c.VHosts
		reached = most > 0 && v.VHost(cmd.VHost.Name) == nil && vhostCount(v) >= most
	}
	return meta.Reply{Reason: meta.ReasonLimit, Field: kind, Count: uint64(most)}, reached
}

func exchangeCount(v *meta.View) (n int) {
	for h := range v.VHosts() {
		n += v.ExchangeCount(h.Name)
	}
	return n
}

func vhostCount(v *meta.View) (n int) {
	for range v.VHosts() {
		n++
	}
	return n
}
