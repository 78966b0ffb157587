package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

const workloadSteps = 160

// runWorkload does the same steps for the same seed. A fatal error ends the process and, with it, the machine; any other is shrugged off.
func runWorkload(o *owner, seed uint64) (fatal bool) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for range workloadSteps {
		if err := o.step(rng); errors.Is(err, storage.ErrFatal) {
			return true
		}
	}
	return false
}

// opsOf counts the operations of a workload in which nothing fails.
func opsOf(t *testing.T, seed uint64) int {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	fsys.SetFault(nil)
	runWorkload(o, seed)
	if st := o.store.Stats(); st.Segments < 2 {
		t.Fatalf("the workload is too small: %+v", st)
	}
	return fsys.Ops()
}

func TestEveryOperationFailsOnce(t *testing.T) {
	const seed = 11
	fatal := 0
	for n := 1; n <= opsOf(t, seed); n++ {
		fsys := storagetest.New()
		o := newOwner(t, fsys)
		fsys.SetFault(storagetest.FailNth(n))
		if runWorkload(o, seed) {
			fatal++
			fsys.Crash()
			o.reopen()
			runWorkload(o, seed+1)
		}
		fsys.SetFault(nil)
		o.must(o.checkpoint(nil))
		o.check()
		fsys.Crash()
		o.reopen()
	}
	if fatal == 0 {
		t.Fatal("no failed sync was met")
	}
}

func TestDiskGoesAwayAtEveryOperation(t *testing.T) {
	for _, seed := range []uint64{11, 12} {
		for n := 1; n <= opsOf(t, seed); n++ {
			fsys := storagetest.New()
			o := newOwner(t, fsys)
			fsys.SetFault(storagetest.FailFrom(n))
			runWorkload(o, seed)
			fsys.SetFault(nil)
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for try := range 4 {
				after := *o
				after.fsys = fsys.Clone()
				if try == 0 {
					after.fsys.Crash()
				} else {
					after.fsys.CrashTorn(rng)
				}
				after.reopen()
				runWorkload(&after, seed+1)
				after.must(after.checkpoint(nil))
				after.fsys.CrashTorn(rng)
				after.reopen()
			}
		}
	}
}

func TestPowerLossAtRandomMoments(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 99))
		fsys := storagetest.New()
		o := newOwner(t, fsys)
		for range 12 {
			for range rng.IntN(120) {
				o.must(o.step(rng))
			}
			switch rng.IntN(3) {
			case 0: // kill -9: the machine stays, what was written stays, what was collected in memory goes
				o.must(o.store.Close())
			case 1:
				fsys.Crash()
			default:
				fsys.CrashTorn(rng)
			}
			o.reopen()
		}
	}
}

// lastFile returns the newest segment file.
func lastFile(fsys *storagetest.Mem) string {
	names, _ := fsys.List(testDir)
	return filepath.Join(testDir, names[len(names)-1])
}

func TestTornAtEveryByteOfTheLastRecord(t *testing.T) {
	for _, length := range []int{0, 1, 90, 700} {
		last := bytes.Repeat([]byte("l"), length)
		for left := 0; left <= length+16; left++ {
			fsys := storagetest.New()
			s := openSmall(t, fsys)
			if err := errors.Join(s.Append(1, body(1)), s.Append(2, body(2)), s.Sync(), s.Append(3, last)); err != nil {
				t.Fatal(err)
			}
			fsys.SetFault(func(op storagetest.Op) error {
				if op.Kind == storagetest.OpSync {
					return storagetest.ErrInjected
				}
				return nil
			})
			if s.Sync() == nil {
				t.Fatal("the sync did not fail")
			}
			fsys.SetFault(nil)
			budget := left
			fsys.CrashLeaving(func(u storagetest.Unsynced) int {
				if u.Offset < int64(headerBytes) {
					return u.Bytes // the mark of the first sync
				}
				n := min(budget, u.Bytes)
				budget -= n
				return n
			})
			s = openSmall(t, fsys)
			if got := s.Has(3); got != (left == length+16) {
				t.Fatalf("%d of %d bytes left: the record is there: %v", left, length+16, got)
			}
			if err := errors.Join(s.Append(4, body(4)), s.Sync()); err != nil {
				t.Fatal(err)
			}
			fsys.Crash()
			s = openSmall(t, fsys)
			for _, seq := range []uint64{1, 2, 4} {
				if got, err := s.Read(seq); err != nil || !bytes.Equal(got, body(seq)) {
					t.Fatalf("%d bytes left: record %d: %v", left, seq, err)
				}
			}
		}
	}
}

