package management

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warrenmq/warren/meta"
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
	return healthy(c)
}

// healthy answers a check of something that is well as long as the API answers.
func healthy(c *call) error { return c.checked("", nil) }

// healthyNode is GET /healthchecks/node/NODE, which checks nothing in RabbitMQ either.
func healthyNode(c *call) error {
	if c.view.NodeNamed(c.params[0]) == nil {
		return objectNotFound()
	}
	return healthy(c)
}

// checked answers a check: 200 without a reason, 503 with one; more writes what else there is to say.
func (c *call) checked(reason string, more func(*writer)) error {
	status, word := http.StatusOK, "ok"
	if reason != "" {
		status, word = http.StatusServiceUnavailable, "failed"
	}
	return c.object(status, func(w *writer) {
		w.Str("status", word)
		if reason != "" {
			w.Str("reason", reason)
		}
		if more != nil {
			more(w)
		}
	})
}

// checkReady is GET /health/checks/is-in-service and .../ready-to-serve-clients.
func checkReady(c *call) error {
	if err := c.s.opt.Ready(); err != nil {
		return c.checked(err.Error(), nil)
	}
	return healthy(c)
}

// checkConnections is GET /health/checks/below-node-connection-limit.
func checkConnections(c *call) error {
	n, most := c.s.sampler.snapshot().node.connections(), c.s.opt.ConnectionMax
	reason := ""
	if most > 0 && n >= uint64(most) {
		reason = "node connection limit is reached"
	}
	return c.checked(reason, func(w *writer) {
		w.Uint("connections", n)
		if most > 0 {
			w.Int("limit", int64(most))
		} else {
			w.Str("limit", "infinity")
		}
	})
}

// checkPort is GET /health/checks/port-listener/PORT.
func checkPort(c *call) error {
	port, err := strconv.Atoi(c.params[0])
	if err != nil {
		return badRequest("Invalid port")
	}
	var ports []int
	for _, l := range c.s.opt.Listeners() {
		ports = append(ports, l.Port)
	}
	if slices.Contains(ports, port) {
		return c.checked("", func(w *writer) { w.Int("port", int64(port)) })
	}
	return c.checked("No active listener", func(w *writer) {
		w.Int("missing", int64(port))
		if w.Array("ports") {
			for _, p := range ports {
				w.Int("", int64(p))
			}
			w.EndArray()
		}
	})
}

// protocolNames are other names of protocols.
var protocolNames = map[string]string{"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl", "management": "http", "prometheus": "http/prometheus"}

// checkProtocols is GET /health/checks/protocol-listener/PROTOCOL,PROTOCOL...: RabbitMQ up to 4.0 takes one protocol and names it under another key, which is there, too.
func checkProtocols(c *call) error {
	var here, wanted, missing []string
	for _, l := range c.s.opt.Listeners() {
		here = append(here, l.Protocol)
	}
	for name := range strings.SplitSeq(c.params[0], ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if other, ok := protocolNames[name]; ok {
			name = other
		}
		wanted = append(wanted, name)
		if !slices.Contains(here, name) {
			missing = append(missing, name)
		}
	}
	if missing == nil {
		return c.checked("", func(w *writer) {
			w.Str("protocol", wanted[0])
			w.Strings("protocols", wanted)
		})
	}
	return c.checked("No active listener", func(w *writer) {
		w.Str("missing", strings.Join(missing, ","))
		w.Strings("protocols", slices.Compact(here))
	})
}

// unitSeconds are the units of checkCertificates, months and years without leap days, as in RabbitMQ.
var unitSeconds = map[string]int64{"days": 86_400, "weeks": 7 * 86_400, "months": 365 * 86_400 / 12, "years": 365 * 86_400}

