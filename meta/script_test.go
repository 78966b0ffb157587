package meta

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/internal/script"
)

// Scripts drive one machine. Verbs are those of parseCommand; "check" before one asks View.Check instead of applying, "show" prints a listing.
// After every command the invariants are checked and the snapshot is restored and compared.
func TestScripts(t *testing.T) {
	script.RunFiles(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		s := &session{t: t, m: New()}
		return s.block
	})
}

type session struct {
	t     *testing.T
	m     *Machine
	index uint64
	now   int64
}

func (s *session) block(block string) string {
	var out strings.Builder
	for _, l := range script.Lines(s.t, block) {
		switch l.Verb {
		case "show":
			s.show(&out, l)
		case "check":
			l.Verb, l.Args = l.Arg(0), l.Args[1:]
			c := parseCommand(l)
			r := s.m.View().Check(&c)
			fmt.Fprintln(&out, printReply(&r))
		case "now":
			s.now = l.ParseInt(l.Arg(0))
		default:
			c := parseCommand(l)
			for _, line := range s.apply(&c) {
				fmt.Fprintln(&out, line)
			}
		}
	}
	return out.String()
}

func (s *session) apply(c *Command) []string {
	s.index++
	var decoded Command
	if err := DecodeCommand(AppendCommand(nil, c), &decoded); err != nil {
		s.t.Fatal(err)
	}
	r, effects := s.m.Apply(machine.Stamp{Index: s.index, NowMillis: s.now}, &decoded, nil)
	if err := s.m.Check(); err != nil {
		s.t.Fatal(err)
	}
	snapshot := s.m.AppendSnapshot(nil)
	restored, err := Restore(snapshot)
	if err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Equal(restored.AppendSnapshot(nil), snapshot) {
		s.t.Fatal("the restored machine has another snapshot")
	}
	lines := []string{printReply(&r)}
	for i := range effects {
		lines = append(lines, "  "+printEffect(&effects[i]))
	}
	return lines
}

func showDraining(out *strings.Builder, queues iter.Seq[*Queue]) {
	for q := range queues {
		alternate, _ := q.AlternateLeft()
		fmt.Fprintf(out, "%d was %s alternate=%s\n", q.ID, q.KnownAs(), alternate)
	}
}

func (s *session) show(out *strings.Builder, l *script.Line) {
	v := s.m.View()
	switch l.Arg(0) {
	case "vhosts":
		for h := range v.VHosts() {
			fmt.Fprintf(out, "%s description=%q tags=%v default=%q queues=%d exchanges=%d bindings=%d%s\n", h.Name, h.Description, h.Tags,
				h.DefaultQueueType, v.QueueCount(h.Name), v.ExchangeCount(h.Name), v.BindingCount(h.Name), printLimits(v.VHostLimits(h.Name)))
		}
	case "users":
		for u := range v.Users() {
			fmt.Fprintf(out, "%s tags=%v", u.Name, u.Tags)
			for p := range v.PermissionsOf(u.Name) {
				fmt.Fprintf(out, " %s:%q,%q,%q", p.VHost, p.Configure, p.Write, p.Read)
			}
			for p := range v.TopicPermissionsOf(u.Name) {
				fmt.Fprintf(out, " %s/%s:%q,%q", p.VHost, p.Exchange, p.Pattern(Write), p.Pattern(Read))
			}
			fmt.Fprintln(out, printLimits(v.UserLimits(u.Name)))
		}
	case "exchanges":
		for x := range v.Exchanges(l.Arg(1)) {
			fmt.Fprintln(out, printExchange(x))
		}
	case "queues":
		for q := range v.Queues(l.Arg(1)) {
			fmt.Fprintln(out, printQueue(q))
		}
	case "draining":
		showDraining(out, v.Draining(l.Arg(1)))
	case "bindings":
		for b := range v.Bindings(l.Arg(1)) {
			fmt.Fprintln(out, printBinding(b))
		}
	case "to":
		for b := range v.BindingsTo(l.Arg(1), ToQueue, l.Arg(2)) {
			fmt.Fprintln(out, printBinding(b))
		}
	case "parameters":
		showParameters(v, l.Arg(1), out)
	case "policies":
		for _, operator := range []bool{false, true} {
			for p := range v.Policies(l.Arg(1), operator) {
				fmt.Fprintf(out, "%s %q %s priority=%d operator=%v%s\n", p.Name, p.Pattern, p.ApplyTo, p.Priority, operator, printArguments(p.Definition))
			}
		}
	case "effective":
		names := l.Args[3:]
		get := func(name string) (amqp.Value, bool) { return v.Exchange(l.Arg(1), l.Arg(2)).Effective(name) }
		if q := v.Queue(l.Arg(1), l.Arg(2)); q != nil {
			get = q.Effective
			fmt.Fprintf(out, "version=%d", q.ConfigVersion)
		}
		for _, name := range names {
			if value, ok := get(name); ok {
				fmt.Fprintf(out, " %s=%v", name, value)
			}
		}
		fmt.Fprintln(out)
	case "nodes":
		for n := range v.Nodes() {
			fmt.Fprintln(out, printNode(n))
		}
	case "sweep":
		fmt.Fprintln(out, "pending", v.SweepPending(), "queues", v.QueueCountAll())
	default:
		l.Fatalf("show what?")
	}
}

