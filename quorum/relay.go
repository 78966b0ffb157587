package quorum

import (
	"context"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Relays (meta/relay.go): what stands in the outbox of one goes on alive, from its exchange to where the bindings lead at that time.

// onward routes a message from the exchange of its relay, which has had its part of it; if that went before, from its alternate exchange. One without a target has nobody left who could be told: if it was mandatory it goes to the parking queue, where it
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
	if cat.View.Queue(q.VHost, parkingQueue) == nil {
		if err := v.host.park(q.VHost); err != nil {
			return nil, false, false
		}
		cat = v.host.Catalogue()
	}
	parking := cat.View.Queue(q.VHost, parkingQueue)
	if parking == nil {
		return nil, false, false
	}
	return append(targets, queue.QueueID(parking.ID)), false, true
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
		q := relayToGo(h.Catalogue().View, &cmds[i])
		if q == nil || h.neverUsed(q) || mutant == mutantRelayRestless {
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

// relayToGo returns the relay of the exchange that a command would remove; nil if it removes none that has one. Auto-delete exchanges that go because a queue goes are not among them: what they would
// lead on had that queue alone to go to.
func relayToGo(v *meta.View, cmd *meta.Command) *meta.Queue {
	vhost, name := cmd.Exchange.VHost, cmd.Exchange.Name
	most := 0 // bindings that it may have
	switch b := &cmd.Binding; cmd.Op {
	case meta.OpDeleteExchange:
		if !cmd.IfUnused {
			return v.Relay(vhost, name)
		}
	case meta.OpUnbind:
		vhost, name, most = b.VHost, b.Source, 1
		if x := v.Exchange(vhost, name); x == nil || !x.AutoDelete || !v.HasBinding(b) {
			return nil
		}
	default:
		return nil
	}
	for range v.BindingsFrom(vhost, name) {
		if most--; most < 0 {
			return nil
		}
	}
	return v.Relay(vhost, name)
}