// Opening is no promise that what was found is durable: the next Sync makes it so, also if nothing was appended.
func TestWhatAKilledProcessLeftIsSyncedBeforeItIsReliedOn(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpSync || op.Kind == storagetest.OpSyncDir && op.Name == testDir {
			return storagetest.ErrInjected
		}
		return nil
	})
	if err := s.Append(1, body(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); !errors.Is(err, storage.ErrFatal) {
		t.Fatal(err)
	}
	fsys.SetFault(nil)
	s = openSmall(t, fsys)
	if !s.Has(1) {
		t.Fatal("the killed process's record is not found")
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	fsys.Crash()
	if s = openSmall(t, fsys); !s.Has(1) {
		t.Fatal("a record that a Sync covered is gone")
	}
}

// flipTarget is a store of several files in which all is synced and marked.
func flipTarget(t *testing.T) (*storagetest.Mem, *owner) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	for range 60 {
		o.must(o.append())
	}
	for range 15 {
		o.release(2)
	}
	o.must(o.checkpoint(nil))
	o.must(o.store.Close())
	return fsys, o
}

// inMarks says whether the bit lies in the two marks of a file, which only sharpen recovery.
func inMarks(bit int64) bool { return bit/8 >= int64(marksAt) && bit/8 < int64(headerBytes) }

// How damage was noticed.
const (
	unnoticed = iota
	byCount   // the owner misses a record
	byRead    // Read refuses
	byError   // Open refuses
)

// verifyDamaged opens a damaged store and says how that was noticed. It fails the test on wrong bytes.
func verifyDamaged(t *testing.T, fsys *storagetest.Mem, o *owner, what string) int {
	t.Helper()
	s, err := open(fsys, testDir, o.keep, small)
	if err != nil {
		if !isCorrupt(err) {
			t.Fatalf("%s: not a typed error: %v", what, err)
		}
		return byError
	}
	defer s.Close()
	if s.Len() != len(o.durable) {
		return byCount
	}
	how := unnoticed
	for seq := range o.durable {
		got, err := s.Read(seq)
		if err == nil && !bytes.Equal(got, body(seq)) || err != nil && !isCorrupt(err) {
			t.Fatalf("%s: record %d: %v, the right bytes: %v", what, seq, err, bytes.Equal(got, body(seq)))
		}
		if err != nil {
			how = byRead
		}
	}
	return how
}

