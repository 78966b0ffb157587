package segment

import (
	"math/rand/v2"
	"sort"
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
			for i := range 20000 {
				if grow := i%6000 < 4000; grow || len(keys) == 0 {
					seq, p := draw(rng, i), place{uint32(i), uint32(i * 3), uint32(i * 7)}
					old, replaced := x.put(seq, p)
					before, had := want[seq]
					if replaced != had || old != before {
						t.Fatalf("put %d: %v %v, want %v %v", seq, old, replaced, before, had)
					}
					want[seq] = p
					keys = append(keys, seq)
				} else {
					k := rng.IntN(len(keys))
					if rng.IntN(2) == 0 {
						k = rng.IntN(1 + len(keys)/20) // drain from the front
					}
					seq := keys[k]
					keys = append(keys[:k], keys[k+1:]...)
					old, had := x.del(seq)
					before, has := want[seq]
					if had != has || old != before {
						t.Fatalf("del %d: %v %v, want %v %v", seq, old, had, before, has)
					}
					delete(want, seq)
				}
				if i%500 == 0 {
					sameIndex(t, &x, want)
				}
			}
			for seq := range want {
				x.del(seq)
			}
			if x.n != 0 || len(x.chunks) != 0 {
				t.Fatalf("an emptied index keeps %d entries in %d chunks", x.n, len(x.chunks))
			}
		})
	}
}

func sameIndex(t *testing.T, x *index, want map[uint64]place) {
	t.Helper()
	var seqs []uint64
	for _, c := range x.chunks {
		if len(c.seqs) == 0 || len(c.seqs) > chunkEntriesMax || len(c.seqs) != len(c.places) {
			t.Fatalf("a chunk of %d and %d entries", len(c.seqs), len(c.places))
		}
		seqs = append(seqs, c.seqs...)
	}
	if !sort.SliceIsSorted(seqs, func(i, j int) bool { return seqs[i] < seqs[j] }) || len(seqs) != len(want) || x.n != len(want) {
		t.Fatalf("%d entries (counted %d), want %d", len(seqs), x.n, len(want))
	}
	for seq, p := range want {
		if got, ok := x.get(seq); !ok || got != p {
			t.Fatalf("get %d: %v %v, want %v", seq, got, ok, p)
		}
	}
}

func TestIndexStaysSmall(t *testing.T) {
	var x index
	for seq := range uint64(100_000) {
		x.put(seq, place{})
	}
	bytes := 0
	for _, c := range x.chunks {
		bytes += 8*cap(c.seqs) + 12*cap(c.places)
	}
	if perEntry := bytes / x.n; perEntry > 24 {
		t.Errorf("%d bytes per entry when appended in order", perEntry)
	}
	for seq := range uint64(100_000) {
		if seq%64 != 0 {
			x.del(seq)
		}
	}
	bytes = 0
	for _, c := range x.chunks {
		bytes += 8*cap(c.seqs) + 12*cap(c.places)
	}
	if perEntry := bytes / x.n; perEntry > 200 {
		t.Errorf("%d bytes per entry when one in 64 is left", perEntry)
	}
}