// checkCertificates is GET /health/checks/certificate-expiration/NUMBER/UNIT: whether a certificate that this node listens with, or an authority of clients, ends within that time.
func checkCertificates(c *call) error {
	n, err := strconv.Atoi(c.params[0])
	if err != nil || n < 0 {
		return badRequest("Invalid expiration value.")
	}
	unit, ok := unitSeconds[strings.ToLower(c.params[1])]
	if !ok {
		return badRequest("Time unit not recognised. Supported units: days, weeks, months, years.")
	}
	const yearsMax = 1_000_000
	now := time.Now()
	end := time.Unix(now.Unix()+min(int64(n), yearsMax)*unit, 0)
	var ending []Listener
	for _, l := range c.s.opt.Listeners() {
		if x := l.Certificates; x != nil && len(endings(x.Chain, now, end))+len(endings(x.Authorities, now, end)) > 0 {
			ending = append(ending, l)
		}
	}
	if ending == nil {
		return healthy(c)
	}
	return c.checked("Certificates expiring", func(w *writer) {
		if !w.Array("expired") {
			return
		}
		for _, l := range ending {
			w.Object("")
			w.Str("node", c.s.nodeName(c.view))
			w.Str("protocol", l.Protocol)
			w.Str("interface", l.IP)
			w.Int("port", int64(l.Port))
			w.Str("certfile", l.Certificates.CertFile)
			w.Str("cacertfile", l.Certificates.CAFile)
			w.Strings("certfile_expires_on", endings(l.Certificates.Chain, now, end))
			w.Strings("cacertfile_expires_on", endings(l.Certificates.Authorities, now, end))
			w.End()
		}
		w.EndArray()
	})
}

// endings lists when the certificates end that end before a time, and says which are not valid yet.
func endings(list []*x509.Certificate, now, end time.Time) []string {
	var texts []string
	for _, x := range list {
		if x.NotBefore.After(now) {
			texts = append(texts, "Certificate is not yet valid")
		} else if at := x.NotAfter.UTC(); at.Before(end) {
			texts = append(texts, fmt.Sprintf("%d-%02d-%02d %d:%02d:%02d", at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second()))
		}
	}
	return texts
}

// checkQuorumCritical is GET /health/checks/node-is-quorum-critical: whether queues would be without a majority if this node went.
func checkQuorumCritical(c *call) error {
	self, nodes := c.s.opt.Host.Node(), 0
	for n := range c.view.Nodes() {
		if !n.Replaced {
			nodes++
		}
	}
	if nodes == 1 {
		return c.object(http.StatusOK, func(w *writer) {
			w.Str("status", "ok")
			w.Str("reason", "single node cluster")
		})
	}
	return c.checkQueues("There are quorum queues that would lose their quorum if the target node is shut down", func(s *queueSample) bool {
		st := &s.status
		return slices.Contains(st.Online, self) && len(st.Online)-1 <= len(st.Members)/2
	})
}

// checkQueues fails if there are durable queues that are not well.
func (c *call) checkQueues(reason string, ill func(*queueSample) bool) error {
	var list []*meta.Queue
	for _, s := range c.s.sampler.snapshot().queues {
		if s.queue.Durable && c.sees(s.queue.VHost) && ill(s) {
			list = append(list, s.queue)
		}
	}
	if list == nil {
		return healthy(c)
	}
	return c.checked(reason, func(w *writer) {
		if w.Array("queues") {
			for _, q := range list {
				w.Object("")
				w.Str("readable_name", queueResource(q.VHost, q.Name).String())
				w.Str("name", q.Name)
				w.Str("virtual_host", q.VHost)
				w.Str("type", q.Type)
				w.End()
			}
			w.EndArray()
		}
	})
}

// The checks for leaders are GET /health/checks/quorum-queues-without-elected-leaders/...; a queue that sleeps for want of work is well.
func (c *call) checkLeaders(vhost, pattern string) error {
	if vhost != "" {
		if err := c.readVHost(vhost); err != nil {
			return err
		}
	}
	match, err := regexp.Compile(pattern)
	if err != nil || len(pattern) > nameFilterBytesMax {
		return badRequest("Invalid pattern")
	}
	return c.checkQueues("There are quorum queues without an elected leader", func(s *queueSample) bool {
		return (vhost == "" || s.queue.VHost == vhost) && match.MatchString(s.queue.Name) && stateWord(&s.status) != "running"
	})
}

func checkLeaders(c *call) error              { return c.checkLeaders("", "") }
func checkMatchingLeaders(c *call) error      { return c.checkLeaders("", c.params[0]) }
func checkVHostLeaders(c *call) error         { return c.checkLeaders(c.params[0], "") }
func checkVHostMatchingLeaders(c *call) error { return c.checkLeaders(c.params[0], c.params[1]) }
