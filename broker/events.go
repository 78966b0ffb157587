package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
)

// Events, as RabbitMQ's plugin rabbitmq_event_exchange has them: names, headers and their types. Those of connections come from the connection's node. Those of the catalogue come from the node
// that leads it, so once per cluster; one may be lost or doubled when another node takes over.

func textField(key, value string) amqp.Field {
	return amqp.Field{Key: key, Value: amqp.Longstr(value)}
}

func boolField(key string, value bool) amqp.Field {
	return amqp.Field{Key: key, Value: amqp.Bool(value)}
}

func longField(key string, value int64) amqp.Field {
	return amqp.Field{Key: key, Value: amqp.Int64(value)}
}

func tableField(key string, value amqp.Table) amqp.Field {
	return amqp.Field{Key: key, Value: amqp.Nested(value)}
}

func textsField(key string, values []string) amqp.Field {
	array := make([]amqp.Value, len(values))
	for i, v := range values {
		array[i] = amqp.Longstr(v)
	}
	return amqp.Field{Key: key, Value: amqp.Array(array...)}
}

// byUser ends the headers of what a user did.
func byUser(user string) amqp.Field { return textField("user_who_performed_action", user) }

// tells tells whether events are listened to.
func (b *Broker) tells() bool { return b.notices.events.Load() }

// pid names a connection or channel: one that is told of as created is told of as closed under the same.
func (b *Broker) pid(id, kind uint64) string {
	return fmt.Sprintf("<%s.%d.%d.%d>", b.nodeName(), b.host.Boot().Counter, id, kind)
}

func (c *conn) pid() string { return c.b.pid(c.id, 0) }

func (ch *channel) pid() string { return ch.c.b.pid(uint64(ch.session.ID()), 1) }

// tellLogin tells that somebody logged in, or did not for the reason problem.
func (c *conn) tellLogin(user, problem string) {
	if !c.b.tells() {
		return
	}
	fields := append(c.address(), textField("name", user), textField("auth_mechanism", c.mechanism), textField("connection_name", c.name()), textField("connection_type", "network"))
	if problem == "" {
		c.b.event("user.authentication.success", fields...)
		return
	}
	c.b.event("user.authentication.failure", append(fields, textField("error", "user '"+user+"' - "+problem))...)
}

// address tells where the client is.
func (c *conn) address() []amqp.Field {
	ends := c.ends.Load()
	host, _ := splitAddr(ends.own)
	peer, peerPort := splitAddr(ends.peer)
	return []amqp.Field{
		textField("host", host), textField("peer_host", peer), longField("peer_port", int64(peerPort)), textField("protocol", "{0,9,1}"), boolField("ssl", c.tls != nil),
	}
}

// tellOpened tells that the connection may be used.
func (c *conn) tellOpened() {
	if !c.b.tells() {
		return
	}
	_, port := splitAddr(c.ends.Load().own)
	fields := append(c.identity(), c.address()...)
	words := c.tls
	if words == nil {
		words = new(ConnectionTLS)
	}
	c.b.event("connection.created", append(fields,
		longField("port", int64(port)), textField("user", c.user), textField("vhost", c.vhost), textField("auth_mechanism", c.mechanism), longField("channel_max", int64(c.channelMax)),
		longField("frame_max", int64(c.frameMax)), longField("timeout", int64(c.heartbeat.Seconds())), longField("connected_at", c.connectedAt.UnixMilli()), textField("type", "network"),
		textField("ssl_protocol", words.Protocol), textField("ssl_key_exchange", words.KeyExchange), textField("ssl_cipher", words.Cipher), textField("ssl_hash", words.Hash),
		textField("peer_cert_subject", words.PeerSubject), textField("peer_cert_issuer", words.PeerIssuer), textField("peer_cert_validity", words.PeerValidity), byUser(c.user))...)
}

// identity is what both events of a connection have.
func (c *conn) identity() []amqp.Field {
	fields := []amqp.Field{textField("name", c.name()), textField("pid", c.pid()), textField("node", c.b.nodeName()), tableField("client_properties", c.properties)}
	if v, ok := c.properties.Get("connection_name"); ok {
		name, _ := v.AsString()
		fields = append(fields, textField("user_provided_name", name))
	}
	return fields
}

