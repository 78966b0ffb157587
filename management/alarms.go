package management

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/warrenmq/warren/config"
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

// setNodeLimits is PUT /nodes/NODE/limits: the settings of that name, until the node stops.
func setNodeLimits(c *call) error {
	node := c.view.NodeNamed(c.params[0])
	if node == nil {
		return objectNotFound()
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	q := question{kind: askSetLimits}
	for _, key := range config.AlarmKeys() {
		if !b.has(key) {
			continue
		}
		text := string(b[key])
		if json.Unmarshal(b[key], &text) != nil { // a number
			text = string(b[key])
		}
		if strings.ContainsAny(text, "\n") {
			return badRequest("the value of " + key + " is no number")
		}
		q.reason += key + "=" + text + "\n"
	}
	if q.reason == "" {
		return badRequest("one of " + strings.Join(config.AlarmKeys(), ", ") + " is needed")
	}
	if node.ID == c.s.opt.Host.Node() {
		err = c.s.setLimits(&q)
	} else if err = checkLimits(q.reason, new(config.Alarms)); err == nil {
		if _, asked := c.s.peers.askOne(c.r.Context(), node.ID, q); asked != nil {
			return unavailable("node '" + node.Name + "' does not answer; it is not known whether its limits were set")
		}
	}
	if err != nil {
		return badRequest(err.Error())
	}
	return c.empty(http.StatusNoContent)
}

// setLimits sets limits of this node.
func (s *Server) setLimits(q *question) error {
	var limits config.Alarms
	if err := checkLimits(q.reason, &limits); err != nil {
		return err
	}
	s.log.Info("limits are set", "limits", strings.TrimSpace(q.reason))
	if limits.MemoryHigh.IsSet() {
		s.opt.Watch.SetMemoryHigh(limits.MemoryHigh)
	}
	if limits.DiskFree.IsSet() {
		s.opt.Watch.SetDiskFree(limits.DiskFree)
	}
	return nil
}

// checkLimits reads limits, a setting on each line.
func checkLimits(text string, limits *config.Alarms) error {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if err := limits.Set(key, value); err != nil {
			return err
		}
	}
	return nil
}
