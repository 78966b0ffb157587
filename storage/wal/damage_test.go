package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
	"github.com/warrenmq/warren/storage/storagetest"
)

func isCorrupt(err error) bool {
	var corrupt *storage.CorruptError
	return errors.As(err, &corrupt)
}

func isTyped(err error) bool {
	var version *storage.VersionError
	var incarnation *IncarnationError
	return isCorrupt(err) || errors.As(err, &version) || errors.As(err, &incarnation)
}

// logNames returns the paths of the files of a log.
func logNames(fsys *storagetest.Mem) []string {
	names, _ := fsys.List(testDir)
	var paths []string
	for _, n := range numbersOf(names, fileSuffix) {
		paths = append(paths, fileName(testDir, n, fileSuffix))
	}
	return paths
}

// flipTarget is a log of several files that was closed.
func flipTarget(t *testing.T) *owner {
	for seed := uint64(1); ; seed++ {
		o := newOwner(t, storagetest.New())
		o.run(seed, 150)
		o.must(o.done(o.log.Close()))
		if len(logNames(o.fsys)) >= 3 {
			return o
		}
	}
}

// live says whether a byte of a file belongs to what must be right: the header, and all records (but the markers at the end, and the truncations written with them, which nobody waits for) without their padding.
func live(data []byte, at int64) bool {
	if at < recordsAt {
		return at < headerBytes
	}
	h, _ := parseFileHeader(data)
	for end := int64(recordsAt); end < int64(len(data)); {
		rec, ok := intact(data[end:], h.nonce, end)
		if !ok {
			return false
		}
		next := end + recordBytes(int64(rec.bodyBytes))
		if at < next {
			return at < end+recordHeaderBytes+int64(rec.bodyBytes) && (isWaitedFor(rec.kind) || follows(data, h.nonce, next))
		}
		end = next
	}
	return false
}

func isWaitedFor(kind byte) bool { return kind != kindMarker && kind != kindTruncate }

// follows says whether a record that somebody waited for begins at end or behind it. On a busy machine an idle log's marker comes before that of the clean stop.
func follows(data []byte, nonce uint64, end int64) bool {
	for {
		rec, ok := intact(data[end:], nonce, end)
		if !ok || isWaitedFor(rec.kind) {
			return ok
		}
		end += recordBytes(int64(rec.bodyBytes))
	}
}

func TestEveryFlippedBitIsNoticedOrHarmless(t *testing.T) {
	o := flipTarget(t)
	rng := rand.New(rand.NewPCG(21, 22))
	names := logNames(o.fsys)
	flips, detected, harmless := 0, 0, 0
	try := func(name string, bit int64) {
		data := o.fsys.Bytes(name)
		must := live(data, bit/8)
		o.fsys.Flip(name, bit)
		defer o.fsys.Flip(name, bit)
		flips++
		l, err := open(Options{FS: o.fsys.Clone(), Dir: testDir, Incarnation: 3}, small)
		if err != nil {
			if !isTyped(err) {
				t.Fatalf("%s bit %d: not a typed error: %v", name, bit, err)
			}
			detected++
			return
		}
		defer l.Close()
		if got, err := dumpLog(l); err != nil || got != o.now.dump() {
			t.Fatalf("%s bit %d: other content was accepted: %v", name, bit, err)
		}
		harmless++
		if must {
			t.Errorf("%s bit %d was accepted", name, bit)
		}
	}
	for range 2000 {
		name := names[rng.IntN(len(names))]
		try(name, rng.Int64N(int64(len(o.fsys.Bytes(name)))*8))
	}
	for _, name := range names {
		for bit := range int64(headerBytes) * 8 {
			try(name, bit)
			try(name, recordsAt*8+bit)
		}
	}
	if detected < 500 || harmless == 0 {
		t.Errorf("%d flips: %d detected, %d harmless", flips, detected, harmless)
	}
	t.Logf("%d flips in %d files: %d detected, %d harmless, 0 changes of content unnoticed", flips, len(names), detected, harmless)
}