// tellClosed tells the end of a connection that logged in or tried to.
func (c *conn) tellClosed() {
	if c.mechanism != "" && c.b.tells() {
		c.b.event("connection.closed", c.identity()...)
	}
}

func (ch *channel) tellOpened() {
	if ch.c.b.tells() {
		ch.c.b.event("channel.created", textField("pid", ch.pid()), textField("name", ch.c.name()+" ("+strconv.Itoa(int(ch.number))+")"), textField("connection", ch.c.pid()),
			longField("number", int64(ch.number)), textField("user", ch.c.user), textField("vhost", ch.c.vhost), byUser(ch.c.user))
	}
}

func (ch *channel) tellClosed() {
	if ch.c.b.tells() {
		ch.c.b.event("channel.closed", textField("pid", ch.pid()), byUser(ch.c.user))
	}
}

// tellConsumer tells that a queue has taken a consumer.
func (ch *channel) tellConsumer(cons *consumer) {
	if ch.c.b.tells() {
		ch.c.b.event("consumer.created", append(ch.consumerFields(cons), boolField("exclusive", cons.exclusive), boolField("ack_required", !cons.noAck),
			longField("prefetch_count", int64(cons.prefetch)), tableField("arguments", cons.arguments))...)
	}
}

// tellConsumerGone tells that it is gone.
func (ch *channel) tellConsumerGone(cons *consumer) {
	if cons.active && ch.c.b.tells() {
		ch.c.b.event("consumer.deleted", ch.consumerFields(cons)...)
	}
}

func (ch *channel) consumerFields(cons *consumer) []amqp.Field {
	q := cons.src.queue
	return []amqp.Field{
		textField("consumer_tag", cons.tag), textField("channel", ch.pid()), textField("queue", q.Name), textField("vhost", q.VHost), byUser(ch.c.user),
	}
}

// tellAlarms tells what this node is short of now, or not any more.
func (b *Broker) tellAlarms(lack alarm.Set) {
	was := b.notices.lack
	b.notices.lack = lack
	if lack == was || !b.tells() {
		return
	}
	for _, x := range [...]struct {
		source string
		bit    alarm.Set
	}{{"memory", alarm.Memory}, {"disk", alarm.Disk}} {
		switch {
		case lack&x.bit != 0 && was&x.bit == 0:
			b.event("alarm.set", textField("source", x.source), textField("node", b.nodeName()))
		case lack&x.bit == 0 && was&x.bit != 0:
			b.event("alarm.cleared", textField("source", x.source), textField("node", b.nodeName()))
		}
	}
}

// tellChanges tells what changed in the catalogue, if this node leads it.
func (b *Broker) tellChanges(effects []meta.Effect) {
	n := b.notices
	for i := range effects {
		if n.concerns(&effects[i]) {
			n.listen()
			break
		}
	}
	was, now := n.seen, b.host.Catalogue().View
	n.seen = now
	if leader, ok := b.host.(interface{ LeadsCatalogue() bool }); ok && !leader.LeadsCatalogue() {
		return
	}
	effects = slices.DeleteFunc(slices.Clone(effects), ofHidden)
	b.warnOfQueues(effects)
	if !b.tells() {
		return
	}
	told := make(map[string]bool) // effects that do not tell what changed are told once
	for i := range effects {
		e := &effects[i]
		switch e.Kind {
		case meta.ExchangeCreated, meta.ExchangeDeleted:
			b.tellExchange(e.Exchange, e.Kind == meta.ExchangeCreated)
		case meta.QueueCreated, meta.QueueDeleted:
			b.tellQueue(e.Queue, e.Kind == meta.QueueCreated)
		case meta.BindingCreated, meta.BindingDeleted:
			b.tellBinding(e.Binding, e.Kind == meta.BindingCreated)
		default:
			if key := fmt.Sprint(e.Kind, e.VHost, "\x00", e.User, "\x00", e.Component, "\x00", e.Name, "\x00", nodeID(e.Node)); !told[key] {
				told[key] = true
				b.tellDifference(e, was, now)
			}
		}
	}
}

// ofHidden tells whether a change is one of a queue that belongs to an exchange, which nobody is told of.
func ofHidden(e meta.Effect) bool { return e.Queue != nil && e.Queue.IsHidden() }

