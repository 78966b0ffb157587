package wal

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

// reseal gives the header and all records of a file, as far as their lengths lead, right checksums: so the fuzzer gets behind them.
func reseal(data []byte) []byte {
	if len(data) < recordsAt {
		return data
	}
	resum(data)
	h, ok := parseFileHeader(data)
	if !ok {
		return data
	}
	last := h.crc
	for at := int64(recordsAt); at+recordHeaderBytes <= int64(len(data)); {
		n := bodyBytesOf(data[at:])
		if at+recordBytes(n) > int64(len(data)) || data[at+12] == 0 {
			break
		}
		rec := data[at : at+recordHeaderBytes+n]
		last = seal(rec, h.nonce, at, min(at, parseRecordHeader(rec).synced), last)
		at += recordBytes(n)
	}
	return data
}

// Whatever a file of the log holds, opening it either is a typed error or gives a log that works: all that it lists can be read, more can be added, and a
// second opening finds the same.
func FuzzRecover(f *testing.F) {
	fsys := storagetest.New()
	l := openSmall(f, fsys)
	must(f, l.Bootstrap(a, []byte("boot")), l.Commit([]Update{entriesOf(a, 1, "one", "two"), {Group: b, State: []byte("s"), Snapshot: []byte("snap"), SnapshotIndex: 5, Restored: true}}))
	must(f, l.Commit([]Update{entriesOf(b, 6, "six"), entriesOf(a, 2, "zwei", "drei")}), l.TruncateTo(a, 1), l.Import(Group{3, 1}, []byte("b"), []byte("s"), nil, 0))
	must(f, l.Remove(Group{3, 1}), l.Close())
	whole := fsys.Bytes(logNames(fsys)[0])
	f.Add(whole, false)
	f.Add(whole[:len(whole)-3], true)
	f.Add(whole[:recordsAt], true)
	f.Add([]byte{}, false)
	copied := bytes.Clone(whole)
	for at := int64(recordsAt); at+recordHeaderBytes < int64(len(copied)); at += recordBytes(bodyBytesOf(copied[at:])) {
		if copied[at+12] == kindUpdate {
			copied[at+12] = kindCopy
		}
	}
	f.Add(copied, true)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		if fix {
			data = reseal(bytes.Clone(data))
		}
		fsys := storagetest.New()
		must(t, storage.EnsureDir(fsys, testDir), storage.WriteFile(fsys, fileName(testDir, 1, fileSuffix), data))
		l, err := open(Options{FS: fsys, Dir: testDir, Incarnation: 7}, small)
		if err != nil {
			if !isTyped(err) {
				t.Fatalf("not a typed error: %v", err)
			}
			return
		}
		before, err := dumpLog(l)
		must(t, err)
		must(t, l.Commit([]Update{entriesOf(Group{99, 1}, 1, "more")}), l.Close())
		fsys.Crash()
		l = openSmall(t, fsys)
		want(t, "more", readAll(t, l, Group{99, 1}), "1=more")
		must(t, l.Remove(Group{99, 1}))
		if after, err := dumpLog(l); err != nil || after != before {
			t.Fatalf("%v: found\n%s\nand then\n%s", err, before, after)
		}
	})
}

// A body whose checksum holds must be refused or read without a panic, whatever it says.
func FuzzContent(f *testing.F) {
	u := entriesOf(a, 3, "x", "", "yz")
	u.State, u.Snapshot, u.SnapshotIndex = []byte("state"), []byte("snap"), 2
	rec := appendRecord(nil, kindUpdate, []byte("boot"), &u)
	f.Add(rec[recordHeaderBytes:recordHeaderBytes+bodyBytesOf(rec)], byte(kindUpdate), rec[13])
	f.Add(binary.BigEndian.AppendUint64(nil, 7), byte(kindTruncate), byte(0))
	f.Fuzz(func(t *testing.T, body []byte, kind, flags byte) {
		rec := make([]byte, recordBytes(int64(len(body))))
		putRecordHeader(rec, kind, flags, a, len(body))
		copy(rec[recordHeaderBytes:], body)
		var c content
		if parseContent(rec, &c) != nil {
			return
		}
		n := 0
		for i := range c.count {
			n += len(c.entry(i))
		}
		if n != len(c.entries) {
			t.Fatalf("%d bytes in %d entries, %d in all", n, c.count, len(c.entries))
		}
	})
}
