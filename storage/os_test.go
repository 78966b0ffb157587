package storage_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

// both runs a test on the operating system and on the file system in memory, which must behave alike.
func both(t *testing.T, run func(t *testing.T, fsys lockFS, dir string)) {
	t.Run("os", func(t *testing.T) { run(t, storage.OS, t.TempDir()) })
	t.Run("memory", func(t *testing.T) {
		fsys := storagetest.New()
		if err := fsys.MkdirAll("/tmp/x"); err != nil {
			t.Fatal(err)
		}
		run(t, fsys, "/tmp/x")
	})
}

type lockFS interface {
	storage.FS
	storage.Locker
}

func TestFilesBehaveAlike(t *testing.T) {
	both(t, func(t *testing.T, fsys lockFS, dir string) {
		name := filepath.Join(dir, "f")
		if _, err := fsys.Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open of a missing file: %v", err)
		}
		f, err := fsys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.Write([]byte("hello ")); n != 6 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
		if n, err := f.Write([]byte("world")); n != 5 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
		if n, err := f.WriteAt([]byte("xyz"), 13); n != 3 || err != nil {
			t.Errorf("write behind the end: %d, %v", n, err)
		}
		buf := make([]byte, 20)
		if n, err := f.ReadAt(buf, 0); n != 16 || err != io.EOF || string(buf[:n]) != "hello world\x00\x00xyz" {
			t.Errorf("read: %d %q %v", n, buf[:n], err)
		}
		if n, err := f.ReadAt(buf, 16); n != 0 || err != io.EOF {
			t.Errorf("read at the end: %d %v", n, err)
		}
		if err := storage.ReadFull(f, buf[:3], 14); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("full read over the end: %v", err)
		}
		if err := errors.Join(f.Truncate(4), f.Truncate(6), f.Sync()); err != nil {
			t.Error(err)
		}
		if size, err := f.Size(); size != 6 || err != nil {
			t.Errorf("size: %d, %v", size, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Sync(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("sync of a closed file: %v", err)
		}
		if data, err := storage.ReadFile(fsys, name, 6); string(data) != "hell\x00\x00" || err != nil {
			t.Errorf("content: %q, %v", data, err)
		}
		var corrupt *storage.CorruptError
		if _, err := storage.ReadFile(fsys, name, 5); !errors.As(err, &corrupt) || corrupt.File != name {
			t.Errorf("a file that is too long: %v", err)
		}
		r, err := fsys.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.WriteAt([]byte("x"), 0); err == nil {
			t.Error("write to a file opened for reading")
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL); !errors.Is(err, fs.ErrExist) {
			t.Errorf("exclusive create: %v", err)
		}
	})
}

func TestNamesBehaveAlike(t *testing.T) {
	both(t, func(t *testing.T, fsys lockFS, dir string) {
		at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
		if err := errors.Join(fsys.MkdirAll(at("a", "b")), fsys.MkdirAll(at("a", "b")), fsys.SyncDir(at("a"))); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"z", "m", "c"} {
			if err := storage.WriteFile(fsys, at("a", name), []byte(name)); err != nil {
				t.Fatal(err)
			}
		}
		if names, err := fsys.List(at("a")); err != nil || !slices.Equal(names, []string{"b", "c", "m", "z"}) {
			t.Errorf("list: %v, %v", names, err)
		}
		if err := fsys.Rename(at("a", "z"), at("a", "m")); err != nil {
			t.Error(err)
		}
		if err := fsys.Rename(at("a", "m"), at("a", "b", "moved")); err != nil {
			t.Error(err)
		}
		if data, err := storage.ReadFile(fsys, at("a", "b", "moved"), 10); string(data) != "z" || err != nil {
			t.Errorf("renamed file: %q, %v", data, err)
		}
		if err := fsys.Remove(at("a", "b")); err == nil {
			t.Error("removed a directory with content")
		}
		if err := errors.Join(fsys.Remove(at("a", "b", "moved")), fsys.Remove(at("a", "b"))); err != nil {
			t.Error(err)
		}
		if info, err := fsys.Stat(at("a", "c")); err != nil || info != (storage.Info{SizeBytes: 1}) {
			t.Errorf("stat of a file: %+v, %v", info, err)
		}
		if info, err := fsys.Stat(at("a")); err != nil || !info.IsDir {
			t.Errorf("stat of a directory: %+v, %v", info, err)
		}
		_, listErr := fsys.List(at("nowhere"))
		_, statErr := fsys.Stat(at("nowhere"))
		_, createErr := fsys.Create(at("nowhere", "f"))
		for _, err := range []error{listErr, statErr, createErr, fsys.SyncDir(at("nowhere")), fsys.Remove(at("nowhere")), fsys.Rename(at("nowhere"), at("x"))} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("missing name: %v", err)
			}
		}
	})
}

func TestLocksBehaveAlike(t *testing.T) {
	both(t, func(t *testing.T, fsys lockFS, dir string) {
		name := filepath.Join(dir, "LOCK")
		lock, err := fsys.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fsys.Lock(name)
		var locked *storage.LockedError
		if !errors.As(err, &locked) || locked.File != name || locked.PID == 0 {
			t.Errorf("second lock: %v", err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		if lock, err = fsys.Lock(name); err != nil {
			t.Fatal(err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

const lockedFileEnv = "WARREN_TEST_LOCK_FILE"

// A lock ends with its process, however that ends, and its holder is named to others.
func TestLockEndsWithItsProcess(t *testing.T) {
	if name := os.Getenv(lockedFileEnv); name != "" {
		if _, err := storage.OS.Lock(name); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		_, _ = io.ReadAll(os.Stdin) // until killed
		return
	}
	name := filepath.Join(t.TempDir(), "LOCK")
	child := exec.Command(os.Args[0], "-test.run=^TestLockEndsWithItsProcess$")
	child.Env = append(os.Environ(), lockedFileEnv+"="+name)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	_, err = storage.OS.Lock(name)
	var locked *storage.LockedError
	if !errors.As(err, &locked) || locked.PID != child.Process.Pid {
		t.Errorf("locked by process %d: %v", child.Process.Pid, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // "signal: killed"
	lock, err := storage.OS.Lock(name)
	if err != nil {
		t.Fatalf("after the process was killed: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}
