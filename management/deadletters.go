package management

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// parkedIn is the queue that messages go to which failed too often elsewhere.
const parkedIn = "amq.dead"

// deadQueue is a queue that dead letters go to, and where the first of its messages come from.
type deadQueue struct {
	queue   *meta.Queue
	sampled uint64
	sources []tally // by the queue where they died last and why; without a death by none
}

// deadQueues are the queues of a virtual host that dead letters of others go to: by the default exchange, by bindings of a dead-letter exchange, of direct ones those with the key, and amq.dead.
func deadQueues(view *meta.View, vhost string) (list []*meta.Queue) {
	type way struct{ exchange, key string }
	seen, found := make(map[way]bool), make(map[*meta.Queue]bool)
	var follow func(w way)
	add := func(name string) {
		if q := view.Queue(vhost, name); q != nil {
			found[q] = true
		}
	}
	follow = func(w way) {
		if seen[w] {
			return
		}
		seen[w] = true
		if w.exchange == "" {
			add(w.key)
			return
		}
		x := view.Exchange(vhost, w.exchange)
		for b := range view.BindingsFrom(vhost, w.exchange) {
			switch {
			case w.key != "" && x != nil && x.Type == "direct" && b.RoutingKey != w.key:
			case b.Kind == meta.ToQueue:
				add(b.Destination)
			default:
				follow(way{b.Destination, w.key})
			}
		}
	}
	for q := range view.Queues(vhost) {
		v, ok := q.Effective("x-dead-letter-exchange")
		if !ok {
			continue
		}
		var w way
		w.exchange, _ = v.AsString()
		if v, ok := q.Effective("x-dead-letter-routing-key"); ok {
			w.key, _ = v.AsString()
		}
		follow(w)
	}
	add(parkedIn)
	for q := range found {
		list = append(list, q)
	}
	slices.SortFunc(list, func(a, b *meta.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// sample looks at the first messages of a queue.
func (s *Server) sample(ctx context.Context, d *deadQueue) error {
	page, err := s.scan(ctx, d.queue, fromHead, limits.DeadLettersSampled)
	if err != nil {
		return err
	}
	d.sampled = uint64(len(page.messages))
	for i := range page.messages {
		addTally(&d.sources, page.messages[i].died, page.messages[i].reason, 1)
	}
	slices.SortStableFunc(d.sources, func(a, b tally) int { return cmp.Compare(b.n, a.n) })
	return nil
}

func (c *call) listDeadLetters(vhosts ...string) error {
	var rows []*deadQueue
	left := limits.DeadQueuesSampled
	for _, vhost := range vhosts {
		for _, q := range deadQueues(c.view, vhost) {
			d := &deadQueue{queue: q}
			rows = append(rows, d)
			if sample := c.s.sampler.snapshot().queue(q.ID); left > 0 && sample != nil && sample.status.Counts.Ready > 0 {
				left--
				_ = c.s.sample(c.r.Context(), d) // what does not answer has no sample
			}
		}
	}
	return list(c, rows, func(d *deadQueue) string { return d.queue.Name }, c.writeDeadLetters)
}

// listDeadLetters is GET /dead-letters: in the virtual hosts that the user sees.
func listDeadLetters(c *call) error { return c.listDeadLetters(c.vhostNames()...) }

// listVHostDeadLetters is GET /dead-letters/VHOST.
func listVHostDeadLetters(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return c.listDeadLetters(c.params[0])
}

// getDeadLetters is GET /dead-letters/VHOST/QUEUE, of any queue.
func getDeadLetters(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	d := &deadQueue{queue: c.view.Queue(c.params[0], c.params[1])}
	if d.queue == nil {
		return objectNotFound()
	}
	if err := c.s.sample(c.r.Context(), d); err != nil {
		return err
	}
	return c.object(http.StatusOK, func(w *writer) { c.writeDeadLetters(w, d) })
}

func (c *call) writeDeadLetters(w *writer, d *deadQueue) {
	w.Str("name", d.queue.Name)
	w.Str("vhost", d.queue.VHost)
	ready := d.sampled
	if sample := c.s.sampler.snapshot().queue(d.queue.ID); sample != nil {
		ready = max(ready, sample.status.Counts.Ready)
	}
	w.Uint("messages_ready", ready)
	w.Uint("sampled", d.sampled)
	if !w.Array("sources") {
		return
	}
	for _, t := range d.sources {
		w.Object("")
		w.Str("queue", t.queue)
		w.Str("reason", t.why)
		w.Uint("messages", t.n)
		w.End()
	}
	w.EndArray()
}
