package storage_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

// Whatever operation of a WriteFile fails, and whatever of it survives the crash: the file is the old one or the new one, and the new one if WriteFile
// said so.
func TestWriteFileIsAllOrNothing(t *testing.T) {
	for n := 1; ; n++ {
		fsys := storagetest.New()
		if err := errors.Join(storage.EnsureDir(fsys, "/d"), storage.WriteFile(fsys, "/d/f", []byte("old"))); err != nil {
			t.Fatal(err)
		}
		fsys.SetFault(storagetest.FailNth(n))
		wrote := storage.WriteFile(fsys, "/d/f", []byte("new content"))
		if fsys.Ops() < n {
			break
		}
		fsys.SetFault(nil)
		if live := string(fsys.Bytes("/d/f")); wrote != nil && !errors.Is(wrote, storage.ErrFatal) && live != "old" {
			t.Fatalf("operation %d: an error that is not fatal left %q", n, live)
		}
		for seed := range uint64(20) {
			after := fsys.Clone()
			after.CrashTorn(rand.New(rand.NewPCG(seed, 1)))
			got := string(after.Bytes("/d/f"))
			if got != "new content" && (got != "old" || wrote == nil) {
				t.Fatalf("operation %d: %v, then %q", n, wrote, got)
			}
		}
	}
}

// EnsureDir can be stopped at any operation by a kill; the next process calls it again and then relies on the directory.
func TestEnsureDirIsDurableAfterAnInterruptedOne(t *testing.T) {
	for n := 1; ; n++ {
		fsys := storagetest.New()
		fsys.SetFault(storagetest.FailFrom(n))
		_ = storage.EnsureDir(fsys, "/a/b/c")
		if fsys.Ops() < n {
			break
		}
		fsys.SetFault(nil)
		if err := errors.Join(storage.EnsureDir(fsys, "/a/b/c"), storage.WriteFile(fsys, "/a/b/c/f", []byte("x"))); err != nil {
			t.Fatal(err)
		}
		fsys.Crash()
		if got := string(fsys.Bytes("/a/b/c/f")); got != "x" {
			t.Fatalf("interrupted at operation %d: %q", n, got)
		}
	}
}

// The parent of a directory that an operator made may be closed to us.
func TestEnsureDirToleratesAParentThatCannotBeRead(t *testing.T) {
	fsys := storagetest.New()
	if err := storage.EnsureDir(fsys, "/srv/warren"); err != nil {
		t.Fatal(err)
	}
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == storagetest.OpSyncDir && op.Name == "/srv" {
			return fs.ErrPermission
		}
		return nil
	})
	if err := storage.EnsureDir(fsys, "/srv/warren"); err != nil {
		t.Errorf("existing: %v", err)
	}
	if err := storage.EnsureDir(fsys, "/srv/warren/data"); err != nil {
		t.Errorf("below: %v", err)
	}
	if err := storage.EnsureDir(fsys, "/srv/other"); err == nil {
		t.Error("a new directory whose name cannot be synced")
	}
	if err := errors.Join(storage.WriteFile(fsys, "/srv/warren/f", nil)); err != nil {
		t.Fatal(err)
	}
	if err := storage.EnsureDir(fsys, "/srv/warren/f"); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestErrorsNameWhatTheyAreAbout(t *testing.T) {
	for _, c := range []struct{ err, want string }{
		{(&storage.CorruptError{File: "/d/f", OffsetBytes: 12, Reason: "bad"}).Error(), "/d/f is corrupt at offset 12: bad"},
		{(&storage.CorruptError{File: "/d/f", OffsetBytes: -1, Reason: "bad"}).Error(), "/d/f is corrupt: bad"},
		{(&storage.VersionError{File: "/d/f", Found: 3, Supported: 1}).Error(), "/d/f has format version 3, this version of Warren reads up to 1; use a newer one"},
		{(&storage.LockedError{File: "/d/LOCK", PID: 5}).Error(), "/d/LOCK is locked by process 5"},
		{(&storage.LockedError{File: "/d/LOCK"}).Error(), "/d/LOCK is locked by another process"},
	} {
		if c.err != c.want {
			t.Errorf("%q, want %q", c.err, c.want)
		}
	}
	if err := storage.Fatal(fmt.Errorf("wrapped: %w", fs.ErrClosed)); !errors.Is(err, storage.ErrFatal) || !errors.Is(err, fs.ErrClosed) || storage.Fatal(nil) != nil {
		t.Errorf("fatal: %v", err)
	}
}
