package quorum

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lni/vfs"
)

// syncs counts which directories are synced.
type syncs struct {
	vfs.FS
	of map[string]int
}

type countedDir struct {
	vfs.File
	name string
	of   map[string]int
}

func (s syncs) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	return countedDir{f, name, s.of}, err
}

func (d countedDir) Sync() error {
	d.of[d.name]++
	return d.File.Sync()
}

// TestFirstStartWaitsForTheDisk: an empty directory of a group is not waited for; as soon as something is in it, it is durable, too.
func TestFirstStartWaitsForTheDisk(t *testing.T) {
	disk := syncs{vfs.Default, make(map[string]int)}
	fs := raftFS{disk}
	part := filepath.Join(t.TempDir(), "host", "00000000000000000001", "snapshot-part-2")
	group := filepath.Join(part, "snapshot-7-1")
	sync := func(dir string) {
		t.Helper()
		d, err := fs.OpenDir(dir)
		if err == nil {
			err = d.Sync()
		}
		if err != nil || d.Close() != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what  string
		do    func() error
		dir   string // is synced then, as the library does
		syncs int    // of the directory above the group's
	}{
		{"the directory of the groups", func() error { return fs.MkdirAll(part, 0o755) }, filepath.Dir(part), 0},
		{"the group's", func() error { return fs.MkdirAll(group, 0o755) }, part, 0},
		{"a snapshot's", func() error { return fs.MkdirAll(filepath.Join(group, "snapshot-5.generating"), 0o755) }, group, 1},
		{"a mark", func() error {
			f, err := fs.Create(filepath.Join(group, "DELETED.dragonboat"))
			if err != nil {
				return err
			}
			return f.Close()
		}, group, 2},
		{"a snapshot", func() error {
			f, err := fs.Create(filepath.Join(group, "snapshot-5.generating", "s"))
			_ = f.Close()
			return err
		}, group, 2},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		sync(step.dir)
		if n := disk.of[part]; n != step.syncs {
			t.Errorf("after %s the directory above was synced %d times, want %d", step.what, n, step.syncs)
		}
		if disk.of[step.dir] == 0 && step.dir != part {
			t.Errorf("after %s %s was not synced", step.what, step.dir)
		}
	}
	if _, err := os.Stat(group); err != nil {
		t.Error(err)
	}
}
