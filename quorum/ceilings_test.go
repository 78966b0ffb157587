package quorum

import (
	"strings"
	"testing"

	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
)

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
