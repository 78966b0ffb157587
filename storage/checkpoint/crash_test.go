package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
	"github.com/warrenmq/warren/storage/storagetest"
)

const workloadSteps = 120

// runWorkload does the same steps for the same seed and stops at a fatal error.
func runWorkload(o *owner, seed uint64) (fatal bool) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for range workloadSteps {
		if err := o.step(rng); errors.Is(err, storage.ErrFatal) {
			return true
		}
	}
	return false
}

func opsOf(t *testing.T, seed uint64) int {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	runWorkload(o, seed)
	if o.durable < 50 {
		t.Fatalf("the workload is too small: durable %d", o.durable)
	}
	return fsys.Ops()
}

func TestEveryOperationFailsOnce(t *testing.T) {
	const seed = 3
	fatal := 0
	for n := 1; n <= opsOf(t, seed); n++ {
		fsys := storagetest.New()
		o := newOwner(t, fsys)
		fsys.SetFault(storagetest.FailNth(n))
		if runWorkload(o, seed) {
			fatal++
		}
		fsys.SetFault(nil)
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		for try := range 3 {
			after := *o
			after.fsys = fsys.Clone()
			if try == 0 {
				after.fsys.Crash()
			} else {
				after.fsys.CrashTorn(rng)
			}
			after.reopen()
			runWorkload(&after, seed+1)
			after.fsys.CrashTorn(rng)
			after.reopen()
		}
	}
	if fatal == 0 {
		t.Fatal("no failed sync was met")
	}
}

func TestDiskGoesAwayAtEveryOperation(t *testing.T) {
	for _, seed := range []uint64{3, 4} {
		for n := 1; n <= opsOf(t, seed); n++ {
			fsys := storagetest.New()
			o := newOwner(t, fsys)
			fsys.SetFault(storagetest.FailFrom(n))
			runWorkload(o, seed)
			fsys.SetFault(nil)
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 3 {
				after := *o
				after.fsys = fsys.Clone()
				after.fsys.CrashTorn(rng)
				after.reopen()
			}
			fsys.Crash()
			o.reopen()
		}
	}
}

func TestPowerLossAtRandomMoments(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 99))
		fsys := storagetest.New()
		o := newOwner(t, fsys)
		for range 10 {
			for range rng.IntN(60) {
				o.must(o.step(rng))
			}
			switch rng.IntN(3) {
			case 0: // kill -9: what was written stays, what is in the buffer goes
			case 1:
				fsys.Crash()
			default:
				fsys.CrashTorn(rng)
			}
			o.reopen()
		}
	}
}

func TestTornAtEveryByteOfTheLastEntry(t *testing.T) {
	for _, length := range []int{0, 1, 200} {
		for left := 0; left <= length+frame.OverheadBytes; left++ {
			fsys := storagetest.New()
			o := newOwner(t, fsys)
			o.must(o.apply(3))
			o.must(o.checkpoint(0))
			o.must(o.apply(4))
			o.must(o.sync())
			o.must(o.tail.Append(8, make([]byte, length)))
			o.must(o.tail.flush())
			budget := left
			fsys.CrashLeaving(func(u storagetest.Unsynced) int {
				if u.Offset < int64(headerBytes) {
					return u.Bytes // the mark of the sync
				}
				n := min(budget, u.Bytes)
				budget -= n
				return n
			})
			r, _, err := Load(fsys, testDir)
			if err != nil {
				t.Fatalf("%d bytes left: %v", left, err)
			}
			want := uint64(7)
			if left == length+frame.OverheadBytes {
				want = 8
			}
			if r.Tail.LastIndex() != want {
				t.Fatalf("%d bytes left: found up to %d", left, r.Tail.LastIndex())
			}
			o.must(errors.Join(r.Tail.Append(9, command(9)), r.Tail.Sync()))
			fsys.Crash()
			if r, _, err = Load(fsys, testDir); err != nil || r.Tail.LastIndex() != 9 || len(r.Entries) != int(want)-2 {
				t.Fatalf("%d bytes left, then an append: %v, %d entries up to %d", left, err, len(r.Entries), r.Tail.LastIndex())
			}
		}
	}
}

