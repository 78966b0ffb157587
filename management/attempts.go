package management

import (
	"net/http"
	"sync"
)

// attempts are the logins at a node since it started or since they were reset, by protocol.
type attempts struct {
	protocol               string
	all, failed, succeeded uint64
}

func packAttempts(p *pack, a *attempts) {
	p.text(&a.protocol)
	p.uints(&a.all, &a.failed, &a.succeeded)
}

// attemptsBase is what the counters of this node had at the last reset: they themselves only rise.
type attemptsBase struct {
	mu sync.Mutex
	at map[string]attempts
}

// ownAttempts are the logins at this node; reset begins to count anew.
func (s *Server) ownAttempts(reset bool) (list []attempts) {
	t := s.opt.Broker.Totals()
	now := [...]attempts{
		{"amqp091", t.AuthAttempts, t.AuthFailed, t.AuthSucceeded},
		{"http", s.logins.attempts.Load(), s.logins.failed.Load(), s.logins.succeeded.Load()},
	}
	b := &s.attempts
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range now {
		base := b.at[a.protocol]
		if a.all > base.all {
			list = append(list, attempts{a.protocol, a.all - base.all, a.failed - base.failed, a.succeeded - base.succeeded})
		}
	}
	if reset {
		b.at = make(map[string]attempts, len(now))
		for _, a := range now {
			b.at[a.protocol] = a
		}
	}
	return list
}

// attemptsAt returns the logins at the node of the path, or resets them.
func (c *call) attemptsAt(reset bool) ([]attempts, error) {
	n := c.view.NodeNamed(c.params[0])
	switch {
	case n == nil:
		return nil, objectNotFound()
	case n.ID == c.s.opt.Host.Node():
		return c.s.ownAttempts(reset), nil
	}
	q := question{kind: askAttempts}
	if reset {
		q.reason = attemptsReset
	}
	body, err := c.s.peers.askOne(c.r.Context(), n.ID, q)
	if err != nil {
		return nil, unavailable("node '" + n.Name + "' does not answer")
	}
	var list []attempts
	p := unpack(body)
	packRows(p, &list, packAttempts)
	if p.in.Err() != nil {
		return nil, unavailable("node '" + n.Name + "' answers what cannot be understood")
	}
	return list, nil
}

// attemptsReset as reason of askAttempts has the node count anew.
const attemptsReset = "reset"

// listAttempts is GET /auth/attempts/NODE.
func listAttempts(c *call) error {
	rows, err := c.attemptsAt(false)
	if err != nil {
		return err
	}
	return list(c, rows, func(a attempts) string { return a.protocol }, func(w *writer, a attempts) {
		w.Str("protocol", a.protocol)
		w.Uint("auth_attempts", a.all)
		w.Uint("auth_attempts_failed", a.failed)
		w.Uint("auth_attempts_succeeded", a.succeeded)
	})
}

// listAttemptSources is GET /auth/attempts/NODE/source: where logins come from is not counted, as RabbitMQ does not unless it is told to.
func listAttemptSources(c *call) error {
	if c.view.NodeNamed(c.params[0]) == nil {
		return objectNotFound()
	}
	return emptyList(c)
}

// resetAttempts is DELETE /auth/attempts/NODE[/source].
func resetAttempts(c *call) error {
	if _, err := c.attemptsAt(true); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
