package management

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/warrenmq/warren/meta"
)

// Parameters of components in a virtual host, and global ones. RabbitMQ keeps policies and limits among them; here those have a place of their own, and limits of virtual hosts are shown here, too.

// componentLimits and parameterLimits are where RabbitMQ has the limits of a virtual host.
const (
	componentLimits = "vhost-limits"
	parameterLimits = "limits"
)

// mayParameters checks that the user may see and change parameters at all: a policymaker or an administrator.
func (c *call) mayParameters() error {
	if isAdministrator(c.user) || c.user.HasTag(tagPolicymaker) {
		return nil
	}
	return notAuthorised("User not authorised to access object")
}

// mayParametersIn checks it for a virtual host of the path that must be there.
func (c *call) mayParametersIn(vhost string) error {
	if err := c.mayParameters(); err != nil {
		return err
	}
	if !isAdministrator(c.user) && c.view.Permission(c.user.Name, vhost) == nil {
		return notAuthorised("User not authorised to access object")
	}
	return nil
}

// parameters returns those of some virtual hosts, of one component if it is not empty.
func (c *call) parameters(component string, vhosts ...string) (rows []*meta.Parameter) {
	for _, h := range vhosts {
		for p := range c.view.Parameters(h) {
			rows = append(rows, p)
		}
		if p := limitsParameter(c.view, h); p != nil {
			rows = append(rows, p)
		}
	}
	return slices.DeleteFunc(rows, func(p *meta.Parameter) bool { return component != "" && p.Component != component })
}

// limitsParameter shows the limits of a virtual host as a parameter, nil if it has none.
func limitsParameter(view *meta.View, vhost string) *meta.Parameter {
	limits := view.VHostLimits(vhost)
	if len(limits) == 0 {
		return nil
	}
	var w writer
	w.Object("")
	for _, l := range limits {
		w.Int(l.Name, l.Value)
	}
	w.End()
	return &meta.Parameter{VHost: vhost, Component: componentLimits, Name: parameterLimits, Value: string(w.buf)}
}

func (c *call) parameter() *meta.Parameter {
	if c.params[0] == componentLimits && c.params[2] == parameterLimits {
		return limitsParameter(c.view, c.params[1])
	}
	return c.view.Parameter(c.params[1], c.params[0], c.params[2])
}

func listParametersOf(c *call, component string, vhosts ...string) error {
	return list(c, c.parameters(component, vhosts...), func(p *meta.Parameter) string { return p.Name }, writeParameter)
}

// listParameters is GET /parameters: those in the virtual hosts that the user sees. listComponent is GET /parameters/COMPONENT.
func listParameters(c *call) error {
	component := ""
	if len(c.params) > 0 {
		component = c.params[0]
	}
	if err := c.mayParameters(); err != nil {
		return err
	}
	var names []string
	for _, h := range c.vhosts() {
		names = append(names, h.Name)
	}
	return listParametersOf(c, component, names...)
}

// listComponentIn is GET /parameters/COMPONENT/VHOST.
func listComponentIn(c *call) error {
	if err := c.mayParametersIn(c.params[1]); err != nil {
		return err
	}
	if c.view.VHost(c.params[1]) == nil {
		return objectNotFound()
	}
	return listParametersOf(c, c.params[0], c.params[1])
}

// getParameter is GET /parameters/COMPONENT/VHOST/NAME.
func getParameter(c *call) error {
	if err := c.mayParametersIn(c.params[1]); err != nil {
		return err
	}
	p := c.parameter()
	if p == nil {
		return objectNotFound()
	}
	return c.object(http.StatusOK, func(w *writer) { writeParameter(w, p) })
}

// putParameter is PUT /parameters/COMPONENT/VHOST/NAME.
func putParameter(c *call) error {
	if err := c.mayParametersIn(c.params[1]); err != nil {
		return err
	}
	p := meta.Parameter{Component: c.params[0], VHost: c.params[1], Name: c.params[2]}
	if c.view.VHost(p.VHost) == nil {
		return notFound("vhost_not_found")
	}
	if p.Component == "policy" || p.Component == "operator_policy" {
		return badRequest("policies may not be set using this method")
	}
	value, err := c.parameterValue()
	if err != nil {
		return err
	}
	p.Value = string(value)
	existed := c.parameter() != nil
	if p.Component == componentLimits {
		return c.putLimitsParameter(&p, existed)
	}
	if problems := checkParameter(p.Component, p.Name, value); problems != "" {
		return invalid(problems)
	}
	if _, err := c.do(parameterResource(&p), meta.Command{Op: meta.OpPutParameter, Parameter: p}); err != nil {
		return err
	}
	if reason := unserved(p.Component); reason != "" {
		c.s.log.Warn("a parameter is kept but has no effect", "component", p.Component, "name", p.Name, "vhost", p.VHost, "reason", reason)
	}
	return c.made(existed)
}

