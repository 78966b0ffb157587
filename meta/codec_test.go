package meta

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/invariant"
	"github.com/warrenmq/warren/internal/machine"
)

// full has every field of every command set.
func full(op Op) Command {
	boot := Boot{Counter: 3, Nonce: 4}
	owner := Owner{Node: 1, Boot: boot, Connection: 9}
	return Command{
		Op:         op,
		Node:       Node{ID: 1, Name: "n", Address: "a:1", Token: 5, Boot: boot, DeadBoot: Boot{1, 2}, MachineVersion: 7, Replaced: true},
		VHost:      VHost{Name: "v", Description: "d", Tags: []string{"a", "b"}, DefaultQueueType: "quorum", Tracing: true, CreatedMillis: -6},
		User:       User{Name: "u", PasswordHash: []byte{1, 2}, HashingAlgorithm: "h", Tags: []string{"t"}},
		Permission: Permission{User: "u", VHost: "v", Configure: "c", Write: "w", Read: "r"},
		Topic:      TopicPermission{User: "u", VHost: "v", Exchange: "x", Write: "w", Read: "r"},
		Limit:      Limit{Name: "l", Value: -1},
		Policy:     Policy{VHost: "v", Name: "p", Operator: true, Pattern: "q", ApplyTo: ApplyToStreams, Priority: -5, Definition: args("max-length", amqp.Int64(1))},
		Parameter:  Parameter{VHost: "v", Component: "shovel", Name: "s", Value: "{}"},
		Exchange:   Exchange{VHost: "v", Name: "x", Type: "topic", Durable: true, AutoDelete: true, Internal: true, Arguments: args("k", amqp.Int32(1))},
		Queue: Queue{
			ID: 1024, VHost: "v", Name: "q", Type: "quorum", Durable: true, AutoDelete: true, Exclusive: true, Owner: owner, Arguments: args("k", amqp.Longstr("s")),
			Home: 2, HomeBoot: boot, Replicas: []NodeID{1, 2}, Members: []Member{{Node: 1, Replica: 1}, {Node: 2, Replica: 3, NonVoting: true}}, MembersIndex: 4, NextReplica: 5, CreatedMillis: 8, ConfigVersion: 9, AbortedToken: 10, ReplicasWanted: 5,
			Changes: args("k", amqp.Void()),
		},
		Binding:  Binding{VHost: "v", Source: "x", Kind: ToExchange, Destination: "y", RoutingKey: "k", Arguments: args("k", amqp.Bool(true))},
		Owner:    owner,
		Name:     "name",
		Text:     "text",
		IfUnused: true,
		Drain:    true,
		Token:    11,
	}
}

func TestCommandCodecRoundTrip(t *testing.T) {
	for op := OpFound; op <= OpChangeArguments; op++ {
		c := full(op)
		first := AppendCommand(nil, &c)
		var d Command
		if err := DecodeCommand(first, &d); err != nil {
			t.Fatalf("op %d: %v", op, err)
		}
		if again := AppendCommand(nil, &d); !bytes.Equal(first, again) {
			t.Fatalf("op %d: %x becomes %x", op, first, again)
		}
		checkDecoded(t, &c, &d)
		for cut := range first {
			if err := DecodeCommand(first[:cut], &d); err == nil {
				t.Fatalf("op %d: cut to %d of %d bytes it is decoded", op, cut, len(first))
			}
		}
		if err := DecodeCommand(append(first, 0), &d); !errors.Is(err, codec.ErrMalformed) {
			t.Fatalf("op %d with a byte behind it: %v", op, err)
		}
	}
	var d Command
	if err := DecodeCommand([]byte{200}, &d); err == nil {
		t.Fatal("an unknown op is decoded")
	}
}

