package quorum

import (
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// Relays (meta/relay.go): what stands in the outbox of one goes on alive, from its exchange to where the bindings lead at that time.

// onward routes a message from the exchange of its relay, which has had its part of it. One without a target has nobody left who could be told: if it was mandatory it goes to the parking queue, where it
// is seen, else it is dropped as an unroutable publish is: that is unrouted.
func (v *mover) onward(cat *Catalogue, q *meta.Queue, p *queue.Parcel) (targets []queue.QueueID, unrouted, ok bool) {
	letter := v.letter(q, p, nil)
	if letter == nil {
		return nil, false, false
	}
	name, _ := q.RelayOf()
	m := exchange.Message{Copies: letter.Copies, Properties: &letter.Properties, Passed: meta.QueueID(v.id)}
	ids, _ := cat.Router.Route(q.VHost, []byte(name), letter.Envelope.RoutingKey, &m, nil)
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
