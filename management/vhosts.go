package management

import (
	"net/http"
	"slices"

	"github.com/warrenmq/warren/meta"
)

// vhostRow is a virtual host with the sums of its queues and connections.
type vhostRow struct {
	vhost  *meta.VHost
	totals queueTotals
	rates  rates
	traffic
}

// vhostRows sums up per virtual host, in one pass over the queues.
func (c *call) vhostRows(vhosts ...*meta.VHost) []*vhostRow {
	rows := make([]*vhostRow, len(vhosts))
	of := make(map[string]*vhostRow, len(vhosts))
	for i, h := range vhosts {
		rows[i] = &vhostRow{vhost: h}
		of[h.Name] = rows[i]
	}
	for _, q := range c.s.sampler.snapshot().queues {
		if r := of[q.queue.VHost]; r != nil {
			r.totals.add(&q.status)
			r.rates.add(q.rates)
		}
	}
	add := func(list []traffic) {
		for i := range list {
			if r := of[list[i].vhost]; r != nil {
				r.traffic.add(&list[i])
			}
		}
	}
	add(c.s.ownTraffic())
	for _, n := range c.s.peers.traffic.rows(c.s.peers) {
		add(n.rows)
	}
	return rows
}

// traffic are the bytes of connections to a virtual host.
type traffic struct {
	vhost                  string
	received, sent         uint64
	receivedRate, sentRate float64
}

func (t *traffic) add(more *traffic) {
	t.received += more.received
	t.sent += more.sent
	t.receivedRate += more.receivedRate
	t.sentRate += more.sentRate
}

func packTraffic(p *pack, t *traffic) {
	p.text(&t.vhost)
	p.uints(&t.received, &t.sent)
	p.float(&t.receivedRate)
	p.float(&t.sentRate)
}

// ownTraffic sums up the connections of this node.
func (s *Server) ownTraffic() []traffic {
	var list []traffic
	of := make(map[string]int)
	for _, x := range s.ownConnections(&question{}) {
		i, ok := of[x.thing.VHost]
		if !ok {
			i = len(list)
			of[x.thing.VHost] = i
			list = append(list, traffic{vhost: x.thing.VHost})
		}
		list[i].add(&traffic{
			received: x.thing.ReceivedBytes, sent: x.thing.SentBytes, receivedRate: x.rates.of(connectionReceived), sentRate: x.rates.of(connectionSent),
		})
	}
	return list
}

// listVHosts is GET /vhosts.
func listVHosts(c *call) error {
	return list(c, c.vhostRows(c.vhosts()...), func(r *vhostRow) string { return r.vhost.Name }, c.writeVHost)
}

// getVHost is GET /vhosts/VHOST, for those who see it in the list.
func getVHost(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	row := c.vhostRows(c.view.VHost(c.params[0]))[0]
	return c.object(http.StatusOK, func(w *writer) { c.writeVHost(w, row) })
}

// putVHost is PUT /vhosts/VHOST. What the body does not name stays as it is; who makes a virtual host gets all permissions in it.
func putVHost(c *call) error {
	b, err := c.readBody()
	if err != nil {
		return err
	}
	h := meta.VHost{Name: c.params[0]}
	old := c.view.VHost(h.Name)
	if old != nil {
		h = *old
	}
	if h.Description, err = b.text("description", h.Description); err != nil {
		return err
	}
	if h.Tracing, err = b.bool("tracing", h.Tracing); err != nil {
		return err
	}
	if h.DefaultQueueType, err = b.text("default_queue_type", h.DefaultQueueType); err != nil {
		return err
	}
	if h.DefaultQueueType == "undefined" {
		h.DefaultQueueType = ""
	}
	if b.has("tags") {
		tags, err := b.tags("tags")
		if err != nil {
			return err
		}
		h.Tags = sortedSet(tags)
	}
	cmds := []meta.Command{{Op: meta.OpPutVHost, VHost: h}}
	if old == nil {
		cmds = append(cmds, meta.Command{Op: meta.OpPutPermission, Permission: meta.Permission{User: c.user.Name, VHost: h.Name, Configure: ".*", Write: ".*", Read: ".*"}})
	}
	reply, err := c.do(vhostResource(h.Name), cmds...)
	if err != nil {
		return err
	}
	return c.made(reply.Existed)
}

func vhostResource(name string) resource { return resource{Kind: "vhost", Name: name} }

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// startVHost is POST /vhosts/VHOST/start/NODE. A virtual host runs wherever there is a node.
func startVHost(c *call) error {
	if c.view.VHost(c.params[0]) == nil || c.view.NodeNamed(c.params[1]) == nil {
		return objectNotFound()
	}
	return c.empty(http.StatusNoContent)
}

// deleteVHost is DELETE /vhosts/VHOST.
func deleteVHost(c *call) error {
	name := c.params[0]
	if c.view.VHost(name) == nil {
		return objectNotFound()
	}
	if _, err := c.do(vhostResource(name), meta.Command{Op: meta.OpDeleteVHost, VHost: meta.VHost{Name: name}}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func (c *call) writeVHost(w *writer, r *vhostRow) {
	h, t := r.vhost, &r.totals
	w.Str("name", h.Name)
	writeDescription(w, h)
	if w.Object("metadata") {
		writeDescription(w, h)
		w.End()
	}
	w.Bool("tracing", h.Tracing)
	w.Bool("protected_from_deletion", false)
	if w.Object("cluster_state") {
		for n := range c.view.Nodes() {
			if n.Replaced {
				continue
			}
			state := "stopped"
			if n.Alive() {
				state = "running"
			}
			w.Str(n.Name, state)
		}
		w.End()
	}
	moves, bytes := trend{rates: &r.rates}, trend{rates: &rates{connectionReceived: r.receivedRate, connectionSent: r.sentRate}}
	writeLengths(w, t.ready+t.unacked, t.ready, t.unacked, moves)
	w.Counter("recv_oct", r.received, bytes, connectionReceived)
	w.Counter("send_oct", r.sent, bytes, connectionSent)
	if w.Object("message_stats") {
		writeQueueCounters(w, &t.counts, moves)
		writeNoCounters(w, "confirm", "drop_unroutable", "return_unroutable")
		w.End()
	}
}

func writeDescription(w *writer, h *meta.VHost) {
	w.Str("description", h.Description)
	w.Strings("tags", h.Tags)
	kind := h.DefaultQueueType
	if kind == "" {
		kind = meta.TypeClassic
	}
	w.Str("default_queue_type", kind)
}
