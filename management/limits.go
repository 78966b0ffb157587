package management

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/meta"
)

// limited is a virtual host or user that has limits.
type limited struct {
	name   string
	limits []meta.Limit
}

// listOfLimits answers with what has limits; kind is the key of its name.
func listOfLimits(c *call, kind string, rows []limited) error {
	rows = slices.DeleteFunc(rows, func(r limited) bool { return len(r.limits) == 0 })
	return list(c, rows, func(r limited) string { return r.name }, func(w *writer, r limited) {
		w.Str(kind, r.name)
		writeLimits(w, "value", r.limits)
	})
}

func writeLimits(w *writer, key string, limits []meta.Limit) {
	if w.Object(key) {
		for _, l := range limits {
			w.Int(l.Name, l.Value)
		}
		w.End()
	}
}

// listVHostLimits is GET /vhost-limits: those that the user sees.
func listVHostLimits(c *call) error {
	var rows []limited
	for _, h := range c.vhosts() {
		rows = append(rows, limited{h.Name, c.view.VHostLimits(h.Name)})
	}
	return listOfLimits(c, "vhost", rows)
}

// getVHostLimits is GET /vhost-limits/VHOST: a list of one, or none.
func getVHostLimits(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return listOfLimits(c, "vhost", []limited{{c.params[0], c.view.VHostLimits(c.params[0])}})
}

// listUserLimits is GET /user-limits, getUserLimits GET /user-limits/USER: a list of one, or none.
func listUserLimits(c *call) error {
	var rows []limited
	for u := range c.view.Users() {
		rows = append(rows, limited{u.Name, c.view.UserLimits(u.Name)})
	}
	return listOfLimits(c, "user", rows)
}

func getUserLimits(c *call) error {
	if c.view.User(c.params[0]) == nil {
		return objectNotFound()
	}
	return listOfLimits(c, "user", []limited{{c.params[0], c.view.UserLimits(c.params[0])}})
}

// putVHostLimit is PUT /vhost-limits/VHOST/NAME.
func putVHostLimit(c *call) error {
	if c.view.VHost(c.params[0]) == nil {
		return notFound("vhost_not_found")
	}
	l, problem, err := c.limit("limits", meta.MaxConnections, meta.MaxQueues)
	switch {
	case err != nil:
		return err
	case problem != "":
		return badRequest("Validation failed\n\n" + problem + "\n")
	}
	return c.changeLimit(vhostResource(c.params[0]), meta.Command{Op: meta.OpSetVHostLimit, VHost: meta.VHost{Name: c.params[0]}, Limit: l})
}

// deleteVHostLimit is DELETE /vhost-limits/VHOST/NAME; a limit that is not set is no error.
func deleteVHostLimit(c *call) error {
	if c.view.VHost(c.params[0]) == nil {
		return objectNotFound()
	}
	return c.changeLimit(vhostResource(c.params[0]), meta.Command{Op: meta.OpClearVHostLimit, VHost: meta.VHost{Name: c.params[0]}, Limit: meta.Limit{Name: c.params[1]}})
}

// putUserLimit is PUT /user-limits/USER/NAME.
func putUserLimit(c *call) error {
	l, problem, err := c.limit("user-limits", meta.MaxConnections, meta.MaxChannels)
	switch {
	case err != nil:
		return err
	case problem != "":
		return badRequest(problem)
	case c.view.User(c.params[0]) == nil:
		return badRequestWords("no_such_user", c.params[0])
	}
	return c.changeLimit(userResource(c.params[0]), meta.Command{Op: meta.OpSetUserLimit, User: meta.User{Name: c.params[0]}, Limit: l})
}

// deleteUserLimit is DELETE /user-limits/USER/NAME; a limit that is not set is no error.
func deleteUserLimit(c *call) error {
	if c.view.User(c.params[0]) == nil {
		return objectNotFound()
	}
	return c.changeLimit(userResource(c.params[0]), meta.Command{Op: meta.OpClearUserLimit, User: meta.User{Name: c.params[0]}, Limit: meta.Limit{Name: c.params[1]}})
}

func userResource(name string) resource { return resource{Kind: "user", Name: name} }

func (c *call) changeLimit(what resource, cmd meta.Command) error {
	if _, err := c.do(what, cmd); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// limit reads the limit of the path's last segment; problem says in RabbitMQ's words what is wrong with name or value.
func (c *call) limit(kind string, known ...string) (l meta.Limit, problem string, err error) {
	b, err := c.readBody()
	if err != nil {
		return l, "", err
	}
	if err := b.require("value"); err != nil {
		return l, "", err
	}
	l, problem = readLimit(kind, c.params[1], b["value"], known)
	return l, problem, nil
}

func readLimit(kind, name string, raw json.RawMessage, known []string) (l meta.Limit, problem string) {
	text := strings.TrimSpace(string(raw))
	shown := text
	if strings.HasPrefix(text, `"`) {
		shown = `<<"` + plainJSON(raw) + `">>`
	}
	if !slices.Contains(known, name) {
		return l, `Unrecognised terms [{<<"` + name + `">>,` + shown + `}] in ` + kind
	}
	l = meta.Limit{Name: name}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !isWhole(text) {
		return l, name + " should be a number, actually was " + shown
	}
	if err != nil { // a whole number that is out of range
		n = math.MaxInt64
		if text[0] == '-' {
			n = -1
		}
	}
	l.Value = n
	return l, ""
}

// isWhole tells whether a JSON number has neither a fraction nor an exponent.
func isWhole(text string) bool {
	return text != "" && strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == "" && text != "-"
}

// userLimits reads the limits that PUT /users may bring.
func (b body) userLimits(user string) (cmds []meta.Command, err error) {
	if !b.has("limits") {
		return nil, nil
	}
	var limits body
	if json.Unmarshal(b["limits"], &limits) != nil {
		return nil, badRequest("limits must be an object")
	}
	for _, name := range sortedKeys(limits) {
		l, problem := readLimit("user-limits", name, limits[name], []string{meta.MaxConnections, meta.MaxChannels})
		if problem != "" {
			return nil, badRequest(problem)
		}
		cmds = append(cmds, meta.Command{Op: meta.OpSetUserLimit, User: meta.User{Name: user}, Limit: l})
	}
	return cmds, nil
}

func sortedKeys(b body) (keys []string) {
	for k := range b {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
