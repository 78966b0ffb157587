package wal

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/warrenmq/warren/storage/storagetest"
)

func TestScanShowsEveryRecordAndChangesNothing(t *testing.T) {
	fsys := storagetest.New()
	l := openSmall(t, fsys)
	u := entriesOf(a, 1, "one", "two")
	u.State, u.Snapshot, u.SnapshotIndex, u.Restored = []byte("state"), []byte("snap"), 3, true
	must(t, l.Bootstrap(a, []byte("boot")), l.Commit([]Update{u}), l.TruncateTo(a, 1), l.Remove(b), l.Close())
	fsys.SetFault(func(op storagetest.Op) error {
		if !slices.Contains([]storagetest.Kind{storagetest.OpOpen, storagetest.OpList, storagetest.OpStat, storagetest.OpRead, storagetest.OpClose}, op.Kind) {
			t.Errorf("operation %+v", op)
		}
		return nil
	})
	var got []string
	files, err := Scan(fsys, testDir, func(r Record) error {
		got = append(got, fmt.Sprintf("%s %v boot %d state %d snap %d@%d %v entries %d-%d %d to %d", r.Kind, r.Group, r.BootstrapBytes, r.StateBytes, r.SnapshotBytes, r.SnapshotIndex, r.Restored,
			r.First, r.Last, r.EntriesBytes, r.Index))
		return nil
	})
	must(t, err)
	want(t, "records", got,
		"update {1 1} boot 4 state -1 snap -1@0 false entries 0-0 0 to 0",
		"update {1 1} boot -1 state 5 snap 4@3 true entries 1-2 6 to 0",
		"truncate {1 1} boot -1 state -1 snap -1@0 false entries 0-0 0 to 1",
		"reset {2 1} boot -1 state -1 snap -1@0 false entries 0-0 0 to 0",
		"marker {0 0} boot -1 state -1 snap -1@0 false entries 0-0 0 to 0")
	if len(files) != 1 || files[0].Err != nil || files[0].Records != 5 || files[0].Torn || files[0].Incarnation != 7 {
		t.Errorf("%+v", files)
	}
	stop := errors.New("enough")
	if _, err := Scan(fsys, testDir, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a visit that fails: %v", err)
	}
}

// Scan goes on behind damage and names each damaged file.
func TestScanFindsAllDamage(t *testing.T) {
	o := flipTarget(t)
	clean, err := Scan(o.fsys, testDir, nil)
	must(t, err)
	names := logNames(o.fsys)
	o.fsys.Flip(names[0], (recordsAt+recordHeaderBytes)*8)
	o.fsys.Flip(names[2], 80)
	files, err := Scan(o.fsys, testDir, nil)
	must(t, err)
	for i, f := range files {
		if damaged := i == 0 || i == 2; isCorrupt(f.Err) != damaged || clean[i].Err != nil || !damaged && f.Records != clean[i].Records {
			t.Errorf("%s: %v, undamaged %v; %d records, undamaged %d", f.Name, f.Err, clean[i].Err, f.Records, clean[i].Records)
		}
	}
}