func showParameters(v *View, vhost string, out *strings.Builder) {
	for name, text := range v.GlobalParameters() {
		fmt.Fprintln(out, name, text)
	}
	for p := range v.Parameters(vhost) {
		fmt.Fprintln(out, p.VHost, p.Component, p.Name, p.Value)
	}
}

func parseCommand(l *script.Line) Command {
	c := Command{Token: uint64(l.Int("token", 0)), IfUnused: l.Has("if-unused")}
	switch l.Verb {
	case "found":
		c.Op, c.Name, c.Text = OpFound, l.Arg(0), l.Text("id", "")
	case "cluster-name":
		c.Op, c.Name = OpSetClusterName, l.Arg(0)
	case "parameter":
		c.Op, c.Name, c.Text = OpPutGlobalParameter, l.Arg(0), l.Text("value", "")
	case "node":
		c.Op = OpRegisterNode
		c.Node = Node{ID: NodeID(l.Int("id", 0)), Name: l.Arg(0), Address: l.Text("address", ""), Token: uint64(l.Int("token", 0)), MachineVersion: 1}
		if boot := l.Text("boot", ""); boot != "" {
			c.Node.Boot = parseBoot(l, boot)
		}
		c.Token = 0
	case "boot", "node-dead":
		c.Op = map[string]Op{"boot": OpRegisterBoot, "node-dead": OpNodeDead}[l.Verb]
		c.Node = Node{ID: NodeID(l.ParseInt(l.Arg(0))), Boot: parseBoot(l, l.Arg(1))}
	case "vhost":
		c.Op = OpPutVHost
		c.VHost = VHost{Name: l.Arg(0), Description: l.Text("description", ""), Tags: words(l.Text("tags", "")), DefaultQueueType: l.Text("default", "")}
	case "delete-vhost":
		c.Op, c.VHost.Name = OpDeleteVHost, l.Arg(0)
	case "user":
		c.Op, c.User = OpPutUser, User{Name: l.Arg(0), Tags: words(l.Text("tags", "")), PasswordHash: []byte(l.Text("hash", ""))}
	case "delete-user":
		c.Op, c.User.Name = OpDeleteUser, l.Arg(0)
	case "permission", "delete-permission":
		c.Op = map[string]Op{"permission": OpPutPermission, "delete-permission": OpDeletePermission}[l.Verb]
		c.Permission = Permission{
			User: l.Arg(0), VHost: l.Arg(1), Configure: l.Text("configure", ""), Write: l.Text("write", ""), Read: l.Text("read", ""),
		}
	case "topic", "delete-topic":
		c.Op = map[string]Op{"topic": OpPutTopicPermission, "delete-topic": OpDeleteTopicPermission}[l.Verb]
		c.Topic = TopicPermission{User: l.Arg(0), VHost: l.Arg(1), Exchange: l.Text("exchange", ""), Write: l.Text("write", ""), Read: l.Text("read", "")}
	case "limit", "no-limit":
		c.Op = map[string]Op{"limit vhost": OpSetVHostLimit, "no-limit vhost": OpClearVHostLimit, "limit user": OpSetUserLimit, "no-limit user": OpClearUserLimit}[l.Verb+" "+l.Arg(0)]
		if c.Limit.Name = l.Arg(2); l.Verb == "limit" {
			c.Limit.Value = l.ParseInt(l.Arg(3))
		}
		if l.Arg(0) == "vhost" {
			c.VHost.Name = l.Arg(1)
		} else {
			c.User.Name = l.Arg(1)
		}
	case "change":
		c.Op, c.Queue.ID, c.Queue.Changes = OpChangeArguments, QueueID(l.ParseInt(l.Arg(0))), parseArguments(l)
	case "vhost-parameter":
		c.Op, c.Parameter = OpPutParameter, Parameter{VHost: l.Arg(0), Component: l.Arg(1), Name: l.Arg(2), Value: l.Text("value", "")}
	case "policy", "delete-policy":
		c.Op = map[string]Op{"policy": OpPutPolicy, "delete-policy": OpDeletePolicy}[l.Verb]
		c.Policy = Policy{VHost: l.Arg(0), Name: l.Arg(1), Operator: l.Has("operator"), Pattern: l.Text("pattern", ""), Priority: l.Int("priority", 0), Definition: parseArguments(l)}
		c.Policy.ApplyTo, _ = ParseApplyTo(l.Text("to", "all"))
	case "sweep":
		c.Op = OpSweep
	case "drop-owned":
		c.Op, c.Owner = OpDropOwned, parseOwner(l, l.Arg(0))
	default:
		parseTopology(l, &c)
	}
	return c
}

