package management

import (
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// lackOf is what a node is short of.
func (s *Server) lackOf(node meta.NodeID) alarm.Set {
	for _, a := range s.opt.Host.Alarms() {
		if a.Node == node {
			return a.Lack
		}
	}
	return 0
}

// resourceWords are RabbitMQ's words for what alarms are about, in its order.
var resourceWords = [...]struct {
	bit  alarm.Set
	word string
}{{alarm.Disk, "disk space"}, {alarm.Memory, "memory"}}

func (c *call) checkAlarms(where string, counts func(meta.NodeID) bool) error {
	var list []quorum.NodeAlarms
	for _, a := range c.s.opt.Host.Alarms() {
		if counts(a.Node) {
			list = append(list, a)
		}
	}
	if list == nil {
		return healthy(c)
	}
	return c.checked("There are alarms in effect "+where, func(w *writer) {
		if !w.Array("alarms") {
			return
		}
		for _, a := range list {
			for _, r := range resourceWords {
				if a.Lack&r.bit != 0 {
					w.Object("")
					w.Str("node", nodeNamed(c.view, a.Node))
					w.Str("resource", r.word)
					w.End()
				}
			}
		}
		w.EndArray()
	})
}

// checkAlarms is GET /health/checks/alarms, checkLocalAlarms .../local-alarms.
func checkAlarms(c *call) error {
	return c.checkAlarms("in the cluster", func(meta.NodeID) bool { return true })
}

func checkLocalAlarms(c *call) error {
	return c.checkAlarms("on the node", func(node meta.NodeID) bool { return node == c.s.opt.Host.Node() })
}
