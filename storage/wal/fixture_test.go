package wal

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

var writeFixture = flag.Bool("write-fixture", false, "write testdata/v1 anew: only when the format's version is raised, under another name")

const fixture = "testdata/v1"

// TestVersion1IsRead reads a log that an early binary wrote, with records of every kind. It must be readable as long as format version 1 is.
func TestVersion1IsRead(t *testing.T) {
	if *writeFixture {
		makeFixture(t)
	}
	fsys := storagetest.New()
	must(t, storage.EnsureDir(fsys, testDir))
	names, err := filepath.Glob(filepath.Join(fixture, "*"+fileSuffix))
	must(t, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(t, err, storage.WriteFile(fsys, filepath.Join(testDir, filepath.Base(name)), data))
	}
	kinds := map[byte]int{}
	list, err := fsys.List(testDir)
	must(t, err)
	must(t, scanLog(fsys, testDir, list, os.O_RDONLY, scanner{record: func(_ *logFile, _ int64, rec []byte) error {
		kinds[parseRecordHeader(rec).kind]++
		return nil
	}}))
	for kind := byte(kindMarker); kind <= kindTruncate; kind++ {
		if kinds[kind] == 0 {
			t.Errorf("the fixture has no record of kind %d", kind)
		}
	}
	l, err := open(Options{FS: fsys, Dir: testDir, Incarnation: 3}, small)
	must(t, err)
	got, err := dumpLog(l)
	must(t, err, l.Close())
	golden, err := os.ReadFile(filepath.Join(fixture, "content.txt"))
	must(t, err)
	if got+"\n" != string(golden) {
		t.Errorf("the log has\n%s\nand should have\n%s", got, golden)
	}
}

func makeFixture(t *testing.T) {
	fsys := storagetest.New()
	o := newOwner(t, fsys)
	nonce := rand.New(rand.NewPCG(1, 2))
	o.log.bounds.nonce = nonce.Uint64
	o.run(6, 140)
	o.must(o.done(o.log.Close()))
	must(t, os.MkdirAll(fixture, 0o755))
	for _, name := range logNames(fsys) {
		must(t, os.WriteFile(filepath.Join(fixture, filepath.Base(name)), fsys.Bytes(name), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(fixture, "content.txt"), []byte(o.now.dump()+"\n"), 0o644))
}