func printLimits(limits []Limit) (s string) {
	for _, l := range limits {
		s += fmt.Sprintf(" %s=%d", l.Name, l.Value)
	}
	return s
}

func parseTopology(l *script.Line, c *Command) {
	switch l.Verb {
	case "exchange", "delete-exchange":
		c.Op = map[string]Op{"exchange": OpDeclareExchange, "delete-exchange": OpDeleteExchange}[l.Verb]
		c.Exchange = Exchange{
			VHost: l.Arg(0), Name: l.Arg(1), Durable: l.Has("durable"), AutoDelete: l.Has("auto-delete"), Internal: l.Has("internal"),
			Arguments: parseArguments(l),
		}
		if l.Verb == "exchange" {
			c.Exchange.Type = l.Arg(2)
		}
	case "queue":
		c.Op = OpDeclareQueue
		c.Queue = Queue{
			VHost: l.Arg(0), Name: l.Arg(1), Durable: l.Has("durable"), AutoDelete: l.Has("auto-delete"), Exclusive: l.Has("exclusive"),
			Arguments: parseArguments(l),
		}
		if s := l.Text("owner", ""); s != "" {
			c.Queue.Owner = parseOwner(l, s)
			c.Queue.Home, c.Queue.HomeBoot = c.Queue.Owner.Node, c.Queue.Owner.Boot
		}
		if s := l.Text("home", ""); s != "" {
			node, boot, _ := strings.Cut(s, ".")
			c.Queue.Home, c.Queue.HomeBoot = NodeID(l.ParseInt(node)), parseBoot(l, boot)
		}
		for _, s := range words(l.Text("replicas", "")) {
			c.Queue.Replicas = append(c.Queue.Replicas, NodeID(l.ParseInt(s)))
		}
	case "delete-queue", "abort-delete":
		c.Op = map[string]Op{"delete-queue": OpDeleteQueue, "abort-delete": OpDeleteAborted}[l.Verb]
		c.Queue.ID, c.Drain = QueueID(l.ParseInt(l.Arg(0))), l.Has("drain")
	case "bind", "unbind":
		c.Op = map[string]Op{"bind": OpBind, "unbind": OpUnbind}[l.Verb]
		kind := map[string]DestinationKind{"queue": ToQueue, "exchange": ToExchange}[l.Arg(2)]
		c.Binding = Binding{
			VHost: l.Arg(0), Source: l.Arg(1), Kind: kind, Destination: l.Arg(3), RoutingKey: l.Text("key", ""), Arguments: parseArguments(l),
		}
	default:
		l.Fatalf("unknown verb")
	}
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// parseBoot reads counter/nonce; the nonce is 100 x counter if it is left out.
func parseBoot(l *script.Line, s string) Boot {
	counter, nonce, ok := strings.Cut(s, "/")
	b := Boot{Counter: uint64(l.ParseInt(counter))}
	b.Nonce = b.Counter * 100
	if ok {
		b.Nonce = uint64(l.ParseInt(nonce))
	}
	return b
}

// parseOwner reads node.boot.connection.
func parseOwner(l *script.Line, s string) Owner {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		l.Fatalf("owner is node.boot.connection")
	}
	return Owner{Node: NodeID(l.ParseInt(parts[0])), Boot: parseBoot(l, parts[1]), Connection: uint64(l.ParseInt(parts[2]))}
}

