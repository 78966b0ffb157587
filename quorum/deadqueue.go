package quorum

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
)

// deadQueue is where a virtual host keeps messages that failed too often in a queue without a dead-letter exchange: nothing is dropped because it cannot be consumed (PROTOCOL 4). It is an
// ordinary durable queue without limits, which is made when the first such message needs it.
const deadQueue = "amq.dead"

// makeDeadQueue makes the queue of unconsumable messages of a virtual host. That it is refused is no error: the messages wait until the catalogue changes.
func (h *Host) makeDeadQueue(vhost string) error {
	q := meta.Queue{
		VHost: vhost, Name: deadQueue, Durable: true, Home: h.node, HomeBoot: h.Boot(), Replicas: h.Place(0),
		Arguments: meta.NewArguments(amqp.Table{{Key: "x-queue-type", Value: amqp.Longstr("classic")}}),
	}
	cmd := meta.Command{Op: meta.OpDeclareQueue, Queue: q}
	reply := h.Catalogue().View.Check(&cmd)
	if reply.Reason == meta.ReasonOK && !reply.Existed {
		replies, err := h.Do(h.life, cmd)
		if err != nil {
			return err
		}
		reply = replies[0]
	}
	if reply.Reason != meta.ReasonOK {
		h.log.Warn("messages that failed too often wait: their virtual host takes no queue to keep them in", "vhost", vhost, "queue", deadQueue, "reason", reply.Reason)
	}
	return nil
}
