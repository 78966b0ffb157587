package bench

import (
	"math/rand/v2"
	"testing"
)

// Numbers in any order, some twice: what is new, what is missing and what the first missing one is must agree with a plain map.
func TestSequenceSetAgreesWithMap(t *testing.T) {
	const last = 3*pageBits + 100
	var set sequenceSet
	plain := map[uint64]bool{}
	order := rand.Perm(last)
	for _, at := range order {
		seq := uint64(at) + 1
		if seq%50000 == 7 {
			continue // lost
		}
		if !set.add(seq) {
			t.Fatalf("%d was refused the first time", seq)
		}
		plain[seq] = true
		if seq%1000 == 0 && set.add(seq) {
			t.Fatalf("%d was taken twice", seq)
		}
	}
	count, first := set.missing(last)
	if count != last-uint64(len(plain)) || first != 7 {
		t.Errorf("missing %d, first %d; want %d and 7", count, first, last-len(plain))
	}
	for seq := uint64(7); seq <= last; seq += 50000 {
		if !set.add(seq) {
			t.Errorf("%d was refused although it was missing", seq)
		}
	}
	if count, first := set.missing(last); count != 0 || first != 0 {
		t.Errorf("nothing is missing, but got %d, first %d", count, first)
	}
	if len(set.pages) != 1 {
		t.Errorf("%d pages kept for a complete set, want the last one only", len(set.pages))
	}
	if count, first := set.missing(last + 5); count != 5 || first != last+1 {
		t.Errorf("five beyond the end: got %d, first %d", count, first)
	}
}

func TestSequenceSetRefusesImpossibleNumbers(t *testing.T) {
	var set sequenceSet
	if set.add(0) || set.add(uint64(pagesAheadMax)*pageBits+1) {
		t.Error("zero and a number far ahead must be refused")
	}
	if len(set.pages) != 0 {
		t.Error("a refused number must not take memory")
	}
}

// The low 32 bits wrap after four billion messages; the set must go on counting.
func TestWidenCrossesTheWrap(t *testing.T) {
	for _, c := range []struct {
		newest uint64
		seq    uint32
		want   uint64
	}{
		{0, 1, 1}, {10, 3, 3}, {1<<32 - 1, 0, 1 << 32}, {1<<32 - 1, 5, 1<<32 + 5}, {1<<32 + 5, 1<<32 - 1, 1<<32 - 1}, {5 << 32, 9, 5<<32 + 9},
	} {
		set := sequenceSet{newest: c.newest}
		if got := set.widen(c.seq); got != c.want {
			t.Errorf("newest %d, low half %d: got %d, want %d", c.newest, c.seq, got, c.want)
		}
	}
}

func TestTrackerTellsForeignAndDuplicateApart(t *testing.T) {
	tr := newTracker(77, 2)
	tr.add([]stamp{{seq: 1, run: 77}, {seq: 1, run: 77, producer: 1}, {seq: 2, run: 77}, {seq: 2, run: 77}, {seq: 3, run: 78}, {seq: 4, run: 77, producer: 2}})
	unique, duplicates, foreign := tr.counts()
	if unique != 3 || duplicates != 1 || foreign != 2 {
		t.Errorf("unique %d duplicates %d foreign %d, want 3 1 2", unique, duplicates, foreign)
	}
}

func TestStampRoundTrip(t *testing.T) {
	body := make([]byte, 20)
	want := stamp{seq: 0xdeadbeef, sentNanos: 1234567890123456789, run: 0xabcd, producer: 0x1234}
	want.put(body)
	if got := readStamp(body); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if body[16]|body[17]|body[18]|body[19] != 0 {
		t.Error("the stamp wrote beyond its size")
	}
}

func BenchmarkTracker(b *testing.B) {
	tr := newTracker(1, 1)
	stamps := make([]stamp, 100)
	b.ReportAllocs()
	for i := 0; i < b.N; i += len(stamps) {
		for j := range stamps {
			stamps[j] = stamp{seq: uint32(i + j + 1), run: 1}
		}
		tr.add(stamps)
	}
}
