package broker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// The two exchanges that the broker itself publishes to.
const (
	traceExchange = "amq.rabbitmq.trace"
	eventExchange = "amq.rabbitmq.event"
)

// notice is a message that the broker itself publishes.
type notice struct {
	vhost, exchange, key string
	properties           amqp.Properties
	body                 []byte
}

// notices publishes what the broker has to tell: events and copies of traced messages. Whoever causes one never waits: it goes into a bounded queue, or is dropped and counted when that is full.
// Nothing is made while nobody is bound: that costs one atomic load. A notice is stored at most once; its loss is told to nobody.
type notices struct {
	b *Broker
	// events says that the event exchange has a binding.
	events atomic.Bool
	// traced are the virtual hosts that are traced and where somebody is bound to the trace exchange, nil if there is none.
	traced  atomic.Pointer[map[string]bool]
	queue   chan notice
	dropped atomic.Uint64
	// bytes are those of bodies that wait and of messages that their queues have not answered, unanswered the number of the latter.
	bytes, unanswered atomic.Int64
	room              chan struct{} // an answer came
	missing           chan struct{} // the event exchange may be missing

	// lack is what this node was short of when that was told last; it belongs to the watch.
	lack alarm.Set

	// seen is the View at the last change, for what a change does not tell; it belongs to Broker.changed.
	seen *meta.View
}

// declareMax is how long a start waits for the event exchange to be made.
const declareMax = 2 * time.Second

func newNotices(b *Broker) *notices {
	n := &notices{
		b: b, queue: make(chan notice, limits.NoticesMax), room: make(chan struct{}, 1), missing: make(chan struct{}, 1), seen: b.host.Catalogue().View,
	}
	n.listen()
	return n
}

// add takes a notice to be published. It never waits.
func (n *notices) add(m notice) {
	if n.bytes.Load() >= limits.NoticeBytesMax {
		n.dropped.Add(1)
		return
	}
	n.bytes.Add(int64(len(m.body)))
	select {
	case n.queue <- m:
	default:
		n.bytes.Add(-int64(len(m.body)))
		n.dropped.Add(1)
	}
}

// run publishes until the broker stops.
func (n *notices) run() {
	var session Session // made when there is something to publish
	defer func() {
		if session != nil {
			session.Close(func(meta.QueueID) uint64 { return 0 }, 0)
		}
	}()
	var targets []meta.QueueID
	for {
		select {
		case <-n.b.stop:
			return
		case <-n.missing:
			n.declare()
		case m := <-n.queue:
			if session == nil {
				session = n.b.host.OpenSession(n)
			}
			targets = n.publish(session, &m, targets[:0])
			if len(n.queue) == 0 {
				session.Flush()
			}
		}
	}
}

// publish routes a notice and submits it to its queues. It waits for the answers to earlier ones if too many are under way.
func (n *notices) publish(session Session, m *notice, targets []meta.QueueID) []meta.QueueID {
	defer n.bytes.Add(-int64(len(m.body)))
	properties := m.properties.Append(nil)
	view, err := amqp.ScanProperties(properties)
	if err != nil {
		n.dropped.Add(1) // the tables of a traced message are nested deeper than another level allows
		return targets
	}
	routed := exchange.Message{Properties: &view}
	targets, _ = n.b.host.Catalogue().Router.Route(m.vhost, []byte(m.exchange), []byte(m.key), &routed, targets)
	targets = append(targets, routed.Histories...)
	if len(targets) == 0 {
		return targets
	}
	cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: uint32(len(m.body))}
	cmd.Envelope = AppendEnvelope(nil, &Envelope{Exchange: []byte(m.exchange), RoutingKey: []byte(m.key), Properties: properties, Body: m.body})
	if mode, _ := view.DeliveryMode(); mode == 2 {
		cmd.Flags |= queue.FlagPersistent
	}
	size := uint64(len(cmd.Envelope))
	for _, q := range targets {
		for n.unanswered.Load() >= limits.NoticesUnansweredMax {
			session.Flush()
			select {
			case <-n.room:
			case <-n.b.stop:
				return targets
			}
		}
		n.unanswered.Add(1)
		n.bytes.Add(int64(size))
		if err := session.Submit(q, &cmd, tokenPublish|size); err != nil {
			n.Completed(q, []quorum.Completion{{Token: tokenPublish | size}})
		}
	}
	return targets
}