// What rots behind an open log is noticed by who reads it.
func TestRotBehindAnOpenLogIsNoticedByRead(t *testing.T) {
	o := flipTarget(t)
	o.reopen()
	rng := rand.New(rand.NewPCG(5, 6))
	noticed := 0
	for range 1000 {
		names := logNames(o.fsys)
		name := names[rng.IntN(len(names))]
		bit := rng.Int64N(int64(len(o.fsys.Bytes(name))) * 8)
		o.fsys.Flip(name, bit)
		got, err := dumpLog(o.log)
		switch {
		case err != nil && !isCorrupt(err):
			t.Fatalf("bit %d: %v", bit, err)
		case err != nil:
			noticed++
		case got != o.now.dump():
			t.Fatalf("bit %d: wrong bytes were read", bit)
		}
		o.fsys.Flip(name, bit)
	}
	if noticed == 0 {
		t.Fatal("no flip hit a live record")
	}
}

// rotLast breaks the last record that is no marker in the newest file.
func rotLast(t *testing.T, fsys *storagetest.Mem) {
	t.Helper()
	names := logNames(fsys)
	name := names[len(names)-1]
	data := fsys.Bytes(name)
	h, _ := parseFileHeader(data)
	last := int64(0)
	for end := int64(recordsAt); ; {
		rec, ok := intact(data[end:], h.nonce, end)
		if !ok {
			break
		}
		if rec.kind != kindMarker {
			last = end
		}
		end += recordBytes(int64(rec.bodyBytes))
	}
	if last == 0 {
		t.Fatal("no record")
	}
	fsys.Flip(name, (last+recordHeaderBytes)*8)
}

// A log that was idle for a moment, or was closed, knows its last batch to be durable: rot in it is no torn write.
func TestRotInTheLastBatchIsNoTornWrite(t *testing.T) {
	for _, how := range []string{"idle", "closed"} {
		synctest.Test(t, func(t *testing.T) {
			fsys := storagetest.New()
			l, err := Open(Options{FS: fsys, Dir: testDir, FileBytes: 8192})
			must(t, err)
			must(t, l.Commit([]Update{entriesOf(a, 1, "one")}), l.Commit([]Update{entriesOf(a, 2, "two")}))
			if how == "idle" {
				time.Sleep(limits.WALMarkerMillis * time.Millisecond)
				synctest.Wait()
				fsys.Crash()
			}
			_ = l.Close() // fails after the crash
			rotLast(t, fsys)
			if _, err := Open(Options{FS: fsys, Dir: testDir, FileBytes: 8192}); !isCorrupt(err) {
				t.Fatalf("%s: a confirmed record was left out: %v", how, err)
			}
		})
	}
}

// An idle log does not write marker behind marker, and a truncation that nobody waits for becomes durable.
func TestAnIdleLogIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := storagetest.New()
		l, err := Open(Options{FS: fsys, Dir: testDir, FileBytes: 8192})
		must(t, err)
		must(t, l.Commit([]Update{entriesOf(a, 1, "one", "two")}))
		time.Sleep(time.Second)
		if s := l.Stats(); s.Syncs != 2 {
			t.Fatalf("a commit and a second: %+v", s)
		}
		must(t, l.TruncateTo(a, 1))
		time.Sleep(time.Second)
		if s := l.Stats(); s.Syncs != 3 {
			t.Fatalf("a truncation and a second: %+v", s)
		}
		fsys.Crash()
		_ = l.Close()
		l, err = Open(Options{FS: fsys, Dir: testDir, FileBytes: 8192})
		must(t, err)
		want(t, "after power loss", readAll(t, l, a), "2=two")
		must(t, l.Close())
	})
}

