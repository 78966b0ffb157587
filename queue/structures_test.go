package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSeqSet holds the paged set against a sorted slice, with members that are dense, sparse and far apart.
func TestSeqSet(t *testing.T) {
	for seed := range uint64(60) {
		g := rand.New(rand.NewPCG(seed, 2))
		span := []int{100, 3000, 50_000, 1 << 30}[seed%4]
		var s seqSet
		var want []Seq
		for range 400 {
			q := Seq(g.IntN(span))
			if g.IntN(3) == 0 && len(want) > 0 {
				q = want[len(want)-1] + 1 + Seq(g.IntN(3)) // mostly above
			}
			i, has := slices.BinarySearch(want, q)
			switch {
			case !has && g.IntN(5) > 0:
				s.add(q)
				want = slices.Insert(want, i, q)
			case has && s.remove(q):
				want = slices.Delete(want, i, i+1)
			case has || s.remove(q):
				t.Fatalf("seed %d: remove(%d), a member: %t", seed, q, has)
			case g.IntN(20) == 0:
				s.dropThrough(q)
				want = want[i:]
			}
			checkSet(t, &s, want, Seq(g.IntN(span)))
		}
		for len(want) > 0 {
			s.remove(want[0])
			want = want[1:]
		}
		checkSet(t, &s, nil, 0)
		if len(s.pages) != 0 || cap(s.pages) > 4*setShrinkMin {
			t.Fatalf("an empty set keeps %d pages of %d", len(s.pages), cap(s.pages))
		}
	}
}

func checkSet(t *testing.T, s *seqSet, want []Seq, q Seq) {
	t.Helper()
	i, has := slices.BinarySearch(want, q)
	if s.n != uint64(len(want)) || s.has(q) != has {
		t.Fatalf("%d members, want %d; has(%d) = %t", s.n, len(want), q, !has)
	}
	if got, ok := s.next(q); ok != (i < len(want)) || ok && got != want[i] {
		t.Fatalf("next(%d) = %d %t", q, got, ok)
	}
	if got, ok := s.before(q); ok != (i > 0) || ok && got != want[i-1] {
		t.Fatalf("before(%d) = %d %t", q, got, ok)
	}
}

// TestSeqSetUnion adds sets together and walks two at once.
func TestSeqSetUnion(t *testing.T) {
	for seed := range uint64(40) {
		g := rand.New(rand.NewPCG(seed, 3))
		var a, b seqSet
		var want []Seq
		for range g.IntN(300) {
			q := Seq(g.IntN(6000))
			if i, has := slices.BinarySearch(want, q); !has {
				want = slices.Insert(want, i, q)
				if g.IntN(2) == 0 {
					a.add(q)
				} else {
					b.add(q)
				}
			}
		}
		var got []Seq
		union(func(q Seq) bool {
			got = append(got, q)
			return true
		}, &a, &b)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: union %v, want %v", seed, got, want)
		}
		n := 0
		union(func(Seq) bool {
			n++
			return n < 3
		}, &a, &b)
		if n != min(3, len(want)) {
			t.Fatalf("seed %d: a walk that stops at 3 saw %d of %d", seed, n, len(want))
		}
		a.addAll(&b)
		var none seqSet
		got = got[:0]
		union(func(q Seq) bool {
			got = append(got, q)
			return true
		}, &none, &a)
		if !slices.Equal(got, want) || a.n != uint64(len(want)) {
			t.Fatalf("seed %d: sum %v, want %v", seed, got, want)
		}
	}
}

// TestOutstanding holds the pages of deliveries against a map.
func TestOutstanding(t *testing.T) {
	for seed := range uint64(40) {
		g := rand.New(rand.NewPCG(seed, 4))
		var o outstanding
		var pool pagePool
		want := map[uint64]Seq{}
		last := uint64(0)
		keep := g.IntN(10)
		for range 1200 {
			if g.IntN(2) == 0 || len(want) == 0 {
				last += 1 + uint64(g.IntN(2)*g.IntN(2)*g.IntN(90))
				o.add(last, delivery{record: record{seq: Seq(last * 3)}}, &pool)
				want[last] = Seq(last * 3)
				continue
			}
			from := last - min(last, uint64(g.IntN(300)))
			d, p := o.next(from)
			least := uint64(0)
			for k := range want {
				if k >= from && (least == 0 || k < least) {
					least = k
				}
			}
			if p == nil && least != 0 || p != nil && (d != least || p.at(d).seq != want[d]) {
				t.Fatalf("seed %d: next(%d) = %d, want %d", seed, from, d, least)
			}
			if p != nil && d%10 >= uint64(keep) {
				o.remove(d, p, &pool)
				delete(want, d)
			}
			if o.n != len(want) {
				t.Fatalf("seed %d: %d deliveries, want %d", seed, o.n, len(want))
			}
		}
		seen := uint64(0)
		o.each(func(d uint64, x *delivery) {
			if d <= seen || want[d] != x.seq {
				t.Fatalf("seed %d: %d after %d", seed, d, seen)
			}
			seen = d
			delete(want, d)
		})
		if len(want) != 0 || len(pool.pages) > sparePagesMax {
			t.Fatalf("seed %d: %d deliveries were not seen, %d spare pages", seed, len(want), len(pool.pages))
		}
	}
}

