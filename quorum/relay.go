package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Relays (meta/relay.go): what stands in the outbox of one goes on alive, from its exchange to where the bindings lead at that time.

// onward routes a message from the exchange of its relay, which has had its part of it; if that went before, from its alternate exchange. One without a target has nobody left who could be told: if it was mandatory it goes to the queue of what cannot be consumed, where it
// is seen, else it is dropped as an unroutable publish is: that is unrouted.
func (v *mover) onward(cat *Catalogue, q *meta.Queue, p *queue.Parcel) (targets []queue.QueueID, unrouted, ok bool) {
	letter := v.letter(q, p, nil)
	if letter == nil {
		return nil, false, false
	}
	name, routes := q.RelayOf()
	if q.IsDraining() { // another exchange may have the name by now
		name, routes = q.AlternateLeft()
	}
	m := exchange.Message{Copies: letter.Copies, Properties: &letter.Properties, Passed: meta.QueueID(v.id)}
	var ids []meta.QueueID
	if routes {
		ids, _ = cat.Router.Route(q.VHost, []byte(name), letter.Envelope.RoutingKey, &m, nil)
	}
	for _, id := range append(ids, m.Histories...) {
		targets = append(targets, queue.QueueID(id))
	}
	switch {
	case len(ids) > 0:
		return targets, false, true
	case !letter.Mandatory:
		return targets, true, true
	}
	if cat.View.Queue(q.VHost, deadQueue) == nil {
		if err := v.host.makeDeadQueue(q.VHost); err != nil {
			return nil, false, false
		}
		cat = v.host.Catalogue()
	}
	dead := cat.View.Queue(q.VHost, deadQueue)
	if dead == nil {
		return nil, false, false
	}
	return append(targets, queue.QueueID(dead.ID)), false, true
}

// relayed makes the letter of a message that goes on alive; nil if it cannot be read.
func (v *mover) relayed(q *meta.Queue, p *queue.Parcel, envelope []byte) *message.Letter {
	letter, err := message.Relayed(envelope)
	if err != nil {
		v.host.log.Error("a message cannot be carried on", "queue", q.Name, "position", uint64(p.Seq), "error", err)
		return nil
	}
	return letter
}

// Unrouted counts the messages that this node dropped because nothing was bound for them when they were due to go on from an exchange that had kept them. It counts each once at most, and not those
// of which it did not hear that the queue had let them go.
func (h *Host) Unrouted() uint64 { return h.unrouted.Load() }

// rest has the relays of the exchanges that commands to the catalogue are about to remove take nothing any more, and waits a moment until what they took, and confirmed, has its targets: these get it
// then, though the exchange is gone. It returns what lets those go on whose exchange is there still after the commands.
func (h *Host) rest(ctx context.Context, cmds []meta.Command) (wake func()) {
	var relays []func()
	for i := range cmds {
		for _, q := range relaysToGo(h.Catalogue().View, &cmds[i]) {
			if h.neverUsed(q) || mutant == mutantRelayRestless {
				continue
			}
			if run, token := h.restRelay(ctx, q.ID); run != nil && run.core() != nil { // a leader elsewhere asks by itself
				relays = append(relays, func() {
					if kept := h.Catalogue().View.QueueByID(q.ID); kept != nil && !kept.IsDraining() {
						go h.unseal(run, token)
					}
				})
			}
		}
	}
	return func() {
		for _, unseal := range relays {
			unseal()
		}
	}
}

// restRelay is rest for one relay. It returns the seal that it has by then.
func (h *Host) restRelay(ctx context.Context, id meta.QueueID) (run runner, token uint64) {
	ctx, cancel := context.WithTimeout(ctx, limits.RelayRestMillis*time.Millisecond)
	defer cancel()
	for {
		at, reply, err := h.seal(ctx, id, 0)
		if err != nil || reply.Code != queue.CodeOK {
			return run, token
		}
		run, token = at, reply.A
		if reply.B == 0 || h.wait(limits.RelayLookMillis*time.Millisecond, ctx.Done()) != nil {
			return run, token
		}
	}
}

// relaysToGo returns the relays of the exchanges that a command would remove: of the one that it names and, as they go with it, of auto-delete ones that lead to nothing else. Those that go because a
// queue goes are not among them, for what they would lead on had that queue alone to go to, nor those of a virtual host, with which all that they lead to goes.
func relaysToGo(v *meta.View, cmd *meta.Command) (relays []*meta.Queue) {
	vhost, going := cmd.Exchange.VHost, []string(nil)
	switch b := &cmd.Binding; cmd.Op {
	case meta.OpDeleteExchange:
		if cmd.IfUnused && leadsOn(v, vhost, cmd.Exchange.Name, nil, 0) {
			return nil
		}
		going = []string{cmd.Exchange.Name}
	case meta.OpUnbind:
		vhost = b.VHost
		if x := v.Exchange(vhost, b.Source); x == nil || !x.AutoDelete || !v.HasBinding(b) || leadsOn(v, vhost, b.Source, nil, 1) {
			return nil
		}
		going = []string{b.Source}
	}
	for i := 0; i < len(going); i++ {
		if q := v.Relay(vhost, going[i]); q != nil {
			relays = append(relays, q)
		}
		for b := range v.BindingsTo(vhost, meta.ToExchange, going[i]) {
			if x := v.Exchange(vhost, b.Source); x != nil && x.AutoDelete && !slices.Contains(going, b.Source) && !leadsOn(v, vhost, b.Source, going, 0) {
				going = append(going, b.Source)
			}
		}
	}
	return relays
}

// leadsOn tells whether an exchange has more than so many bindings beside those to exchanges that go.
func leadsOn(v *meta.View, vhost, exchange string, going []string, most int) bool {
	for b := range v.BindingsFrom(vhost, exchange) {
		if b.Kind == meta.ToExchange && slices.Contains(going, b.Destination) {
			continue
		}
		if most--; most < 0 {
			return true
		}
	}
	return false
}