// Completed implements quorum.Receiver. Whether a notice was stored makes no difference.
func (n *notices) Completed(_ meta.QueueID, done []quorum.Completion) {
	for i := range done {
		n.unanswered.Add(-1)
		n.bytes.Add(-int64(done[i].Token & tokenNumber))
	}
	select {
	case n.room <- struct{}{}:
	default:
	}
}

// Deliver implements quorum.Receiver: there are no consumers.
func (n *notices) Deliver(meta.QueueID, []quorum.Delivery) {}

// Ready implements quorum.Receiver: there are no consumers.
func (n *notices) Ready(meta.QueueID, uint64) {}

// Cancelled implements quorum.Receiver: there are no consumers.
func (n *notices) Cancelled(meta.QueueID, queue.ConsumerID) {}

// TimedOut implements quorum.Receiver: there are no consumers.
func (n *notices) TimedOut(meta.QueueID, []uint64) {}

// Synced implements quorum.Receiver: there are no consumers.
func (n *notices) Synced(meta.QueueID, *queue.SessionSync) {}

// Gone implements quorum.Receiver: what waited was answered before.
func (n *notices) Gone(meta.QueueID) {}

// listen finds out who wants to be told.
func (n *notices) listen() {
	v := n.b.host.Catalogue().View
	bound := func(vhost, name string) bool {
		for range v.BindingsFrom(vhost, name) {
			return true
		}
		return false
	}
	n.events.Store(bound(n.b.opt.EventVHost, eventExchange))
	traced := make(map[string]bool)
	for h := range v.VHosts() {
		if h.Tracing && bound(h.Name, traceExchange) {
			traced[h.Name] = true
		}
	}
	if len(traced) == 0 {
		n.traced.Store(nil)
	} else {
		n.traced.Store(&traced)
	}
	if v.VHost(n.b.opt.EventVHost) != nil && v.Exchange(n.b.opt.EventVHost, eventExchange) == nil {
		select {
		case n.missing <- struct{}{}:
		default:
		}
	}
}

// concerns tells whether a change may make somebody listen or not.
func (n *notices) concerns(e *meta.Effect) bool {
	switch e.Kind {
	case meta.VHostChanged, meta.VHostDeleted, meta.NodeChanged: // a catalogue that was replaced as a whole tells of its nodes
		return true
	case meta.BindingCreated, meta.BindingDeleted:
		return e.Binding.Source == traceExchange || e.Binding.Source == eventExchange
	}
	return false
}

// EventExchange is the command that makes the event exchange in a virtual host.
func EventExchange(vhost string) meta.Command {
	return meta.Command{Op: meta.OpDeclareExchange, Exchange: meta.Exchange{VHost: vhost, Name: eventExchange, Type: "topic", Durable: true, Internal: true}}
}

// declare makes the event exchange where it is missing: in a catalogue of an older version, in a virtual host that was deleted and made again.
func (n *notices) declare() {
	vhost := n.b.opt.EventVHost
	v := n.b.host.Catalogue().View
	if v.VHost(vhost) == nil || v.Exchange(vhost, eventExchange) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), declareMax)
	defer cancel()
	if _, err := n.b.host.Do(ctx, EventExchange(vhost)); err != nil {
		n.b.log.Warn("the event exchange cannot be made yet", "vhost", vhost, "error", err)
		time.AfterFunc(declareMax, n.listen)
	}
}