// TestOneStuckDeliveryPinsOnePage: what is never settled must not keep the memory of all that came after it.
func TestOneStuckDeliveryPinsOnePage(t *testing.T) {
	var o outstanding
	var pool pagePool
	for d := uint64(1); d <= 1_000_000; d++ {
		o.add(d, delivery{record: record{seq: Seq(d)}}, &pool)
		if d > 10 {
			got, p := o.next(d - 5)
			o.remove(got, p, &pool)
		}
	}
	if live := len(o.pages) - o.head; live > 3 || cap(o.pages) > 64 {
		t.Errorf("%d pages for %d deliveries, room for %d", live, o.n, cap(o.pages))
	}
}

// TestFifo holds the ends and the pages against a slice, through growth, rest and shrinking.
func TestFifo(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 5))
	f := fifo{window: windowSeqs}
	var want []Seq
	next := Seq(1)
	for round := range 400 {
		for range g.IntN([]int{3, 40, 3000}[round%3]) {
			f.push(fresh{seq: next})
			want = append(want, next)
			next += 1 + Seq(g.IntN(40)/39)
		}
		for range g.IntN([]int{3, 60, 4000}[g.IntN(3)]) {
			if len(want) == 0 {
				break
			}
			if f.peek().seq != want[0] {
				t.Fatalf("round %d: %d at the head, want %d", round, f.peek().seq, want[0])
			}
			f.drop()
			want = want[1:]
		}
		var got []Seq
		f.ascend(0, func(x *fresh) bool {
			got = append(got, x.seq)
			return true
		})
		if f.n != len(want) || !slices.Equal(got, want) {
			t.Fatalf("round %d: %d messages, want %d", round, len(got), len(want))
		}
		if open := len(f.front) + len(f.back); open > 4*windowSeqs || len(want) == 0 && cap(f.front)+cap(f.back) > 2*fifoKeptMax {
			t.Fatalf("round %d: %d of %d messages are not packed", round, open, len(want))
		}
	}
}

// TestHeap sorts by the heap.
func TestHeap(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 6))
	for range 50 {
		var h heap
		var all []record
		for seq := range g.IntN(2000) {
			all = append(all, record{seq: Seq(seq), place: Seq(seq), priority: uint8(g.IntN(3))})
		}
		g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, x := range all {
			h.push(x)
		}
		for _, want := range (&returning{heap: h}).sorted() {
			if got := h.pop(); got != want {
				t.Fatalf("%+v on top, want %+v", got, want)
			}
		}
		if h.n != 0 || len(h.pages) > 2 {
			t.Fatalf("an empty heap has %d in %d pages", h.n, len(h.pages))
		}
	}
}

// TestLayout: what there are millions of must stay small.
func TestLayout(t *testing.T) {
	var p page
	for _, x := range []struct {
		name      string
		got, want uintptr
	}{
		{"fresh", sizeOf(fresh{}), 32}, {"record", sizeOf(record{}), 48}, {"delivery", sizeOf(delivery{}), 64},
		{"page per delivery", sizeOf(p) / deliveryPage, 64}, {"packed", sizeOf(packed{}), 64},
	} {
		if x.got > x.want {
			t.Errorf("%s takes %d bytes, want at most %d", x.name, x.got, x.want)
		}
	}
}

// TestWaitingMessagesStaySmall: what a message costs in the middle of a long queue, with its bit in the set of ready messages.
func TestWaitingMessagesStaySmall(t *testing.T) {
	const count = 100_000
	g := rand.New(rand.NewPCG(1, 7))
	for _, c := range []struct {
		name     string
		most     float64 // bytes
		describe func(i int) record
	}{
		{"alike, many in a millisecond", 0.6, func(i int) record { return record{bytes: 100, born: int64(i / 50)} }},
		{"alike, one in three milliseconds", 2.6, func(i int) record { return record{bytes: 100, born: int64(i * 3)} }},
		{"of any length", 5, func(i int) record { return record{bytes: uint32(g.IntN(60_000)), born: int64(i / 50)} }},
		{"alike in nothing", 8, func(i int) record {
			return record{bytes: uint32(g.IntN(60_000)), born: int64(i * 300), flags: Flags(g.IntN(2))}
		}},
		{"alike, with an expiration", 3.5, func(i int) record { return record{bytes: 100, born: int64(i / 50), due: int64(i/50) + 60_000} }},
		{"of any expiration within a day", 5, func(i int) record {
			return record{bytes: 100, born: int64(i / 50), due: int64(i/50) + g.Int64N(86_400_000)}
		}},
		{"alike, of ten priorities", 4, func(i int) record { return record{bytes: 100, born: int64(i / 50), priority: uint8(i % 10)} }},
	} {
		r := ready{window: windowSeqs}
		for i := range count {
			x := c.describe(i)
			x.seq = Seq(i + 1)
			x.place = x.seq
			r.push(&x)
		}
		n, bytes := 0, 0
		for i := range r.levels {
			f := &r.levels[i].fresh
			for j := f.head; j < len(f.pages); j++ {
				n += f.pages[j].n
				bytes += int(sizeOf(packed{})) + cap(f.pages[j].runs)
				if d := f.pages[j].dues; d != nil {
					bytes += int(sizeOf(dues{})+2*sizeOf(timer{})) + cap(d.values)
				}
			}
		}
		bytes += int(sizeOf(setPage{})) * len(r.seqs.pages) * n / count
		if each := float64(bytes) / float64(n); each > c.most || n < count*3/4 {
			t.Errorf("%s: %.2f bytes for each of %d packed messages, want at most %.1f", c.name, each, n, c.most)
		} else {
			t.Logf("%s: %.2f bytes", c.name, each)
		}
	}
}
