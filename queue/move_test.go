package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/internal/script"
)

// This part of the oracle is about messages that are moved to another queue.

func (o *oracle) move(c *Command) Reply {
	if o.lanes[c.Peer] == nil && len(o.lanes) == o.b.lanes {
		return Reply{Code: CodeLimit}
	}
	named := decodeSeqs(c.Envelope)
	moved := uint64(0)
	for _, x := range o.in(oReady) {
		if len(named) > 0 && !slices.Contains(named, x.at) || len(named) == 0 && moved == c.To {
			continue
		}
		if o.deaths == 0 {
			break
		}
		o.deaths--
		moved++
		o.parcels++
		x.place, x.reason, x.n, x.left = oDead, c.Reason, o.parcels, 1
		if o.lanes[c.Peer] == nil {
			o.lanes[c.Peer] = &oLane{target: c.Peer}
		}
		o.lanes[c.Peer].numbers = append(o.lanes[c.Peer].numbers, x.n)
		o.emit(Effect{Kind: KindDead, Seq: x.seq, Reason: c.Reason})
	}
	return Reply{A: moved}
}

func (o *oracle) scan(priority int, after Seq, count int) (list []Peeked) {
	for _, x := range o.in(oReady) {
		if len(list) < count && (int(x.priority) < priority || int(x.priority) == priority && x.at > after) {
			list = append(list, x.peeked())
		}
	}
	return list
}

// move makes a random OpMove.
func (g *generator) move() Command {
	c := Command{Op: OpMove, Peer: QueueID(100 + g.IntN(4)), Reason: ReasonMoved + Reason(g.IntN(2)), To: uint64(1 + g.IntN(4))}
	if g.IntN(2) == 0 {
		return c
	}
	var seqs []Seq
	for seq := Seq(1); seq <= g.o.next; seq++ {
		if g.IntN(3) == 0 {
			seqs = append(seqs, seq)
		}
	}
	if len(seqs) > 0 {
		c.To, c.Envelope = 0, AppendSeqs(nil, seqs)
	}
	return c
}

// retire seals the queue for good and drops what is ready.
func (o *oracle) retire() {
	if !o.sealed {
		o.sealed = true
		o.seals++
	}
	o.purge()
}

// purge drops what is ready and counts it.
func (o *oracle) purge() uint64 {
	ready := o.in(oReady)
	for _, x := range ready {
		o.remove(x)
		o.dropped[x.seq] = true
	}
	if len(ready) > 0 {
		o.releaseDropped()
	}
	return uint64(len(ready))
}

// moveString renders an OpMove: move queue=100 n=3, or move queue=100 seqs=1,2,3; with redrive.
func moveString(c *Command) string {
	s := fmt.Sprintf("move queue=%d", c.Peer)
	if c.Reason == ReasonRedriven {
		s += " redrive"
	}
	if c.To > 0 {
		return s + fmt.Sprintf(" n=%d", c.To)
	}
	return s + " seqs=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(decodeSeqs(c.Envelope)), " ", ","), "[]")
}

func parseMove(l *script.Line) Command {
	c := Command{Op: OpMove, Peer: QueueID(l.Int("queue", 0)), Reason: ReasonMoved, To: uint64(l.Int("n", 0))}
	if l.Has("redrive") {
		c.Reason = ReasonRedriven
	}
	var seqs []Seq
	for _, seq := range strings.Split(l.Text("seqs", ""), ",") {
		if seq != "" {
			seqs = append(seqs, Seq(l.ParseInt(seq)))
		}
	}
	c.Envelope = AppendSeqs(nil, seqs)
	return c
}

// TestFifoTakes takes messages out of the middle, among pushes and drops, and holds what is left against a slice.
func TestFifoTakes(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 9))
	f := fifo{window: windowSeqs}
	var want []Seq
	dues := make(map[Seq]int64)
	next := Seq(1)
	for round := range 600 {
		expire := []func() int64{
			func() int64 { return 0 }, func() int64 { return int64(next) + 1000 }, func() int64 { return int64(next) + 1 + g.Int64N(1<<(1+4*g.IntN(12))) }, func() int64 { return g.Int64N(2) * 1 << 50 },
		}[round/20%4]
		for range g.IntN([]int{3, 40, 3000}[round%3]) {
			next += Seq(g.IntN(2))
			dues[next] = expire()
			f.push(fresh{seq: next, born: int64(next), due: dues[next]})
			want = append(want, next)
			next++
		}
		of := []int{1, 2, 50, 2000}[g.IntN(4)]
		var named, taken, left []Seq
		for seq := next - min(next-1, Seq(g.IntN(9000))); seq < next+3; seq++ {
			if g.IntN(of) == 0 {
				named = append(named, seq)
			}
		}
		stop := -1
		if g.IntN(4) == 0 {
			stop = g.IntN(300)
		}
		f.take(named, func(x *fresh) bool {
			if stop--; stop == -1 {
				return false
			}
			taken = append(taken, x.seq)
			if x.due != dues[x.seq] {
				t.Fatalf("round %d: %d expires at %d, want %d", round, x.seq, x.due, dues[x.seq])
			}
			return true
		})
		for _, seq := range want {
			_, found := slices.BinarySearch(taken, seq)
			_, wanted := slices.BinarySearch(named, seq)
			if !found {
				left = append(left, seq)
			}
			if found && !wanted || wanted && !found && stop != -1 {
				t.Fatalf("round %d: %d was named: %t, was taken: %t", round, seq, wanted, found)
			}
		}
		if len(taken)+len(left) != len(want) {
			t.Fatalf("round %d: took %d of %d, left %d", round, len(taken), len(want), len(left))
		}
		for want = left; len(want) > 0 && g.IntN(400) > 0; want = want[1:] {
			if f.peek().seq != want[0] {
				t.Fatalf("round %d: %d at the head, want %d", round, f.peek().seq, want[0])
			}
			f.drop()
		}
		checkFifo(t, &f, want, Seq(g.Uint64N(uint64(next)+2)))
		checkDues(t, &f, want, dues)
		if k := (checker{m: &Machine{}}); len(want) > 0 {
			if k.fifo(&f); k.err != nil {
				t.Fatalf("round %d: %v", round, k.err)
			}
		}
	}
}

func checkDues(t *testing.T, f *fifo, want []Seq, dues map[Seq]int64) {
	t.Helper()
	soonest := timer{}
	for _, seq := range want {
		soonest = soonest.orSooner(timer{due: dues[seq], place: seq})
	}
	if got := f.soonest(); got != soonest {
		t.Fatalf("%v expires first, want %v", got, soonest)
	}
}

func checkFifo(t *testing.T, f *fifo, want []Seq, seq Seq) {
	t.Helper()
	var got, behind []Seq
	f.ascend(0, func(x *fresh) bool {
		got = append(got, x.seq)
		return true
	})
	f.ascend(seq+1, func(x *fresh) bool {
		behind = append(behind, x.seq)
		return true
	})
	i, found := slices.BinarySearch(want, seq)
	if f.n != len(want) || !slices.Equal(got, want) || f.below(seq) != i {
		t.Fatalf("%d messages, want %d; %d below %d, want %d", len(got), len(want), f.below(seq), seq, i)
	}
	if found {
		i++
	}
	if !slices.Equal(behind, want[i:]) {
		t.Fatalf("%d messages behind %d, want %d", len(behind), seq, len(want)-i)
	}
}
