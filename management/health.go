package management

import (
	"net/http"
)

// health is GET /livez and /readyz, without a login: whether the process answers, and whether it serves clients.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "HEAD, GET")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "application/json")
	out := &writer{out: w, status: http.StatusOK}
	var reason string
	if r.URL.Path == "/readyz" {
		if err := s.opt.Ready(); err != nil {
			out.status, reason = http.StatusServiceUnavailable, err.Error()
		}
	}
	out.Object("")
	if reason == "" {
		out.Str("status", "ok")
	} else {
		out.Str("status", "failed")
		out.Str("reason", reason)
	}
	out.End()
	out.finish()
}

// aliveness is GET /aliveness-test/VHOST. As in RabbitMQ it makes nothing any more.
func aliveness(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return c.object(http.StatusOK, func(w *writer) { w.Str("status", "ok") })
}

// alarms is GET /health/checks/alarms.
func alarms(c *call) error {
	list := c.s.opt.Alarms()
	if len(list) == 0 {
		return c.object(http.StatusOK, func(w *writer) { w.Str("status", "ok") })
	}
	return c.object(http.StatusServiceUnavailable, func(w *writer) {
		w.Str("status", "failed")
		w.Str("reason", "There are alarms in effect in the cluster")
		if w.Array("alarms") {
			for _, a := range list {
				w.Object("")
				w.Str("node", a.Node)
				w.Str("resource", a.Resource)
				w.End()
			}
			w.EndArray()
		}
	})
}
