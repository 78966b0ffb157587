package meta

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/machine"
)

// history makes a random but plausible log: few names, so that commands meet.
type history struct {
	r *rand.Rand
	// aborted is a queue whose delete was called off lately.
	aborted QueueID
}

func (h *history) pick(words ...string) string { return words[h.r.IntN(len(words))] }

func (h *history) boot() Boot {
	c := uint64(1 + h.r.IntN(4))
	return Boot{Counter: c, Nonce: c * 100}
}

func (h *history) arguments() Arguments {
	switch h.r.IntN(6) {
	case 0:
		return args("x-message-ttl", amqp.Int32(int32(h.r.IntN(2))))
	case 1:
		return args("x-queue-type", amqp.Longstr(h.pick("classic", "quorum")))
	}
	return Arguments{}
}

func (h *history) queue() Queue {
	q := Queue{
		VHost: h.pick("/", "v"), Name: h.pick("a", "b", "c", "d"), Durable: h.r.IntN(2) == 0, AutoDelete: h.r.IntN(5) == 0,
		Exclusive: h.r.IntN(3) == 0, Arguments: h.arguments(), Home: NodeID(1 + h.r.IntN(3)), HomeBoot: h.boot(), Replicas: []NodeID{2, 1},
	}
	q.Owner = Owner{Node: q.Home, Boot: q.HomeBoot, Connection: uint64(h.r.IntN(3))}
	return q
}

func (h *history) binding() Binding {
	b := Binding{VHost: h.pick("/", "v"), Source: h.pick("x", "y", "z", "amq.topic"), Kind: ToQueue, RoutingKey: h.pick("", "a", "a.#")}
	b.Destination = h.pick("a", "b", "c", "d")
	if h.r.IntN(3) == 0 {
		b.Kind, b.Destination = ToExchange, h.pick("x", "y", "z", "amq.fanout")
	}
	if h.r.IntN(4) == 0 {
		b.Arguments = h.arguments()
	}
	return b
}

func (h *history) policy() Command {
	p := Policy{
		VHost: h.pick("/", "v"), Name: h.pick("p", "r"), Operator: h.r.IntN(2) == 0, Pattern: h.pick("", "a", "[ab]", "x"), Priority: int64(h.r.IntN(2)),
		ApplyTo: ApplyTo(1 + h.r.IntN(6)), Definition: args(h.pick("max-length", "message-ttl", "overflow"), amqp.Int32(int32(h.r.IntN(2)))),
	}
	if h.r.IntN(4) == 0 {
		return Command{Op: OpDeletePolicy, Policy: p}
	}
	return Command{Op: OpPutPolicy, Policy: p}
}

// hidden makes a queue that belongs to an exchange, if there is one that has such.
func (h *history) hidden() Command {
	x := Exchange{VHost: h.pick("/", "v"), Name: h.pick("x", "y", "z")}
	if h.r.IntN(2) == 0 {
		return RelayCommand(&x, []NodeID{1, 2})
	}
	return HistoryCommand(&x, []NodeID{1, 2})
}

