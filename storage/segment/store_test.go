package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
	"github.com/warrenmq/warren/storage/storagetest"
)

func openSmall(t *testing.T, fsys storage.FS) *Store {
	t.Helper()
	s, err := open(fsys, testDir, nil, small)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNoFileBeforeTheFirstAppendAndNoneAfterTheLastRelease(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	if err := errors.Join(s.Sync(), s.Collect(s.Cut())); err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Stat(testDir); err == nil {
		t.Fatal("an empty store made its folder")
	}
	if err := errors.Join(s.Append(1, body(1)), s.Sync()); err != nil {
		t.Fatal(err)
	}
	if names, _ := fsys.List(testDir); len(names) != 1 || names[0] != "00000001.seg" {
		t.Fatalf("files after the first append: %v", names)
	}
	s.Release(1, 1)
	if err := s.Collect(s.Cut()); err != nil {
		t.Fatal(err)
	}
	if names, _ := fsys.List(testDir); len(names) != 0 {
		t.Fatalf("files after the last release: %v", names)
	}
	if st := s.Stats(); st != (Stats{}) {
		t.Fatalf("stats of an empty store: %+v", st)
	}
}

func TestReadsWhatWasAppendedBufferedWrittenAndReopened(t *testing.T) {
	fsys := storagetest.New()
	s, err := Open(fsys, testDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{0, 1, 1000, directBodyBytes - 1, directBodyBytes, directBodyBytes + 1, frame.BufferBytes, 3 * frame.BufferBytes, 7}
	want := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, sizes[i]) }
	verify := func(s *Store) {
		t.Helper()
		var buf []byte
		for i := range sizes {
			got, err := s.ReadInto(uint64(i), buf)
			if err != nil || !bytes.Equal(got, want(i)) {
				t.Fatalf("record %d of %d bytes: got %d, %v", i, sizes[i], len(got), err)
			}
			if buf == nil {
				buf = make([]byte, 2*frame.BufferBytes)
			}
		}
	}
	for i := range sizes {
		if err := s.Append(uint64(i), want(i)); err != nil {
			t.Fatal(err)
		}
	}
	verify(s)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	verify(s)
	fsys.Crash()
	if s, err = Open(fsys, testDir, nil); err != nil {
		t.Fatal(err)
	}
	verify(s)
	if _, err := s.Read(99); !errors.Is(err, ErrNotFound) {
		t.Fatalf("read of a record that is not there: %v", err)
	}
}

func TestAppendAgainIsHarmlessAndTheLastOneCounts(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	for range 3 {
		for seq := uint64(1); seq <= 40; seq++ {
			if err := s.Append(seq, body(seq)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.Len() != 40 {
		t.Fatalf("%d records", s.Len())
	}
	checkCounts(t, s)
	if err := errors.Join(s.Sync(), s.Collect(s.Cut())); err != nil {
		t.Fatal(err)
	}
	before := s.Stats()
	fsys.Crash()
	s = openSmall(t, fsys)
	if after := s.Stats(); after != before {
		t.Fatalf("reopened %+v, before %+v", after, before)
	}
}

func TestAppendNeitherSyncsNorCuts(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	if err := errors.Join(s.Append(1, nil), s.Sync()); err != nil {
		t.Fatal(err)
	}
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpSync || op.Kind == storagetest.OpTruncate {
			return storagetest.ErrInjected
		}
		return nil
	})
	for i, length := range []int{10, 900, 1000, 5, 700} {
		if err := s.Append(uint64(i), make([]byte, length)); err != nil {
			t.Errorf("append of %d bytes: %v", length, err)
		}
	}
}

// A file becomes empty when its records are appended once more. It must stay until the new ones are durable.
func TestFileOfRecordsAppendedAgainStaysUntilTheyAreSynced(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	big := bytes.Repeat([]byte("x"), int(small.segmentBytesMax))
	if err := errors.Join(s.Append(1, big), s.Append(2, big), s.Sync(), s.Append(1, big)); err != nil {
		t.Fatal(err)
	}
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpSync {
			return storagetest.ErrInjected
		}
		return nil
	})
	if err := s.Collect(s.Cut()); !errors.Is(err, storage.ErrFatal) {
		t.Fatalf("collect with a failing sync: %v", err)
	}
	fsys.SetFault(nil)
	fsys.Crash()
	if s = openSmall(t, fsys); !s.Has(1) || !s.Has(2) {
		t.Fatal("a synced record is gone")
	}
}

