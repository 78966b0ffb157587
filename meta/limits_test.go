package meta

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warrenmq/warren/internal/machine"
)

// What has a limit is refused beyond it, and what exists may still be changed at the limit.
func TestLimitsOfTheCatalogue(t *testing.T) {
	for _, c := range []struct {
		name string
		max  int
		make func(i int) Command
	}{
		{"parameters", ParametersMax, func(i int) Command { return Command{Op: OpPutGlobalParameter, Name: fmt.Sprint(i), Text: "1"} }},
		{"nodes", NodesMax, func(i int) Command {
			return Command{Op: OpRegisterNode, Node: Node{Name: fmt.Sprint(i), Token: uint64(i)}}
		}},
		{"vhosts", VHostsMax, func(i int) Command { return Command{Op: OpPutVHost, VHost: VHost{Name: fmt.Sprint(i)}} }},
		{"users", UsersMax, func(i int) Command { return Command{Op: OpPutUser, User: User{Name: fmt.Sprint(i)}} }},
	} {
		m := New()
		for i := range c.max {
			cmd := c.make(i)
			if r, _ := m.Apply(machine.Stamp{Index: 1}, &cmd, nil); r.Reason != ReasonOK {
				t.Fatalf("%s: number %d is refused: %+v", c.name, i, r)
			}
		}
		before := m.AppendSnapshot(nil)
		cmd := c.make(c.max)
		if r, effects := m.Apply(machine.Stamp{Index: 1}, &cmd, nil); r.Reason != ReasonLimit || r.Field != c.name || r.Count != uint64(c.max) || len(effects) > 0 {
			t.Fatalf("%s: beyond the limit: %+v", c.name, r)
		}
		if string(before) != string(m.AppendSnapshot(nil)) {
			t.Fatalf("%s: the refused command changed something", c.name)
		}
		cmd = c.make(3)
		if r, _ := m.Apply(machine.Stamp{Index: 1}, &cmd, nil); r.Reason != ReasonOK || !r.Existed {
			t.Fatalf("%s: an existing one at the limit: %+v", c.name, r)
		}
	}
}

func TestLengthsAreChecked(t *testing.T) {
	v := New().View()
	name, text := strings.Repeat("n", NameBytesMax+1), strings.Repeat("t", TextBytesMax+1)
	value := strings.Repeat("1", ParameterBytesMax+1)
	tags := make([]string, TagsMax+1)
	for i, c := range []struct {
		cmd    Command
		reason Reason
		field  string
	}{
		{Command{Op: OpSetClusterName, Name: name}, ReasonTooLong, "name"},
		{Command{Op: OpPutVHost, VHost: VHost{Name: name}}, ReasonTooLong, "vhost"},
		{Command{Op: OpPutVHost, VHost: VHost{Description: text}}, ReasonTooLong, "description"},
		{Command{Op: OpPutVHost, VHost: VHost{Tags: tags}}, ReasonLimit, "tags"},
		{Command{Op: OpPutUser, User: User{Tags: []string{name}}}, ReasonTooLong, "tags"},
		{Command{Op: OpPutUser, User: User{PasswordHash: []byte(text)}}, ReasonTooLong, "password_hash"},
		{Command{Op: OpDeclareQueue, Queue: Queue{Name: name}}, ReasonTooLong, "queue"},
		{Command{Op: OpDeclareQueue, Queue: Queue{Replicas: make([]NodeID, ReplicasMax+1)}}, ReasonLimit, "replicas"},
		{Command{Op: OpDeclareExchange, Exchange: Exchange{Name: name}}, ReasonTooLong, "exchange"},
		{Command{Op: OpBind, Binding: Binding{RoutingKey: name}}, ReasonTooLong, "routing_key"},
		{Command{Op: OpBind, Binding: Binding{Arguments: Arguments{raw: strings.Repeat("x", ArgumentsBytesMax+1)}}}, ReasonTooLong, "arguments"},
		{Command{Op: OpPutGlobalParameter, Name: "p", Text: value}, ReasonTooLong, "value"},
		{Command{Op: OpPutParameter, Parameter: Parameter{VHost: "/", Component: "shovel", Name: "p", Value: value}}, ReasonTooLong, "value"},
		{Command{Op: OpPutParameter, Parameter: Parameter{VHost: "/", Component: "shovel", Name: name}}, ReasonTooLong, "parameter"},
		{Command{Op: OpSetClusterName, Name: name[1:]}, ReasonOK, ""},
	} {
		if r := v.Check(&c.cmd); r.Reason != c.reason || r.Field != c.field {
			t.Errorf("case %d: %s %s, want %s %s", i, r.Reason, r.Field, c.reason, c.field)
		}
	}
}

// TestBindingsAreCounted: by destination, whatever takes them away, and after a restore.
func TestBindingsAreCounted(t *testing.T) {
	m := New()
	bind := func(source string, kind DestinationKind, to, key string) Command {
		return Command{Op: OpBind, Binding: Binding{VHost: "/", Source: source, Kind: kind, Destination: to, RoutingKey: key}}
	}
	unbind := bind("amq.direct", ToQueue, "q", "a")
	unbind.Op = OpUnbind
	for i, c := range []struct {
		cmd             Command
		queue, exchange int // bindings to q and to amq.match
	}{
		{Command{Op: OpRegisterNode, Node: Node{Name: "rabbit@a", Address: "a:1", Token: 1, MachineVersion: 1}}, 0, 0},
		{Command{Op: OpPutVHost, VHost: VHost{Name: "/"}}, 0, 0},
		{Command{Op: OpDeclareQueue, Queue: Queue{VHost: "/", Name: "q", Durable: true, Replicas: []NodeID{1}}}, 0, 0},
		{Command{Op: OpDeclareExchange, Exchange: Exchange{VHost: "/", Name: "x", Type: "direct", Durable: true}}, 0, 0},
		{bind("amq.direct", ToQueue, "q", "a"), 1, 0},
		{bind("amq.direct", ToQueue, "q", "a"), 1, 0},
		{bind("amq.direct", ToQueue, "q", "b"), 2, 0},
		{bind("x", ToQueue, "q", "a"), 3, 0},
		{bind("x", ToExchange, "amq.match", "a"), 3, 1},
		{unbind, 2, 1},
		{unbind, 2, 1},
		{Command{Op: OpDeleteExchange, Exchange: Exchange{VHost: "/", Name: "x"}}, 1, 0},
		{Command{Op: OpDeleteQueue, Queue: Queue{ID: FirstQueueID}}, 0, 0},
	} {
		if r, _ := m.Apply(machine.Stamp{Index: uint64(i + 1)}, &c.cmd, nil); r.Reason != ReasonOK {
			t.Fatalf("command %d: %+v", i, r)
		}
		restored, err := Restore(m.AppendSnapshot(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*Machine{m, restored} {
			v := m.View()
			if q, x := v.BindingCountTo("/", ToQueue, "q"), v.BindingCountTo("/", ToExchange, "amq.match"); q != c.queue || x != c.exchange {
				t.Errorf("after command %d: %d and %d, want %d and %d", i, q, x, c.queue, c.exchange)
			}
			if err := m.Check(); err != nil {
				t.Errorf("after command %d: %v", i, err)
			}
		}
	}
}
