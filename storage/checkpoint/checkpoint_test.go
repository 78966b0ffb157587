package checkpoint

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

func TestLoadsWhatWasWritten(t *testing.T) {
	fsys := storagetest.New()
	if _, ok, err := Load(fsys, testDir); ok || err != nil {
		t.Fatalf("a missing folder: %v, %v", ok, err)
	}
	o := newOwner(t, fsys)
	o.must(o.apply(25))
	o.must(o.checkpoint(0))
	o.must(o.apply(33))
	o.must(o.sync())
	fsys.Crash()
	o.reopen()
	if o.applied != 58 {
		t.Fatalf("found up to %d", o.applied)
	}
	h, ok, err := ReadHeader(fsys, testDir)
	if err != nil || !ok || h.ShardID != testShard || h.Index != 25 || h.SnapshotBytes != int64(len(snapshot(25))) || h.SyncedIndex < 25 {
		t.Fatalf("header %+v, %v, %v", h, ok, err)
	}
	o.must(o.apply(5)) // the tail goes on where it ended
	o.must(o.sync())
	fsys.Crash()
	o.reopen()
	if o.applied != 63 {
		t.Fatalf("found up to %d", o.applied)
	}
}

func TestOlderCheckpointsGo(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	for range 4 {
		o.must(o.apply(9))
		o.must(o.checkpoint(3))
	}
	if names, _ := fsys.List(testDir); len(names) != 1 || names[0] != baseName(o.applied-3) {
		t.Fatalf("files: %v", names)
	}
}

// A checkpoint cut in the background must not put the folder back behind what its predecessor's tail made durable.
func TestWriteNeverGoesBack(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	o.must(o.apply(10))
	o.must(o.checkpoint(0))
	o.must(o.apply(10))
	o.must(o.sync())
	for _, cp := range []struct {
		index uint64
		tail  []Entry
		want  error
	}{
		{5, nil, ErrNotNewer},
		{10, entries(10, 30), ErrNotNewer},
		{15, nil, ErrNotNewer},
		{15, entries(15, 18), ErrNotNewer},
		{15, []Entry{{Index: 15}}, ErrOrder},
		{15, []Entry{{Index: 19}, {Index: 18}}, ErrOrder},
		{15, entries(15, 19), nil},
		{16, nil, ErrNotNewer},
		{16, entries(16, 18), ErrNotNewer},
	} {
		tail, err := Write(fsys, testDir, Checkpoint{ShardID: testShard, Index: cp.index, Snapshot: snapshot(cp.index)}, cp.tail...)
		if !errors.Is(err, cp.want) {
			t.Fatalf("at %d with %d entries: %v, want %v", cp.index, len(cp.tail), err, cp.want)
		}
		if err == nil && tail.Append(19, nil) != ErrOrder {
			t.Fatal("an entry twice")
		}
	}
	o.durable = 19
	fsys.Crash()
	o.reopen()
}

func TestLargeCommands(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	o.must(o.checkpoint(0))
	var want []Entry
	for i, length := range []int{tailBufferBytes, 5, tailBufferBytes - 16, tailBufferBytes - 15, 0, 3 * tailBufferBytes, 100_000, 200_000, 1} {
		e := Entry{Index: uint64(i + 1), Command: bytes.Repeat([]byte{byte(i)}, length)}
		want = append(want, e)
		o.must(o.tail.Append(e.Index, e.Command))
	}
	o.must(o.tail.Sync())
	size := o.tail.FileBytes()
	fsys.Crash()
	r, _, err := Load(fsys, testDir)
	if err != nil || r.Tail.FileBytes() != size || size != int64(len(fsys.Bytes(filepath.Join(testDir, baseName(0))))) {
		t.Fatalf("%v: %d bytes", err, size)
	}
	checkEntries(t, r.Entries, want)
	if err := r.Tail.Append(10, make([]byte, CommandBytesMax+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("too large: %v", err)
	}
	if err := errors.Join(r.Tail.Close(), r.Tail.Close()); err != nil {
		t.Fatal(err)
	}
	if err := r.Tail.Append(10, nil); !errors.Is(err, ErrClosed) || !errors.Is(r.Tail.Sync(), ErrClosed) {
		t.Fatalf("closed: %v", err)
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	o.must(o.checkpoint(0))
	o.must(o.apply(3))
	failing := storagetest.OpSync
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind == failing {
			return storagetest.ErrInjected
		}
		return nil
	})
	if err := o.sync(); !errors.Is(err, storage.ErrFatal) {
		t.Fatalf("failed sync: %v", err)
	}
	for _, failing = range []storagetest.Kind{storagetest.OpSync, storagetest.OpSyncDir} {
		if err := o.checkpoint(0); !errors.Is(err, storage.ErrFatal) {
			t.Fatalf("write with a failing sync of kind %d: %v", failing, err)
		}
	}
	fsys.SetFault(nil)
	if err := o.tail.Append(50, nil); !errors.Is(err, storage.ErrFatal) || !errors.Is(o.sync(), storage.ErrFatal) {
		t.Fatalf("after a failed sync: %v", err)
	}
}

func TestFullDiskKeepsTheOlderCheckpointAndItsTail(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	o.must(o.apply(10))
	o.must(o.checkpoint(0))
	for _, torn := range []int{0, 1, 50, 90} {
		o.must(o.apply(4))
		fsys.SetFault(func(op storagetest.Op) error {
			if op.Kind == storagetest.OpWrite {
				return &storagetest.TornWrite{Bytes: torn}
			}
			return nil
		})
		if err := o.checkpoint(0); err == nil || errors.Is(err, storage.ErrFatal) {
			t.Fatalf("write on a full disk: %v", err)
		}
		if err := o.sync(); err == nil || errors.Is(err, storage.ErrFatal) {
			t.Fatalf("sync on a full disk: %v", err)
		}
		if err := o.tail.Append(o.applied+1, make([]byte, 2*tailBufferBytes)); err == nil {
			t.Fatal("append on a full disk")
		}
		fsys.SetFault(nil)
		if names, _ := fsys.List(testDir); len(names) != 1 {
			t.Fatalf("files: %v", names)
		}
		o.must(o.apply(7))
		o.must(o.sync())
		fsys.Crash()
		o.reopen()
	}
}