// warnOfQueues logs what has no effect in the declarations of new queues.
func (b *Broker) warnOfQueues(effects []meta.Effect) {
	for i := range effects {
		if e := &effects[i]; e.Kind == meta.QueueCreated {
			if list := e.Queue.Warnings(); list != nil {
				b.log.Warn("a queue was declared with what has no effect", "queue", e.Queue.Name, "vhost", e.Queue.VHost, "warnings", list)
			}
		}
	}
}

func nodeID(n *meta.Node) meta.NodeID {
	if n == nil {
		return 0
	}
	return n.ID
}

// created ends the name of an event.
func created(is bool) string {
	if is {
		return ".created"
	}
	return ".deleted"
}

func (b *Broker) tellExchange(x *meta.Exchange, is bool) {
	fields := []amqp.Field{textField("name", x.Name), textField("vhost", x.VHost), byUser("")}
	if is {
		fields = append(fields, textField("type", x.Type), boolField("durable", x.Durable), boolField("auto_delete", x.AutoDelete), boolField("internal", x.Internal),
			tableField("arguments", x.Arguments.Table()), textField("policy", ""))
	}
	b.event("exchange"+created(is), fields...)
}

func (b *Broker) tellQueue(q *meta.Queue, is bool) {
	fields := []amqp.Field{textField("name", q.Name), textField("vhost", q.VHost), byUser("")}
	if is {
		owner := ""
		if q.Exclusive && q.Owner.Node == b.host.Node() {
			owner = b.pid(q.Owner.Connection, 0)
		}
		fields = append(fields, textField("type", q.Type), boolField("durable", q.Durable), boolField("auto_delete", q.AutoDelete), boolField("exclusive", q.Exclusive),
			tableField("arguments", q.Arguments.Table()), textField("owner_pid", owner))
	}
	b.event("queue"+created(is), fields...)
}

func (b *Broker) tellBinding(x *meta.Binding, is bool) {
	b.event("binding"+created(is), textField("source_name", x.Source), textField("source_kind", "exchange"), textField("destination_name", x.Destination),
		textField("destination_kind", x.Kind.String()), textField("routing_key", x.RoutingKey), textField("vhost", x.VHost), tableField("arguments", x.Arguments.Table()), byUser(""))
}

// tellDifference tells what an effect that names something means, from the Views before and after it.
func (b *Broker) tellDifference(e *meta.Effect, was, now *meta.View) {
	switch e.Kind {
	case meta.VHostChanged:
		b.tellVHost(was, now, e.VHost)
	case meta.VHostDeleted: // its permissions were told before, its queues are when they are swept
		for x := range was.Bindings(e.VHost) {
			b.tellBinding(x, false)
		}
		for x := range was.Exchanges(e.VHost) {
			b.tellExchange(x, false)
		}
		b.event("vhost.deleted", textField("name", e.VHost), byUser(""))
	case meta.UserChanged:
		b.tellUser(was, now, e.User)
	case meta.UserDeleted:
		b.event("user.deleted", textField("name", e.User), byUser(""))
	case meta.PermissionChanged:
		b.tellPermission(was, now, e.User, e.VHost)
	case meta.ParameterChanged:
		b.tellParameter(now, e)
	case meta.PolicyChanged:
		b.tellPolicy(now, e)
	case meta.NodeChanged:
		b.tellNode(was.Node(e.Node.ID), now.Node(e.Node.ID))
	case meta.NodeDead:
		if n := now.Node(e.Node.ID); n == nil || !n.Alive() { // else it is back already, as NodeChanged tells
			b.event("node.down", textField("node", e.Node.Name))
		}
	}
}

// tellNode tells that a node has come, and that it was gone if nobody noticed.
func (b *Broker) tellNode(old, n *meta.Node) {
	if n == nil || !n.Alive() || old != nil && old.Alive() && old.Boot == n.Boot {
		return
	}
	if old != nil && old.Alive() {
		b.event("node.down", textField("node", n.Name))
	}
	b.event("node.up", textField("node", n.Name))
}

