package frame

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestRecordIsValidOnlyAsWritten(t *testing.T) {
	body := []byte("a body")
	seed := Seed(0x0123456789abcdef, 4096)
	rec := Append([]byte("before"), seed, 42, body)[6:]
	h := ParseHeader(rec)
	if !Valid(rec, seed) || h.Key != 42 || h.BodyBytes != 6 || len(rec) != OverheadBytes+6 || !bytes.Equal(rec[OverheadBytes:], body) {
		t.Fatalf("header %+v of %x", h, rec)
	}
	if sum := Sum(HeaderSum(seed, rec), body); sum != h.CRC {
		t.Fatalf("summed in pieces: %x, %x", sum, h.CRC)
	}
	for bit := range len(rec) * 8 {
		rec[bit/8] ^= 1 << (bit % 8)
		if Valid(rec, seed) {
			t.Fatalf("bit %d", bit)
		}
		rec[bit/8] ^= 1 << (bit % 8)
	}
	for n := range rec {
		if Valid(rec[:n], seed) {
			t.Fatalf("cut to %d bytes", n)
		}
	}
	for _, other := range []uint32{Seed(0x0123456789abcdef, 4097), Seed(0x0123456789abcdee, 4096), Seed(0x1123456789abcdef, 4096), 0} {
		if Valid(rec, other) {
			t.Fatalf("valid under seed %x, written under %x", other, seed)
		}
	}
	if Valid(make([]byte, OverheadBytes), seed) || Valid(make([]byte, OverheadBytes), 0) != (Sum(0, make([]byte, 12)) == 0) {
		t.Fatal("zeros are a record")
	}
}

func TestNewestValidMarkCounts(t *testing.T) {
	old, recent := Mark{SyncedBytes: 100, Last: 7}, Mark{SyncedBytes: 250, Last: 9}
	none := make([]byte, MarkBytes)
	for _, c := range []struct {
		name   string
		src    []byte
		newest Mark
		next   int
	}{
		{"none", append(bytes.Clone(none), none...), Mark{}, 0},
		{"first", append(old.Append(nil), none...), old, 1},
		{"second is newer", recent.Append(old.Append(nil)), recent, 0},
		{"first is newer", old.Append(recent.Append(nil)), recent, 1},
	} {
		if newest, next := ParseMarks(c.src); newest != c.newest || next != c.next {
			t.Errorf("%s: %+v, %d", c.name, newest, next)
		}
	}
	src := recent.Append(old.Append(nil))
	for bit := MarkBytes * 8; bit < MarksBytes*8; bit++ {
		src[bit/8] ^= 1 << (bit % 8)
		if newest, next := ParseMarks(src); newest != old || next != 1 {
			t.Fatalf("bit %d of the newer mark: %+v, %d", bit, newest, next)
		}
		src[bit/8] ^= 1 << (bit % 8)
	}
}

func TestSeedSpreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[uint32]bool{}
	for range 1000 {
		seen[Seed(rng.Uint64(), 64)] = true
	}
	if len(seen) < 995 {
		t.Fatalf("%d seeds of 1000 salts", len(seen))
	}
}
