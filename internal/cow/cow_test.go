package cow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every version of a Map keeps what it had, whatever later versions do.
func TestMapAgreesWithReference(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		var m Map[int, int]
		ref := map[int]int{}
		type version struct {
			m   Map[int, int]
			ref map[int]int
		}
		var kept []version
		space := 20 << (seed % 8)
		for i := range 3000 {
			k := r.IntN(space)
			if r.IntN(5) < 2 {
				m = m.Delete(k)
				delete(ref, k)
			} else {
				m = m.Set(k, i)
				ref[k] = i
			}
			if i%500 == 0 {
				kept = append(kept, version{m, clone(ref)})
			}
		}
		kept = append(kept, version{m, ref})
		for _, v := range kept {
			compare(t, v.m, v.ref)
			checkShape(t, v.m.root, true)
		}
		from := r.IntN(space)
		var got []int
		for k := range m.From(from) {
			got = append(got, k)
		}
		want := slices.DeleteFunc(keysOf(ref), func(k int) bool { return k < from })
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: From(%d) = %v, want %v", seed, from, got, want)
		}
	}
}

func clone(m map[int]int) map[int]int {
	c := map[int]int{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

func keysOf(m map[int]int) []int {
	var ks []int
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

func compare(t *testing.T, m Map[int, int], ref map[int]int) {
	t.Helper()
	if m.Len() != len(ref) {
		t.Fatalf("Len = %d, want %d", m.Len(), len(ref))
	}
	want := keysOf(ref)
	i := 0
	for k, v := range m.All() {
		if i >= len(want) || k != want[i] || v != ref[k] {
			t.Fatalf("item %d is %d=%d, want key %v", i, k, v, want)
		}
		if g, ok := m.Get(k); !ok || g != v {
			t.Fatalf("Get(%d) = %d %v, want %d", k, g, ok, v)
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("All yields %d keys, want %d", i, len(want))
	}
	if _, ok := m.Get(-1); ok {
		t.Fatal("Get finds a key that was never set")
	}
}

func checkShape[V any](t *testing.T, n *node[int, V], root bool) int {
	t.Helper()
	if n == nil {
		return 0
	}
	if len(n.items) > itemsMax || !root && len(n.items) < itemsMin {
		t.Fatalf("node has %d items", len(n.items))
	}
	if len(n.kids) == 0 {
		return 1
	}
	if len(n.kids) != len(n.items)+1 {
		t.Fatalf("node has %d items and %d kids", len(n.items), len(n.kids))
	}
	h := checkShape(t, n.kids[0], false)
	for _, kid := range n.kids[1:] {
		if checkShape(t, kid, false) != h {
			t.Fatal("leaves at different depths")
		}
	}
	return h + 1
}

func TestDiffTellsExactlyWhatChanged(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var a Map[int, int]
		n := r.IntN(2000)
		for i := range n {
			a = a.Set(r.IntN(3000), i)
		}
		b := a
		for i := range r.IntN(30) {
			switch r.IntN(3) {
			case 0:
				b = b.Delete(r.IntN(3000))
			default:
				b = b.Set(r.IntN(3000), -i)
			}
		}
		if seed%10 == 0 {
			b = Map[int, int]{}
			for i := range r.IntN(1000) {
				b = b.Set(r.IntN(3000), i)
			}
		}
		var got, want []string
		last := -1
		Diff(a, b, func(c Change[int, int]) bool {
			if c.Key <= last {
				t.Fatalf("seed %d: key %d after %d", seed, c.Key, last)
			}
			last = c.Key
			got = append(got, fmt.Sprint(c))
			return true
		})
		for k := range 3000 {
			c := Change[int, int]{Key: k}
			c.Old, c.HasOld = a.Get(k)
			c.New, c.HasNew = b.Get(k)
			if c.HasOld != c.HasNew || c.Old != c.New {
				want = append(want, fmt.Sprint(c))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v\nwant %v", seed, got, want)
		}
	}
}

func TestDiffStopsWhenTold(t *testing.T) {
	var a, b Map[int, int]
	for i := range 100 {
		b = b.Set(i, i)
	}
	calls := 0
	Diff(a, b, func(Change[int, int]) bool { calls++; return calls < 3 })
	if calls != 3 {
		t.Fatalf("visited %d changes, want 3", calls)
	}
}

// A diff between near versions must not walk what they share: every shared inner node is spoiled so that opening it would crash.
func TestDiffSkipsWhatIsShared(t *testing.T) {
	var a Map[int, int]
	for i := range 100_000 {
		a = a.Set(i, i)
	}
	b := a.Set(50_000, -1).Delete(7).Set(200_000, 1)
	shared := 0
	seen := map[*node[int, int]]bool{}
	var mark func(n *node[int, int], visit func(*node[int, int]) bool)
	mark = func(n *node[int, int], visit func(*node[int, int]) bool) {
		if !visit(n) {
			return
		}
		for _, kid := range n.kids {
			mark(kid, visit)
		}
	}
	mark(a.root, func(n *node[int, int]) bool { seen[n] = true; return true })
	mark(b.root, func(n *node[int, int]) bool {
		if seen[n] {
			n.items, n.kids = nil, []*node[int, int]{nil}
			shared++
			return false
		}
		return true
	})
	var keys []int
	Diff(a, b, func(c Change[int, int]) bool { keys = append(keys, c.Key); return true })
	if !slices.Equal(keys, []int{7, 50_000, 200_000}) || shared < 20 {
		t.Fatalf("changed keys %v with %d shared subtrees", keys, shared)
	}
}

// A change copies the nodes on one path and what it splits or joins, however many keys there are.
func TestChangesCopyOnePath(t *testing.T) {
	var m Map[int, int]
	for i := range 100_000 {
		m = m.Set(i*7919%100_003, i)
	}
	old := map[*node[int, int]]bool{}
	var count func(n *node[int, int], visit func(*node[int, int]) bool)
	count = func(n *node[int, int], visit func(*node[int, int]) bool) {
		if visit(n) {
			for _, kid := range n.kids {
				count(kid, visit)
			}
		}
	}
	count(m.root, func(n *node[int, int]) bool { old[n] = true; return true })
	most := 2*m.root.height() + 3
	for i := range 2000 {
		for _, next := range []Map[int, int]{m.Set(i*50, -1), m.Set(200_000+i, 1), m.Delete(i * 50)} {
			fresh := 0
			count(next.root, func(n *node[int, int]) bool {
				if old[n] {
					return false
				}
				fresh++
				return true
			})
			if fresh > most {
				t.Fatalf("a change among %d keys makes %d nodes, at most %d are needed", len(old), fresh, most)
			}
		}
	}
}

func TestHashAgreesWithReference(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		var h, old Hash[int]
		ref, oldRef := map[string]int{}, map[string]int{}
		space := 4 << (seed % 12)
		for i := range 4000 {
			k := fmt.Sprintf("queue.%d", r.IntN(space))
			if r.IntN(5) < 2 {
				h = h.Delete(k)
				delete(ref, k)
			} else {
				h = h.Set(k, i)
				ref[k] = i
			}
			if i == 2000 {
				old = h
				for k, v := range ref {
					oldRef[k] = v
				}
			}
		}
		compareHash(t, h, ref, space)
		compareHash(t, old, oldRef, space)
		for k := range ref {
			h = h.Delete(k)
		}
		if h.Len() != 0 || h.root != nil {
			t.Fatalf("an emptied Hash keeps %d keys", h.Len())
		}
	}
}

func compareHash(t *testing.T, h Hash[int], ref map[string]int, space int) {
	t.Helper()
	if h.Len() != len(ref) {
		t.Fatalf("Len = %d, want %d", h.Len(), len(ref))
	}
	for i := range space {
		k := fmt.Sprintf("queue.%d", i)
		want, has := ref[k]
		got, ok := h.Get(k)
		gotB, okB := h.GetBytes([]byte(k))
		if got != want || ok != has || gotB != want || okB != has {
			t.Fatalf("Get(%s) = %d %v and %d %v, want %d %v", k, got, ok, gotB, okB, want, has)
		}
	}
}

// Keys whose hashes are equal to the last bit must still be told apart: they share one list below the deepest level.
func TestHashKeepsCollidingKeysApart(t *testing.T) {
	n := &trie[int]{}
	const sum = 0x1234567
	for i, k := range []string{"a", "b", "c"} {
		n, _ = n.set(sum, levelMax, k, i)
	}
	n, added := n.set(sum, levelMax, "b", 9)
	if added || len(n.leaves) != 3 || n.leaves[position(n.leaves, "b")].val != 9 {
		t.Fatalf("list %v, added %v", n.leaves, added)
	}
	n, found := n.without(sum, levelMax, "a")
	if !found || position(n.leaves, "a") >= 0 || len(n.leaves) != 2 {
		t.Fatalf("list %v after the delete", n.leaves)
	}
	if _, found = n.without(sum, levelMax, "x"); found {
		t.Fatal("deleted a key that was not there")
	}
}

func TestHashLookupsDoNotAllocate(t *testing.T) {
	var h Hash[int]
	for i := range 1000 {
		h = h.Set(fmt.Sprintf("queue.%d", i), i)
	}
	key, missing := []byte("queue.517"), []byte("a much longer key than any that is in the table, to force a heap copy if there is one")
	if n := testing.AllocsPerRun(100, func() { h.GetBytes(key); h.GetBytes(missing); h.Get("queue.3") }); n != 0 {
		t.Fatalf("look-ups allocate %v times", n)
	}
}

func BenchmarkMapSet100k(b *testing.B) {
	var m Map[string, *int]
	for i := range 100_000 {
		m = m.Set(fmt.Sprintf("queue.%06d", i), new(int))
	}
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = fmt.Sprintf("queue.%06d.x", i*97)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		m.Set(keys[i%len(keys)], nil)
		i++
	}
}

func BenchmarkMapGet100k(b *testing.B) {
	var m Map[string, *int]
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("queue.%06d", i)
		m = m.Set(keys[i], new(int))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		m.Get(keys[i*7919%len(keys)])
		i++
	}
}

func BenchmarkHashGetBytes100k(b *testing.B) {
	var h Hash[*int]
	keys := make([][]byte, 100_000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "queue.%06d", i)
		h = h.Set(string(keys[i]), new(int))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		h.GetBytes(keys[i*7919%len(keys)])
		i++
	}
}

