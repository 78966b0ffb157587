package quorum

import (
	"strconv"
	"strings"
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
)

// TestBindingsPerDestination: a queue or exchange that has as many bindings as it may gets no other one, but those that it has may be made again.
func TestBindingsPerDestination(t *testing.T) {
	m := meta.New()
	index := uint64(0)
	apply := func(c meta.Command) {
		index++
		if r, _ := m.Apply(machine.Stamp{Index: index}, &c, nil); r.Reason != meta.ReasonOK {
			t.Fatalf("command %d: %v", index, r.Reason)
		}
	}
	apply(meta.Command{Op: meta.OpRegisterNode, Node: meta.Node{Name: "rabbit@a", Address: "a:1", Token: 1, MachineVersion: 1}})
	apply(meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}})
	for _, q := range []string{"q", "other"} {
		apply(meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: q, Durable: true, Replicas: []meta.NodeID{1}}})
	}
	bind := func(kind meta.DestinationKind, to string, key int) meta.Command {
		return meta.Command{Op: meta.OpBind, Binding: meta.Binding{VHost: "/", Source: "amq.direct", Kind: kind, Destination: to, RoutingKey: strconv.Itoa(key)}}
	}
	for i := range limits.BindingsPerDestinationMax {
		apply(bind(meta.ToQueue, "q", i))
		apply(bind(meta.ToExchange, "amq.fanout", i))
	}
	for _, c := range []struct {
		name    string
		cmd     meta.Command
		refused bool
	}{
		{"one more of a queue", bind(meta.ToQueue, "q", limits.BindingsPerDestinationMax), true},
		{"one that the queue has", bind(meta.ToQueue, "q", 7), false},
		{"another queue", bind(meta.ToQueue, "other", 7), false},
		{"one more of an exchange", bind(meta.ToExchange, "amq.fanout", limits.BindingsPerDestinationMax), true},
		{"another exchange", bind(meta.ToExchange, "amq.match", 7), false},
	} {
		r, refused := (&Ceilings{}).refuses(m.View(), &c.cmd)
		if refused != c.refused || refused && (r.Reason != meta.ReasonLimit || r.Field != "bindings per destination" || r.Count != limits.BindingsPerDestinationMax) {
			t.Errorf("%s: %v %+v", c.name, refused, r)
		}
	}
	apply(meta.Command{Op: meta.OpUnbind, Binding: bind(meta.ToQueue, "q", 7).Binding})
	more := bind(meta.ToQueue, "q", limits.BindingsPerDestinationMax)
	if _, refused := (&Ceilings{}).refuses(m.View(), &more); refused {
		t.Error("refused though one was taken away")
	}
}

// TestCeilings: what exists may be declared again, one more is refused with the limit.
func TestCeilings(t *testing.T) {
	m := meta.New()
	for i, c := range []meta.Command{
		{Op: meta.OpFound, Text: "1", Name: "c"},
		{Op: meta.OpRegisterNode, Node: meta.Node{Name: "rabbit@a", Address: "a:1", Token: 1, MachineVersion: 1}},
		{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}},
		{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "q", Durable: true, Replicas: []meta.NodeID{1}}},
	} {
		if r, _ := m.Apply(machine.Stamp{Index: uint64(i + 1)}, &c, nil); r.Reason != meta.ReasonOK {
			t.Fatalf("command %d: %v", i, r.Reason)
		}
	}
	v := m.View()
	exchanges := v.ExchangeCount("/")
	bind := func(key string) meta.Command {
		return meta.Command{Op: meta.OpBind, Binding: meta.Binding{VHost: "/", Source: "amq.topic", Kind: meta.ToQueue, Destination: "q", RoutingKey: key}}
	}
	long := bind(strings.Repeat(".", 128))
	if r, refused := (&Ceilings{}).refuses(v, &long); !refused || r.Reason != meta.ReasonInvalidBinding || r.Detail != "a topic has at most 128 words" {
		t.Errorf("a topic of 129 words: %v %+v", refused, r)
	}
	for _, c := range []struct {
		name     string
		ceilings Ceilings
		cmd      meta.Command
		kind     string
		most     uint64
	}{
		{"one queue more", Ceilings{Queues: 1}, meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "other"}}, "queues", 1},
		{"the queue that is there", Ceilings{Queues: 1}, meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "q"}}, "", 0},
		{"room for a queue", Ceilings{Queues: 2, Exchanges: 1, VHosts: 1}, meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "other"}}, "", 0},
		{"one exchange more", Ceilings{Exchanges: exchanges}, meta.Command{Op: meta.OpDeclareExchange, Exchange: meta.Exchange{VHost: "/", Name: "x"}}, "exchanges", uint64(exchanges)},
		{"room for an exchange", Ceilings{Exchanges: exchanges + 1}, meta.Command{Op: meta.OpDeclareExchange, Exchange: meta.Exchange{VHost: "/", Name: "x"}}, "", 0},
		{"an exchange that is there", Ceilings{Exchanges: 1}, meta.Command{Op: meta.OpDeclareExchange, Exchange: meta.Exchange{VHost: "/", Name: "amq.topic"}}, "", 0},
		{"one virtual host more", Ceilings{VHosts: 1}, meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "v"}}, "vhosts", 1},
		{"the virtual host that is there", Ceilings{VHosts: 1}, meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}}, "", 0},
		{"a topic of 128 words", Ceilings{}, bind(strings.Repeat("a.", 127) + "a"), "", 0},
		{"no bound", Ceilings{}, meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "v"}}, "", 0},
	} {
		r, refused := c.ceilings.refuses(v, &c.cmd)
		if refused != (c.kind != "") || refused && (r.Reason != meta.ReasonLimit || r.Field != c.kind || r.Count != c.most) {
			t.Errorf("%s: %v %+v", c.name, refused, r)
		}
	}
}