// An entry that was cut off must not come back behind a new one that took the place before it.
func TestWhatWasCutDoesNotComeBack(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	same := make([]byte, 50)
	o.must(o.checkpoint(0))
	o.must(errors.Join(o.tail.Append(1, same), o.tail.Append(2, same), o.tail.Append(3, same), o.tail.flush()))
	name := filepath.Join(testDir, baseName(0))
	data := fsys.Bytes(name)
	data[headerBytes+66+20] ^= 1 // in entry 2
	fsys.SetBytes(name, data)
	r, _, err := Load(fsys, testDir)
	if err != nil || r.Tail.LastIndex() != 1 {
		t.Fatalf("%v: %d", err, r.Tail.LastIndex())
	}
	o.must(errors.Join(r.Tail.Append(2, same), r.Tail.flush()))
	fsys.CrashLeaving(func(u storagetest.Unsynced) int {
		if u.Truncate {
			return 0
		}
		return u.Bytes
	})
	if r, _, err = Load(fsys, testDir); err != nil || r.Tail.LastIndex() != 2 {
		t.Fatalf("found up to %d: %v", r.Tail.LastIndex(), err)
	}
}

// What a killed process wrote is not durable because it can be read: Sync after Load makes it so, the name included.
func TestWhatAKilledProcessLeftIsSyncedBeforeItIsReliedOn(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	o.must(storage.EnsureDir(fsys, testDir))
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpSyncDir && op.Name == testDir {
			return storagetest.ErrInjected
		}
		return nil
	})
	o.must(o.apply(3))
	if err := o.checkpoint(0); !errors.Is(err, storage.ErrFatal) {
		t.Fatal(err)
	}
	fsys.SetFault(nil)
	o.reopen()
	o.must(o.apply(2))
	o.must(o.tail.flush())
	o.reopen()
	o.must(o.sync())
	if o.durable != 5 {
		t.Fatalf("durable %d", o.durable)
	}
	fsys.Crash()
	o.reopen()
}

// flipTarget is a checkpoint at 21 with entries up to 24 from the start, and a tail of so many syncs.
func flipTarget(t *testing.T, syncs int) (fsys *storagetest.Mem, name string) {
	fsys = storagetest.New()
	o := newOwner(t, fsys)
	o.must(o.apply(24))
	o.must(o.checkpoint(3))
	for range syncs {
		o.must(o.apply(4))
		o.must(o.sync())
	}
	return fsys, filepath.Join(testDir, baseName(21))
}

// loadsWhole says whether Load gives everything of flipTarget; it fails the test on wrong bytes.
func loadsWhole(t *testing.T, fsys *storagetest.Mem, what string) (last uint64, err error) {
	t.Helper()
	r, ok, err := Load(fsys, testDir)
	if err != nil || !ok {
		return 0, err
	}
	if r.Index != 21 || r.ShardID != testShard || !bytes.Equal(r.Snapshot, snapshot(21)) {
		t.Fatalf("%s: shard %d, index %d and a snapshot of %d bytes were believed", what, r.ShardID, r.Index, len(r.Snapshot))
	}
	last = r.Tail.LastIndex()
	checkEntries(t, r.Entries, entries(21, last))
	return last, nil
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	for _, syncs := range []int{0, 2} {
		fsys, name := flipTarget(t, syncs)
		harmless := 0
		size := int64(len(fsys.Bytes(name)))
		for bit := range size * 8 {
			fsys.Flip(name, bit)
			last, err := loadsWhole(t, fsys, fmt.Sprint("bit ", bit))
			switch {
			case isCorrupt(err):
			case err == nil && last == uint64(24+4*syncs) && bit/8 >= int64(marksAt) && bit/8 < int64(headerBytes):
				harmless++ // a mark only sharpens what can be told
			default:
				t.Fatalf("bit %d: found up to %d, %v", bit, last, err)
			}
			fsys.Flip(name, bit)
		}
		t.Logf("%d syncs: %d flips, %d harmless (in marks), 0 unnoticed", syncs, size*8, harmless)
	}
}

