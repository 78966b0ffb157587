package meta

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/machine"
)

// catalogue makes a machine with one node, one virtual host and n durable queues.
func catalogue(n int) *Machine {
	m := New()
	for _, c := range []Command{
		{Op: OpRegisterNode, Node: Node{Name: "rabbit@a", Token: 1}},
		{Op: OpRegisterBoot, Node: Node{ID: 1, Boot: Boot{Counter: 1, Nonce: 1}}},
		{Op: OpPutVHost, VHost: VHost{Name: "/"}},
	} {
		m.Apply(machine.Stamp{Index: 1}, &c, nil)
	}
	for i := range n {
		c := durable(fmt.Sprintf("queue.%06d", i))
		m.Apply(machine.Stamp{Index: 1}, &c, nil)
	}
	return m
}

func durable(name string) Command {
	return Command{Op: OpDeclareQueue, Queue: Queue{VHost: "/", Name: name, Durable: true, Replicas: []NodeID{1}}}
}

// One declare with the View that every reader gets after it, and the delete that keeps the size.
func benchmarkDeclare(b *testing.B, n int) {
	m := catalogue(n)
	cmds := make([]Command, 997)
	for i := range cmds {
		cmds[i] = durable(fmt.Sprintf("queue.%06d.x", i*7919%max(n, 1)))
	}
	var effects []Effect
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var r Reply
		r, effects = m.Apply(machine.Stamp{Index: 2}, &cmds[i%len(cmds)], effects[:0])
		m.View()
		b.StopTimer()
		m.Apply(machine.Stamp{Index: 2}, &Command{Op: OpDeleteQueue, Queue: Queue{ID: QueueID(r.ID)}}, nil)
		i++
		b.StartTimer()
	}
}

func BenchmarkDeclareQueue10k(b *testing.B)  { benchmarkDeclare(b, 10_000) }
func BenchmarkDeclareQueue100k(b *testing.B) { benchmarkDeclare(b, 100_000) }

func BenchmarkRedeclareCheck(b *testing.B) {
	v := catalogue(10_000).View()
	c := durable("queue.005000")
	b.ReportAllocs()
	for b.Loop() {
		if r := v.Check(&c); !r.Existed {
			b.Fatal(r)
		}
	}
}

func BenchmarkBind100k(b *testing.B) {
	m := catalogue(1000)
	bind := func(i int) Command {
		return Command{Op: OpBind, Binding: Binding{
			VHost: "/", Source: "amq.topic", Kind: ToQueue, Destination: fmt.Sprintf("queue.%06d", i%1000), RoutingKey: fmt.Sprintf("a.%d.#", i),
		}}
	}
	for i := range 100_000 {
		c := bind(i)
		m.Apply(machine.Stamp{Index: 2}, &c, nil)
	}
	var effects []Effect
	b.ReportAllocs()
	i := 100_000
	for b.Loop() {
		c := bind(i)
		_, effects = m.Apply(machine.Stamp{Index: 2}, &c, effects[:0])
		m.View()
		i++
	}
}

func BenchmarkRestore10k(b *testing.B) {
	snapshot := catalogue(10_000).AppendSnapshot(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Restore(snapshot); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshot10k(b *testing.B) {
	m := catalogue(10_000)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = m.AppendSnapshot(dst[:0])
	}
	b.ReportMetric(float64(len(dst))/10_000, "bytes/queue")
}

// BenchmarkPolicy makes and removes a policy that all queues of a virtual host follow: one entry each.
func BenchmarkPolicy(b *testing.B) {
	for _, queues := range []int{1000, 100_000} {
		m := New()
		index := uint64(0)
		apply := func(c Command) {
			index++
			if r, _ := m.Apply(machine.Stamp{Index: index}, &c, nil); r.Reason != ReasonOK {
				b.Fatal(r.Reason)
			}
		}
		apply(Command{Op: OpPutVHost, VHost: VHost{Name: "/"}})
		for i := range queues {
			apply(Command{Op: OpDeclareQueue, Queue: Queue{VHost: "/", Name: fmt.Sprintf("queue-%d", i), Durable: true, Replicas: []NodeID{1, 2, 3}}})
		}
		p := Policy{VHost: "/", Name: "p", Pattern: "^queue-", ApplyTo: ApplyToQueues, Definition: args("max-length", amqp.Int64(5))}
		b.Run(fmt.Sprint(queues), func(b *testing.B) {
			for range b.N {
				apply(Command{Op: OpPutPolicy, Policy: p})
				apply(Command{Op: OpDeletePolicy, Policy: p})
			}
		})
	}
}