// checkDecoded compares the objects that the op carries whole.
func checkDecoded(t *testing.T, c, d *Command) {
	t.Helper()
	want := Command{Op: c.Op}
	switch c.Op {
	case OpRegisterNode, OpRegisterBoot, OpNodeDead:
		want.Node = c.Node
	case OpPutVHost:
		want.VHost = c.VHost
	case OpPutUser:
		want.User = c.User
	case OpPutPermission, OpDeletePermission:
		want.Permission = c.Permission
	case OpPutTopicPermission, OpDeleteTopicPermission:
		want.Topic = c.Topic
	case OpSetVHostLimit, OpClearVHostLimit:
		want.VHost.Name, want.Limit = "v", c.Limit
	case OpSetUserLimit, OpClearUserLimit:
		want.User.Name, want.Limit = "u", c.Limit
	case OpPutPolicy, OpDeletePolicy:
		want.Policy = c.Policy
	case OpPutParameter:
		want.Parameter = c.Parameter
	case OpChangeArguments:
		want.Queue.ID, want.Queue.Changes = 1024, c.Queue.Changes
	case OpDeclareExchange:
		want.Exchange = c.Exchange
	case OpDeclareQueue:
		want.Queue = c.Queue
		want.Queue.Changes = Arguments{}
	case OpBind, OpUnbind:
		want.Binding = c.Binding
	case OpDropOwned:
		want.Owner = c.Owner
	case OpFound, OpPutGlobalParameter:
		want.Name, want.Text = c.Name, c.Text
	case OpDeleteExchange:
		want.Exchange, want.IfUnused = Exchange{VHost: "v", Name: "x"}, true
	case OpDeleteQueue, OpDeleteAborted:
		want.Queue.ID, want.Token, want.Drain = 1024, 11, c.Op == OpDeleteQueue
	case OpAllotReplica:
		want.Queue.ID = 1024
	case OpWantReplicas:
		want.Queue.ID, want.Queue.ReplicasWanted = 1024, 5
	case OpSetMembers:
		want.Queue.ID, want.Token, want.Queue.Members = 1024, 11, c.Queue.Members
	case OpSetClusterName:
		want.Name = c.Name
	case OpDeleteVHost:
		want.VHost.Name = "v"
	case OpDeleteUser:
		want.User.Name = "u"
	}
	if !reflect.DeepEqual(want, *d) {
		t.Fatalf("op %d: %+v, want %+v", c.Op, *d, want)
	}
}

func TestUnknownOpIsAViolation(t *testing.T) {
	defer func() {
		if _, ok := recover().(*invariant.Violation); !ok {
			t.Fatal("no violation")
		}
	}()
	New().Apply(machine.Stamp{Index: 1}, &Command{Op: 250}, nil)
}

func TestRestoreRefusesDamage(t *testing.T) {
	h := &history{r: rand.New(rand.NewPCG(3, 7))}
	m := New()
	for i := range 200 {
		c := h.command()
		m.Apply(machine.Stamp{Index: uint64(i + 1)}, &c, nil)
	}
	snapshot := m.AppendSnapshot(nil)
	for cut := range snapshot {
		if _, err := Restore(snapshot[:cut]); err == nil {
			t.Fatalf("a snapshot cut to %d of %d bytes is restored", cut, len(snapshot))
		}
	}
	if _, err := Restore(append([]byte{9}, snapshot[1:]...)); !errors.Is(err, ErrSnapshotFormat) {
		t.Fatalf("another format: %v", err)
	}
	// A flipped byte may give another valid catalogue, but never a crash, and never one that breaks an invariant.
	for i := range snapshot {
		broken := append([]byte(nil), snapshot...)
		broken[i] ^= 1 << (i % 8)
		if r, err := Restore(broken); err == nil {
			if err := r.Check(); err != nil {
				t.Fatalf("byte %d flipped: %v", i, err)
			}
		}
	}
}

