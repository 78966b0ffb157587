package datadir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

const testDir = "/var/lib/warren"

func mustOpen(t *testing.T, fsys FS, dir string) *Dir {
	t.Helper()
	d, err := Open(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustBoot(t *testing.T, d *Dir) Boot {
	t.Helper()
	b, err := d.NextBoot()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestIdentityIsDrawnOnceAndBootsRise(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	var first Identity
	var before Boot
	for i := range 4 {
		d := mustOpen(t, storage.OS, dir)
		id := d.Identity()
		if i == 0 {
			first = id
		}
		if id != first || id.NodeID == 0 || id.ClusterID == 0 || id.FormatVersion != 1 || id.LogStore != "wal" || d.Path() != dir {
			t.Fatalf("identity %+v, first %+v", id, first)
		}
		for range 2 {
			b := mustBoot(t, d)
			if b.Counter != before.Counter+1 || b.Nonce == before.Nonce || b.Nonce == 0 {
				t.Fatalf("boot %+v after %+v", b, before)
			}
			before = b
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the directory's mode: %v, %v", info.Mode(), err)
	}
	other := mustOpen(t, storage.OS, t.TempDir())
	if id := other.Identity(); id.NodeID == first.NodeID || id.ClusterID == first.ClusterID {
		t.Fatal("two directories with one identity")
	}
}

func TestSecondOpenIsLockedAndNamesTheProcess(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, storage.OS, dir)
	_, err := Open(storage.OS, dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Dir != dir || locked.PID != os.Getpid() {
		t.Fatalf("second open: %v", err)
	}
	for _, part := range []string{dir, fmt.Sprint(os.Getpid())} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, storage.OS, dir)
}

func TestUnusableDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := Open(storage.OS, dir)
		var notWritable *NotWritableError
		if !errors.As(err, &notWritable) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// Whatever operation fails while a directory is opened and booted: the error is typed, the next process opens the same node (if there was one), and
// no boot comes twice.
func TestEveryOperationFailsOnce(t *testing.T) {
	workload := func(fsys FS) (id Identity, boots []Boot, err error) {
		d, err := Open(fsys, testDir)
		if err != nil {
			return id, nil, err
		}
		for range 2 {
			b, bootErr := d.NextBoot()
			if bootErr != nil {
				err = bootErr
				continue
			}
			boots = append(boots, b)
		}
		return d.Identity(), boots, err
	}
	for _, existing := range []bool{false, true} {
		failed := 0
		for n := 1; ; n++ {
			fsys := storagetest.New()
			var before Identity
			var last Boot
			if existing {
				id, boots, err := workload(fsys)
				if err != nil {
					t.Fatal(err)
				}
				before, last = id, boots[1]
				fsys.Crash()
			}
			fsys.SetFault(storagetest.FailNth(n))
			id, boots, err := workload(fsys)
			if fsys.Ops() < n {
				break
			}
			var notWritable *NotWritableError
			if err != nil && (!errors.As(err, &notWritable) || !errors.Is(err, storagetest.ErrInjected)) {
				t.Fatalf("operation %d: %v", n, err)
			}
			if err != nil {
				failed++
			}
			if len(boots) > 0 {
				if existing && id != before {
					t.Fatalf("operation %d: another identity", n)
				}
				before = id
			}
			fsys.SetFault(nil)
			fsys.CrashTorn(rand.New(rand.NewPCG(uint64(n), 1)))
			again, more, err := workload(fsys)
			if err != nil {
				t.Fatalf("after operation %d failed: %v", n, err)
			}
			if before != (Identity{}) && again != before {
				t.Fatalf("operation %d: the node changed", n)
			}
			for _, b := range append(boots, more...) {
				if b.Counter <= last.Counter {
					t.Fatalf("operation %d: boot %d after %d", n, b.Counter, last.Counter)
				}
				last = b
			}
		}
		if failed < 10 {
			t.Fatalf("only %d operations failed", failed)
		}
	}
}

func TestEveryFlippedBitIsNoticed(t *testing.T) {
	fsys := storagetest.New()
	mustBoot(t, mustOpen(t, fsys, testDir))
	fsys.Crash()
	for _, name := range []string{identityName, bootName} {
		file := filepath.Join(testDir, name)
		for bit := range int64(len(fsys.Bytes(file))) * 8 {
			fsys.Flip(file, bit)
			_, err := Open(fsys, testDir)
			var corrupt *storage.CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != file {
				t.Fatalf("%s bit %d: %v", name, bit, err)
			}
			fsys.Flip(file, bit)
		}
		whole := fsys.Bytes(file)
		for size := range whole {
			fsys.SetBytes(file, whole[:size])
			if _, err := Open(fsys, testDir); err == nil {
				t.Fatalf("%s cut to %d bytes was accepted", name, size)
			}
		}
		fsys.SetBytes(file, whole)
	}
	mustOpen(t, fsys, testDir)
}

func TestOtherFormatsAreNamed(t *testing.T) {
	fsys := storagetest.New()
	id := mustOpen(t, fsys, testDir).Identity()
	file := filepath.Join(testDir, identityName)
	fsys.Crash()

	newer := id
	newer.FormatVersion = 2
	fsys.SetBytes(file, newer.encode())
	_, err := Open(fsys, testDir)
	var version *storage.VersionError
	if !errors.As(err, &version) || version.Found != 2 || version.Supported != 1 || version.File != file {
		t.Errorf("format 2: %v", err)
	}
	fsys.SetBytes(file, seal(identityTitle+"format 7\nwhatever\n"))
	if _, err = Open(fsys, testDir); !errors.As(err, &version) || version.Found != 7 {
		t.Errorf("format 7: %v", err)
	}

	other := id
	other.LogStore = "pebble" // as versions before the shared log made it
	fsys.SetBytes(file, other.encode())
	_, err = Open(fsys, testDir)
	var logStore *LogStoreError
	if !errors.As(err, &logStore) || logStore.Found != "pebble" || logStore.Supported != "wal" || logStore.File != file || !strings.Contains(err.Error(), `"pebble"`) ||
		!strings.Contains(err.Error(), `"wal"`) {
		t.Errorf("other log store: %v", err)
	}

	for _, text := range []string{"", "warren\n", identityTitle, identityTitle + "format x\n", identityTitle + "format 1\n",
		identityTitle + "format 1\nlog-store wal\nnode 0000000000000000\ncluster 0000000000000001\n",
		identityTitle + "format 1\nlog-store wal\nnode 1\ncluster 1\n"} {
		fsys.SetBytes(file, seal(text))
		var corrupt *storage.CorruptError
		if _, err = Open(fsys, testDir); !errors.As(err, &corrupt) || corrupt.File != file {
			t.Errorf("%q: %v", text, err)
		}
	}
	fsys.SetBytes(file, id.encode())
	mustOpen(t, fsys, testDir) // and after all these errors nothing stayed locked
}

// A node id must not be drawn for a directory that has content, and boots must not start over.
func TestMissingFilesAreNoticed(t *testing.T) {
	for _, gone := range []string{identityName, bootName} {
		fsys := storagetest.New()
		mustBoot(t, mustOpen(t, fsys, testDir))
		if err := fsys.MkdirAll(filepath.Join(testDir, "raft")); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(fsys.Remove(filepath.Join(testDir, gone)), fsys.SyncDir(testDir)); err != nil {
			t.Fatal(err)
		}
		fsys.Crash()
		if err := fsys.MkdirAll(filepath.Join(testDir, "raft")); err != nil {
			t.Fatal(err)
		}
		_, err := Open(fsys, testDir)
		var corrupt *storage.CorruptError
		if !errors.As(err, &corrupt) || corrupt.File != filepath.Join(testDir, gone) {
			t.Errorf("without %s: %v", gone, err)
		}
	}
}

func TestFreshDirectoryMayHoldALostAndFoundAndAnInterruptedWrite(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(dir, lostAndFound), 0o700),
		os.WriteFile(filepath.Join(dir, identityName+storage.TempSuffix), []byte("interrupted"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, storage.OS, dir)
}

func FuzzIdentity(f *testing.F) {
	id := Identity{FormatVersion: 1, LogStore: LogStore, NodeID: 1, ClusterID: 2}
	f.Add(id.encode())
	f.Add([]byte("warren data directory\nformat 1\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if id, err := parseIdentity("identity", data); err == nil && string(id.encode()) != string(data) {
			t.Fatalf("%q was read as %+v", data, id)
		}
		if b, err := parseBoot("boot", data); err == nil && string(b.encode()) != string(data) {
			t.Fatalf("%q was read as %+v", data, b)
		}
		text := string(data)
		if id, err := parseIdentity("identity", seal(text)); err == nil && string(id.encode()) != string(seal(text)) {
			t.Fatalf("%q was read as %+v", text, id)
		}
		if b, err := parseBoot("boot", seal(text)); err == nil && string(b.encode()) != string(seal(text)) {
			t.Fatalf("%q was read as %+v", text, b)
		}
	})
}
