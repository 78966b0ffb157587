package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenmq/warren/config"
	"github.com/warrenmq/warren/internal/node"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/wal"
)

func runStorage(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append([]string{"warren", "storage"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestStorageCheckAndDump(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, logFolder)
	l, err := wal.Open(wal.Options{FS: storage.OS, Dir: dir, Incarnation: 5, FileBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	g := wal.Group{Shard: 12, Replica: 3}
	if err := l.Commit([]wal.Update{{Group: g, State: []byte("state"), First: 7, Ends: []uint32{2, 5}, Entries: []byte("abcde")}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runStorage(t, "check", data)
	if code != 0 || errs != "" || !strings.Contains(out, " ok\n") {
		t.Fatalf("check: %d %q %q", code, out, errs)
	}
	code, out, errs = runStorage(t, "dump", dir)
	if code != 0 || errs != "" || !strings.Contains(out, "12/3") || !strings.Contains(out, "state of 5 bytes, entries 7 to 8 of 5 bytes") {
		t.Fatalf("dump: %d %q %q", code, out, errs)
	}
	name := filepath.Join(dir, "0000000000000001.wal")
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	raw[570] ^= 1
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = runStorage(t, "check", data); code != node.ExitData || !strings.Contains(out, "is corrupt at offset 512") || !strings.Contains(errs, "damaged files of the log in ") {
		t.Fatalf("check of damage: %d %q %q", code, out, errs)
	}
	for _, args := range [][]string{{}, {"check"}, {"check", data, data}, {"other"}} {
		if code, _, errs := runStorage(t, args...); code != config.ExitUsage || errs == "" {
			t.Errorf("storage %q: %d %q", args, code, errs)
		}
	}
	if code, _, errs := runStorage(t, "check", t.TempDir()); code == 0 || !strings.Contains(errs, "no write-ahead log") {
		t.Errorf("an empty directory: %d %q", code, errs)
	}
}
