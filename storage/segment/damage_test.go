package segment

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/warrenmq/warren/storage/internal/frame"
	"github.com/warrenmq/warren/storage/storagetest"
)

// A sealed file must be whole even if its marks never reached the disk.
func TestDamageInASealedFileWithoutMarksIsNoticed(t *testing.T) {
	fsys, _ := flipTarget(t)
	removeLists(t, fsys)
	names, _ := fsys.List(testDir)
	name := filepath.Join(testDir, names[0])
	clean := fsys.Bytes(name)
	copy(clean[marksAt:], make([]byte, headerBytes-marksAt))
	fsys.SetBytes(name, clean)
	if _, err := open(fsys, testDir, nil, small); err != nil {
		t.Fatalf("without marks: %v", err)
	}
	for _, at := range []int{0, len(magic) + 5, headerBytes + 3, len(clean) - 1} {
		data := bytes.Clone(clean)
		data[at] ^= 4
		fsys.SetBytes(name, data)
		if _, err := open(fsys, testDir, nil, small); !isCorrupt(err) {
			t.Errorf("flip at byte %d: %v", at, err)
		}
	}
}

// A record longer than the buffer is summed piece by piece.
func TestFlipInALargeRecordIsNoticed(t *testing.T) {
	fsys := storagetest.New()
	s, err := Open(fsys, testDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	length := 3*frame.BufferBytes + 5
	if err := errors.Join(s.Append(1, make([]byte, length)), s.Append(2, []byte("next")), s.Sync()); err != nil {
		t.Fatal(err)
	}
	name := fileName(testDir, 1)
	for _, at := range []int{4, 17, frame.BufferBytes, frame.BufferBytes + 16, length - 1, length + 15} {
		fsys.Flip(name, int64(headerBytes+at)*8)
		if _, err := Open(fsys, testDir, nil); !isCorrupt(err) {
			t.Errorf("flip in byte %d of the record: %v", at, err)
		}
		fsys.Flip(name, int64(headerBytes+at)*8)
	}
	if s, err = Open(fsys, testDir, nil); err != nil || s.Len() != 2 {
		t.Fatalf("without a flip: %v", err)
	}
}

// The two marks are written in turn: a torn write of one leaves the other, and with it the knowledge that what it covers was durable.
func TestTornMarkLeavesTheOneBefore(t *testing.T) {
	for torn := range 20 {
		fsys := storagetest.New()
		s := openSmall(t, fsys)
		for seq := uint64(1); seq <= 3; seq++ {
			if seq == 3 {
				fsys.SetFault(func(op storagetest.Op) error {
					if op.Kind == storagetest.OpWrite && op.Offset < int64(headerBytes) {
						return &storagetest.TornWrite{Bytes: torn}
					}
					return nil
				})
			}
			if err := errors.Join(s.Append(seq, []byte("body")), s.Sync()); err != nil {
				t.Fatal(err)
			}
		}
		fsys.SetFault(nil)
		name := fileName(testDir, 1)
		if s = openSmall(t, fsys); s.Len() != 3 {
			t.Fatalf("%d records", s.Len())
		}
		fsys.Flip(name, int64(headerBytes+25)*8) // in record 2
		if _, err := open(fsys, testDir, nil, small); !isCorrupt(err) {
			t.Fatalf("mark torn after %d bytes: damage that the mark before covers: %v", torn, err)
		}
	}
}

func TestMostlyDeadActiveFileIsCompactedToo(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	for seq := uint64(1); seq <= 10; seq++ {
		if err := s.Append(seq, bytes.Repeat([]byte{byte(seq)}, 300)); err != nil {
			t.Fatal(err)
		}
		if seq != 4 {
			s.Release(seq, seq)
		}
	}
	big := make([]byte, 700)
	fsys.SetFault(func(op storagetest.Op) error { // leaves garbage behind the last record
		if op.Kind == storagetest.OpWrite && op.Bytes == len(big) {
			return &storagetest.TornWrite{Bytes: 650}
		}
		return nil
	})
	if s.Append(11, big) == nil {
		t.Fatal("the torn write did not fail")
	}
	fsys.SetFault(nil)
	var removed bool
	fsys.SetFault(func(op storagetest.Op) error {
		if op.Kind != storagetest.OpRemove {
			return nil
		}
		removed = true
		return storagetest.ErrInjected
	})
	if err := s.Collect(s.Cut()); !removed || !errors.Is(err, storagetest.ErrInjected) {
		t.Fatalf("the first collect tried to delete the old file: %v, %v", removed, err)
	}
	fsys.SetFault(nil)
	if again := openSmall(t, fsys); again.Stats().Segments != 2 { // the old file is sealed and clean
		t.Fatalf("%+v", again.Stats())
	}
	if err := s.Collect(s.Cut()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Segments != 1 || st.DiskBytes > 500 || st.Records != 1 {
		t.Fatalf("after the compaction: %+v", st)
	}
	if got, err := s.Read(4); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{4}, 300)) {
		t.Fatalf("the live record: %v", err)
	}
}

// Reading a long backlog does not use up the process's file descriptors.
func TestOpenFilesAreBounded(t *testing.T) {
	s := openSmall(t, storagetest.New())
	for seq := uint64(1); seq <= 300; seq++ {
		if err := s.Append(seq, bytes.Repeat([]byte{byte(seq)}, 500)); err != nil {
			t.Fatal(err)
		}
	}
	for _, seq := range []uint64{1, 300, 2, 150, 299, 3} {
		for range 2 {
			for at := seq; at < 300; at += 13 {
				if got, err := s.Read(at); err != nil || len(got) != 500 || got[0] != byte(at) {
					t.Fatalf("record %d: %v", at, err)
				}
			}
		}
		open := 0
		for _, seg := range s.segments {
			if seg.file != nil {
				open++
			}
		}
		if len(s.segments) < 30 || open > openFilesMax+1 || s.open > openFilesMax {
			t.Fatalf("%d of %d files are open, counted %d", open, len(s.segments), s.open)
		}
	}
}

// The folder may be shared with checkpoints; other names are left alone.
func TestOtherFilesAreLeftAlone(t *testing.T) {
	fsys := storagetest.New()
	s := openSmall(t, fsys)
	if err := errors.Join(s.Append(1, nil), s.Sync()); err != nil {
		t.Fatal(err)
	}
	others := []string{"0000000000000010.ckpt", "checkpoint.tmp", "1.seg", "0000000G.seg", "0000000A.seg", "seg"}
	for _, name := range others {
		f, err := fsys.Create(filepath.Join(testDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = openSmall(t, fsys)
	s.Release(1, 1)
	if err := s.Collect(s.Cut()); err != nil {
		t.Fatal(err)
	}
	if names, _ := fsys.List(testDir); len(names) != len(others) {
		t.Fatal(fmt.Sprint(names))
	}
}
