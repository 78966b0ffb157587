package storagetest

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// put writes a file without syncing anything.
func put(t *testing.T, m *Mem, name, content string) *file {
	t.Helper()
	f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	return f.(*file)
}

func TestCrashForgetsWhatWasNotSynced(t *testing.T) {
	m := New()
	must(t, m.MkdirAll("/d"), m.SyncDir("/"))
	both := put(t, m, "/d/both", "synced")
	must(t, both.Sync())
	put(t, m, "/d/name", "content")
	must(t, m.SyncDir("/d"))
	content := put(t, m, "/d/content", "content")
	must(t, content.Sync())
	_, err := both.WriteAt([]byte("!!! and more"), 3)
	must(t, err, m.Rename("/d/name", "/d/renamed"), m.MkdirAll("/d/sub/sub"))
	if got := string(m.Bytes("/d/both")); got != "syn!!! and more" {
		t.Fatalf("before the crash: %q", got)
	}
	m.Crash()
	names, err := m.List("/d")
	must(t, err)
	if !slices.Equal(names, []string{"both", "name"}) || string(m.Bytes("/d/both")) != "synced" || string(m.Bytes("/d/name")) != "" {
		t.Fatalf("after the crash: %v, %q, %q", names, m.Bytes("/d/both"), m.Bytes("/d/name"))
	}
	if err := both.Sync(); !errors.Is(err, ErrCrashed) {
		t.Fatalf("a handle from before the crash: %v", err)
	}
}

func TestRemovedFileComesBackUnlessTheDirectoryWasSynced(t *testing.T) {
	m := New()
	must(t, put(t, m, "/f", "old").Sync(), m.SyncDir("/"), m.Remove("/f"))
	put(t, m, "/f", "new")
	m.Crash()
	if got := string(m.Bytes("/f")); got != "old" {
		t.Fatalf("%q", got)
	}
	must(t, m.Remove("/f"), m.SyncDir("/"))
	m.Crash()
	if _, err := m.Stat("/f"); err == nil {
		t.Fatal("a durably removed file is back")
	}
}

// A file that had a name only between two syncs of its directory can surface with the name; its content is not more durable for that.
func TestNameThatCameAndWentCanSurvive(t *testing.T) {
	m := New()
	put(t, m, "/f", "not synced")
	must(t, m.Remove("/f"))
	moves := 0
	m.CrashLeaving(func(u Unsynced) int {
		if u.Names {
			moves++
			return 2 - moves // the creation survives, the removal does not
		}
		return 0
	})
	if got := m.Bytes("/f"); moves != 2 || got == nil || len(got) != 0 {
		t.Fatalf("%d changes of names, then %q", moves, got)
	}
}

func TestCrashLeavesChosenBytes(t *testing.T) {
	m := New()
	f := put(t, m, "/f", "0123456789")
	must(t, f.Sync(), m.SyncDir("/"))
	_, err := f.WriteAt(make([]byte, 1000), 100)
	must(t, err, f.Truncate(5))
	_, err = f.WriteAt([]byte("abc"), 5)
	must(t, err)
	var seen []Unsynced
	m.CrashLeaving(func(u Unsynced) int {
		seen = append(seen, u)
		if u.Offset == 5 && !u.Truncate {
			return 2
		}
		return 0
	})
	want := []Unsynced{
		{Name: "/f", Offset: 100, Bytes: 412}, {Name: "/f", Offset: 512, Bytes: 512}, {Name: "/f", Offset: 1024, Bytes: 76},
		{Name: "/f", Truncate: true, Offset: 5, Bytes: 1}, {Name: "/f", Offset: 5, Bytes: 3},
	}
	if !slices.Equal(seen, want) || string(m.Bytes("/f")) != "01234ab789" {
		t.Fatalf("asked %+v, left %q", seen, m.Bytes("/f"))
	}
}

func TestTornCrashesReachEveryMixture(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(400) {
		m := New()
		f := put(t, m, "/f", "a")
		must(t, f.Sync(), m.SyncDir("/"))
		_, err := f.WriteAt([]byte("bb"), 1)
		must(t, err)
		put(t, m, "/g", "")
		m.CrashTorn(rand.New(rand.NewPCG(seed, 0)))
		key := string(m.Bytes("/f"))
		if m.Bytes("/g") != nil {
			key += "+g"
		}
		outcomes[key]++
	}
	for _, want := range []string{"a", "ab", "abb", "a+g", "ab+g", "abb+g"} {
		if outcomes[want] == 0 {
			t.Errorf("no crash left %q: %v", want, outcomes)
		}
	}
	if len(outcomes) != 6 {
		t.Errorf("outcomes %v", outcomes)
	}
}

func TestFaults(t *testing.T) {
	m := New()
	f := put(t, m, "/f", "")
	m.SetFault(FailNth(2))
	_, err := m.Stat("/f")
	must(t, err)
	if _, err := m.Stat("/f"); !errors.Is(err, ErrInjected) {
		t.Fatalf("second operation: %v", err)
	}
	must(t, f.Sync())
	if m.Ops() != 3 {
		t.Fatalf("%d operations", m.Ops())
	}
	m.SetFault(FailFrom(2))
	must(t, f.Sync())
	if !errors.Is(f.Sync(), ErrInjected) || !errors.Is(f.Truncate(0), ErrInjected) {
		t.Fatal("operations after the fault succeed")
	}
	m.SetFault(func(op Op) error {
		if op.Kind == OpWrite {
			return &TornWrite{Bytes: 2}
		}
		return nil
	})
	var torn *TornWrite
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 2 || !errors.As(err, &torn) || string(m.Bytes("/f")) != "ab" {
		t.Fatalf("torn write: %d, %v, %q", n, err, m.Bytes("/f"))
	}
}

func TestCloneIsIndependent(t *testing.T) {
	m := New()
	f := put(t, m, "/f", "one")
	must(t, f.Sync(), m.SyncDir("/"))
	_, err := f.WriteAt([]byte("two"), 0)
	must(t, err)
	put(t, m, "/g", "")
	c := m.Clone()
	must(t, f.Sync(), m.SyncDir("/"))
	c.Crash()
	if string(c.Bytes("/f")) != "one" || c.Bytes("/g") != nil {
		t.Fatalf("clone: %q, %v", c.Bytes("/f"), c.Bytes("/g"))
	}
	m.Crash()
	if string(m.Bytes("/f")) != "two" || m.Bytes("/g") == nil {
		t.Fatalf("original: %q, %v", m.Bytes("/f"), m.Bytes("/g"))
	}
	if !m.Flip("/f", 1) || m.Flip("/f", 24) || m.Flip("/none", 0) || string(m.Bytes("/f")) != "vwo" {
		t.Fatalf("flipped: %q", m.Bytes("/f"))
	}
}