// removeLists removes the lists of sealed files, so that Open reads the files.
func removeLists(t *testing.T, fsys *storagetest.Mem) {
	t.Helper()
	names, _ := fsys.List(testDir)
	lists := 0
	for _, name := range names {
		if strings.HasSuffix(name, listSuffix) {
			lists++
			if err := fsys.Remove(filepath.Join(testDir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if lists == 0 {
		t.Fatal("no sealed file has a list")
	}
}

// A list only saves the time to read its file: a damaged, cut, foreign or missing one changes nothing.
func TestDamagedListIsNotBelieved(t *testing.T) {
	fsys, o := flipTarget(t)
	names, _ := fsys.List(testDir)
	var lists [][]byte
	for _, base := range names {
		name := filepath.Join(testDir, base)
		if !strings.HasSuffix(name, listSuffix) {
			continue
		}
		whole := fsys.Bytes(name)
		lists = append(lists, whole)
		for bit := range int64(len(whole)) * 8 {
			fsys.Flip(name, bit)
			if how := verifyDamaged(t, fsys, o, fmt.Sprintf("%s bit %d", name, bit)); how != unnoticed {
				t.Fatalf("%s: bit %d: %d", name, bit, how)
			}
			fsys.Flip(name, bit)
		}
		for size := range whole {
			fsys.SetBytes(name, whole[:size])
			if how := verifyDamaged(t, fsys, o, fmt.Sprint(name, " cut to ", size)); how != unnoticed {
				t.Fatalf("%s cut to %d bytes: %d", name, size, how)
			}
		}
		for _, other := range lists {
			fsys.SetBytes(name, other)
			if how := verifyDamaged(t, fsys, o, name+" swapped"); how != unnoticed {
				t.Fatalf("%s swapped: %d", name, how)
			}
		}
		fsys.SetBytes(name, whole)
	}
	if len(lists) < 2 {
		t.Fatalf("only %d lists", len(lists))
	}
	removeLists(t, fsys)
	if how := verifyDamaged(t, fsys, o, "no lists"); how != unnoticed {
		t.Fatalf("without lists: %d", how)
	}
}

// A start reads no body of a sealed file that has its list. What rots there Read notices, and it gives no wrong bytes.
func TestFlipInASealedFileWithAListIsNoticedByRead(t *testing.T) {
	fsys, o := flipTarget(t)
	s, err := open(fsys, testDir, o.keep, small)
	if err != nil {
		t.Fatal(err)
	}
	noticed := 0
	for seq := range o.durable {
		at, ok := s.index.get(seq)
		if !ok || s.segment(at.number) == s.active {
			continue
		}
		name := fileName(testDir, at.number)
		for bit := int64(at.offset) * 8; bit < (int64(at.offset)+at.bytes())*8; bit += 37 {
			fsys.Flip(name, bit)
			if how := verifyDamaged(t, fsys, o, fmt.Sprintf("%s bit %d", name, bit)); how != byRead {
				t.Fatalf("%s: bit %d of record %d: %d", name, bit, seq, how)
			}
			fsys.Flip(name, bit)
			noticed++
		}
	}
	if noticed == 0 {
		t.Fatal("no live record in a sealed file")
	}
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	fsys, o := flipTarget(t)
	removeLists(t, fsys)
	names, _ := fsys.List(testDir)
	rng := rand.New(rand.NewPCG(21, 22))
	flips, harmless := 0, 0
	try := func(name string, bit int64) {
		fsys.Flip(name, bit)
		flips++
		how := verifyDamaged(t, fsys, o, fmt.Sprintf("%s bit %d", name, bit))
		if inMarks(bit) && how == unnoticed {
			harmless++
		} else if how != byError {
			t.Errorf("%s: bit %d was accepted", name, bit)
		}
		fsys.Flip(name, bit)
	}
	for _, base := range names {
		name := filepath.Join(testDir, base)
		size := int64(len(fsys.Bytes(name)))
		for bit := range int64(headerBytes+64) * 8 {
			try(name, bit)
		}
		for range 1500 {
			try(name, rng.Int64N(size*8))
		}
	}
	if len(names) < 3 {
		t.Fatalf("only %d files", len(names))
	}
	t.Logf("%d flips in %d files, %d harmless (in marks), 0 unnoticed", flips, len(names), harmless)
}

// When power was lost right after a sync, its mark may be lost: rot in that last batch then looks like a torn write, and the owner's count notices it.
func TestFlipInALastBatchWithoutMarkIsNoticedByTheCount(t *testing.T) {
	fsys, o := flipTarget(t)
	o.reopen()
	for range 3 {
		o.must(o.append())
	}
	o.must(o.checkpoint(nil))
	fsys.Crash()
	name := lastFile(fsys)
	size := int64(len(fsys.Bytes(name)))
	for bit := int64(headerBytes) * 8; bit < size*8; bit++ {
		fsys.Flip(name, bit)
		if verifyDamaged(t, fsys, o, fmt.Sprint("bit ", bit)) == unnoticed {
			t.Fatalf("bit %d went unnoticed", bit)
		}
		fsys.Flip(name, bit)
	}
}

func TestFlipBehindAnOpenStoreIsNoticedByRead(t *testing.T) {
	fsys, o := flipTarget(t)
	o.reopen()
	name := lastFile(fsys)
	rng := rand.New(rand.NewPCG(5, 6))
	noticed := 0
	for range 500 {
		bit := rng.Int64N(int64(len(fsys.Bytes(name))) * 8)
		fsys.Flip(name, bit)
		for seq := range o.durable {
			got, err := o.store.Read(seq)
			if err == nil && !bytes.Equal(got, body(seq)) {
				t.Fatalf("bit %d: wrong bytes for record %d", bit, seq)
			}
			if err != nil {
				noticed++
				if !isCorrupt(err) {
					t.Fatalf("bit %d: %v", bit, err)
				}
			}
		}
		fsys.Flip(name, bit)
	}
	if noticed == 0 {
		t.Fatal("no flip hit a live record")
	}
}

func TestCutOrMissingFilesAreNoticed(t *testing.T) {
	fsys, o := flipTarget(t)
	names, _ := fsys.List(testDir)
	for _, base := range names {
		name := filepath.Join(testDir, base)
		if strings.HasSuffix(name, listSuffix) {
			continue
		}
		whole := fsys.Bytes(name)
		for size := range whole {
			fsys.SetBytes(name, whole[:size])
			how := verifyDamaged(t, fsys, o, fmt.Sprint(name, " cut to ", size))
			if how == unnoticed || how == byCount && size >= headerBytes {
				t.Fatalf("%s cut to %d bytes was accepted", name, size)
			}
		}
		fsys.SetBytes(name, whole)
		gone := fsys.Clone()
		if err := gone.Remove(name); err != nil {
			t.Fatal(err)
		}
		if verifyDamaged(t, gone, o, name+" removed") == unnoticed {
			t.Fatalf("%s removed went unnoticed", name)
		}
	}
}

// A block that a deleted file left on the disk must not pass as a record of the file that got the block.
func TestRecordOfAnotherFileIsNone(t *testing.T) {
	var files [2][]byte
	for i := range files {
		fsys := storagetest.New()
		s := openSmall(t, fsys)
		if err := errors.Join(s.Append(1, body(1)), s.Append(2, body(2)), s.Sync()); err != nil {
			t.Fatal(err)
		}
		files[i] = fsys.Bytes(fileName(testDir, 1))
	}
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	if err := errors.Join(s.Append(1, body(1)), s.Sync()); err != nil {
		t.Fatal(err)
	}
	mine := fsys.Bytes(fileName(testDir, 1))
	for _, other := range files {
		fsys.SetBytes(fileName(testDir, 1), append(bytes.Clone(mine), other[len(mine):]...))
		if s := openSmall(t, fsys); s.Has(2) || !s.Has(1) {
			t.Fatal("a record of another file was taken")
		}
	}
}

// Garbage behind the last record must go before the file is sealed, where it would be damage.
func TestGarbageOfAFailedWriteIsNotSealed(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	big := bytes.Repeat([]byte("b"), 3000)
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpWrite && op.Bytes == len(big) {
			return &storagetest.TornWrite{Bytes: 2900}
		}
		return nil
	})
	if err := errors.Join(s.Append(1, body(1)), s.Sync()); err != nil {
		t.Fatal(err)
	}
	if s.Append(2, big) == nil {
		t.Fatal("the torn write did not fail")
	}
	fsys.SetFault(nil)
	if err := errors.Join(s.Append(3, append(big, big...)), s.Sync()); err != nil {
		t.Fatal(err)
	}
	if s = openSmall(t, fsys); !s.Has(1) || s.Has(2) || !s.Has(3) || s.Stats().Segments != 2 {
		t.Fatalf("reopened: %+v", s.Stats())
	}
}

// Power loss leaves a bad record with a good one behind it. Then a new record takes the place of the bad one, and power is lost again before it is
// synced: the good one must not come back behind it.
func TestWhatWasCutDoesNotComeBack(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	one := bytes.Repeat([]byte("1"), 100)
	if err := errors.Join(s.Append(1, one), s.Sync()); err != nil {
		t.Fatal(err)
	}
	at := s.active.end
	if err := errors.Join(s.Append(2, one), s.Append(3, one), s.Sync()); err != nil {
		t.Fatal(err)
	}
	data := fsys.Bytes(s.active.name)
	data[at+20] ^= 1
	copy(data[marksAt:], make([]byte, 40)) // as if it had not been synced
	fsys.SetBytes(s.active.name, data)
	s = openSmall(t, fsys)
	if s.Has(3) || s.Append(4, one) != nil {
		t.Fatal("the torn end was not left out")
	}
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpSync {
			return storagetest.ErrInjected
		}
		return nil
	})
	if s.Sync() == nil {
		t.Fatal("the sync did not fail")
	}
	fsys.SetFault(nil)
	fsys.CrashLeaving(func(u storagetest.Unsynced) int {
		if u.Truncate {
			return 0
		}
		return u.Bytes
	})
	if s = openSmall(t, fsys); s.Has(3) || !s.Has(4) {
		t.Fatalf("cut record back: %v, new record there: %v", s.Has(3), s.Has(4))
	}
}

func TestFilesThatSwappedNamesAreNoticed(t *testing.T) {
	fsys, _ := flipTarget(t)
	names, _ := fsys.List(testDir)
	a, b := filepath.Join(testDir, names[0]), filepath.Join(testDir, names[1])
	first, second := fsys.Bytes(a), fsys.Bytes(b)
	fsys.SetBytes(a, second)
	fsys.SetBytes(b, first)
	if _, err := open(fsys, testDir, nil, small); !isCorrupt(err) {
		t.Fatalf("swapped files: %v", err)
	}
}

func TestNewerFormatIsNamed(t *testing.T) {
	fsys, _ := flipTarget(t)
	name := lastFile(fsys)
	data := fsys.Bytes(name)
	data[len(magic)+3] = formatVersion + 1
	fsys.SetBytes(name, resum(data))
	_, err := open(fsys, testDir, nil, small)
	var version *storage.VersionError
	if !errors.As(err, &version) || version.Found != formatVersion+1 || version.File != name {
		t.Fatalf("newer format: %v", err)
	}
}
