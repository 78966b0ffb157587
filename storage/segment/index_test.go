package segment

import (
	"math/rand/v2"
	"testing"
)

func TestIndexAgreesWithAMap(t *testing.T) {
	shapes := map[string]func(rng *rand.Rand, i int) uint64{
		"in order":   func(_ *rand.Rand, i int) uint64 { return uint64(i) },
		"backwards":  func(_ *rand.Rand, i int) uint64 { return uint64(1<<20 - i) },
		"any":        func(rng *rand.Rand, _ int) uint64 { return rng.Uint64N(5000) },
		"far apart":  func(rng *rand.Rand, _ int) uint64 { return rng.Uint64() },
		"near order": func(rng *rand.Rand, i int) uint64 { return uint64(i) + rng.Uint64N(300) },
	}
	for name, draw := range shapes {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			var x index
			want := map[uint64]place{}
			var keys []uint64
			at, steps := place{number: 1}, 20000
			if name == "far apart" {
				steps = 4000
			}
			for i := range steps {
				if grow := i%6000 < 4000; grow || len(keys) == 0 {
					seq := draw(rng, i)
					if at.offset += uint32(at.bytes()); rng.IntN(20) == 0 {
						at = place{number: uint32(i), offset: uint32(rng.IntN(9)), bodyBytes: uint32(rng.IntN(3))}
					}
					old, replaced := x.put(seq, at)
					before, had := want[seq]
					if replaced != had || old != before {
						t.Fatalf("put %d: %v %v, want %v %v", seq, old, replaced, before, had)
					}
					if !had {
						keys = append(keys, seq)
					}
					want[seq] = at
				} else {
					k := rng.IntN(len(keys))
					if rng.IntN(2) == 0 {
						k = rng.IntN(1 + len(keys)/20) // drain from the front
					}
					seq := keys[k]
					keys = append(keys[:k], keys[k+1:]...)
					drop(&x, seq)
					delete(want, seq)
				}
				if i%500 == 0 {
					sameIndex(t, &x, want)
				}
			}
			for seq := range want {
				drop(&x, seq)
			}
			if x.sweep(); x.n != 0 || len(x.pages) != 0 || x.open != nil {
				t.Fatalf("an emptied index keeps %d entries in %d pages", x.n, len(x.pages))
			}
		})
	}
}

func drop(x *index, seq uint64) {
	var m Mask
	m.set(seq % PageSeqs)
	x.drop(x.page(seq/PageSeqs), &m)
}

func sameIndex(t *testing.T, x *index, want map[uint64]place) {
	t.Helper()
	n, sums := 0, map[uint32]int64{}
	for i, p := range x.pages {
		if i > 0 && x.pages[i-1].no >= p.no {
			t.Fatalf("page %d behind page %d", p.no, x.pages[i-1].no)
		}
		n += p.has.count()
		all := p.has
		x.each(p, &all, func(at place, n int) { sums[at.number] += int64(n) * at.bytes() })
	}
	if n != len(want) || x.n != n {
		t.Fatalf("%d entries (counted %d), want %d", n, x.n, len(want))
	}
	for seq, p := range want {
		if got, ok := x.get(seq); !ok || got != p {
			t.Fatalf("get %d: %v %v, want %v", seq, got, ok, p)
		}
		sums[p.number] -= p.bytes()
	}
	for number, rest := range sums {
		if rest != 0 {
			t.Fatalf("file %d: the runs of pages differ from their records by %d bytes", number, rest)
		}
	}
}

func TestMaskBetween(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		var m Mask
		for range rng.IntN(600) {
			m.set(rng.Uint64N(PageSeqs))
		}
		from, to := rng.Uint64N(PageSeqs+1), rng.Uint64N(PageSeqs+1)
		got := m.between(from, to)
		for i := range uint64(PageSeqs) {
			if got.has(i) != (m.has(i) && i >= from && i < to) {
				t.Fatalf("from %d to %d: %d is in: %t", from, to, i, got.has(i))
			}
		}
	}
}

// indexBytes is the memory of an index, beside its open page.
func indexBytes(x *index) (bytes int) {
	for _, p := range x.pages {
		bytes += 8 + 160 + cap(p.spans)
	}
	return bytes
}

func TestIndexStaysSmall(t *testing.T) {
	for name, c := range map[string]struct {
		length       func(seq uint64) uint32
		bytesPerMany float64
	}{
		"alike":        {func(uint64) uint32 { return 100 }, 0.5},
		"all diverse":  {func(seq uint64) uint32 { return uint32(seq*7919) % 60_000 }, 6},
		"a few kinds":  {func(seq uint64) uint32 { return 100 + uint32(seq/20%3) }, 1},
		"short bodies": {func(seq uint64) uint32 { return uint32(seq*7919) % 100 }, 4},
	} {
		var x index
		at := place{number: 1}
		for seq := range uint64(100_000) {
			at.offset += uint32(at.bytes())
			at.bodyBytes = c.length(seq)
			x.put(seq, at)
		}
		if each := float64(indexBytes(&x)) / float64(x.n); each > c.bytesPerMany {
			t.Errorf("%s: %.2f bytes per entry when appended in order", name, each)
		} else {
			t.Logf("%s: %.2f bytes per entry", name, each)
		}
		for seq := range uint64(100_000) {
			if seq%64 != 0 {
				drop(&x, seq)
			}
		}
		if each := float64(indexBytes(&x)) / float64(x.n); each > 40 {
			t.Errorf("%s: %.2f bytes per entry when one in 64 is left", name, each)
		}
	}
}
