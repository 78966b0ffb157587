package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

const testDir = "/log"

// small are bounds with which a few hundred bytes make a file full.
var small = bounds{
	fileBytes: 4096, filesBytes: 8 * 4096, pinnedBytes: 4 * 4096, copyBytes: 600, tailBytes: 2048, chunkBytes: 512, fillBytes: 1024, inline: true, nonce: newNonce,
}

func openSmall(t testing.TB, fsys storage.FS) *Log {
	t.Helper()
	l, err := open(Options{FS: fsys, Dir: testDir, Incarnation: 7}, small)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// entriesOf makes an update of entries.
func entriesOf(g Group, first uint64, entries ...string) Update {
	u := Update{Group: g, First: first}
	for _, e := range entries {
		u.Entries = append(u.Entries, e...)
		u.Ends = append(u.Ends, uint32(len(u.Entries)))
	}
	return u
}

func readAll(t testing.TB, l *Log, g Group) []string {
	t.Helper()
	first, last, ok := l.Range(g)
	if !ok {
		return nil
	}
	got, err := readRange(l, g, first, last+1)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func readRange(l *Log, g Group, low, high uint64) ([]string, error) {
	var got []string
	err := l.Read(g, low, high, func(index uint64, data []byte) bool {
		got = append(got, fmt.Sprintf("%d=%s", index, data))
		return true
	})
	return got, err
}

func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

var a, b = Group{1, 1}, Group{2, 1}

func TestWhatWasCommittedIsThereAfterAReopen(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	u := entriesOf(a, 1, "one", "two", "three")
	u.State = []byte("term 1")
	must(t, l.Bootstrap(a, []byte("boot")), l.Commit([]Update{u, entriesOf(b, 10, "x", "", "z")}))
	must(t, l.Commit([]Update{entriesOf(a, 3, "drei", "vier"), {Group: b, Snapshot: []byte("snap"), SnapshotIndex: 9}}))
	check := func(what string) {
		t.Helper()
		want(t, what, readAll(t, l, a), "1=one", "2=two", "3=drei", "4=vier")
		want(t, what, readAll(t, l, b), "10=x", "11=", "12=z")
		boot, _ := l.BootstrapOf(a)
		state, _ := l.StateOf(a)
		snap, index, _ := l.SnapshotOf(b)
		if string(boot) != "boot" || string(state) != "term 1" || string(snap) != "snap" || index != 9 || !slices.Equal(l.Groups(), []Group{a}) {
			t.Fatalf("%s: %q %q %q %d %v", what, boot, state, snap, index, l.Groups())
		}
	}
	check("live")
	for range 3 {
		must(t, l.Close())
		l = openSmall(t, fsys)
		check("reopened")
	}
	fsys.Crash()
	l = openSmall(t, fsys)
	check("after a crash")
	must(t, l.TruncateTo(a, 2), l.Remove(b))
	want(t, "truncated", readAll(t, l, a), "3=drei", "4=vier")
	want(t, "removed", readAll(t, l, b))
	fsys.Crash()
	l = openSmall(t, fsys)
	want(t, "truncated and crashed", readAll(t, l, a), "3=drei", "4=vier")
	must(t, l.Import(a, []byte("new"), []byte("term 5"), []byte("s"), 100))
	must(t, l.Close())
	l = openSmall(t, fsys)
	want(t, "imported", readAll(t, l, a))
	if _, _, ok := l.SnapshotOf(b); ok {
		t.Fatal("a removed group is back")
	}
	if snap, index, ok := l.SnapshotOf(a); string(snap) != "s" || index != 100 || !ok {
		t.Fatalf("imported: %q %d", snap, index)
	}
}

func TestManyFilesAreUsedAgain(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	for i := uint64(1); i < 400; i++ {
		must(t, l.Commit([]Update{entriesOf(a, i, fmt.Sprintf("%0200d", i))}))
		if i > 20 {
			must(t, l.TruncateTo(a, i-20))
		}
		if i%50 == 0 {
			must(t, l.Close())
			l = openSmall(t, fsys)
		}
		if got := readAll(t, l, a); len(got) != int(min(i, 20)) {
			t.Fatalf("%d: %d entries", i, len(got))
		}
	}
	names, _ := fsys.List(testDir)
	if len(names) > int(small.filesBytes/small.fileBytes) {
		t.Fatalf("files: %v", names)
	}
}

func TestALargeRecordHasAFileOfItsOwnLength(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	large := string(bytes.Repeat([]byte("l"), 9000))
	must(t, l.Commit([]Update{entriesOf(a, 1, "s"), entriesOf(a, 2, large), entriesOf(a, 3, "t")}))
	for range 2 {
		want(t, "large", readAll(t, l, a), "1=s", "2="+large, "3=t")
		must(t, l.Close())
		l = openSmall(t, fsys)
	}
}

func TestConcurrentCommitsShareSyncs(t *testing.T) {
	fsys := storagetest.New()
	l, err := Open(Options{FS: fsys, Dir: testDir, FileBytes: 1 << 20})
	must(t, err)
	var wg sync.WaitGroup
	for w := range uint64(32) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := uint64(1); i <= 50; i++ {
				if err := l.Commit([]Update{entriesOf(Group{w, 1}, i, fmt.Sprint(i))}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if s := l.Stats(); s.Commits != 1600 || s.Syncs > s.Commits {
		t.Errorf("%+v", s)
	}
	must(t, l.Close())
	l, err = Open(Options{FS: fsys, Dir: testDir, FileBytes: 1 << 20})
	must(t, err)
	for w := range uint64(32) {
		if got := readAll(t, l, Group{w, 1}); len(got) != 50 || got[49] != "50=50" {
			t.Fatalf("%d: %q", w, got)
		}
	}
	must(t, l.Close())
}

func TestOldGroupsDoNotKeepOldFiles(t *testing.T) {
	fsys := storagetest.New()
	var asked []Group
	l, err := open(Options{FS: fsys, Dir: testDir, NeedCheckpoint: func(g Group, index uint64) {
		asked = append(asked, g)
		if index != 1 {
			t.Errorf("%v is asked to cut up to %d", g, index)
		}
	}}, small)
	must(t, err)
	u := entriesOf(b, 5, "old", "older")
	u.State, u.Snapshot, u.SnapshotIndex = []byte("state"), []byte("snap"), 4
	large := Group{3, 1}
	big := string(bytes.Repeat([]byte("b"), 900))
	must(t, l.Bootstrap(b, []byte("boot")), l.Commit([]Update{u, entriesOf(large, 1, big)}))
	for i := uint64(1); i < 300; i++ {
		must(t, l.Commit([]Update{entriesOf(a, i, fmt.Sprintf("%0200d", i))}), l.TruncateTo(a, i-1))
		if len(asked) > 0 {
			if asked[0] != large {
				t.Fatalf("asked: %v", asked)
			}
			asked = nil
			must(t, l.TruncateTo(large, 1))
		}
	}
	if s := l.Stats(); s.Files > 5 || s.CopiedBytes == 0 {
		t.Fatalf("%+v", s)
	}
	for range 2 {
		want(t, "old", readAll(t, l, b), "5=old", "6=older")
		boot, _ := l.BootstrapOf(b)
		state, _ := l.StateOf(b)
		snap, index, _ := l.SnapshotOf(b)
		if string(boot) != "boot" || string(state) != "state" || string(snap) != "snap" || index != 4 {
			t.Fatalf("%q %q %q %d", boot, state, snap, index)
		}
		must(t, l.Close())
		l = openSmall7(t, fsys, 0)
	}
}

// A disk that has no room for a file ahead is asked again; until then commits do without.
func TestADiskThatRefusesASpareIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := storagetest.New()
		full := errors.New("no space left")
		fsys.SetFault(func(op storagetest.Op) error {
			if op.Kind == storagetest.OpWrite && op.Bytes == limits.WALFillBytes {
				return full
			}
			return nil
		})
		l, err := Open(Options{FS: fsys, Dir: testDir, FileBytes: limits.WALFillBytes})
		must(t, err)
		synctest.Wait()
		if s := l.Stats(); s.Spares != 0 || !strings.Contains(s.NoSpare, "no space") {
			t.Fatalf("%+v", s)
		}
		must(t, l.Commit([]Update{entriesOf(a, 1, "one")}))
		fsys.SetFault(nil)
		time.Sleep(limits.WALSpareRetryMillis * time.Millisecond)
		must(t, l.Commit([]Update{entriesOf(a, 2, "two")}))
		synctest.Wait()
		if s := l.Stats(); s.Spares != 1 || s.NoSpare != "" {
			t.Fatalf("%+v", s)
		}
		must(t, l.Close())
	})
}

func TestAClosedLogSaysSo(t *testing.T) {
	l := openSmall(t, storagetest.New())
	must(t, l.Commit([]Update{entriesOf(a, 1, "one")}), l.Close())
	for what, err := range map[string]error{
		"Commit": l.Commit([]Update{entriesOf(a, 2, "two")}), "Bootstrap": l.Bootstrap(a, nil), "Remove": l.Remove(a), "TruncateTo": l.TruncateTo(a, 1), "Close": l.Close(),
		"Read": l.Read(a, 1, 2, func(uint64, []byte) bool { return true }),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What cannot be written as it should be is refused before anything is.
func TestUpdatesThatDoNotFitAreRefused(t *testing.T) {
	l := openSmall(t, storagetest.New())
	for what, u := range map[string]Update{
		"index 0": entriesOf(a, 0, "x"), "ends": {Group: a, First: 1, Ends: []uint32{2, 1}, Entries: []byte("x")}, "bytes": {Group: a, First: 1, Ends: []uint32{2}, Entries: []byte("x")},
		"overflow": entriesOf(a, 1<<64-1, "x", "y"),
	} {
		if l.Commit([]Update{entriesOf(b, 1, "x"), u}) == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	must(t, l.Commit([]Update{{Group: a}}), l.Commit(nil))
	if s := l.Stats(); s.Syncs != 0 {
		t.Errorf("something was written: %+v", s)
	}
}

// Old entries that cannot be read any more cannot be copied: a checkpoint makes do without them, and the log does not grow for ever.
func TestDamagedOldEntriesAreCheckpointedAway(t *testing.T) {
	fsys := storagetest.New()
	asked := false
	l, err := open(Options{FS: fsys, Dir: testDir, NeedCheckpoint: func(g Group, _ uint64) { asked = asked || g == b }}, small)
	must(t, err, l.Commit([]Update{entriesOf(b, 1, "old")}))
	fsys.Flip(logNames(fsys)[0], (recordsAt+recordHeaderBytes)*8)
	for i := uint64(1); i < 200 && !asked; i++ {
		must(t, l.Commit([]Update{entriesOf(a, i, fmt.Sprintf("%0200d", i))}), l.TruncateTo(a, i-1))
	}
	if !asked {
		t.Fatal("nobody was asked")
	}
	must(t, l.TruncateTo(b, 1))
	for i := uint64(200); i < 300; i++ {
		must(t, l.Commit([]Update{entriesOf(a, i, fmt.Sprintf("%0200d", i))}), l.TruncateTo(a, i-1))
	}
	if s := l.Stats(); s.Files > 5 {
		t.Fatalf("%+v", s)
	}
}

func openSmall7(t testing.TB, fsys storage.FS, incarnation uint64) *Log {
	t.Helper()
	l, err := open(Options{FS: fsys, Dir: testDir, Incarnation: incarnation}, small)
	must(t, err)
	return l
}