func (h *history) command() Command {
	switch h.r.IntN(32) {
	case 0:
		return Command{Op: OpRegisterNode, Node: Node{Name: h.pick("n1", "n2"), Token: uint64(h.r.IntN(4)), Address: h.pick("a", "b")}}
	case 1, 2:
		return Command{Op: OpRegisterBoot, Node: Node{ID: NodeID(1 + h.r.IntN(3)), Boot: h.boot()}}
	case 3:
		return Command{Op: OpNodeDead, Node: Node{ID: NodeID(1 + h.r.IntN(3)), Boot: h.boot()}}
	case 4:
		return Command{Op: OpPutVHost, VHost: VHost{Name: h.pick("/", "v"), DefaultQueueType: h.pick("", "quorum"), Tags: []string{h.pick("t", "u")}}}
	case 5:
		if h.r.IntN(4) == 0 {
			return Command{Op: OpDeleteVHost, VHost: VHost{Name: h.pick("/", "v")}}
		}
		return Command{Op: OpSweep}
	case 6:
		return Command{Op: OpPutUser, User: User{Name: h.pick("u", "w"), PasswordHash: []byte(h.pick("", "hash"))}}
	case 7:
		return Command{Op: OpDeleteUser, User: User{Name: h.pick("u", "w")}}
	case 8:
		return Command{Op: OpPutPermission, Permission: Permission{User: h.pick("u", "w"), VHost: h.pick("/", "v"), Read: h.pick("a", "b")}}
	case 27:
		return Command{Op: OpPutTopicPermission, Topic: TopicPermission{User: h.pick("u", "w"), VHost: h.pick("/", "v"), Exchange: h.pick("x", "y"), Write: h.pick("a", "b")}}
	case 28:
		return Command{Op: OpDeleteTopicPermission, Topic: TopicPermission{User: h.pick("u", "w"), VHost: h.pick("/", "v"), Exchange: h.pick("", "x", "y")}}
	case 29:
		limit := Limit{Name: h.pick(MaxConnections, MaxQueues, MaxChannels), Value: int64(h.r.IntN(6)) - 1}
		op := []Op{OpSetVHostLimit, OpClearVHostLimit, OpClearVHostLimit, OpSetUserLimit, OpClearUserLimit}[h.r.IntN(5)]
		return Command{Op: op, VHost: VHost{Name: h.pick("/", "v")}, User: User{Name: h.pick("u", "w")}, Limit: limit}
	case 30, 31:
		return h.policy()
	case 9:
		return Command{Op: OpDeletePermission, Permission: Permission{User: h.pick("u", "w"), VHost: h.pick("/", "v")}}
	case 10, 11:
		return Command{Op: OpDeclareExchange, Exchange: Exchange{
			VHost: h.pick("/", "v"), Name: h.pick("x", "y", "z"), Type: h.pick("topic", "fanout", TypeRecentHistory, TypeDelayed, TypeDeduplication), Durable: h.r.IntN(2) == 0, AutoDelete: h.r.IntN(2) == 0,
		}}
	case 12:
		return Command{Op: OpDeleteExchange, Exchange: Exchange{VHost: h.pick("/", "v"), Name: h.pick("x", "y", "z")}, IfUnused: h.r.IntN(2) == 0}
	case 13, 14, 15, 16:
		if h.r.IntN(5) == 0 {
			return h.hidden()
		}
		return Command{Op: OpDeclareQueue, Queue: h.queue()}
	case 17:
		if h.r.IntN(3) > 0 {
			return Command{Op: OpDeleteQueue, Queue: Queue{ID: h.aborted}, Token: 2}
		}
		return Command{Op: OpDeleteQueue, Queue: Queue{ID: FirstQueueID + QueueID(h.r.IntN(40))}, Token: uint64(h.r.IntN(3)), Drain: h.r.IntN(2) == 0}
	case 18:
		h.aborted = FirstQueueID + QueueID(h.r.IntN(40))
		return Command{Op: OpDeleteAborted, Queue: Queue{ID: h.aborted}, Token: 1 + uint64(h.r.IntN(3))}
	case 19, 20, 21:
		return Command{Op: OpBind, Binding: h.binding()}
	case 22:
		return Command{Op: OpUnbind, Binding: h.binding()}
	case 23:
		if h.r.IntN(2) == 0 {
			return Command{Op: OpWantReplicas, Queue: Queue{ID: FirstQueueID + QueueID(h.r.IntN(40)), ReplicasWanted: uint64(h.r.IntN(4))}}
		}
		return Command{Op: OpAllotReplica, Queue: Queue{ID: FirstQueueID + QueueID(h.r.IntN(40))}}
	case 24:
		members := []Member{{Node: 2, Replica: uint64(2 + h.r.IntN(4)), NonVoting: h.r.IntN(2) == 0}, {Node: 1, Replica: 1}}
		return Command{Op: OpSetMembers, Queue: Queue{ID: FirstQueueID + QueueID(h.r.IntN(40)), Members: members}, Token: uint64(h.r.IntN(9))}
	}
	q := h.queue()
	return Command{Op: OpDropOwned, Owner: q.Owner}
}