// Two histories with the same nonce (which does not happen) differ in one record of the same length: each record fits its place, but not the one before.
func TestARecordOfAnotherHistoryDoesNotFit(t *testing.T) {
	var images [2][]byte
	var name string
	for i := range images {
		fsys := storagetest.New()
		bounds := small
		bounds.nonce = func() uint64 { return 4711 }
		l, err := open(Options{FS: fsys, Dir: testDir}, bounds)
		must(t, err)
		must(t, l.Commit([]Update{entriesOf(a, 1, fmt.Sprint("history ", i))}), l.Commit([]Update{entriesOf(a, 2, fmt.Sprint("second of ", i))}))
		must(t, l.Commit([]Update{entriesOf(a, 3, "three")}), l.Close())
		name = logNames(fsys)[0]
		images[i] = fsys.Bytes(name)
	}
	at := recordsAt + int(recordBytes(bodyBytesOf(images[0][recordsAt:])))
	next := at + int(recordBytes(bodyBytesOf(images[0][at:])))
	mixed := bytes.Clone(images[0])
	copy(mixed[at:next], images[1][at:next])
	fsys := storagetest.New()
	must(t, storage.EnsureDir(fsys, testDir), storage.WriteFile(fsys, name, mixed))
	if _, err := open(Options{FS: fsys, Dir: testDir}, small); !isCorrupt(err) {
		t.Fatalf("a record of another history was accepted: %v", err)
	}
}

// What an earlier life of the file left behind its end does not come back.
func TestRecordsOfAnEarlierLifeAreNone(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	for i := uint64(1); i < 200; i++ { // equal records: they stand at the same places in every file
		must(t, l.Commit([]Update{entriesOf(a, i, strings.Repeat("x", 100))}), l.TruncateTo(a, i))
	}
	last := uint64(200)
	for i := uint64(1); i < 30; i++ {
		must(t, l.Commit([]Update{entriesOf(a, last, "live")}))
		fsys.Crash()
		l = openSmall(t, fsys)
		if got := readAll(t, l, a); got[len(got)-1] != fmt.Sprintf("%d=live", last) {
			t.Fatalf("%q", got)
		}
		last++
	}
}

func TestCutMissingAndSwappedFilesAreNoticed(t *testing.T) {
	o := flipTarget(t)
	names := logNames(o.fsys)
	refused := func(what string, fsys *storagetest.Mem) {
		t.Helper()
		if _, err := open(Options{FS: fsys, Dir: testDir, Incarnation: 3}, small); !isCorrupt(err) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i, name := range names {
		data := o.fsys.Bytes(name)
		for size := 0; size < len(data); size += 7 {
			if !live(data, int64(size)) {
				continue
			}
			fsys := o.fsys.Clone()
			fsys.SetBytes(name, data[:size])
			// Of the last file nothing is left that says that more was durable: its end looks torn.
			if i < len(names)-1 || size < headerBytes {
				refused(fmt.Sprint(name, " cut to ", size), fsys)
			}
		}
		if i > 0 && i < len(names)-1 {
			fsys := o.fsys.Clone()
			must(t, fsys.Remove(name))
			refused(name+" removed", fsys)
		}
	}
	fsys := o.fsys.Clone()
	first, second := fsys.Bytes(names[0]), fsys.Bytes(names[1])
	fsys.SetBytes(names[0], second)
	fsys.SetBytes(names[1], first)
	refused("swapped", fsys)
}

// resum gives a changed header its right checksum.
func resum(data []byte) []byte {
	binary.BigEndian.PutUint32(data[52:], frame.Sum(0, data[:52]))
	return data
}

func TestOtherVersionsAndIncarnationsAreNamed(t *testing.T) {
	o := flipTarget(t)
	names := logNames(o.fsys)
	name := names[len(names)-1]
	data := o.fsys.Bytes(name)
	data[len(magic)+3] = formatVersion + 1
	o.fsys.SetBytes(name, resum(data))
	_, err := open(Options{FS: o.fsys, Dir: testDir, Incarnation: 3}, small)
	var version *storage.VersionError
	if !errors.As(err, &version) || version.Found != formatVersion+1 || version.File != name {
		t.Errorf("newer format: %v", err)
	}
	_, err = open(Options{FS: o.fsys, Dir: testDir, Incarnation: 4}, small)
	var incarnation *IncarnationError
	if !errors.As(err, &incarnation) || incarnation.Found != 3 || incarnation.Want != 4 || incarnation.File != names[0] {
		t.Errorf("another incarnation: %v", err)
	}
	if text := (&IncarnationError{File: filepath.Join("d", "f"), Found: 3, Want: 4}).Error(); text != "d/f is of storage incarnation 3, this node's is 4" {
		t.Error(text)
	}
}
