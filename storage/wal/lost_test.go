package wal

import (
	"math/rand/v2"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

// An outline tells any one or two flipped bits, so that no group is taken for another one.
func TestOutlineTellsFlippedBits(t *testing.T) {
	rec := make([]byte, recordHeaderBytes)
	putRecordHeader(rec, kindUpdate, flagState|flagEntries, Group{Shard: 1029, Replica: 3}, 310)
	var bits []int
	for _, span := range [][2]int{{4, 8}, {12, 16}, {32, recordHeaderBytes}} {
		for bit := span[0] * 8; bit < span[1]*8; bit++ {
			bits = append(bits, bit)
		}
	}
	flip := func(bit int) { rec[bit/8] ^= 1 << (bit % 8) }
	for i, a := range bits {
		flip(a)
		if outlined(rec) {
			t.Fatalf("bit %d", a)
		}
		for _, b := range bits[:i] {
			flip(b)
			if outlined(rec) {
				t.Errorf("bits %d and %d", a, b)
			}
			flip(b)
		}
		flip(a)
	}
	if !outlined(rec) || outlined(make([]byte, recordHeaderBytes)) {
		t.Error("an outline does not hold, or zeros are one")
	}
}

// without returns a model without some groups.
func (m model) without(lost []Lost) model {
	rest := model{}
	for g, mg := range m {
		rest[g] = mg
	}
	for _, l := range lost {
		delete(rest, l.Group)
	}
	return rest
}

// openLost opens a log that forgets what lost something.
func openLost(fsys storage.FS) (l *Log, lost []Lost, err error) { return openLostOf(fsys, 3) }

// openLost7 is openLost for a log of openSmall.
func openLost7(fsys storage.FS) (l *Log, lost []Lost, err error) { return openLostOf(fsys, 7) }

func openLostOf(fsys storage.FS, incarnation uint64) (l *Log, lost []Lost, err error) {
	l, err = open(Options{FS: fsys, Dir: testDir, Incarnation: incarnation, Damaged: func(list []Lost) error { lost = list; return nil }}, small)
	return l, lost, err
}

// A flipped bit costs the groups whose records it hits, and no other one, or all is refused; and what was forgotten stays so.
func TestDamageCostsOthersTheirRecords(t *testing.T) {
	o := flipTarget(t)
	rng := rand.New(rand.NewPCG(31, 32))
	names := logNames(o.fsys)
	refused, some, harmless := 0, 0, 0
	for range 2000 {
		fsys := o.fsys.Clone()
		name := names[rng.IntN(len(names))]
		bit := rng.Int64N(int64(len(fsys.Bytes(name))) * 8)
		fsys.Flip(name, bit)
		l, lost, err := openLost(fsys)
		if err != nil {
			if !isTyped(err) {
				t.Fatalf("%s bit %d: %v", name, bit, err)
			}
			refused++
			continue
		}
		for range 2 {
			if got, err := dumpLog(l); err != nil || got != o.now.without(lost).dump() {
				t.Fatalf("%s bit %d, lost %v: other content: %v\n%s\n\n%s", name, bit, lost, err, got, o.now.dump())
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			var again []Lost
			if l, again, err = openLost(fsys); err != nil || len(again) > 0 {
				t.Fatalf("%s bit %d: opened once more: %v, %v", name, bit, again, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if len(lost) > 0 {
			some++
		} else {
			harmless++
		}
	}
	t.Logf("2000 flips: %d cost single groups, %d all, %d nothing", some, refused, harmless)
	if some < 300 || refused == 0 || harmless == 0 {
		t.Errorf("%d cost single groups, %d all, %d nothing", some, refused, harmless)
	}
}

// Several damaged records in a row, of one group or of two, cost those; a record that is gone costs all, as nobody knows whose it was.
func TestRecordsInARowAreDamaged(t *testing.T) {
	a, b, c := Group{Shard: 7, Replica: 1}, Group{Shard: 8, Replica: 2}, Group{Shard: 9, Replica: 1}
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	for i := range uint64(4) {
		for _, g := range []Group{a, b, c} {
			must(t, l.Commit([]Update{entriesOf(g, i+1, "entry")}))
		}
	}
	must(t, l.Close())
	name := logNames(fsys)[0]
	data := fsys.Bytes(name)
	at := int64(recordsAt)
	var places []int64
	for len(places) < 12 {
		places = append(places, at)
		at += recordBytes(bodyBytesOf(data[at:]))
	}
	damaged := fsys.Clone()
	for _, i := range []int{3, 4, 6} { // of a, b, a
		damaged.Flip(name, (places[i]+recordHeaderBytes+1)*8)
	}
	l, lost, err := openLost7(damaged)
	if err != nil || len(lost) != 2 || lost[0].Group != a || lost[1].Group != b || !isCorrupt(lost[0].Err) {
		t.Fatalf("lost %v: %v", lost, err)
	}
	want(t, "the other group", readAll(t, l, c), "1=entry", "2=entry", "3=entry", "4=entry")
	want(t, "a damaged group", readAll(t, l, a))
	must(t, l.Close())

	cut := fsys.Clone()
	zeroed := cut.Bytes(name)
	clear(zeroed[places[3]:places[4]])
	cut.SetBytes(name, zeroed)
	if _, lost, err := openLost7(cut); !isCorrupt(err) {
		t.Errorf("a record of zeros: lost %v, %v", lost, err)
	}
	old := fsys.Clone() // a file of version 1 does not say whose a record is
	data[len(magic)+3] = 1
	old.SetBytes(name, resum(data))
	old.Flip(name, (places[3]+recordHeaderBytes+1)*8)
	if _, lost, err := openLost7(old); !isCorrupt(err) {
		t.Errorf("version 1: lost %v, %v", lost, err)
	}
}
