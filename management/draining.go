package management

import (
	"net/http"
	"strconv"

	"github.com/warrenmq/warren/meta"
)

// A draining queue was deleted and is there for the messages alone that are still on their way to others. It has no name any more; its id names it.

// listDraining is GET /draining: those of the virtual hosts that the user sees.
func listDraining(c *call) error {
	var rows []*meta.Queue
	for _, vhost := range c.vhostNames() {
		for q := range c.view.Draining(vhost) {
			rows = append(rows, q)
		}
	}
	return list(c, rows, (*meta.Queue).KnownAs, func(w *writer, q *meta.Queue) {
		st, _ := c.s.exactStatus(c.r.Context(), q)
		w.Str("id", strconv.FormatUint(uint64(q.ID), 10))
		w.Str("name", q.KnownAs())
		w.Str("vhost", q.VHost)
		w.Uint("messages_dlx", st.Counts.Dead)
		w.Uint("message_bytes_dlx", st.Counts.DeadBytes)
		w.Str("dlx_pending_reason", st.PendingReason)
		w.Str("leader", nodeNamed(c.view, st.Leader))
	})
}

// dropDraining is DELETE /draining/ID: the messages do not arrive any more. The answer tells how many: as its leader says, or, if it names none, as was known last.
func dropDraining(c *call) error {
	id, err := strconv.ParseUint(c.params[0], 10, 64)
	q := c.view.QueueByID(meta.QueueID(id))
	if err != nil || q == nil || !q.IsDraining() {
		return objectNotFound()
	}
	st, _ := c.s.exactStatus(c.r.Context(), q)
	if host := c.s.opt.Host; st.Leader != host.Node() && !host.NodeUp(st.Leader) {
		st.Leader = 0
	}
	if _, err := c.do(queueResource(q.VHost, q.KnownAs()), meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: q.ID}}); err != nil {
		return err
	}
	c.s.log.Warn("a deleted queue was removed before all messages had left it", "queue", q.KnownAs(), "vhost", q.VHost, "dropped", st.Counts.Dead, "user", c.user.Name)
	return c.object(http.StatusOK, func(w *writer) {
		w.Str("name", q.KnownAs())
		w.Str("vhost", q.VHost)
		w.Uint("messages_dropped", st.Counts.Dead)
		w.Str("leader", nodeNamed(c.view, st.Leader))
	})
}
