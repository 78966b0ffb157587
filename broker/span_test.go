package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSpanAgainstMap drives a span with random steps beside a map.
func TestSpanAgainstMap(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var s span[int]
		model := make(map[uint64]int)
		next := uint64(1)
		sticky := rng.IntN(3) == 0 // some spans keep their first items for ever
		for step := range 2000 {
			switch op := rng.IntN(20); {
			case op < 9:
				if n := s.put(step + 1); n != next {
					t.Fatalf("seed %d: put gave %d, want %d", seed, n, next)
				}
				model[next] = step + 1
				next++
			case op < 10:
				if n := s.skip(); n != next {
					t.Fatalf("seed %d: skip gave %d, want %d", seed, n, next)
				}
				next++
			case op < 19 && next > 1:
				n := 1 + rng.Uint64N(next)
				if sticky && n < 4 {
					continue
				}
				p, want := s.at(n), model[n]
				if p == nil != (want == 0) || p != nil && *p != want {
					t.Fatalf("seed %d: at(%d) = %v, want %d", seed, n, p, want)
				}
				if p != nil {
					s.drop(n)
					delete(model, n)
				}
			case op == 19 && !sticky:
				n := rng.Uint64N(next + 5)
				var got []int
				s.dropThrough(n, func(i int) { got = append(got, i) })
				var want []int
				for m := range next {
					if i, ok := model[m]; ok && m <= n {
						want = append(want, i)
						delete(model, m)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: dropThrough(%d) = %v, want %v", seed, n, got, want)
				}
			}
			checkSpan(t, fmt.Sprintf("seed %d step %d", seed, step), &s, model, next)
		}
	}
}

func checkSpan(t *testing.T, when string, s *span[int], model map[uint64]int, next uint64) {
	t.Helper()
	if s.len() != len(model) || s.last() != next-1 {
		t.Fatalf("%s: %d items up to %d, want %d up to %d", when, s.len(), s.last(), len(model), next-1)
	}
	last, count := uint64(0), 0
	s.each(func(n uint64, item *int) {
		if n <= last || model[n] != *item {
			t.Fatalf("%s: each gave %d=%d behind %d, want %d", when, n, *item, last, model[n])
		}
		last = n
		count++
	})
	if count != len(model) {
		t.Fatalf("%s: each gave %d items of %d", when, count, len(model))
	}
}

// TestSpanStragglerDoesNotGrowTheRing: one delivery that is never settled must not keep memory for all that came after it.
func TestSpanStragglerDoesNotGrowTheRing(t *testing.T) {
	var s span[int]
	s.put(1)
	for range 1_000_000 {
		s.drop(s.put(2))
	}
	if len(s.ring) > 64 || len(s.old) != 1 {
		t.Fatalf("ring of %d, %d stragglers", len(s.ring), len(s.old))
	}
	if p := s.at(1); p == nil || *p != 1 {
		t.Fatalf("the straggler is %v", p)
	}
}