// A machine restored at any point of a log goes on exactly as the one that ran through: same replies, same effects, same bytes.
func TestSnapshotAtEveryPrefix(t *testing.T) {
	for seed := range uint64(12) {
		h := &history{r: rand.New(rand.NewPCG(seed, 7))}
		m, follower := New(), New()
		var kept []*View
		var keptBytes [][]byte
		for i := range 400 {
			c := h.command()
			at := machine.Stamp{Index: uint64(i + 1), NowMillis: int64(i) * 10}
			r1, e1 := m.Apply(at, &c, nil)
			r2, e2 := follower.Apply(at, &c, nil)
			if r1 != r2 || !reflect.DeepEqual(printAll(e1), printAll(e2)) {
				t.Fatalf("seed %d step %d: %v %v\nafter a restore: %v %v", seed, i, r1, printAll(e1), r2, printAll(e2))
			}
			if err := m.Check(); err != nil {
				t.Fatalf("seed %d step %d, %+v: %v", seed, i, c, err)
			}
			snapshot := m.AppendSnapshot(nil)
			restored, err := Restore(snapshot)
			if err != nil {
				t.Fatalf("seed %d step %d: %v", seed, i, err)
			}
			follower = restored
			if got := follower.AppendSnapshot(nil); !bytes.Equal(got, snapshot) {
				t.Fatalf("seed %d step %d: the snapshot of the restored machine differs", seed, i)
			}
			if i%40 == 0 {
				kept, keptBytes = append(kept, m.View()), append(keptBytes, snapshot)
			}
		}
		for i, v := range kept {
			if !bytes.Equal(v.AppendSnapshot(nil), keptBytes[i]) {
				t.Fatalf("seed %d: view %d changed after it was handed out", seed, i)
			}
		}
	}
}

func printAll(effects []Effect) (out []string) {
	for i := range effects {
		out = append(out, printEffect(&effects[i]))
	}
	return out
}

// Two replicas that get the same log have the same bytes, and the codec of commands loses nothing on the way.
func TestSameLogSameBytes(t *testing.T) {
	for seed := range uint64(20) {
		h := &history{r: rand.New(rand.NewPCG(seed, 8))}
		a, b := New(), New()
		for i := range 600 {
			batch := []Command{h.command()}
			for h.r.IntN(3) == 0 {
				batch = append(batch, h.command())
			}
			decoded, err := DecodeBatch(AppendBatch(nil, batch), nil)
			if err != nil || len(decoded) != len(batch) {
				t.Fatalf("batch of %d decodes to %d: %v", len(batch), len(decoded), err)
			}
			var ra, rb []Reply
			for j := range batch {
				at := machine.Stamp{Index: uint64(i + 1), NowMillis: 5}
				r, _ := a.Apply(at, &batch[j], nil)
				ra = append(ra, r)
				r, _ = b.Apply(at, &decoded[j], nil)
				rb = append(rb, r)
			}
			again, err := DecodeReplies(AppendReplies(nil, rb), nil)
			if err != nil || !slices.Equal(ra, again) {
				t.Fatalf("seed %d step %d: replies %v, decoded %v: %v", seed, i, ra, again, err)
			}
		}
		if !bytes.Equal(a.AppendSnapshot(nil), b.AppendSnapshot(nil)) {
			t.Fatalf("seed %d: replicas differ", seed)
		}
	}
}

// A history must reach what it is there to test; otherwise the tests above show nothing.
func TestHistoriesReachEverything(t *testing.T) {
	kinds, reasons := map[EffectKind]int{}, map[Reason]int{}
	for seed := range uint64(40) {
		h := &history{r: rand.New(rand.NewPCG(seed, 8))}
		m := New()
		for i := range 600 {
			c := h.command()
			r, effects := m.Apply(machine.Stamp{Index: uint64(i + 1)}, &c, nil)
			reasons[r.Reason]++
			for _, e := range effects {
				kinds[e.Kind]++
			}
		}
	}
	for k := NodeChanged; k <= BindingDeleted; k++ {
		if kinds[k] < 5 {
			t.Errorf("effect %d occurs %d times", k, kinds[k])
		}
	}
	for _, r := range []Reason{
		ReasonOK, ReasonNoVHost, ReasonNoExchange, ReasonNoQueue, ReasonNoUser, ReasonNoNode, ReasonInequivalentArg, ReasonExclusiveLocked, ReasonInUse,
		ReasonStaleBoot, ReasonFenced, ReasonNameInUse, ReasonAborted, ReasonQueuesMax,
	} {
		if reasons[r] < 5 {
			t.Errorf("reason %s occurs %d times", r, reasons[r])
		}
	}
}

