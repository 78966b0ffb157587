package checkpoint

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/warrenmq/warren/storage/storagetest"
)

// Whatever the file holds, Load either refuses it or gives a checkpoint whose tail can be continued and is found again.
func FuzzLoad(f *testing.F) {
	fsys := storagetest.New()
	o := newOwner(f, fsys)
	o.must(o.apply(15))
	o.must(o.checkpoint(3))
	o.must(o.apply(6))
	o.must(o.sync())
	name := filepath.Join(testDir, baseName(12))
	whole := fsys.Bytes(name)
	f.Add(whole, false)
	f.Add(whole[:len(whole)-3], true)
	f.Add(whole[:headerBytes], true)
	f.Add([]byte{}, false)
	f.Add(append(bytes.Clone(whole), make([]byte, 100)...), true)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		if fix {
			data = resum(bytes.Clone(data))
		}
		fsys := storagetest.New()
		if err := fsys.MkdirAll(testDir); err != nil {
			t.Fatal(err)
		}
		file, err := fsys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		r, ok, err := Load(fsys, testDir)
		if err != nil {
			return
		}
		if !ok || r.Tail.LastIndex() == ^uint64(0) {
			return
		}
		added := Entry{Index: r.Tail.LastIndex() + 1, Command: []byte("added")}
		if err := errors.Join(r.Tail.Append(added.Index, added.Command), r.Tail.Sync(), r.Tail.Close()); err != nil {
			t.Fatal(err)
		}
		again, ok, err := Load(fsys, testDir)
		if err != nil || !ok || !bytes.Equal(again.Snapshot, r.Snapshot) {
			t.Fatalf("after an append: %v, %v", ok, err)
		}
		checkEntries(t, again.Entries, append(r.Entries, added))
	})
}
