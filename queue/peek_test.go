package queue

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func peekString(list []Peeked) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintf(&b, "peek #%d priority=%d bytes=%d redelivered=%t count=%d enqueued=%d", x.Seq, x.Priority, x.Bytes, x.Redelivered, x.DeliveryCount, x.EnqueuedMillis)
		if x.Place != x.Seq {
			fmt.Fprintf(&b, " place=%d", x.Place)
		}
		if x.UntilMillis != 0 {
			fmt.Fprintf(&b, " until=%d", x.UntilMillis)
		}
		if x.ExpiresMillis != 0 {
			fmt.Fprintf(&b, " expires=%d", x.ExpiresMillis)
		}
		if x.Node != 0 {
			fmt.Fprintf(&b, " at n%d.%d/s%d/c%d", x.Node, x.BootCounter, x.Session, x.Consumer)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// peeked is what a look should show of a message that nobody has.
func (x *oMessage) peeked() Peeked {
	return Peeked{Seq: x.seq, Place: x.at, Priority: x.priority, Bytes: x.bytes, Redelivered: x.acquired > 0 || x.marked, DeliveryCount: x.failures, EnqueuedMillis: x.born, ExpiresMillis: x.due}
}

// byPlace lists all messages by their place.
func (o *oracle) byPlace() []*oMessage {
	xs := slices.Clone(o.messages)
	slices.SortFunc(xs, func(a, b *oMessage) int { return cmp.Compare(a.at, b.at) })
	return xs
}

// peekDelayed is what a look at the delayed messages should show.
func (o *oracle) peekDelayed(until int64, seq Seq, count int) (list []Peeked) {
	for _, x := range o.asleep() {
		if len(list) == count || x.until < until || x.until == until && x.seq < seq {
			continue
		}
		y := x.peeked()
		if y.UntilMillis = x.until; x.later {
			y.EnqueuedMillis, y.ExpiresMillis = 0, 0
		}
		list = append(list, y)
	}
	return list
}

// priorityCounts counts the ready messages by priority.
func (o *oracle) priorityCounts() (counts []uint64) {
	for _, x := range o.in(oReady) {
		for len(counts) <= int(x.priority) {
			counts = append(counts, 0)
		}
		counts[x.priority]++
	}
	return counts
}

// peek is what a look should show: a part of the oracle's list.
func (o *oracle) peek(unacked bool, offset, count int) []Peeked {
	var list []Peeked
	xs := o.in(oReady)
	if unacked {
		xs = slices.DeleteFunc(o.byPlace(), func(x *oMessage) bool {
			return x.place == oReady || x.place == oStaged || x.place == oDead || x.place == oDelayed || x.place == oOut && x.noAck
		})
		slices.SortStableFunc(xs, func(a, b *oMessage) int { return cmp.Compare(b.priority, a.priority) })
	}
	for _, x := range xs {
		y := x.peeked()
		if x.place == oOut {
			y.Redelivered = x.acquired > 1 || x.marked
			y.Node, y.BootCounter, y.Session, y.Consumer = x.session.pipeline.id.Node, x.session.pipeline.id.Boot.Counter, x.session.id, x.consumer
		}
		list = append(list, y)
	}
	from := min(offset, len(list))
	return list[from:min(from+count, len(list))]
}

// comparePeeks holds looks at a machine against the oracle's. That they change nothing shows in the snapshots, which are compared with those of a machine that nobody looks at.
func comparePeeks(m *Machine, o *oracle) error {
	random := rand.New(rand.NewPCG(uint64(m.nextSeq), m.unacked.n))
	offset, count := random.IntN(8), random.IntN(5)
	if random.IntN(3) == 0 {
		offset, count = 0, 1000
	}
	for _, unacked := range []bool{false, true} {
		look := m.PeekReady
		if unacked {
			look = m.PeekUnacked
		}
		if got, want := look(offset, count), o.peek(unacked, offset, count); !slices.Equal(got, want) {
			return fmt.Errorf("peek unacked=%t offset=%d count=%d:\n%swant\n%s", unacked, offset, count, peekString(got), peekString(want))
		}
	}
	if got, want := m.PriorityCounts(), o.priorityCounts(); !slices.Equal(got, want) {
		return fmt.Errorf("ready by priority: %v, want %v", got, want)
	}
	until, seq := int64(random.IntN(100*stepMillis)), Seq(random.IntN(4))
	if got, want := m.PeekDelayed(until, seq, count), o.peekDelayed(until, seq, count); !slices.Equal(got, want) {
		return fmt.Errorf("peek delayed from %d #%d count=%d:\n%swant\n%s", until, seq, count, peekString(got), peekString(want))
	}
	priority, after := random.IntN(7), Seq(random.IntN(int(m.nextSeq)))
	if got, want := m.ScanReady(priority, after, count), o.scan(priority, after, count); !slices.Equal(got, want) {
		return fmt.Errorf("scan priority=%d after=%d count=%d:\n%swant\n%s", priority, after, count, peekString(got), peekString(want))
	}
	return nil
}

// TestPeekFindsAnyPlace: in a long queue with holes, returned messages and priorities, every place is where counting says.
func TestPeekFindsAnyPlace(t *testing.T) {
	r := &runner{m: newMachine(Config{PriorityMax: 2}, standardBounds)}
	run := func(c Command, times int) {
		for times > 0 {
			n := min(times, 500)
			s := step{pipeline: PipelineID{Node: 1, Boot: Boot{Counter: 1}, Gen: 1}}
			for range n {
				c.Priority = uint8(r.index % 3)
				s.commands = append(s.commands, c)
			}
			if _, err := r.run(&s); err != nil {
				t.Fatal(err)
			}
			times -= n
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	run(Command{Op: OpEnqueue, BodyBytes: 1, Flags: FlagHasPriority}, 6000)
	run(Command{Op: OpGet, Session: 1}, 4000)
	for d := range uint64(3000) {
		if random.IntN(2) == 0 {
			run(Command{Op: OpSettle, Session: 1, From: d + 1, To: d + 1, Outcome: OutcomeReturnCounted}, 1)
		} else if random.IntN(2) == 0 {
			run(Command{Op: OpSettle, Session: 1, From: d + 1, To: d + 1, Outcome: OutcomeAck}, 1)
		}
	}
	for _, look := range []func(int, int) []Peeked{r.m.PeekReady, r.m.PeekUnacked} {
		all := peekString(look(0, 1<<30))
		lines := strings.SplitAfter(all, "\n")
		lines = lines[:len(lines)-1]
		if len(lines) < 1000 {
			t.Fatal("too few messages:", len(lines))
		}
		for range 300 {
			offset, count := random.IntN(len(lines)+10), random.IntN(200)
			from := min(offset, len(lines))
			if got, want := peekString(look(offset, count)), strings.Join(lines[from:min(from+count, len(lines))], ""); got != want {
				t.Fatalf("offset %d, count %d:\n%swant\n%s", offset, count, got, want)
			}
		}
	}
	if err := r.m.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkPeek looks into the middle of a million messages that came back from a consumer, the slowest case.
func BenchmarkPeek(b *testing.B) {
	for _, returned := range []bool{false, true} {
		m := newMachine(Config{}, standardBounds)
		for i := range Seq(1_000_000) {
			x := record{seq: 1 + i*3, place: 1 + i*3, bytes: 1}
			if returned && i%2 == 0 {
				m.ready.putBack(&x)
			} else {
				m.ready.push(&x)
			}
			m.nextSeq = x.seq + 1
		}
		b.Run(fmt.Sprintf("returned=%t", returned), func(b *testing.B) {
			for b.Loop() {
				if len(m.PeekReady(500_000, 1000)) != 1000 {
					b.Fatal("not all")
				}
			}
		})
	}
}