func (b *Broker) tellVHost(was, now *meta.View, name string) {
	h, old := now.VHost(name), was.VHost(name)
	if h == nil {
		return
	}
	if limits := now.VHostLimits(name); old != nil && fmt.Sprint(limits) != fmt.Sprint(was.VHostLimits(name)) {
		b.tellLimits("vhost.limits", limits, textField("name", "limits"), textField("vhost", name))
		return
	}
	kind := h.DefaultQueueType
	if kind == "" {
		kind = "undefined"
	}
	fields := []amqp.Field{
		textField("name", name), textField("description", h.Description), textsField("tags", h.Tags), textField("default_queue_type", kind), boolField("tracing", h.Tracing), byUser(""),
	}
	if old == nil {
		for x := range now.Exchanges(name) {
			b.tellExchange(x, true)
		}
		b.event("vhost.created", fields...)
	} else {
		b.event("vhost.updated", fields...)
	}
}

func (b *Broker) tellLimits(what string, limits []meta.Limit, about ...amqp.Field) {
	if len(limits) == 0 {
		b.event(what+".cleared", append(about, byUser(""))...)
		return
	}
	for _, l := range limits {
		about = append(about, longField(l.Name, l.Value))
	}
	b.event(what+".set", append(about, byUser(""))...)
}

func (b *Broker) tellUser(was, now *meta.View, name string) {
	u, old := now.User(name), was.User(name)
	if u == nil {
		return
	}
	if limits := now.UserLimits(name); old != nil && fmt.Sprint(limits) != fmt.Sprint(was.UserLimits(name)) {
		b.tellLimits("user.limits", limits, textField("name", "limits"), textField("username", name))
		return
	}
	switch {
	case old == nil:
		b.event("user.created", textField("name", name), byUser(""))
	case string(old.PasswordHash) == string(u.PasswordHash):
	case len(u.PasswordHash) == 0:
		b.event("user.password.cleared", textField("name", name), byUser(""))
	default:
		b.event("user.password.changed", textField("name", name), byUser(""))
	}
	b.event("user.tags.set", textField("name", name), textsField("tags", u.Tags), byUser(""))
}

func (b *Broker) tellPermission(was, now *meta.View, user, vhost string) {
	fields := []amqp.Field{textField("user", user), textField("vhost", vhost), byUser("")}
	p, old := now.Permission(user, vhost), was.Permission(user, vhost)
	switch {
	case p == old:
	case p == nil:
		b.event("permission.deleted", fields...)
	default:
		b.event("permission.created", append(fields, textField("configure", p.Configure), textField("write", p.Write), textField("read", p.Read))...)
	}
	for t := range now.TopicPermissions(vhost) {
		if t.User == user && was.TopicPermission(user, vhost, t.Exchange) != t {
			b.event("topic.permission.created", append(fields, textField("exchange", t.Exchange), textField("write", t.Write), textField("read", t.Read))...)
		}
	}
	for t := range was.TopicPermissions(vhost) {
		if t.User == user && now.TopicPermission(user, vhost, t.Exchange) == nil {
			b.event("topic.permission.deleted", append(fields, textField("exchange", t.Exchange))...)
		}
	}
}

// tellParameter tells of a parameter that was set or removed.
func (b *Broker) tellParameter(now *meta.View, e *meta.Effect) {
	fields, value := []amqp.Field{textField("component", "global"), textField("name", e.Name)}, ""
	if e.VHost == "" {
		value, _ = now.GlobalParameter(e.Name)
	} else {
		fields[0] = textField("component", e.Component)
		fields = append(fields, textField("vhost", e.VHost))
		if p := now.Parameter(e.VHost, e.Component, e.Name); p != nil {
			value = p.Value
		}
	}
	fields = append(fields, byUser(""))
	if value == "" {
		b.event("parameter.cleared", fields...)
		return
	}
	b.event("parameter.set", append(fields, textField("value", value))...)
}

// tellPolicy tells of a policy that was set or removed. The two kinds are told apart only when they are removed, as in RabbitMQ.
func (b *Broker) tellPolicy(now *meta.View, e *meta.Effect) {
	fields := []amqp.Field{textField("name", e.Name), textField("vhost", e.VHost), byUser("")}
	p := now.Policy(e.VHost, e.Name, e.Component == "operator_policy")
	if p == nil {
		b.event(strings.ReplaceAll(e.Component, "_", ".")+".cleared", fields...)
		return
	}
	b.event("policy.set", append(fields, textField("pattern", p.Pattern), tableField("definition", p.Definition.Table()), longField("priority", p.Priority), textField("apply-to", p.ApplyTo.String()))...)
}