// A catalogue of the first format, which knew no limits and no topic permissions, is read and goes on in the present one.
func TestRestoreOfTheFirstFormat(t *testing.T) {
	const old = "AQAAAAAAAAAJAmlkAWOBCAIBAQEIcmFiYml0QGEAAAAAAAAAAAcBAAAAAAAAAGQAAAAAAAAAAAABAAEEc2hvcAAAAQptb25pdG9yaW5nAAIBLwAAAAAAAAAAAAAAAAEEc2hvcAEvAAACLioHAS8ABm" +
		"RpcmVjdAEAAS8KYW1xLmRpcmVjdAZkaXJlY3QBAAEvCmFtcS5mYW5vdXQGZmFub3V0AQABLwthbXEuaGVhZGVycwdoZWFkZXJzAQABLwlhbXEubWF0Y2gHaGVhZGVycwEAAS8SYW1xLnJhYmJpdG1x" +
		"LnRyYWNlBXRvcGljBQABLwlhbXEudG9waWMFdG9waWMBAAGACAEvAXEHY2xhc3NpYwEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQEBAQEAAAIAAAAAAAAAAAEAAQEvCWFtcS50b3BpYwEBcQFrAARnb2" +
		"5lAAAAAAAAAAAAAAAAAAcEZ29uZQAGZGlyZWN0AQAEZ29uZQphbXEuZGlyZWN0BmRpcmVjdAEABGdvbmUKYW1xLmZhbm91dAZmYW5vdXQBAARnb25lC2FtcS5oZWFkZXJzB2hlYWRlcnMBAARnb25l" +
		"CWFtcS5tYXRjaAdoZWFkZXJzAQAEZ29uZRJhbXEucmFiYml0bXEudHJhY2UFdG9waWMFAARnb25lCWFtcS50b3BpYwV0b3BpYwEAAAAA"
	snapshot, err := base64.StdEncoding.DecodeString(old)
	if err != nil || snapshot[0] != snapshotFormat1 {
		t.Fatal(err)
	}
	m, err := Restore(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	v := m.View()
	if v.Queue("/", "q") == nil || v.Permission("shop", "/") == nil || v.BindingCount("/") != 1 || v.VHost("gone") == nil {
		t.Fatal("something of the old catalogue is missing")
	}
	m.Apply(machine.Stamp{Index: 10}, &Command{Op: OpSetUserLimit, User: User{Name: "shop"}, Limit: Limit{MaxChannels, 3}}, nil)
	again, err := Restore(m.AppendSnapshot(nil))
	if err != nil || len(again.View().UserLimits("shop")) != 1 {
		t.Fatalf("in the present format: %v", err)
	}
	if _, err := Restore(append(snapshot, 0)); err == nil {
		t.Fatal("an old snapshot with a byte behind it is restored")
	}
}

func FuzzDecodeBatch(f *testing.F) {
	for op := OpFound; op <= OpClearUserLimit; op++ {
		f.Add(AppendBatch(nil, []Command{full(op), {Op: OpSweep}}))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		cmds, err := DecodeBatch(src, nil)
		if err != nil {
			return
		}
		first := AppendBatch(nil, cmds)
		again, err := DecodeBatch(first, nil)
		if err != nil || !reflect.DeepEqual(cmds, again) {
			t.Fatalf("%+v becomes %+v (%v)", cmds, again, err)
		}
		m := New()
		for i := range cmds {
			m.View().Check(&cmds[i])
			m.Apply(machine.Stamp{Index: 1}, &cmds[i], nil)
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzRestore(f *testing.F) {
	m := New()
	h := &history{r: rand.New(rand.NewPCG(3, 7))}
	for i := range 120 {
		c := h.command()
		m.Apply(machine.Stamp{Index: uint64(i + 1)}, &c, nil)
	}
	f.Add(m.AppendSnapshot(nil))
	f.Add(New().AppendSnapshot(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := Restore(src)
		if err != nil {
			return
		}
		first := r.AppendSnapshot(nil)
		again, err := Restore(first)
		if err != nil || !bytes.Equal(again.AppendSnapshot(nil), first) {
			t.Fatalf("a restored catalogue does not survive another round: %v", err)
		}
	})
}