// putLimitsParameter sets the limits of a virtual host in RabbitMQ's other way.
func (c *call) putLimitsParameter(p *meta.Parameter, existed bool) error {
	var limits body
	if p.Name != parameterLimits || json.Unmarshal([]byte(p.Value), &limits) != nil {
		return invalid("name not recognised: <<\"" + p.Name + "\">>")
	}
	var cmds []meta.Command
	for _, l := range c.view.VHostLimits(p.VHost) {
		if _, stays := limits[l.Name]; !stays {
			cmds = append(cmds, meta.Command{Op: meta.OpClearVHostLimit, VHost: meta.VHost{Name: p.VHost}, Limit: meta.Limit{Name: l.Name}})
		}
	}
	for _, name := range sortedKeys(limits) {
		l, problem := readLimit("limits", name, limits[name], []string{meta.MaxConnections, meta.MaxQueues})
		if problem != "" {
			return invalid(problem)
		}
		cmds = append(cmds, meta.Command{Op: meta.OpSetVHostLimit, VHost: meta.VHost{Name: p.VHost}, Limit: l})
	}
	if len(cmds) > 0 {
		if _, err := c.do(vhostResource(p.VHost), cmds...); err != nil {
			return err
		}
	}
	return c.made(existed)
}

// deleteParameter is DELETE /parameters/COMPONENT/VHOST/NAME.
func deleteParameter(c *call) error {
	if err := c.mayParametersIn(c.params[1]); err != nil {
		return err
	}
	p := c.parameter()
	if p == nil {
		return objectNotFound()
	}
	if p.Component == componentLimits {
		p.Value = "{}"
		return c.putLimitsParameter(p, true)
	}
	if _, err := c.do(parameterResource(p), meta.Command{Op: meta.OpPutParameter, Parameter: meta.Parameter{VHost: p.VHost, Component: p.Component, Name: p.Name}}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// parameterValue reads the value of a PUT's body as compact JSON.
func (c *call) parameterValue() ([]byte, error) {
	b, err := c.readBody()
	if err != nil {
		return nil, err
	}
	if err := b.require("value"); err != nil {
		return nil, err
	}
	var value bytes.Buffer
	if json.Compact(&value, b["value"]) != nil {
		return nil, badRequest("not_json")
	}
	return value.Bytes(), nil
}

func parameterResource(p *meta.Parameter) resource {
	return resource{Kind: "parameter", VHost: p.VHost, Name: p.Name}
}

func writeParameter(w *writer, p *meta.Parameter) {
	w.JSON("value", p.Value)
	w.Str("vhost", p.VHost)
	w.Str("component", p.Component)
	w.Str("name", p.Name)
	if reason := unserved(p.Component); reason != "" {
		w.Str("state", "not served")
		w.Str("reason", reason)
	}
}

// globalParameter is a parameter of the whole cluster.
type globalParameter struct{ name, value string }

// The global parameters that follow from the cluster itself.
const (
	globalClusterName = "cluster_name"
	globalClusterID   = "internal_cluster_id"
)

// globalParameters returns all, those of the cluster itself among them, in the order of their names.
func (c *call) globalParameters() []globalParameter {
	rows := []globalParameter{
		{globalClusterName, string(appendString(nil, c.view.ClusterName()))},
		{globalClusterID, string(appendString(nil, c.view.ClusterID()))},
	}
	for name, value := range c.view.GlobalParameters() {
		rows = append(rows, globalParameter{name, value})
	}
	slices.SortFunc(rows, func(a, b globalParameter) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return rows
}

// listGlobalParameters is GET /global-parameters.
func listGlobalParameters(c *call) error {
	if err := c.mayParameters(); err != nil {
		return err
	}
	return list(c, c.globalParameters(), func(p globalParameter) string { return p.name }, writeGlobalParameter)
}

// getGlobalParameter is GET /global-parameters/NAME.
func getGlobalParameter(c *call) error {
	if err := c.mayParameters(); err != nil {
		return err
	}
	for _, p := range c.globalParameters() {
		if p.name == c.params[0] {
			return c.object(http.StatusOK, func(w *writer) { writeGlobalParameter(w, p) })
		}
	}
	return objectNotFound()
}

// putGlobalParameter is PUT /global-parameters/NAME. The name of the cluster must be a text; its id stays what it is.
func putGlobalParameter(c *call) error {
	if err := c.mayParameters(); err != nil {
		return err
	}
	value, err := c.parameterValue()
	if err != nil {
		return err
	}
	cmd := meta.Command{Op: meta.OpPutGlobalParameter, Name: c.params[0], Text: string(value)}
	_, existed := c.view.GlobalParameter(c.params[0])
	switch c.params[0] {
	case globalClusterID:
		return badRequest("the id of the cluster cannot be changed")
	case globalClusterName:
		cmd, existed = meta.Command{Op: meta.OpSetClusterName}, true
		if json.Unmarshal(value, &cmd.Name) != nil || cmd.Name == "" {
			return badRequest("the name of the cluster must be a string that is not empty")
		}
	}
	if _, err := c.do(resource{Kind: "global parameter", Name: c.params[0]}, cmd); err != nil {
		return err
	}
	return c.made(existed)
}

// deleteGlobalParameter is DELETE /global-parameters/NAME.
func deleteGlobalParameter(c *call) error {
	if err := c.mayParameters(); err != nil {
		return err
	}
	if c.params[0] == globalClusterName || c.params[0] == globalClusterID {
		return badRequest("the name and the id of the cluster cannot be deleted")
	}
	if _, ok := c.view.GlobalParameter(c.params[0]); !ok {
		return objectNotFound()
	}
	if _, err := c.do(resource{Kind: "global parameter", Name: c.params[0]}, meta.Command{Op: meta.OpPutGlobalParameter, Name: c.params[0]}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func writeGlobalParameter(w *writer, p globalParameter) {
	w.JSON("value", p.value)
	w.Str("name", p.name)
}