// parseArguments reads the pairs that begin with x- (and alternate-exchange, and those with a leading @, which is cut off). Values are type:value; a
// number alone is a signedint, true and false are bools, all else is a longstr.
func parseArguments(l *script.Line) Arguments {
	var t amqp.Table
	for _, prefix := range []string{"x-", "alternate-exchange", "@"} {
		for _, p := range l.Pairs(prefix) {
			t = append(t, amqp.Field{Key: strings.TrimPrefix(p[0], "@"), Value: parseValue(l, p[1])})
		}
	}
	return NewArguments(t)
}

func parseValue(l *script.Line, s string) amqp.Value {
	typ, text, ok := strings.Cut(s, ":")
	if !ok {
		typ, text = "longstr", s
		if _, err := strconv.ParseInt(s, 10, 32); err == nil {
			typ = "signedint"
		}
		if s == "true" || s == "false" {
			typ = "bool"
		}
	}
	switch typ {
	case "longstr":
		return amqp.Longstr(text)
	case "binary":
		return amqp.Bytes(text)
	case "bool":
		return amqp.Bool(text == "true")
	case "byte":
		return amqp.Int8(int8(l.ParseInt(text)))
	case "short":
		return amqp.Int16(int16(l.ParseInt(text)))
	case "signedint":
		return amqp.Int32(int32(l.ParseInt(text)))
	case "long":
		return amqp.Int64(l.ParseInt(text))
	case "timestamp":
		return amqp.Timestamp(uint64(l.ParseInt(text)))
	case "void":
		return amqp.Void()
	case "table":
		return amqp.Nested(nil)
	}
	l.Fatalf("value of unknown type %q", typ)
	return amqp.Value{}
}

func printReply(r *Reply) string {
	var b strings.Builder
	b.WriteString(r.Reason.String())
	if r.Existed {
		b.WriteString(" existed")
	}
	if r.ID != 0 {
		fmt.Fprintf(&b, " id=%d", r.ID)
	}
	if r.Count != 0 {
		fmt.Fprintf(&b, " count=%d", r.Count)
	}
	if r.More {
		b.WriteString(" more")
	}
	if r.Field != "" {
		b.WriteString(" arg=" + r.Field)
	}
	if r.Received != "" {
		b.WriteString(": received " + r.Received + " but current is " + r.Current)
	}
	if r.Detail != "" {
		b.WriteString(": " + r.Detail)
	}
	return b.String()
}

