package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/warrenmq/warren/storage/internal/frame"
	"github.com/warrenmq/warren/storage/storagetest"
)

// resum gives a changed header its right checksum.
func resum(data []byte) []byte {
	if len(data) >= headerBytes {
		binary.BigEndian.PutUint32(data[headerCRCAt:], frame.Sum(0, data[:headerCRCAt]))
	}
	return data
}

// Whatever the last file holds, opening it either is a typed error or gives a store that works: it reads what it lists, appends behind it, and finds
// both again.
func FuzzRecover(f *testing.F) {
	fsys := storagetest.New()
	s, err := open(fsys, testDir, nil, small)
	if err != nil {
		f.Fatal(err)
	}
	for seq := uint64(1); seq <= 5; seq++ {
		if err := errors.Join(s.Append(seq, body(seq)), s.Sync()); err != nil {
			f.Fatal(err)
		}
	}
	whole := fsys.Bytes(fileName(testDir, 1))
	f.Add(whole, false)
	f.Add(whole[:len(whole)-3], true)
	f.Add(whole[:headerBytes], true)
	f.Add([]byte{}, false)
	f.Add(append(append([]byte(nil), whole...), make([]byte, 100)...), true)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		if fix {
			data = resum(append([]byte(nil), data...))
		}
		fsys := storagetest.New()
		if err := fsys.MkdirAll(testDir); err != nil {
			t.Fatal(err)
		}
		file, err := fsys.Create(fileName(testDir, 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		s, err := open(fsys, testDir, nil, small)
		if err != nil {
			return
		}
		found := map[uint64][]byte{}
		for _, p := range s.index.pages {
			for i := range uint64(PageSeqs) {
				if seq := p.no*PageSeqs + i; p.has.has(i) {
					if found[seq], err = s.Read(seq); err != nil {
						t.Fatalf("record %d: %v", seq, err)
					}
				}
			}
		}
		found[99] = []byte("appended")
		if err := errors.Join(s.Append(99, found[99]), s.Sync(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if s, err = open(fsys, testDir, nil, small); err != nil {
			t.Fatal(err)
		}
		for seq, want := range found {
			if got, err := s.Read(seq); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("record %d after an append: %v", seq, err)
			}
		}
	})
}

// Whatever stands in a list, its file opens: what it says of the file is believed only if it fits, and bodies only as they were appended.
func FuzzList(f *testing.F) {
	fsys := storagetest.New()
	s, err := open(fsys, testDir, nil, small)
	if err != nil {
		f.Fatal(err)
	}
	for seq := uint64(1); s.Stats().Segments < 2; seq++ {
		if err := errors.Join(s.Append(seq, body(seq)), s.Sync()); err != nil {
			f.Fatal(err)
		}
	}
	sealed, last := fsys.Bytes(fileName(testDir, 1)), fsys.Bytes(fileName(testDir, 2))
	name := newSegmentFile(testDir, 1).listName(testDir)
	list := fsys.Bytes(name)
	f.Add(list[listHeaderBytes:len(list)-listCRCBytes], true)
	f.Add(list, false)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		if fix {
			data = append(bytes.Clone(list[:listHeaderBytes]), data...)
			data = binary.BigEndian.AppendUint32(data, frame.Sum(0, data))
		}
		fsys := storagetest.New()
		if err := fsys.MkdirAll(testDir); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{fileName(testDir, 1): sealed, fileName(testDir, 2): last, name: data} {
			file, err := fsys.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.Write(data); err != nil {
				t.Fatal(err)
			}
		}
		s, err := open(fsys, testDir, nil, small)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.index.pages {
			for i := range uint64(PageSeqs) {
				seq := p.no*PageSeqs + i
				if got, err := s.Read(seq); err == nil && !bytes.Equal(got, body(seq)) {
					t.Fatalf("record %d: other bytes", seq)
				}
			}
		}
	})
}