// A deleted virtual host and a dead node with more queues than one entry may remove are swept step by step; nobody sees the rest.
func TestSweepIsBoundedAndInvisible(t *testing.T) {
	m := New()
	index := uint64(0)
	apply := func(c Command) Reply {
		index++
		r, effects := m.Apply(machine.Stamp{Index: index}, &c, nil)
		deleted := 0
		for _, e := range effects {
			if e.Kind == QueueDeleted {
				deleted++
			}
		}
		if deleted > SweepMax {
			t.Fatalf("one entry removed %d queues", deleted)
		}
		return r
	}
	boot := Boot{Counter: 1, Nonce: 1}
	apply(Command{Op: OpRegisterNode, Node: Node{Name: "n", Token: 1}})
	apply(Command{Op: OpRegisterBoot, Node: Node{ID: 1, Boot: boot}})
	apply(Command{Op: OpPutVHost, VHost: VHost{Name: "v"}})
	apply(Command{Op: OpPutVHost, VHost: VHost{Name: "w"}})
	owner := Owner{Node: 1, Boot: boot, Connection: 5}
	const each = SweepMax + 100
	for i := range each {
		apply(Command{Op: OpDeclareQueue, Queue: Queue{VHost: "v", Name: fmt.Sprint(i), Durable: true, Replicas: []NodeID{1}}})
		apply(Command{Op: OpDeclareQueue, Queue: Queue{VHost: "w", Name: fmt.Sprint(i), Exclusive: true, Owner: owner, Home: 1, HomeBoot: boot}})
	}
	r := apply(Command{Op: OpDeleteVHost, VHost: VHost{Name: "v"}})
	v := m.View()
	if !r.More || r.Count != SweepMax || !v.SweepPending() || v.QueueCountAll() != each || v.QueueByID(FirstQueueID) != nil || v.Queue("v", "1") != nil {
		t.Fatalf("after the delete: %+v, %d queues", r, v.QueueCountAll())
	}
	for q := range v.QueuesByID() {
		if q.VHost == "v" {
			t.Fatalf("queue %d of the deleted virtual host is listed", q.ID)
		}
	}
	// The name is free, and the sweep of the old one does not touch the new one.
	apply(Command{Op: OpPutVHost, VHost: VHost{Name: "v"}})
	kept := QueueID(apply(Command{Op: OpDeclareQueue, Queue: Queue{VHost: "v", Name: "99", Durable: true, Replicas: []NodeID{1}}}).ID)
	if r = apply(Command{Op: OpDropOwned, Owner: owner}); r.Count != SweepMax || !r.More {
		t.Fatalf("drop of owned queues: %+v", r)
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	r = apply(Command{Op: OpRegisterBoot, Node: Node{ID: 1, Boot: Boot{Counter: 2, Nonce: 2}}})
	if r.More || r.Count != 200 || m.View().SweepPending() {
		t.Fatalf("the last sweep: %+v", r)
	}
	if v = m.View(); v.QueueByID(kept) == nil || v.QueueCountAll() != 1 || v.QueueCount("v") != 1 {
		t.Fatalf("%d queues are left", v.QueueCountAll())
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestDiffOfViewsFindsWhatEffectsTold(t *testing.T) {
	h := &history{r: rand.New(rand.NewPCG(1, 9))}
	m := New()
	before := m.View()
	for i := range 3000 {
		c := h.command()
		_, effects := m.Apply(machine.Stamp{Index: uint64(i + 1)}, &c, nil)
		var told, found []string
		for _, e := range effects {
			if e.Kind == QueueCreated || e.Kind == QueueDeleted || e.Kind == QueueChanged {
				told = append(told, fmt.Sprint(e.Queue.ID))
			}
		}
		after := m.View()
		after.DiffQueues(before, func(old, new *Queue) {
			if new == nil {
				new = old
			}
			found = append(found, fmt.Sprint(new.ID))
		})
		slices.Sort(told)
		if told = slices.Compact(told); !slices.Equal(told, found) {
			t.Fatalf("step %d: effects told of queues %v, the difference of %v", i, told, found)
		}
		before = after
	}
}