func TestReleasedRecordStaysUntilADurableCutAndNoPinIsBefore(t *testing.T) {
	s := openSmall(t, storagetest.New())
	if err := s.Append(1, []byte("one")); err != nil {
		t.Fatal(err)
	}
	stream := s.Cut()
	checkpoint := s.Cut()
	s.Release(1, 1)
	s.Release(1, 1)
	s.Release(7, 7)
	if s.Len() != 0 {
		t.Fatalf("%d live records after the release", s.Len())
	}
	later := s.Cut()
	for _, collect := range []error{s.Collect(checkpoint), s.Collect(later, stream), s.Collect(later, later, stream)} {
		if collect != nil {
			t.Fatal(collect)
		}
		if got, err := s.Read(1); err != nil || string(got) != "one" {
			t.Fatalf("record released behind the cut: %q, %v", got, err)
		}
	}
	if err := s.Collect(later); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(1); !errors.Is(err, ErrNotFound) {
		t.Fatalf("collected record: %v", err)
	}
}

func TestOneStuckMessageDoesNotPinDisk(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	for range 400 {
		o.must(o.append())
	}
	for len(o.live) > 1 {
		o.release(1)
	}
	full := o.store.Stats()
	for range 1 + full.Segments/compactSegmentsMax {
		o.must(o.checkpoint(nil))
	}
	after := o.store.Stats()
	if after.Segments > 2 || after.DiskBytes > 2<<10 || full.DiskBytes < 50<<10 {
		t.Fatalf("before %+v, after %+v", full, after)
	}
	o.check()
	fsys.Crash()
	o.reopen()
}

// A released record that no durable cut covers is moved by compaction like a live one, and stays released.
func TestCompactionKeepsWhatAnOlderCheckpointNeeds(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	for range 400 {
		o.must(o.append())
	}
	for len(o.live) > 3 {
		o.release(1)
	}
	o.must(o.checkpoint(func() { o.release(0); o.release(0) }))
	o.check()
	fsys.Crash()
	o.reopen()
	if len(o.live) != 3 {
		t.Fatalf("%d records in the checkpoint", len(o.live))
	}
}

func TestFullDiskIsAnErrorThatPassesAndLosesNothing(t *testing.T) {
	for _, torn := range []int{0, 1, 15, 17, 100, 700} {
		t.Run(fmt.Sprint(torn), func(t *testing.T) {
			fsys := storagetest.New()
			o := newOwner(t, fsys)
			rng := rand.New(rand.NewPCG(1, uint64(torn)))
			full, refused := false, 0
			fsys.SetFault(func(op storagetest.Op) error {
				if full && op.Kind == storagetest.OpWrite {
					return &storagetest.TornWrite{Bytes: torn}
				}
				return nil
			})
			for i := range 2000 {
				full = i%40 > 30
				if err := o.step(rng); err != nil {
					refused++
					if errors.Is(err, storage.ErrFatal) {
						t.Fatalf("a full disk is fatal: %v", err)
					}
				}
				if i%400 == 399 {
					o.check()
				}
			}
			full = false
			o.must(o.checkpoint(nil))
			o.check()
			fsys.Crash()
			o.reopen()
			if refused == 0 {
				t.Fatal("nothing was refused")
			}
		})
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	if err := s.Append(1, []byte("a")); err != nil {
		t.Fatal(err)
	}
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpSync {
			return storagetest.ErrInjected
		}
		return nil
	})
	if err := s.Sync(); !errors.Is(err, storage.ErrFatal) || !errors.Is(err, storagetest.ErrInjected) {
		t.Fatalf("failed sync: %v", err)
	}
	fsys.SetFault(nil)
	for name, err := range map[string]error{"Sync": s.Sync(), "Append": s.Append(2, nil), "Collect": s.Collect(s.Cut())} {
		if !errors.Is(err, storage.ErrFatal) {
			t.Errorf("%s after a failed sync: %v", name, err)
		}
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s := openSmall(t, storagetest.New())
	if err := errors.Join(s.Append(1, []byte("a")), s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, readErr := s.Read(1)
	for _, err := range []error{readErr, s.Append(2, nil), s.Sync(), s.Collect(1)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := s.Append(3, make([]byte, BodyBytesMax+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

// Readers work while the owner appends, syncs, rolls, compacts and deletes files under them.
func TestReadsBesideAppendSyncAndCollect(t *testing.T) {
	s := openSmall(t, storagetest.New())
	const records, window = 4000, 300
	var mu sync.Mutex
	low, high := uint64(1), uint64(1) // live are [low, high), of the others every 50th
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 5))
			for {
				mu.Lock()
				lo, hi := low, high
				mu.Unlock()
				if hi >= records {
					return
				}
				if hi == lo {
					continue
				}
				seq := lo + rng.Uint64N(hi-lo)
				got, err := s.Read(seq)
				if err == nil && !bytes.Equal(got, body(seq)) || err != nil && !errors.Is(err, ErrNotFound) {
					t.Errorf("record %d: %d bytes, %v", seq, len(got), err)
					return
				}
				if st := s.Stats(); st.LiveBytes > st.DiskBytes {
					t.Errorf("stats %+v", st)
				}
			}
		})
	}
	for seq := uint64(1); seq <= records; seq++ {
		if err := s.Append(seq, body(seq)); err != nil {
			t.Error(err)
			break
		}
		mu.Lock()
		high = seq + 1
		if high-low > window {
			low++
		}
		release := low - 1
		mu.Unlock()
		if release%50 != 0 {
			s.Release(release, release)
		}
		if seq%100 == 0 {
			if err := errors.Join(s.Sync(), s.Collect(s.Cut())); err != nil {
				t.Error(err)
				break
			}
		}
	}
	mu.Lock()
	high = records
	mu.Unlock()
	readers.Wait()
	for seq := uint64(50); seq <= records; seq += 50 {
		if got, err := s.Read(seq); err != nil || !bytes.Equal(got, body(seq)) {
			t.Fatalf("record %d that was never released: %v", seq, err)
		}
	}
}

