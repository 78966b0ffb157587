package management

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"net/http"
	"strings"

	"github.com/warrenmq/warren/meta"
)

// implicit is the binding that every queue has to the default exchange by its name. The catalogue does not keep these, so they are made where they are shown.
func implicit(q *meta.Queue) *meta.Binding {
	return &meta.Binding{VHost: q.VHost, Kind: meta.ToQueue, Destination: q.Name, RoutingKey: q.Name, Queue: q.ID}
}

func (c *call) vhostBindings(rows []*meta.Binding, vhost string) []*meta.Binding {
	for q := range c.view.Queues(vhost) {
		rows = append(rows, implicit(q))
	}
	for b := range c.view.Bindings(vhost) {
		rows = append(rows, b)
	}
	return rows
}

func (c *call) listBindings(rows []*meta.Binding) error {
	return list(c, rows, func(b *meta.Binding) string { return b.Destination }, writeBinding)
}

// listBindings is GET /bindings.
func listBindings(c *call) error {
	var rows []*meta.Binding
	for _, vhost := range c.vhostNames() {
		rows = c.vhostBindings(rows, vhost)
	}
	return c.listBindings(rows)
}

// listVHostBindings is GET /bindings/VHOST.
func listVHostBindings(c *call) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return c.listBindings(c.vhostBindings(nil, c.params[0]))
}

// listBindingsFrom is GET /exchanges/VHOST/NAME/bindings/source.
func listBindingsFrom(c *call) error {
	vhost, source := c.params[0], exchangeName(c.params[1])
	if err := c.readVHost(vhost); err != nil {
		return err
	}
	var rows []*meta.Binding
	if source == "" {
		for q := range c.view.Queues(vhost) {
			rows = append(rows, implicit(q))
		}
	}
	for b := range c.view.BindingsFrom(vhost, source) {
		rows = append(rows, b)
	}
	return c.listBindings(rows)
}

// listBindingsToExchange is GET /exchanges/VHOST/NAME/bindings/destination.
func listBindingsToExchange(c *call) error {
	return c.listBindingsTo(meta.ToExchange, exchangeName(c.params[1]))
}

// listBindingsToQueue is GET /queues/VHOST/NAME/bindings.
func listBindingsToQueue(c *call) error { return c.listBindingsTo(meta.ToQueue, c.params[1]) }

func (c *call) listBindingsTo(kind meta.DestinationKind, name string) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	var rows []*meta.Binding
	if kind == meta.ToQueue {
		if q := c.view.Queue(c.params[0], name); q != nil {
			rows = append(rows, implicit(q))
		}
	}
	for b := range c.view.BindingsTo(c.params[0], kind, name) {
		rows = append(rows, b)
	}
	return c.listBindings(rows)
}

// between returns the bindings between the two ends in the path.
func (c *call) between(kind meta.DestinationKind) []*meta.Binding {
	vhost, source, destination := c.params[0], exchangeName(c.params[1]), c.params[2]
	if kind == meta.ToExchange {
		destination = exchangeName(destination)
	}
	var rows []*meta.Binding
	if source == "" && kind == meta.ToQueue {
		if q := c.view.Queue(vhost, destination); q != nil {
			rows = append(rows, implicit(q))
		}
	}
	for b := range c.view.BindingsBetween(vhost, source, kind, destination) {
		rows = append(rows, b)
	}
	return rows
}

// listBindingsBetween is GET /bindings/VHOST/e/SOURCE/q/QUEUE, the other one with an exchange at the end.
func listBindingsBetween(c *call) error          { return c.listBetween(meta.ToQueue) }
func listBindingsBetweenExchanges(c *call) error { return c.listBetween(meta.ToExchange) }

func (c *call) listBetween(kind meta.DestinationKind) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	return c.listBindings(c.between(kind))
}

// getQueueBinding is GET /bindings/VHOST/e/SOURCE/q/QUEUE/PROPERTIES, the other one with an exchange.
func getQueueBinding(c *call) error    { return c.getBinding(meta.ToQueue) }
func getExchangeBinding(c *call) error { return c.getBinding(meta.ToExchange) }

func (c *call) getBinding(kind meta.DestinationKind) error {
	if err := c.readVHost(c.params[0]); err != nil {
		return err
	}
	b := c.binding(kind)
	if b == nil {
		return objectNotFound()
	}
	return c.object(http.StatusOK, func(w *writer) { writeBinding(w, b) })
}

// binding finds the binding whose properties key stands in the path.
func (c *call) binding(kind meta.DestinationKind) *meta.Binding {
	for _, b := range c.between(kind) {
		if propertiesKey(b) == c.params[3] {
			return b
		}
	}
	return nil
}

// bindQueue is POST /bindings/VHOST/e/SOURCE/q/QUEUE, bindExchange the same with an exchange.
func bindQueue(c *call) error    { return c.bind(meta.ToQueue) }
func bindExchange(c *call) error { return c.bind(meta.ToExchange) }

