package quorum

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/storage"
)

// marks guards against a log store that loses entries in silence: the library's takes damage in the middle of its newest file for the torn end of it and starts without what follows. The file tells
// how far each group's log was known to reach, a while ago and at a clean stop; a log that ends before is damage, and the node does not start on it.
type marks struct {
	fs   storage.FS
	file string

	mu     sync.Mutex
	last   map[uint64]uint64 // shard -> index, as read at the start
	before string            // what the file holds
}

const (
	marksFileVersion  = 1
	marksFileBytesMax = 64 << 20
	markBytesMin      = 2
)

func openMarks(fsys storage.FS, dir string) (*marks, error) {
	m := &marks{fs: fsys, file: filepath.Join(dir, "marks"), last: make(map[uint64]uint64)}
	src, err := storage.ReadFile(fsys, m.file, marksFileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	corrupt := &storage.CorruptError{File: m.file, OffsetBytes: -1, Reason: "the file does not match its checksum"}
	if len(src) < 5 {
		return nil, corrupt
	}
	body := src[:len(src)-4]
	sum := codec.NewReader(src[len(src)-4:])
	if sum.Uint32() != crc32.ChecksumIEEE(body) {
		return nil, corrupt
	}
	r := codec.NewReader(body)
	if v := r.Uint8(); v != marksFileVersion {
		return nil, &storage.VersionError{File: m.file, Found: uint32(v), Supported: marksFileVersion}
	}
	for range r.Count(markBytesMin) {
		m.last[r.Uvarint()] = r.Uvarint()
	}
	m.before = string(src)
	return m, r.Err()
}

// write notes how far the groups have applied, in the order of visit.
func (m *marks) write(count int, visit func(note func(shard, index uint64))) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dst := codec.AppendUvarint(codec.AppendUint8(nil, marksFileVersion), uint64(count))
	visit(func(shard, index uint64) { dst = codec.AppendUvarint(codec.AppendUvarint(dst, shard), index) })
	dst = codec.AppendUint32(dst, crc32.ChecksumIEEE(dst))
	if string(dst) == m.before {
		return nil
	}
	if err := storage.WriteFile(m.fs, m.file, dst); err != nil {
		return err
	}
	m.before = string(dst)
	return nil
}

// writeMarks notes how far every group of this node has applied.
func (h *Host) writeMarks() {
	type mark struct{ shard, index uint64 }
	list := []mark{{catalogueShard, h.cat.appliedIndex()}}
	h.slots.Range(func(id, v any) bool {
		if g, ok := v.(*slot).runner().(*group); ok && g.serves() {
			g.mu.Lock()
			list = append(list, mark{uint64(id.(meta.QueueID)), g.applied})
			g.mu.Unlock()
		}
		return true
	})
	err := h.marks.write(len(list), func(note func(shard, index uint64)) {
		for _, m := range list {
			note(m.shard, m.index)
		}
	})
	if err != nil {
		h.log.Warn("the marks of the logs cannot be written", "error", err)
	}
}

// verifyLog holds a log that was just opened against its mark.
func (h *Host) verifyLog(shard uint64) error {
	h.marks.mu.Lock()
	want := h.marks.last[shard]
	h.marks.mu.Unlock()
	if want == 0 {
		return nil
	}
	log, err := h.nh.GetLogReader(shard)
	if err != nil {
		return err
	}
	if _, last := log.GetRange(); last < want {
		return &storage.CorruptError{File: raftDir(h), OffsetBytes: -1, Reason: fmt.Sprintf("the Raft log of group %d ends at entry %d, it had %d: a file below is damaged", shard, last, want)}
	}
	return nil
}