// A release of many numbers at once counts and collects what a release of each would.
func TestReleaseOfARange(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	s := openSmall(t, storagetest.New())
	live := map[uint64]bool{}
	for seq := uint64(1); seq < 3*PageSeqs; seq += 1 + rng.Uint64N(3) {
		if err := s.Append(seq, body(seq%200)); err != nil {
			t.Fatal(err)
		}
		live[seq] = true
	}
	for round := range 12 {
		from := rng.Uint64N(3 * PageSeqs)
		to := from + rng.Uint64N([]uint64{3, 900}[round%2])
		if round == 11 {
			from, to = 0, 1<<62
		}
		s.Release(from, to)
		for seq := range live {
			if seq >= from && seq <= to {
				delete(live, seq)
			}
		}
		if s.Len() != len(live) {
			t.Fatalf("%d records after a release of %d to %d, want %d", s.Len(), from, to, len(live))
		}
		checkCounts(t, s)
		if round%3 == 2 {
			if err := s.Collect(s.Cut()); err != nil {
				t.Fatal(err)
			}
			checkCounts(t, s)
			for seq := range uint64(3 * PageSeqs) {
				held := s.Held(seq / PageSeqs)
				if s.Has(seq) != live[seq] || held.has(seq%PageSeqs) != live[seq] {
					t.Fatalf("has %d: %t, want %t", seq, s.Has(seq), live[seq])
				}
			}
		}
	}
	if st := s.Stats(); st != (Stats{}) {
		t.Fatalf("an empty store has %+v", st)
	}
}

// TestRetain: what another state does not know goes with the next collection, what it knows stays.
func TestRetain(t *testing.T) {
	s, err := Open(storage.OS, t.TempDir(), func(uint64) Mask { return Mask{} })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 2000
	for seq := range uint64(n) {
		if err := s.Append(seq, []byte("body")); err != nil {
			t.Fatal(err)
		}
	}
	s.Release(0, 99)
	known := func(seq uint64) bool { return seq%3 == 0 && seq >= 300 }
	s.Retain(func(page uint64) (m Mask) {
		for i := range uint64(PageSeqs) {
			if known(page*PageSeqs + i) {
				m.set(i)
			}
		}
		return m
	})
	if err := s.Collect(s.Cut()); err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(n) {
		if s.Has(seq) != known(seq) {
			t.Fatalf("record %d is there: %t", seq, s.Has(seq))
		}
	}
}

// TestDeadBytesAreBounded: messages left here and there keep no more than as much again, and a little, of files that are neither full nor nearly empty.
func TestDeadBytesAreBounded(t *testing.T) {
	const body, n = 1000, 4000
	s, err := open(storage.OS, t.TempDir(), nil, limits{segmentBytesMax: 64 << 10, directBodyBytes: 64 << 10, compactActiveBytesMin: 1 << 10, deadBytesMax: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for seq := range uint64(n) {
		if err := s.Append(seq, make([]byte, body)); err != nil {
			t.Fatal(err)
		}
	}
	for seq := range uint64(n) {
		if seq%10 >= 3 {
			s.Release(seq, seq)
		}
	}
	for range n * body / (64 << 10) / compactSegmentsMax {
		if err := s.Collect(s.Cut()); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.Stats(); st.Records != 3*n/10 || st.DiskBytes > 2*st.LiveBytes+100<<10 {
		t.Errorf("%d records of %d bytes take %d", st.Records, st.LiveBytes, st.DiskBytes)
	}
	for seq := uint64(0); seq < n; seq += 10 {
		if got, err := s.Read(seq); err != nil || len(got) != body {
			t.Fatalf("record %d: %d bytes, %v", seq, len(got), err)
		}
	}
}