func BenchmarkHashSet100k(b *testing.B) {
	var h Hash[*int]
	for i := range 100_000 {
		h = h.Set(fmt.Sprintf("queue.%06d", i), new(int))
	}
	b.ReportAllocs()
	i := 0
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = fmt.Sprintf("queue.%06d.x", i*97)
	}
	for b.Loop() {
		h.Set(keys[i%len(keys)], nil)
		i++
	}
}

// Revise visits in order, changes what it is told to, leaves the older version alone and shares it whole if nothing changes.
func TestReviseAgreesWithReference(t *testing.T) {
	for n := range 300 {
		var m, want Map[int, int]
		for k := range n * 7 {
			m = m.Set(k, k)
			want = want.Set(k, k)
			if k%(n+1) == 0 {
				want = want.Set(k, -k)
			}
		}
		next := 0
		revised := m.Revise(func(k, v int) (int, bool) {
			if k != next {
				t.Fatalf("%d keys: %d comes where %d was due", n, k, next)
			}
			next++
			return -v, k%(n+1) == 0
		})
		if next != m.Len() || revised.Len() != m.Len() {
			t.Fatalf("%d of %d keys visited, %d left", next, m.Len(), revised.Len())
		}
		for k, v := range m.All() {
			if got, _ := revised.Get(k); v != k || got != k && got != -k || (got == -k) != (k%(n+1) == 0) {
				t.Fatalf("key %d was %d and is %d", k, v, got)
			}
		}
		Diff(want, revised, func(c Change[int, int]) bool { t.Fatalf("differs: %+v", c); return false })
		if same := m.Revise(func(_, v int) (int, bool) { return v, false }); same.root != m.root {
			t.Fatal("nothing changed and it is not shared")
		}
	}
}