func TestCutFileIsNoticed(t *testing.T) {
	fsys, name := flipTarget(t, 2)
	whole := fsys.Bytes(name)
	for size := range whole {
		fsys.SetBytes(name, whole[:size])
		if last, err := loadsWhole(t, fsys, fmt.Sprint("size ", size)); !isCorrupt(err) {
			t.Fatalf("cut to %d of %d bytes: found up to %d, %v", size, len(whole), last, err)
		}
		if _, _, err := ReadHeader(fsys, testDir); !isCorrupt(err) {
			t.Fatalf("cut to %d of %d bytes: the header is believed: %v", size, len(whole), err)
		}
	}
	copy(whole[marksAt:], make([]byte, headerBytes-marksAt))
	for size := range headerBytes + len(snapshot(21)) {
		fsys.SetBytes(name, whole[:size])
		if last, err := loadsWhole(t, fsys, fmt.Sprint("size ", size)); !isCorrupt(err) {
			t.Fatalf("without marks, cut in the snapshot to %d bytes: found up to %d, %v", size, last, err)
		}
	}
}

// The two marks are written in turn: a torn write of one leaves the other, and with it the knowledge that what it covers was durable.
func TestTornMarkLeavesTheOneBefore(t *testing.T) {
	for torn := range frame.MarkBytes {
		fsys := storagetest.New()
		o := newOwner(t, fsys)
		o.must(o.checkpoint(0))
		for i := range 3 {
			if i == 2 {
				fsys.SetFault(func(op storagetest.Op) error {
					if op.Kind == storagetest.OpWrite && op.Offset < int64(headerBytes) {
						return &storagetest.TornWrite{Bytes: torn}
					}
					return nil
				})
			}
			o.must(o.apply(1))
			o.must(o.sync())
		}
		fsys.SetFault(nil)
		o.reopen()
		name := filepath.Join(testDir, baseName(0))
		fsys.Flip(name, int64(headerBytes+frame.OverheadBytes+len(command(1))+5)*8) // in entry 2
		if _, _, err := Load(fsys, testDir); !isCorrupt(err) {
			t.Fatalf("mark torn after %d bytes: damage that the mark before covers: %v", torn, err)
		}
	}
}

// A damaged newest checkpoint is an error even if an older, whole one is there: the log between them is gone.
func TestOlderCheckpointIsNotUsedInstead(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	o.must(o.apply(5))
	o.must(o.checkpoint(0))
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpRemove {
			return storagetest.ErrInjected
		}
		return nil
	})
	o.must(o.apply(5))
	o.must(o.checkpoint(0))
	fsys.SetFault(nil)
	o.reopen() // with both files there
	fsys.Flip(filepath.Join(testDir, baseName(10)), int64(headerBytes+4)*8)
	_, _, err := Load(fsys, testDir)
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) || corrupt.File != filepath.Join(testDir, baseName(10)) || corrupt.OffsetBytes != int64(headerBytes) {
		t.Fatalf("damaged newest checkpoint: %v", err)
	}
}

func TestForeignFilesAreNoticed(t *testing.T) {
	fsys, name := flipTarget(t, 2)
	data := fsys.Bytes(name)
	if err := fsys.Rename(name, filepath.Join(testDir, baseName(99))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(fsys, testDir); !isCorrupt(err) {
		t.Fatalf("a file under another name: %v", err)
	}
	if _, _, err := ReadHeader(fsys, testDir); !isCorrupt(err) {
		t.Fatalf("header of a file under another name: %v", err)
	}
	if err := fsys.Rename(filepath.Join(testDir, baseName(99)), name); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(data[len(magic):], formatVersion+1)
	fsys.SetBytes(name, resum(data))
	_, _, err := Load(fsys, testDir)
	var version *storage.VersionError
	if !errors.As(err, &version) || version.Found != formatVersion+1 || version.File != name {
		t.Fatalf("newer format: %v", err)
	}
}

// resum gives a changed header its right checksum.
func resum(data []byte) []byte {
	if len(data) >= headerBytes {
		binary.BigEndian.PutUint32(data[headerCRCAt:], frame.Sum(0, data[:headerCRCAt]))
	}
	return data
}
