package segment

import (
	"errors"
	"io/fs"
	"os"
	"sort"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/internal/frame"
)

// Open reads the segments in dir, which need not exist, and builds the index of the records for which keep, asked page by page, says that they are live (nil: all). keep
// must know at least every record that the newest durable checkpoint refers to. No file is changed. Of a sealed file that has its list only the header is read: what is wrong in it Read or Collect will find.
//
// Damage is a *storage.CorruptError, a file of a newer Warren a *storage.VersionError. What the owner needs but a lost file or a torn end does not
// give shows as Has(seq) == false; the owner that checks Len against its own count has every loss found.
func Open(fsys storage.FS, dir string, keep func(page uint64) Mask) (*Store, error) {
	return open(fsys, dir, keep, defaultLimits)
}

func open(fsys storage.FS, dir string, keep func(page uint64) Mask, limit limits) (*Store, error) {
	s := &Store{fsys: fsys, dir: dir, limit: limit}
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []uint32
	for _, name := range names {
		if n, ok := parseName(name); ok {
			numbers = append(numbers, n)
		}
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	buf := frame.GetBuffer()
	defer frame.PutBuffer(buf)
	keep = lookup(keep)
	for i, n := range numbers {
		if err := s.recoverFile(n, i == len(numbers)-1, keep, buf); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// recoverFile takes one file into the store. Only the last one may end in garbage.
func (s *Store) recoverFile(number uint32, last bool, keep func(page uint64) Mask, buf []byte) error {
	seg := newSegmentFile(s.dir, number)
	flags := os.O_RDONLY
	if last {
		flags = os.O_RDWR
	}
	file, err := s.fsys.OpenFile(seg.name, flags)
	if err != nil {
		return err
	}
	seg.file, s.highest = file, number
	s.segments = append(s.segments, seg) // Close of the store closes it from here on
	size, err := file.Size()
	if err != nil {
		return err
	}
	head := make([]byte, min(size, int64(headerBytes)))
	if err := storage.ReadFull(file, head, 0); err != nil {
		return err
	}
	h := parseFileHeader(head)
	if !h.intact {
		if !last || h.mark.SyncedBytes > 0 {
			return &storage.CorruptError{File: seg.name, OffsetBytes: 0, Reason: "the file header does not match its checksum"}
		}
		s.active, s.dirty, s.dirDirty = seg, true, true // the file was just being made: the next append starts it anew
		return nil
	}
	if h.version != formatVersion {
		return &storage.VersionError{File: seg.name, Found: h.version, Supported: formatVersion}
	}
	if h.number != number {
		return &storage.CorruptError{File: seg.name, OffsetBytes: int64(len(magic)), Reason: "the file header names another file"}
	}
	seg.salt, seg.nextMark = h.salt, h.next
	if h.mark.SyncedBytes > size {
		return &storage.CorruptError{File: seg.name, OffsetBytes: size, Reason: "the file is shorter than it was when it was synced"}
	}
	if !last && seg.readList(s.fsys, s.dir, size) {
		seg.end = size
		seg.eachSpan(func(x span) { s.setSpan(x, keep) })
		seg.list, seg.file = spanList{}, nil
		return file.Close()
	}
	seg.end, err = scan(seg, size, buf, func(seq uint64, p place) {
		seg.lastSeq = seq
		x := span{seq: seq, n: 1, place: p}
		seg.list.add(x)
		s.setSpan(x, keep)
	})
	if err != nil {
		return err
	}
	if seg.end < size && (!last || seg.end < h.mark.SyncedBytes) {
		return &storage.CorruptError{File: seg.name, OffsetBytes: seg.end, Reason: "the record does not match its checksum"}
	}
	if last {
		// What this process found may be in the page cache only.
		s.active, s.dirty, s.dirDirty, s.cut = seg, true, true, seg.end < size
		s.flushed = seg.end
		return nil
	}
	seg.list, seg.file = spanList{}, nil
	return file.Close()
}

// lookup returns keep with a memory of the page that was asked for last.
func lookup(keep func(page uint64) Mask) func(page uint64) Mask {
	var all Mask
	for w := range all {
		all[w] = ^uint64(0)
	}
	if keep == nil {
		return func(uint64) Mask { return all }
	}
	asked, live := ^uint64(0), Mask{}
	return func(page uint64) Mask {
		if page != asked {
			asked, live = page, keep(page)
		}
		return live
	}
}

// scan calls visit for each record from the start of the file up to the first one that is not intact, and returns where it stopped. An error means
// that the file could not be read.
func scan(seg *segmentFile, size int64, buf []byte, visit func(seq uint64, p place)) (int64, error) {
	at := int64(headerBytes)
	have, bufAt := 0, at // buf[:have] holds the file from bufAt
	for {
		if size-at < frame.OverheadBytes {
			return at, nil
		}
		if at+frame.OverheadBytes > bufAt+int64(have) {
			have, bufAt = int(min(size-at, int64(len(buf)))), at
			if err := storage.ReadFull(seg.file, buf[:have], at); err != nil {
				return at, err
			}
		}
		h := frame.ParseHeader(buf[at-bufAt:])
		next := at + frame.OverheadBytes + int64(h.BodyBytes)
		if h.BodyBytes > BodyBytesMax || next > size {
			return at, nil
		}
		if next > bufAt+int64(have) && next-at <= int64(len(buf)) {
			have, bufAt = int(min(size-at, int64(len(buf)))), at
			if err := storage.ReadFull(seg.file, buf[:have], at); err != nil {
				return at, err
			}
		}
		var ok bool
		if next <= bufAt+int64(have) {
			ok = frame.Valid(buf[at-bufAt:next-bufAt], frame.Seed(seg.salt, at))
		} else {
			var err error
			if ok, err = validLarge(seg, at, next, buf); err != nil {
				return at, err
			}
			have, bufAt = 0, next
		}
		if !ok {
			return at, nil
		}
		visit(h.Key, place{number: seg.number, offset: uint32(at), bodyBytes: h.BodyBytes})
		at = next
	}
}

// validLarge checks the record in [at, next) piece by piece, because it is longer than buf.
func validLarge(seg *segmentFile, at, next int64, buf []byte) (bool, error) {
	if err := storage.ReadFull(seg.file, buf[:frame.OverheadBytes], at); err != nil {
		return false, err
	}
	h := frame.ParseHeader(buf)
	sum := frame.HeaderSum(frame.Seed(seg.salt, at), buf)
	for at += frame.OverheadBytes; at < next; {
		piece := buf[:min(next-at, int64(len(buf)))]
		if err := storage.ReadFull(seg.file, piece, at); err != nil {
			return false, err
		}
		sum = frame.Sum(sum, piece)
		at += int64(len(piece))
	}
	return sum == h.CRC, nil
}