func (c *call) bind(kind meta.DestinationKind) error {
	if err := c.changeVHost(c.params[0]); err != nil {
		return err
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	b := c.ends(kind)
	if b.RoutingKey, err = body.text("routing_key", ""); err != nil {
		return err
	}
	arguments, err := body.table("arguments")
	if err != nil {
		return err
	}
	b.Arguments = meta.NewArguments(arguments)
	what, err := c.mayBind(b)
	if err != nil {
		return err
	}
	reply, err := c.do(what, meta.Command{Op: meta.OpBind, Binding: *b})
	if err != nil {
		return err
	}
	if !reply.Existed {
		if err := c.s.opt.Broker.Recall(c.r.Context(), b); err != nil {
			c.s.log.Warn("a binding did not get all of the exchange's history", "vhost", b.VHost, "exchange", b.Source, "destination", b.Destination, "error", err)
		}
	}
	c.w.Header().Set("Location", escapeSegment(c.params[2])+"/"+escapeSegment(propertiesKey(b)))
	return c.empty(http.StatusCreated)
}

// ends returns a binding between the two ends in the path.
func (c *call) ends(kind meta.DestinationKind) *meta.Binding {
	b := &meta.Binding{VHost: c.params[0], Source: exchangeName(c.params[1]), Kind: kind, Destination: c.params[2]}
	if kind == meta.ToExchange {
		b.Destination = exchangeName(b.Destination)
	}
	return b
}

// mayBind checks what binding and unbinding ask for: to write to the destination and to read the source. It returns the destination.
func (c *call) mayBind(b *meta.Binding) (resource, error) {
	what := queueResource(b.VHost, b.Destination)
	if b.Kind == meta.ToExchange {
		what = exchangeResource(b.VHost, b.Destination)
	}
	if err := c.may(meta.Write, what); err != nil {
		return what, err
	}
	if err := c.may(meta.Read, exchangeResource(b.VHost, b.Source)); err != nil {
		return what, err
	}
	if err := c.mayBindWith(b.VHost, b.Source, b.RoutingKey); err != nil {
		return what, err
	}
	if b.Kind == meta.ToQueue {
		if q := c.view.Queue(b.VHost, b.Destination); q != nil && q.LockedFor(meta.Owner{}) {
			return what, locked(what)
		}
	}
	return what, nil
}

// unbindQueue is DELETE /bindings/VHOST/e/SOURCE/q/QUEUE/PROPERTIES, unbindExchange the same with an exchange.
func unbindQueue(c *call) error    { return c.unbind(meta.ToQueue) }
func unbindExchange(c *call) error { return c.unbind(meta.ToExchange) }

func (c *call) unbind(kind meta.DestinationKind) error {
	if err := c.changeVHost(c.params[0]); err != nil {
		return err
	}
	b := c.binding(kind)
	if b == nil {
		return objectNotFound()
	}
	what, err := c.mayBind(b)
	if err != nil {
		return err
	}
	reply, err := c.do(what, meta.Command{Op: meta.OpUnbind, Binding: *b})
	if err != nil {
		return err
	}
	if !reply.Existed {
		return objectNotFound()
	}
	return c.empty(http.StatusNoContent)
}

func writeBinding(w *writer, b *meta.Binding) {
	w.Str("source", b.Source)
	w.Str("vhost", b.VHost)
	w.Str("destination", b.Destination)
	w.Str("destination_type", b.Kind.String())
	w.Str("routing_key", b.RoutingKey)
	writeArguments(w, b.Arguments)
	if w.want("properties_key") {
		w.Str("properties_key", propertiesKey(b))
	}
}

// propertiesKey names a binding among those between the same two ends: the routing key, and behind a ~ a hash of the arguments if there are any. Clients take it
// as it is.
func propertiesKey(b *meta.Binding) string {
	if b.Arguments.Empty() && b.RoutingKey == "" {
		return "~"
	}
	key := quotePlus(b.RoutingKey)
	if b.Arguments.Empty() {
		return key
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.Arguments.Raw()))
	return key + "~" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, h.Sum32()))
}

// quotePlus escapes what a key in a URL escapes; a space becomes +, and ~, which ends the routing key, is escaped, too.
func quotePlus(s string) string { return escape(s, true) }

// escapeSegment escapes a segment of a path.
func escapeSegment(s string) string { return escape(s, false) }

func escape(s string, plus bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' || c == '~' && !plus:
			b.WriteByte(c)
		case c == ' ' && plus:
			b.WriteByte('+')
		default:
			const upper = "0123456789ABCDEF"
			b.WriteByte('%')
			b.WriteByte(upper[c>>4])
			b.WriteByte(upper[c&15])
		}
	}
	return b.String()
}