func printEffect(e *Effect) string {
	switch e.Kind {
	case ClusterChanged:
		return "cluster " + e.Name
	case NodeChanged:
		return "node " + printNode(e.Node)
	case NodeDead:
		return "dead " + printNode(e.Node)
	case VHostChanged:
		return "vhost " + e.VHost
	case VHostDeleted:
		return "vhost-deleted " + e.VHost
	case UserChanged:
		return "user " + e.User
	case UserDeleted:
		return "user-deleted " + e.User
	case PermissionChanged:
		return "permission " + e.User + " in " + e.VHost
	case ExchangeCreated:
		return "exchange " + printExchange(e.Exchange)
	case ExchangeDeleted:
		return "exchange-deleted " + e.Exchange.Name
	case QueueCreated:
		return "queue " + printQueue(e.Queue)
	case QueueDeleted:
		return fmt.Sprintf("queue-deleted %d %s", e.Queue.ID, printName(e.Queue.Name))
	case QueueChanged:
		return "queue-changed " + printQueue(e.Queue)
	case BindingCreated:
		return "binding " + printBinding(e.Binding)
	case BindingDeleted:
		return "binding-deleted " + printBinding(e.Binding)
	case PolicyChanged:
		return fmt.Sprintf("%s %s %s", e.Component, e.VHost, e.Name)
	case ParameterChanged:
		return strings.TrimSpace("parameter " + e.Name + " " + strings.TrimSpace(e.Component+" "+e.VHost))
	}
	return "unknown effect"
}

// printName quotes a name with unusual bytes.
func printName(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}

func printNode(n *Node) string {
	s := fmt.Sprintf("%d %s at %s boot=%d dead=%d", n.ID, n.Name, n.Address, n.Boot.Counter, n.DeadBoot.Counter)
	if n.Replaced {
		s += " replaced"
	}
	return s
}

func printExchange(x *Exchange) string {
	s := fmt.Sprintf("%q %s", x.Name, x.Type)
	for _, f := range []struct {
		set  bool
		word string
	}{{x.Durable, " durable"}, {x.AutoDelete, " auto-delete"}, {x.Internal, " internal"}} {
		if f.set {
			s += f.word
		}
	}
	return s + printArguments(x.Arguments) + printPolicies(x.Policies)
}

func printPolicies(a Attached) string {
	if a == (Attached{}) {
		return ""
	}
	return fmt.Sprintf(" policies=%s/%s%s", a.Policy, a.Operator, printArguments(a.Definition))
}

func printArguments(a Arguments) string {
	if a.Empty() {
		return ""
	}
	return " " + a.Table().String()
}

func printQueue(q *Queue) string {
	s := fmt.Sprintf("%d %s %s", q.ID, printName(q.Name), q.Type)
	switch {
	case q.Durable:
		s += fmt.Sprintf(" durable replicas=%v", q.Replicas)
	default:
		s += fmt.Sprintf(" home=%d.%d", q.Home, q.HomeBoot.Counter)
	}
	if q.AutoDelete {
		s += " auto-delete"
	}
	if q.Exclusive {
		s += fmt.Sprintf(" owner=%d.%d.%d", q.Owner.Node, q.Owner.Boot.Counter, q.Owner.Connection)
	}
	if q.AbortedToken != 0 {
		s += fmt.Sprintf(" aborted=%d", q.AbortedToken)
	}
	s += printArguments(q.Arguments)
	if !q.Changes.Empty() {
		s += " changed" + printArguments(q.Changes)
	}
	return s + printPolicies(q.Policies)
}

func printBinding(b *Binding) string {
	s := fmt.Sprintf("%s -> %s %s", printName(b.Source), b.Kind, printName(b.Destination))
	if b.Queue != 0 {
		s += fmt.Sprintf("(%d)", b.Queue)
	}
	return s + fmt.Sprintf(" key=%q", b.RoutingKey) + printArguments(b.Arguments)
}
