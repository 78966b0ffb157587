package management

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/meta"
)

// policyKind is what user and operator policies differ in here.
type policyKind struct{ operator bool }

var (
	userPolicies     = policyKind{}
	operatorPolicies = policyKind{operator: true}
)

// may checks that the user may see and change single policies: administrators all of them, policymakers the user policies of the virtual hosts in which they have a permission. Whether the virtual host is
// there comes later, as in RabbitMQ.
func (k policyKind) may(c *call) error {
	if isAdministrator(c.user) || !k.operator && c.user.HasTag(tagPolicymaker) && c.view.Permission(c.user.Name, c.params[0]) != nil {
		return nil
	}
	return notAuthorised("User not authorised to access object")
}

func (k policyKind) in(c *call, vhosts ...string) error {
	var rows []*meta.Policy
	for _, h := range vhosts {
		for p := range c.view.Policies(h, k.operator) {
			rows = append(rows, p)
		}
	}
	return list(c, rows, func(p *meta.Policy) string { return p.Name }, writePolicy)
}

// all is GET /policies or /operator-policies: those in the virtual hosts that the user sees.
func (k policyKind) all(c *call) error {
	var names []string
	for _, h := range c.vhosts() {
		names = append(names, h.Name)
	}
	return k.in(c, names...)
}

// ofVHost is GET /policies/VHOST.
func (k policyKind) ofVHost(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return k.in(c, c.params[0])
}

// get is GET /policies/VHOST/NAME.
func (k policyKind) get(c *call) error {
	if err := k.may(c); err != nil {
		return err
	}
	p := c.view.Policy(c.params[0], c.params[1], k.operator)
	if p == nil {
		return objectNotFound()
	}
	return c.object(http.StatusOK, func(w *writer) { writePolicy(w, p) })
}

// put is PUT /policies/VHOST/NAME.
func (k policyKind) put(c *call) error {
	if err := k.may(c); err != nil {
		return err
	}
	p := meta.Policy{VHost: c.params[0], Name: c.params[1], Operator: k.operator}
	if c.view.VHost(p.VHost) == nil {
		return notFound("vhost_not_found")
	}
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if err := b.require("pattern", "definition"); err != nil {
		return err
	}
	if err := b.policy(&p); err != nil {
		return err
	}
	existed := c.view.Policy(p.VHost, p.Name, p.Operator) != nil
	if _, err := c.do(policyResource(&p), meta.Command{Op: meta.OpPutPolicy, Policy: p}); err != nil {
		return err
	}
	for _, text := range p.Warnings() {
		c.s.log.Warn("a policy has a setting without an effect", "policy", p.Name, "vhost", p.VHost, "warning", text)
	}
	return c.made(existed)
}

// delete is DELETE /policies/VHOST/NAME.
func (k policyKind) delete(c *call) error {
	if err := k.may(c); err != nil {
		return err
	}
	p := c.view.Policy(c.params[0], c.params[1], k.operator)
	if p == nil {
		return objectNotFound()
	}
	if _, err := c.do(policyResource(p), meta.Command{Op: meta.OpDeletePolicy, Policy: *p}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func policyResource(p *meta.Policy) resource {
	return resource{Kind: "policy", VHost: p.VHost, Name: p.Name}
}

// policy reads all of a policy but its names.
func (b body) policy(p *meta.Policy) (err error) {
	shown := func(key string) string {
		if text := strings.TrimSpace(string(b[key])); !strings.HasPrefix(text, `"`) {
			return text
		}
		return `<<"` + plainJSON(b[key]) + `">>`
	}
	if p.Pattern, err = b.text("pattern", ""); err != nil {
		return invalid("pattern should be a binary but was " + shown("pattern"))
	}
	if b.has("priority") {
		if p.Priority, err = strconv.ParseInt(strings.TrimSpace(string(b["priority"])), 10, 64); err != nil {
			return invalid("priority should be a number, actually was " + shown("priority"))
		}
	}
	word, err := b.text("apply-to", meta.ApplyToAll.String())
	if err != nil {
		return invalid("apply-to should be a binary but was " + shown("apply-to"))
	}
	var known bool
	if p.ApplyTo, known = meta.ParseApplyTo(word); !known {
		return invalid("apply-to '" + word + "' unrecognised; should be one of: 'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'")
	}
	definition, err := b.table("definition")
	if err != nil {
		return err
	}
	p.Definition = meta.NewArguments(definition)
	return nil
}

// invalid is RabbitMQ's refusal of a value.
func invalid(text string) *failure { return badRequest("Validation failed\n\n" + text + "\n") }

func writePolicy(w *writer, p *meta.Policy) {
	w.Str("vhost", p.VHost)
	w.Str("name", p.Name)
	w.Str("pattern", p.Pattern)
	w.Str("apply-to", p.ApplyTo.String())
	if w.want("definition") {
		w.Table("definition", p.Definition.Table())
	}
	w.Int("priority", p.Priority)
}

// writeName writes a name that may be missing.
func writeName(w *writer, key, name string) {
	if name == "" {
		w.Null(key)
		return
	}
	w.Str(key, name)
}
